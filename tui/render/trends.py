"""Charts of the last minutes: the run's for the cluster, one node's for its screen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.cells import cell_len
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
    MEMORY,
    PROMETHEUS,
    RETRANSMIT,
    STEP,
    TOKENS,
    TRANSMIT,
    UTILIZATION,
)
from ..view_model import ViewModel
from .axes import Mark, series, slots, time_axis
from .context import RenderContext
from .graph import Values, chart, ruled
from .line import Part, beside, flow, length, line, short

SECONDS = 300.0
"""Stream time that a chart spans."""
MIN_CELLS = 26
"""Least width of a chart that is worth reading."""
GAP = 3


@dataclass(frozen=True, slots=True)
class Trend:
    """One chart: its series and how it is read."""

    title: str
    quantity: str
    form: Callable[[float | None], str]
    times: Values
    values: Values
    top: float | None = None
    """What the full height stands for; None goes by the limit and the largest value shown."""
    limit: float | None = None
    severity: Severity = Severity.WARNING
    """How bad it is above the limit."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a quantity is drawn."""

    title: str
    form: Callable[[float | None], str]
    top: float | None = None
    limit: Callable[[Analysis], float] | None = None


_NODES = {
    UTILIZATION: _Kind("utilization, mean", units.percent, 1.0),
    PROMETHEUS: _Kind("TE, mean", units.percent, 1.0),
    TRANSMIT: _Kind("EFA tx, all", units.gigabits),
    BANDWIDTH: _Kind("HBM bandwidth", units.percent, 1.0),
    MEMORY: _Kind("HBM, fullest device", units.percent, 1.0, lambda limits: limits.memory),
    RETRANSMIT: _Kind("retransmits, worst", units.percent, limit=lambda limits: limits.retransmits),
    EXECUTIONS: _Kind("executions/s", units.si),
}
"""What the history keeps of each node."""
_JOBS = {
    COMM: _Kind("comm share", units.percent, limit=lambda limits: limits.comm_share),
    EXPOSED: _Kind("exposed share", units.percent, limit=lambda limits: limits.exposed_comm_share),
    STEP: _Kind("step time", units.seconds),
    TOKENS: _Kind("tokens/s", units.si),
}
"""What is drawn of a job."""


KEPT_OF = {of: name for name in KEPT for of in (name, CATALOG[name].rollup_of) if of}
"""Quantity → what the history keeps of it for each node."""
MORE = 200
"""Seconds that are fetched besides: cells are whole seconds, so that a chart spans some more."""


def of_node(
    view_model: ViewModel, node: str, quantity: str, seconds: float = SECONDS
) -> Trend | None:
    """A node's quantity, above its limit in the colour of the open incident that goes by it; None
    for one that the history does not keep.
    """
    kind = _NODES.get(quantity)
    if kind is None:
        return None
    past = view_model.history.node(quantity, node, int(seconds) + MORE)
    severity = Severity.WARNING if kind.limit is None else _severity(view_model, node, quantity)
    return _trend(kind, quantity, *past, view_model.limits, severity)


def _severity(view_model: ViewModel, node: str, quantity: str) -> Severity:
    """That of the worst open incident whose evidence is a node's quantity, else a warning."""
    found = (
        incident.severity
        for incident in view_model.incidents
        for one in incident.evidence
        if one.node == node and KEPT_OF.get(one.quantity or "") == quantity
    )
    return next(found, Severity.WARNING)


def of_job(
    view_model: ViewModel, job: str, quantity: str, seconds: float = SECONDS
) -> Trend | None:
    """A job's quantity, the mean over its nodes; None for one that is not drawn."""
    kind = _JOBS.get(quantity)
    if kind is None:
        return None
    past = view_model.history.scalar(f"{job}/{quantity}", int(seconds) + MORE)
    return _trend(kind, quantity, *past, view_model.limits)


