"""The communication share of a job's steps over time, or why it is unknown, and its kinds."""

from collections.abc import Sequence

from textual.strip import Strip

from trntop.catalog import COLLECTIVES
from trntop.core import units
from trntop.pipeline.jobs import job_mean, job_value

from ..measures import COMM, EXPOSED
from ..view_model import JobFigures, ViewModel
from . import marks, trends
from .context import RenderContext, percent
from .jobs import FOUND, NAME, NODES, STEP_SECONDS, JobRow, figure, share_bar
from .line import Part, line, wrapped
from .table import Column

HOW_TO_KNOW = (
    "Mark the sections: with steps.compute() and with steps.collective() in the training loop, see "
    "docs/steps.md.",
    "Until then the share is estimated (~) from outside: at least what the traffic of the EFA "
    "devices needs, at most the utilization without tensor-engine work.",
)

_RANKS = "job_ranks"


def columns(view_model: ViewModel) -> tuple[Column[JobRow], ...]:
    """Of the list of jobs."""
    limits = view_model.limits
    return (
        NAME,
        NODES,
        STEP_SECONDS,
        Column("comm", "comm", 7, 95, share_bar(limits.comm_share),
               unit="%", max_width=38, align="right", quantity=COMM),
        Column("exposed", "exposed", 10, 90,
               figure(percent, EXPOSED, limit=limits.exposed_comm_share),
               unit="%", align="right", quantity=EXPOSED),
        FOUND,
    )  # fmt: skip


def shares(
    view_model: ViewModel, job: JobFigures | None, width: int, height: int, context: RenderContext
) -> Sequence[Strip]:
    """The comm share and its exposed part over time, with their limits."""
    if job is None:
        return unknown(view_model, job, width, height, context)
    found = [trends.of_job(view_model, job.job, quantity) for quantity in (COMM, EXPOSED)]
    # A stalled job has shares in its history only.
    if job.value(COMM) is None and not any(trend.known for trend in found if trend):
        return unknown(view_model, job, width, height, context)
    starts = marks.of_job(view_model, job.job, context)
    return trends.draw(
        [trend for trend in found if trend], view_model.view.time, width, height, context, starts
    )


def unknown(
    view_model: ViewModel, job: JobFigures | None, width: int, height: int, context: RenderContext
) -> Sequence[Strip]:
    """Why no share is known, and how to report it."""
    palette = context.palette
    if job is not None and job.job in view_model.cluster.jobs:
        why = f"{job.job} reports its steps, but not what part of them is communication."
    elif job is not None:
        why = f"{job.job} no longer reports its steps."
    else:
        why = "No job reports its steps, so the communication share of a step is unknown."
    rows = wrapped(why, width, palette.text)
    for text in HOW_TO_KNOW:
        rows += wrapped(text, width, palette.muted)
    return rows[:height] if height else rows


def kinds(
    view_model: ViewModel, job: JobFigures | None, width: int, height: int, context: RenderContext
) -> Sequence[Strip]:
    """The kinds of collectives of a job, the largest share first; nothing where none is known."""
    if job is None:
        return ()

    def mean(kind: str, name: str) -> float | None:
        return job_mean(view_model.cluster, job.job, f"job_{kind}_{name}")

    shares = {kind: share for kind in COLLECTIVES if (share := mean(kind, "share_ratio"))}
    if not shares:
        return ()
    head = f"{'':14}" + "".join(f"{title:>12}" for title in ("step %", "calls", "bytes", "busbw"))
    link = _link(view_model, job.job)
    rate = f"  EFA line rate {units.bytes_rate(link)} per rank"
    if link is not None and len(head + rate) <= width:
        head += rate
    rows = [line([(head, context.palette.muted)], width)]
    for kind in sorted(shares, key=lambda kind: -shares[kind]):
        parts: list[Part] = [(f"{COLLECTIVES[kind]:<14}", context.palette.text)]
        for name, form in (
            ("share_ratio", percent), ("calls", units.count), ("bytes", units.bytes_iec),
            ("busbw_bytes_per_second", units.bytes_rate),
        ):  # fmt: skip
            parts += context.number(form(mean(kind, name)), width=12)
        rows.append(line(parts, width))
    return rows[:height] if height else rows


def _link(view_model: ViewModel, job: str) -> float | None:
    """Line rate of the EFA devices of a node for each rank on it, bytes/s; of the first node."""
    node = view_model.cluster.nodes[view_model.cluster.jobs[job][0]]
    link, ranks = node.frame.value("node_efa_link_bytes_per_second"), job_value(node, job, _RANKS)
    return link / ranks if link and ranks else None
