"""The communication share of a job's steps over time, or why it is unknown."""

from collections.abc import Sequence

from textual.strip import Strip

from ..measures import COMM, EXPOSED
from ..view_model import JobFigures, ViewModel
from . import marks, trends
from .context import RenderContext, percent
from .jobs import FOUND, NAME, NODES, STEP_SECONDS, JobRow, figure, share_bar
from .line import wrapped
from .table import Column

HOW_TO_KNOW = (
    "Mark the sections: with steps.compute() and with steps.collective() in the training loop, see "
    "docs/steps.md.",
    "Until then the share is estimated (~) from outside: at least what the traffic of the EFA "
    "devices needs, at most the utilization without tensor-engine work.",
)


def columns(view_model: ViewModel) -> tuple[Column[JobRow], ...]:
    """Of the list of jobs."""
    limits = view_model.limits
    return (
        NAME,
        NODES,
        STEP_SECONDS,
        Column("comm", "comm", 7, 95, share_bar(limits.comm_share),
               unit="%", wide=38, align="right"),
        Column("exposed", "exposed", 10, 90,
               figure(percent, EXPOSED, limit=limits.exposed_comm_share),
               unit="%", align="right"),
        FOUND,
    )  # fmt: skip


def shares(
    view_model: ViewModel, job: JobFigures | None, width: int, height: int, context: RenderContext
) -> Sequence[Strip]:
    """The comm share and its exposed part over time, with their limits."""
    if job is None or job.value(COMM) is None:
        return unknown(view_model, job, width, height, context)
    found = [trends.of_job(view_model, job.job, quantity) for quantity in (COMM, EXPOSED)]
    starts = marks.of_job(view_model, job.job, context)
    return trends.draw(
        [trend for trend in found if trend], view_model.view.time, width, height, context, starts
    )


def unknown(
    view_model: ViewModel, job: JobFigures | None, width: int, height: int, context: RenderContext
) -> Sequence[Strip]:
    """Why no share is known, and how to report it."""
    palette = context.palette
    gone = sorted({i.job for i in view_model.incidents if i.job} - set(view_model.cluster.jobs))
    if job is not None:
        why = f"{job.job} reports its steps, but not what part of them is communication."
    elif gone:
        why = f"{gone[0]} no longer reports its steps."
    else:
        why = "No job reports its steps, so the communication share of a step is unknown."
    rows = wrapped(why, width, palette.text)
    for text in HOW_TO_KNOW:
        rows += wrapped(text, width, palette.muted)
    return rows[:height] if height else rows