def _trend(
    kind: _Kind,
    quantity: str,
    times: Values,
    values: Values,
    limits: Analysis,
    severity: Severity = Severity.WARNING,
) -> Trend:
    limit = None if kind.limit is None else kind.limit(limits)
    return Trend(kind.title, quantity, kind.form, times, values, kind.top, limit, severity)


def known(trend: Trend) -> bool:
    """Whether it has any value."""
    return not np.isnan(trend.values).all()


def cluster_trends(view_model: ViewModel) -> list[Trend]:
    """Of the worst job, its communication share first; of all nodes where no job reports."""
    job = view_model.job
    trends: list[Trend] = []
    if job is not None:
        found = (of_job(view_model, job.job, quantity) for quantity in (COMM, STEP, TOKENS))
        trends += filter(None, found)
    whole = view_model.cluster.whole is not None
    if job is None:
        for quantity in (UTILIZATION, PROMETHEUS):
            one = _of_whole(view_model, quantity) if whole else _mean(view_model, quantity)
            trends += [one] if len(one.times) or quantity != PROMETHEUS else []
    return [*trends, _of_whole(view_model, TRANSMIT) if whole else _summed(view_model, TRANSMIT)]


def node_trends(view_model: ViewModel, node: str) -> list[Trend]:
    """Of one node; tensor engines and HBM bandwidth where the history has them."""
    found = (
        of_node(view_model, node, quantity)
        for quantity in (UTILIZATION, PROMETHEUS, TRANSMIT, BANDWIDTH, MEMORY)
    )
    return [
        one
        for one in found
        if one is not None and (known(one) or one.quantity not in (PROMETHEUS, BANDWIDTH))
    ]


def _largest(values: Values) -> float:
    return float(np.nanmax(values)) if len(values) and not np.isnan(values).all() else 0.0


def _of_whole(view_model: ViewModel, quantity: str) -> Trend:
    """Of all nodes behind an engine, of which the screen may have only the worst."""
    past = view_model.history.scalar(f"/{quantity}", int(SECONDS) + MORE)
    return _trend(_NODES[quantity], quantity, *past, view_model.limits)


def _summed(view_model: ViewModel, quantity: str) -> Trend:
    times, table = view_model.history.nodes(quantity, view_model.cluster.names, int(SECONDS) + MORE)
    known = ~np.isnan(table)
    values = np.where(known.any(axis=1), np.where(known, table, 0).sum(axis=1), np.nan)
    return _trend(_NODES[quantity], quantity, times, values, view_model.limits)


def _mean(view_model: ViewModel, quantity: str) -> Trend:
    times, table = view_model.history.nodes(quantity, view_model.cluster.names, int(SECONDS) + MORE)
    known = ~np.isnan(table)
    count = known.sum(axis=1)
    total = np.where(known, table, 0).sum(axis=1)
    values = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return _trend(_NODES[quantity], quantity, times, values, view_model.limits)


