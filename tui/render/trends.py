"""Charts of the last minutes: the run's for the cluster, one node's for its screen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from trntop import units

from ..measures import BANDWIDTH, ENGINE, MEMORY, TRANSMIT, UTILIZATION
from ..scene import Scene
from .graph import Values, buckets, chart
from .line import Part, beside, flow, length, line
from .pen import Pen

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
    """What the full height stands for; None takes the largest value and some air."""
    limit: float | None = None


def cluster_trends(scene: Scene) -> list[Trend]:
    """Of the worst job, its communication share first; of all nodes where no job reports."""
    job, history = scene.job, scene.history
    trends = []
    if job is not None:
        for title, quantity, form, limit in (
            ("comm share of step", "job_comm_share_ratio", units.percent, scene.limits.comm_share),
            ("step time", "job_step_seconds", units.seconds, None),
            ("tokens/s", "job_tokens_per_second", units.si, None),
        ):
            times, values = history.scalar(f"{job.job}/{quantity}", int(SECONDS))
            top = None if limit is None else max(2 * limit, 1.15 * _largest(values))
            trends.append(Trend(title, quantity, form, times, values, top, limit))
    if scene.cluster.whole is not None:
        return [*trends, *_of_whole(scene, alone=job is None)]
    if job is None:
        trends.append(_mean(scene, "utilization, mean", UTILIZATION))
        engine = _mean(scene, "TE, mean", ENGINE)
        trends += [engine] if len(engine.times) else []
    return [*trends, _summed(scene, "EFA tx, all", TRANSMIT)]


def node_trends(scene: Scene, node: str) -> list[Trend]:
    """Of one node; tensor engines and HBM bandwidth where the history has them."""
    trends = []
    for title, quantity, form, top, limit in (
        ("utilization", UTILIZATION, units.percent, 1.0, None),
        ("TE", ENGINE, units.percent, 1.0, None),
        ("EFA tx", TRANSMIT, units.gigabits, None, None),
        ("HBM bandwidth", BANDWIDTH, units.percent, 1.0, None),
        ("HBM, fullest device", MEMORY, units.percent, 1.0, scene.limits.memory),
    ):
        times, values = scene.history.node(quantity, node, int(SECONDS))
        if quantity in (ENGINE, BANDWIDTH) and np.isnan(values).all():
            continue
        trends.append(Trend(title, quantity, form, times, values, top, limit))
    return trends


def _largest(values: Values) -> float:
    return float(np.nanmax(values)) if len(values) and not np.isnan(values).all() else 0.0


def _of_whole(scene: Scene, *, alone: bool) -> list[Trend]:
    """All nodes behind an engine, of which the screen may have only the worst."""
    trends = []
    for title, quantity, form, top in (
        ("utilization, mean", UTILIZATION, units.percent, 1.0),
        ("TE, mean", ENGINE, units.percent, 1.0),
        ("EFA tx, all", TRANSMIT, units.gigabits, None),
    ):
        times, values = scene.history.scalar(f"/{quantity}", int(SECONDS))
        if (alone or quantity == TRANSMIT) and (len(times) or quantity != ENGINE):
            trends.append(Trend(title, quantity, form, times, values, top))
    return trends


def _summed(scene: Scene, title: str, quantity: str) -> Trend:
    times, table = scene.history.nodes(quantity, scene.cluster.names, int(SECONDS))
    known = ~np.isnan(table)
    values = np.where(known.any(axis=1), np.where(known, table, 0).sum(axis=1), np.nan)
    return Trend(title, quantity, units.gigabits, times, values)


def _mean(scene: Scene, title: str, quantity: str) -> Trend:
    times, table = scene.history.nodes(quantity, scene.cluster.names, int(SECONDS))
    known = ~np.isnan(table)
    count = known.sum(axis=1)
    total = np.where(known, table, 0).sum(axis=1)
    values = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return Trend(title, quantity, units.percent, times, values, 1.0)


def draw(trends: Sequence[Trend], now: float, width: int, height: int, pen: Pen) -> list[Strip]:
    """As many charts as fit: side by side on a wide, flat area, else one below the other."""
    if not trends or width < MIN_CELLS or height < 3:
        return []
    per_row = max(1, min(len(trends), (width + GAP) // (MIN_CELLS + GAP)))
    rows = max(1, min(-(-len(trends) // per_row), height // 4))
    if height // rows > 9 and rows < len(trends):
        # A tall area reads better with fewer charts beside each other.
        rows = min(len(trends), max(rows, height // 8))
        per_row = -(-len(trends) // rows)
    shown = trends[: rows * per_row]
    cells = (width - GAP * (per_row - 1)) // per_row
    tall = height // rows
    lines: list[Strip] = []
    for start in range(0, len(shown), per_row):
        blocks = [
            (one(trend, now, cells, tall - (start + per_row < len(shown)), pen), cells)
            for trend in shown[start : start + per_row]
        ]
        lines += [strip.adjust_cell_length(width) for strip in beside(blocks, GAP)]
        if start + per_row < len(shown):
            lines.append(line([], width))
    return lines


def one(trend: Trend, now: float, width: int, height: int, pen: Pen) -> list[Strip]:
    """A chart with its title, its newest value and the range of its axis."""
    ink = pen.ink
    newest = next((v for v in reversed(trend.values.tolist()) if v == v), None)
    held = bool(len(trend.values)) and trend.values[-1] == trend.values[-1]
    over = trend.limit is not None and newest is not None and newest > trend.limit
    number = pen.number(trend.form(newest if held else None), trend.quantity)
    if over and held:
        number[0] = (number[0][0], ink.warning)
    else:
        number[0] = (number[0][0], ink.strong if held else ink.faint)
    title: list[Part] = [(trend.title, ink.muted)]
    top = trend.top or 1.3 * _largest(trend.values) or 1.0
    scale = trend.form(top)
    limit = f"limit {trend.form(trend.limit)} · " if trend.limit is not None else ""
    bounds = f"{limit}top {scale}"
    room = width - length([*title, *number]) - 2
    inside = newest is not None and len(bounds) > room
    head = flow(
        [(90, title), (95, number)],
        width,
        (" ", ink.faint),
        right=[(10, [(bounds, ink.faint)])] if newest is not None and not inside else [],
    )
    # Whole seconds per cell keep slots of equal weight at one reading a second.
    seconds = float(max(1, round(SECONDS / width + 0.49)))
    values = buckets(trend.times, trend.values, now, width, seconds)
    body = chart(values, max(1, height - 2), pen, top=top, limit=trend.limit)
    if inside and len(body) > 1:  # over the oldest values rather than nowhere
        mark = line([(f"{scale} ", ink.faint)], cell_len(scale) + 1)
        body[0] = Strip.join([mark, body[0].crop(mark.cell_length)])
    return [head, *body, _axis(width, seconds, pen.glyphs.rule, ink.rule, ink.faint)]


@lru_cache(maxsize=32)
def _axis(width: int, seconds: float, dash: str, rule: Style, text: Style) -> Strip:
    past = f"-{units.age(width * seconds)} "
    now = " now"
    fill = max(0, width - len(past) - len(now))
    parts: list[Part] = [(past, text), (dash * fill, rule), (now, text)]
    return line(parts, width) if length(parts) <= width else line([], width)
