"""Charts of the last minutes: of the fleet, of a job, of a node, of an incident."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from textual.strip import Strip

from trntop.catalog import CATALOG
from trntop.core import units
from trntop.core.model import Severity
from trntop.core.settings import Analysis
from trntop.pipeline.history import KEPT

from ..measures import (
    BANDWIDTH,
    COMM,
    EXECUTIONS,
    EXPOSED,
    LOG_STEP,
    MEMORY,
    RETRANSMIT,
    STEP,
    TENSOR_ENGINE,
    TOKENS,
    TRANSMIT,
    UTILIZATION,
)
from ..view_model import JobFigures, ViewModel
from . import marks
from .axes import Formatter, Mark, bounds, mark_cells, round_up, series, with_axes
from .context import RenderContext
from .graph import Values, chart
from .line import Part, flow, length, line, short, side_by_side

SECONDS = 300.0
"""Time span of a chart."""
MIN_CELLS = 26
MIN_LINES = 4
"""Minimum size of a readable chart with its axes."""
GAP = 3
GROWTH = 60.0
"""Seconds by which the time span of charts grows."""
EXTRA_SECONDS = 200
"""Fetched in addition: cells are whole seconds, so that a chart spans a bit more."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a quantity is drawn."""

    title: str
    form: Formatter
    top: float | None = None
    """Fixed end of the axis; None follows the limit and the values."""
    limit: Callable[[Analysis], float] | None = None
    grounded: bool = True
    """Whether the axis starts at 0."""


@dataclass(frozen=True, slots=True)
class Trend:
    """One chart."""

    title: str
    quantity: str
    kind: Kind
    times: Values
    values: Values
    limit: float | None = None
    severity: Severity = Severity.WARNING
    """Severity of values above the limit."""

    @property
    def newest(self) -> float | None:
        return (
            float(self.values[-1])
            if len(self.values) and self.values[-1] == self.values[-1]
            else None
        )

    @property
    def known(self) -> bool:
        return not np.isnan(self.values).all()


_NODES = {
    UTILIZATION: Kind("utilization, mean", units.percent, 1.0),
    TENSOR_ENGINE: Kind("TE, mean", units.percent, 1.0),
    TRANSMIT: Kind("EFA tx, all", units.gigabits),
    BANDWIDTH: Kind("HBM bandwidth", units.percent, 1.0),
    MEMORY: Kind("HBM, fullest device", units.percent, 1.0, lambda limits: limits.memory),
    RETRANSMIT: Kind("retransmits, worst", units.percent, limit=lambda limits: limits.retransmits),
    EXECUTIONS: Kind("executions/s", units.si),
}
"""Quantities that the history has for each node."""
_JOBS = {
    COMM: Kind("comm share", units.percent, limit=lambda limits: limits.comm_share),
    EXPOSED: Kind("exposed share", units.percent, limit=lambda limits: limits.exposed_comm_share),
    STEP: Kind("step time", units.seconds),
    LOG_STEP: Kind("step time", units.seconds),
    TOKENS: Kind("tokens/s", units.si),
    "job_loss": Kind("loss", units.loss, grounded=False),
    "job_mfu_ratio": Kind("MFU", units.percent),
    "job_grad_norm": Kind("grad norm", units.loss, grounded=False),
}
HISTORY_OF = {name: kept for kept in KEPT for name in (kept, CATALOG[kept].rollup_of) if name}
"""Quantity → the quantity that the history has of it for each node."""


def of_node(
    view_model: ViewModel, node: str, quantity: str, seconds: float = SECONDS
) -> Trend | None:
    """A quantity of a node; None if the history does not have it."""
    kind = _NODES.get(quantity)
    if kind is None:
        return None
    samples = view_model.history.node(quantity, node, int(seconds) + EXTRA_SECONDS)
    severity = Severity.WARNING if kind.limit is None else _severity(view_model, node, quantity)
    return _trend(kind, quantity, *samples, view_model.limits, severity)


