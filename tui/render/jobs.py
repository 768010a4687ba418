"""Jobs as rows, the one that most needs attention first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trntop.core import units
from trntop.core.model import Incident, Stage
from trntop.pipeline.jobs import job_phase

from ..measures import COMM, PACE, STEP
from ..view_model import JobFigures, ViewModel, job_figures
from . import run
from .context import RenderContext, bare
from .graph import bar
from .line import Part, fit
from .table import Column


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job of the table."""

    figures: JobFigures
    incidents: tuple[Incident, ...] = ()
    stage: Stage | None = None


def worst_first(view_model: ViewModel) -> list[JobFigures]:
    """All jobs, in the order by which the header chooses the one that it shows."""
    if view_model.job is None:
        return []
    if len(view_model.cluster.jobs) == 1:
        return [view_model.job]
    figures = [job_figures(view_model.cluster, job) for job in view_model.cluster.jobs]
    troubled = {incident.job: incident.severity.rank for incident in reversed(view_model.incidents)}
    return sorted(
        figures,
        key=lambda one: (troubled.get(one.job, -1), one.comm_share or 0.0, one.nodes),
        reverse=True,
    )


def incidents_of(view_model: ViewModel, job: str) -> tuple[Incident, ...]:
    """The open incidents of a job, and of its nodes where they name no job; worst first."""
    nodes = frozenset(view_model.cluster.jobs.get(job, ()))
    return tuple(
        one
        for one in view_model.incidents
        if one.job == job or (one.job is None and one.node is not None and one.node in nodes)
    )


def row_of(view_model: ViewModel, figures: JobFigures) -> JobRow:
    """The row of a job."""
    phase = job_phase(view_model.cluster, figures.job)
    return JobRow(figures, incidents_of(view_model, figures.job), phase.stage if phase else None)


def _name(row: JobRow, width: int, context: RenderContext) -> list[Part]:
    if not row.incidents:
        return [
            ("  ", context.palette.text),
            (fit(row.figures.job, width - 2), context.palette.text),
        ]
    severity = row.incidents[0].severity
    text = f"{context.glyphs.severities[severity]} {row.figures.job}"
    return [(fit(text, width), context.palette.severity(severity))]


def _nodes(row: JobRow, width: int, context: RenderContext) -> list[Part]:
    return [(fit(str(row.figures.nodes), width, "right"), context.palette.text)]


def stage(row: JobRow, width: int, context: RenderContext) -> list[Part]:
    """What the job is at."""
    if row.stage is None:
        return [(fit(units.ABSENT, width), context.palette.faint)]
    return [(fit(row.stage.value, width), run.style_of(row.stage, context.palette))]


def figure(
    value: Callable[[JobRow], float | None],
    form: Callable[[float | None], str],
    quantity: str,
    *,
    limit: float | None = None,
) -> Callable[[JobRow, int, RenderContext], Sequence[Part]]:
    """A number of a job in a cell; above `limit` it is a warning."""

    def draw(row: JobRow, width: int, context: RenderContext) -> list[Part]:
        one = value(row)
        number = context.number(bare(form(one)), quantity, width)
        if limit is not None and one is not None and one > limit:
            number[0] = (number[0][0], context.palette.warning)
        return number

    return draw


def step_seconds(row: JobRow, width: int, context: RenderContext) -> list[Part]:
    """As the job states it, else by the pace of its log."""
    one = row.figures
    if one.step_seconds is None and one.step_pace_seconds is not None:
        text, quantity = units.plain_seconds(one.step_pace_seconds), PACE
    else:
        text, quantity = units.plain_seconds(one.step_seconds), STEP
    return context.number(text, quantity, width)


def share_bar(limit: float) -> Callable[[JobRow, int, RenderContext], Sequence[Part]]:
    """The comm share as a bar up to twice its limit, and as a number."""

    def draw(row: JobRow, width: int, context: RenderContext) -> list[Part]:
        share = row.figures.comm_share
        over = share is not None and share > limit
        number = context.number(bare(units.percent(share)), COMM, 5)
        if over:
            number[0] = (number[0][0], context.palette.warning)
        cells = width - 6
        if cells < 6:
            return [(" " * max(0, width - 5), context.palette.text), *number]
        scale = min(1.0, 2 * limit) or 1.0
        drawn = bar(
            None if share is None else share / scale, cells, context.glyphs,
            context.palette.warning if over else context.palette.graph, context.palette.rule,
            limit=limit / scale, limit_style=context.palette.strong,
        )  # fmt: skip
        return [*drawn, (" ", context.palette.text), *number]

    return draw


def _found(row: JobRow, width: int, context: RenderContext) -> list[Part]:
    if not row.incidents:
        return [(" " * width, context.palette.text)]
    first = row.incidents[0]
    where = first.node or ""
    more = f" +{len(row.incidents) - 1}" if len(row.incidents) > 1 else ""
    text = f"{context.glyphs.severities[first.severity]} {first.kind} {where}".rstrip() + more
    return [(fit(text, width), context.palette.severity(first.severity))]


NAME: Column[JobRow] = Column("job", "  job", 14, 100, _name, wide=28)
NODES: Column[JobRow] = Column("nodes", "nodes", 5, 60, _nodes, align="right")
STEP_SECONDS: Column[JobRow] = Column("step", "step", 8, 85, step_seconds, unit="s", align="right")
PHASE: Column[JobRow] = Column("phase", "phase", 13, 80, stage)
FOUND: Column[JobRow] = Column("incident", "incident", 16, 40, _found, wide=36)