def draw(
    trends: Sequence[Trend],
    now: float,
    width: int,
    height: int,
    context: RenderContext,
    marks: Sequence[Mark] = (),
    seconds: float = SECONDS,
) -> list[Strip]:
    """As many charts as fit: side by side on a wide, flat area, else one below the other.

    Args:
        trends: what may be drawn, the most telling first.
        now: stream time of the right end.
        width: cells.
        height: lines.
        context: what to draw with.
        marks: moments shown on the time axes.
        seconds: that a chart spans.
    """
    if not trends or width < MIN_CELLS or height < 3:
        return []
    per_row = max(1, min(len(trends), (width + GAP) // (MIN_CELLS + GAP)))
    rows = max(1, min(-(-len(trends) // per_row), height // 4))
    if height // rows > 9 and rows < len(trends):
        # A tall area reads better with fewer charts beside each other.
        rows = min(len(trends), max(rows, height // 8))
        per_row = -(-len(trends) // rows)
        rows = -(-len(trends) // per_row)
    cells = (width - GAP * (per_row - 1)) // per_row
    since = now - cells * slots(cells, seconds)
    shown = [_since(trend, since) for trend in trends[: rows * per_row]]
    tall = height // rows
    lines: list[Strip] = []
    for start in range(0, len(shown), per_row):
        row = shown[start : start + per_row]
        lines_each = tall - (start + per_row < len(shown))
        # Charts beside each other say in the same place how far they reach.
        roomy = all(_has_room(trend, cells, context) for trend in row)
        blocks = [
            (_chart(trend, now, cells, lines_each, context, marks, seconds, roomy=roomy), cells)
            for trend in row
        ]
        lines += [strip.adjust_cell_length(width) for strip in beside(blocks, GAP)]
        if start + per_row < len(shown):
            lines.append(line([], width))
    return lines


def _newest(trend: Trend) -> float | None:
    return next((v for v in reversed(trend.values.tolist()) if v == v), None)


def _title(trend: Trend, context: RenderContext) -> tuple[Part, list[Part]]:
    """What it is, and its newest value."""
    palette = context.palette
    newest = _newest(trend)
    held = bool(len(trend.values)) and trend.values[-1] == trend.values[-1]
    number = context.number(trend.form(newest if held else None), trend.quantity)
    if held and trend.limit is not None and newest is not None and newest > trend.limit:
        number[0] = (number[0][0], palette.severity(trend.severity))
    else:
        number[0] = (number[0][0], palette.strong if held else palette.faint)
    return (trend.title, palette.muted), number


def _since(trend: Trend, time: float) -> Trend:
    """Without what is older: nobody can see what it would be measured by."""
    seen = trend.times > time
    return replace(trend, times=trend.times[seen], values=trend.values[seen])


def _top(trend: Trend) -> float:
    if trend.top is not None:
        return trend.top
    if trend.limit is not None:
        return max(2 * trend.limit, 1.15 * _largest(trend.values))
    return 1.3 * _largest(trend.values) or 1.0


def _bounds(trend: Trend) -> str:
    """How far it reaches, and its limit; nothing where there is nothing to measure by them."""
    if _newest(trend) is None:
        return ""
    limit = f"limit {trend.form(trend.limit)} · " if trend.limit is not None else ""
    return f"{limit}top {trend.form(_top(trend))}"


def _has_room(trend: Trend, width: int, context: RenderContext) -> bool:
    """Whether its bounds can stand beside its title."""
    title, number = _title(trend, context)
    bounds = _bounds(trend)
    return not bounds or len(bounds) <= width - length([title, *number]) - 2


def _chart(
    trend: Trend,
    now: float,
    width: int,
    height: int,
    context: RenderContext,
    marks: Sequence[Mark],
    seconds: float,
    *,
    roomy: bool,
) -> list[Strip]:
    """A chart with its title, its newest value and the range of its axis.

    The range stands beside the title where that is `roomy`, else in the graph.
    """
    palette = context.palette
    (title, style), number = _title(trend, context)
    bounds = _bounds(trend)
    head = flow(
        [(90, [(short(title, width - length(number) - 1), style)]), (95, number)],
        width,
        (" ", palette.faint),
        right=[(10, [(bounds, palette.faint)])] if roomy and bounds else [],
    )
    values, slot = series(trend.times, trend.values, now, width, seconds)
    room, top = max(1, height - 2), _top(trend)
    over = palette.over[trend.severity]
    body = chart(values, room, context, top=top, limit=trend.limit, over=over)
    if bounds and not roomy:  # over the oldest values rather than nowhere
        if (row := ruled(room, context, top=top, limit=trend.limit)) is not None and row:
            body[row] = _written(body[row], trend.form(trend.limit), context)
        if room > 1:
            body[0] = _written(body[0], trend.form(top), context)
    return [head, *body, time_axis(width, slot, now, context, marks)]


def _written(row: Strip, text: str, context: RenderContext) -> Strip:
    """A line of a graph with a number over its left end."""
    mark = line([(f"{text} ", context.palette.faint)], cell_len(text) + 1)
    return Strip.join([mark, row.crop(mark.cell_length)])