def _severity(view_model: ViewModel, node: str, quantity: str) -> Severity:
    """The worst open incident with this quantity of the node in its evidence."""
    found = (
        incident.severity
        for incident in view_model.incidents
        for evidence in incident.evidence
        if evidence.node == node and HISTORY_OF.get(evidence.quantity or "") == quantity
    )
    return next(found, Severity.WARNING)


def of_job(
    view_model: ViewModel, job: str, quantity: str, seconds: float = SECONDS
) -> Trend | None:
    """The mean of a quantity over the nodes of a job; None if it has no chart."""
    kind = _JOBS.get(quantity)
    if kind is None:
        return None
    samples = view_model.history.scalar(f"{job}/{quantity}", int(seconds) + EXTRA_SECONDS)
    return _trend(kind, quantity, *samples, view_model.limits)


def _trend(
    kind: Kind,
    quantity: str,
    times: Values,
    values: Values,
    limits: Analysis,
    severity: Severity = Severity.WARNING,
) -> Trend:
    limit = None if kind.limit is None else kind.limit(limits)
    return Trend(kind.title, quantity, kind, times, values, limit, severity)


def cluster_trends(view_model: ViewModel) -> list[Trend]:
    """Those of the worst job, communication first; those of all nodes if no job reports."""
    found: list[Trend | None] = []
    if (job := view_model.job) is not None:
        found = [of_job(view_model, job.job, quantity) for quantity in (COMM, STEP, TOKENS)]
    else:
        found = [_fleet(view_model, UTILIZATION, np.nanmean)]
        engines = _fleet(view_model, TENSOR_ENGINE, np.nanmean)
        found += [engines] if len(engines.times) else []
    return [*filter(None, found), _fleet(view_model, TRANSMIT, np.nansum)]


def node_trends(view_model: ViewModel, node: str) -> list[Trend]:
    """Those of a node; tensor engines and HBM bandwidth only if known."""
    found = (
        of_node(view_model, node, quantity)
        for quantity in (UTILIZATION, TENSOR_ENGINE, TRANSMIT, BANDWIDTH, MEMORY)
    )
    return [
        trend
        for trend in found
        if trend is not None and (trend.known or trend.quantity not in (TENSOR_ENGINE, BANDWIDTH))
    ]


def run_trends(view_model: ViewModel, job: JobFigures) -> list[Trend]:
    """What a training process reports of its progress."""
    found = (
        of_job(view_model, job.job, quantity)
        for quantity in (job.step_quantity, "job_loss", TOKENS, "job_mfu_ratio", "job_grad_norm")
    )
    return [trend for trend in found if trend is not None and trend.known]


def _fleet(view_model: ViewModel, quantity: str, combine: Callable[..., Values]) -> Trend:
    """All nodes; a Prometheus backend has the totals, since the screen may show only the worst."""
    count = int(SECONDS) + EXTRA_SECONDS
    if view_model.cluster.whole is not None:
        times, values = view_model.history.scalar(f"/{quantity}", count)
    else:
        times, table = view_model.history.nodes(quantity, view_model.cluster.names, count)
        values = np.full(len(times), np.nan)
        known = ~np.isnan(table).all(axis=1)
        if known.any():
            values[known] = combine(table[known], axis=1)
    return _trend(_NODES[quantity], quantity, times, values, view_model.limits)


def fleet(view_model: ViewModel, width: int, height: int, context: RenderContext) -> list[Strip]:
    found = marks.of_job(view_model, view_model.job.job if view_model.job else "", context)
    return draw(cluster_trends(view_model), view_model.view.time, width, height, context, found)


def run(
    view_model: ViewModel, job: JobFigures | None, width: int, height: int, context: RenderContext
) -> Sequence[Strip]:
    """Training progress; the charts of the fleet if no job reports."""
    found = run_trends(view_model, job) if job else []
    if job is None or not found:
        hint = "no step was reported yet: report them with steps.step(), see docs/steps.md"
        below = fleet(view_model, width, height - 1, context)
        return [line([(hint, context.palette.muted)], width), *below]
    starts = marks.of_job(view_model, job.job, context)
    return draw(found, view_model.view.time, width, height, context, starts)


