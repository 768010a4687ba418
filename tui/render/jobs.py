"""Jobs as rows, the one that most needs attention first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trntop.analysis import RULEBOOK
from trntop.core import units
from trntop.core.model import Incident, Stage
from trntop.pipeline.jobs import job_phase

from ..measures import COMM, TOKENS
from ..view_model import JobFigures, ViewModel
from . import run
from .context import RenderContext, percent
from .graph import bar
from .line import Part, fit
from .table import Column


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job of the table."""

    figures: JobFigures
    incidents: tuple[Incident, ...] = ()
    stage: Stage | None = None


def incidents_of(view_model: ViewModel, job: str) -> tuple[Incident, ...]:
    """The open incidents of a job, and of its nodes where they name no job; worst first."""
    nodes = frozenset(view_model.cluster.jobs.get(job, ()))
    return tuple(
        incident
        for incident in view_model.incidents
        if incident.job == job or (incident.job is None and incident.node in nodes)
    )


_COMM_BOUND = "comm_bound"
_CAUSES = next(frozenset(rule.inhibited_by) for rule in RULEBOOK if rule.kind == _COMM_BOUND)
"""Kinds of incidents that explain a long communication time."""


def explains_comm(view_model: ViewModel, incident: Incident, job: str) -> bool:
    """Whether an incident reports or explains too much communication of `job`; "" is any job."""
    if incident.kind == _COMM_BOUND:
        return incident.job == job or not job
    if incident.kind not in _CAUSES:
        return False
    nodes = view_model.cluster.jobs.get(job, ())
    return not job or incident.job == job or (not incident.job and incident.node in nodes)


def comm_causes(view_model: ViewModel, job: str) -> list[Incident]:
    """The open incidents that explain the communication of a job, worst first."""
    return [
        incident
        for incident in view_model.incidents
        if incident.kind != _COMM_BOUND and explains_comm(view_model, incident, job)
    ]


def comm_bound(view_model: ViewModel, job: str) -> Incident | None:
    """The open incident that reports too much communication of a job."""
    found = (i for i in view_model.incidents if i.kind == _COMM_BOUND and i.job == job)
    return next(found, None)


def row_of(view_model: ViewModel, figures: JobFigures) -> JobRow:
    phase = job_phase(view_model.cluster, figures.job)
    return JobRow(figures, incidents_of(view_model, figures.job), phase.stage if phase else None)


def _name(row: JobRow, width: int, context: RenderContext) -> list[Part]:
    severity = row.incidents[0].severity if row.incidents else None
    return context.name(row.figures.job, width, severity)


def _nodes(row: JobRow, width: int, context: RenderContext) -> list[Part]:
    return [(fit(str(row.figures.nodes), width, "right"), context.palette.text)]


def _stage(row: JobRow, width: int, context: RenderContext) -> list[Part]:
    return run.stage_cell(row.stage, width, context)


def figure(
    form: Callable[[float | None], str], quantity: str, *, limit: float | None = None
) -> Callable[[JobRow, int, RenderContext], Sequence[Part]]:
    """A number of a job in a cell; above `limit` it is a warning."""

    def draw(row: JobRow, width: int, context: RenderContext) -> list[Part]:
        found = row.figures.value(quantity)
        above = limit is not None and found is not None and found > limit
        style = context.palette.warning if above else None
        return context.number(form(found), "", width, style)

    return draw


def _step_seconds(row: JobRow, width: int, context: RenderContext) -> list[Part]:
    quantity = row.figures.step_quantity
    return context.number(units.plain_seconds(row.figures.value(quantity)), quantity, width)


def comm_bar(share: float | None, limit: float, cells: int, context: RenderContext) -> list[Part]:
    """The comm share up to twice its limit, so that the tick of the limit is in the middle."""
    palette, scale = context.palette, min(1.0, 2 * limit) or 1.0
    over = share is not None and share > limit
    return bar(
        None if share is None else share / scale, cells,
        palette.warning if over else palette.graph, palette.rule,
        limit=limit / scale, limit_style=palette.strong,
    )  # fmt: skip


def share_bar(limit: float) -> Callable[[JobRow, int, RenderContext], Sequence[Part]]:
    """The comm share as a bar and as a number."""
    number = figure(percent, COMM, limit=limit)

    def draw(row: JobRow, width: int, context: RenderContext) -> list[Part]:
        cells = width - 6
        if cells < 6:
            return [*number(row, width, context)]
        drawn = comm_bar(row.figures.value(COMM), limit, cells, context)
        return [*drawn, (" ", context.palette.text), *number(row, 5, context)]

    return draw


def _found(row: JobRow, width: int, context: RenderContext) -> list[Part]:
    node = row.incidents[0].node if row.incidents else None
    return context.worst_incident(row.incidents, width, node or "")


NAME: Column[JobRow] = Column("job", "  job", 14, 100, _name, max_width=28)
NODES: Column[JobRow] = Column("nodes", "nodes", 5, 60, _nodes, align="right")
STEP_SECONDS: Column[JobRow] = Column("step", "step", 8, 85, _step_seconds, unit="s", align="right")
PHASE: Column[JobRow] = Column("phase", "phase", 13, 80, _stage)
FOUND: Column[JobRow] = Column("incident", "incident", 16, 40, _found, max_width=36)
PROGRESS: tuple[Column[JobRow], ...] = (
    NAME,
    NODES,
    PHASE,
    Column(
        "number",
        "at step",
        9,
        50,
        figure(units.count, "job_step"),
        align="right",
        quantity="job_step",
    ),
    STEP_SECONDS,
    Column("tokens", "tokens/s", 11, 90, figure(units.si, TOKENS), align="right", quantity=TOKENS),
    Column(
        "mfu",
        "MFU",
        6,
        70,
        figure(percent, "job_mfu_ratio"),
        unit="%",
        align="right",
        quantity="job_mfu_ratio",
    ),
    Column(
        "loss", "loss", 8, 65, figure(units.loss, "job_loss"), align="right", quantity="job_loss"
    ),
    FOUND,
)
"""The list of jobs of the screen of training progress."""