def draw(
    trends: Sequence[Trend],
    now: float,
    width: int,
    height: int,
    context: RenderContext,
    marks: Sequence[Mark] = (),
    seconds: float = SECONDS,
) -> list[Strip]:
    """As many charts as fit: side by side in a wide, flat area, else one below the other.

    Args:
        trends: the charts, most important first.
        now: stream time of the right end.
        width: cells.
        height: lines.
        context: what to draw with.
        marks: shown on the time axes.
        seconds: time span of a chart; shorter until that much is known.
    """
    if not trends or width < MIN_CELLS or height < 3:
        return []
    seconds = min(seconds, _known(trends, now))
    per_row = max(1, min(len(trends), (width + GAP) // (MIN_CELLS + GAP)))
    rows = max(1, min(-(-len(trends) // per_row), height // MIN_LINES))
    if height // rows > 9 and rows < len(trends):
        # A tall area is easier to read with fewer charts side by side.
        rows = min(len(trends), max(rows, height // 8))
        per_row = -(-len(trends) // rows)
        rows = -(-len(trends) // per_row)
    cells = (width - GAP * (per_row - 1)) // per_row
    shown = [_since(trend, now - seconds) for trend in trends[: rows * per_row]]
    tall = height // rows
    lines: list[Strip] = []
    for start in range(0, len(shown), per_row):
        last = start + per_row >= len(shown)
        blocks = [
            (_chart(trend, now, cells, tall - (not last), context, marks, seconds), cells)
            for trend in shown[start : start + per_row]
        ]
        lines += [strip.adjust_cell_length(width) for strip in side_by_side(blocks, GAP)]
        lines += [] if last else [line([], width)]
    return lines


def _known(trends: Sequence[Trend], now: float) -> float:
    """Seconds for which values are known, in steps, because each step redraws the charts."""
    starts = [trend.times[trend.values == trend.values][:1] for trend in trends]
    known = now - min((float(start[0]) for start in starts if len(start)), default=now)
    return GROWTH * max(1, math.ceil(known / GROWTH))


def _since(trend: Trend, time: float) -> Trend:
    recent = trend.times > time
    return replace(trend, times=trend.times[recent], values=trend.values[recent])


def _range(trend: Trend) -> tuple[float, float]:
    """Both ends of the axis."""
    if trend.kind.top is not None or not trend.known:
        return 0.0, trend.kind.top or 1.0
    if not trend.kind.grounded:
        return bounds(trend.values)
    largest = float(np.nanmax(trend.values))
    return 0.0, round_up(max(2 * (trend.limit or 0.0), 1.15 * largest))


def _chart(
    trend: Trend,
    now: float,
    width: int,
    height: int,
    context: RenderContext,
    marks: Sequence[Mark],
    seconds: float,
) -> list[Strip]:
    """A title with the newest value, the graph and its axes."""
    palette, form, newest = context.palette, trend.kind.form, trend.newest
    above = newest is not None and trend.limit is not None and newest > trend.limit
    style = palette.severity(trend.severity) if above else palette.strong
    number = context.number(form(newest), trend.quantity, style=style)
    title = short(trend.title, width - length(number) - 1)
    limit: list[Part] = []
    if trend.limit is not None:
        limit = [(f"limit {form(trend.limit)}", palette.faint)]
    head = flow(
        [(90, [(title, palette.muted)]), (95, number)], width, (" ", palette.faint),
        right=[(10, limit)],
    )  # fmt: skip
    room, (low, top) = max(1, height - 2), _range(trend)
    labels = [(1.0, form(top)), (0.0, form(low) if low else "0")] if trend.known else []
    if trend.limit is not None and room > 2 and trend.known:
        labels.insert(0, (trend.limit / top, form(trend.limit)))
    gutter = max((len(text) for _, text in labels), default=0) + 2
    values, slot = series(trend.times, trend.values, now, width - gutter, seconds)
    over = palette.over[trend.severity]
    lasting = (mark_cells(mark, len(values), slot, now) for mark in marks if mark.end is not None)
    body = chart(
        values, room, context,
        low=low, top=top, limit=trend.limit, over=over, shown=next(lasting, None),
    )  # fmt: skip
    return [head, *with_axes(body, labels, slot, now, gutter, context, marks)]
