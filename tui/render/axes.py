"""The axes of charts: values on the left, times below, marks on the time axis."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.style import Style
from textual.strip import Strip

from trntop.core import units

from . import glyphs
from .context import RenderContext
from .graph import Values, buckets, runs
from .line import Part, fit, line

TICKS = (10.0, 15.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0, 900.0, 1800.0, 3600.0)
"""Seconds between two times on the axis."""
ROUND = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
"""Round numbers from 1 to 10."""

Formatter = Callable[[float | None], str]


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark on the time axis."""

    time: float
    symbol: str
    style: Style
    end: float | None = None
    """The axis is drawn in the style until then."""


def slot_seconds(width: int, seconds: float) -> float:
    """Whole seconds per cell, so that `width` cells span at least `seconds`."""
    return float(max(1, math.ceil(seconds / max(1, width))))


def round_up(value: float) -> float:
    """The next round number from `value` up, so that the scale rarely changes."""
    if not value > 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step for step in ROUND if step * unit >= value * (1 - 1e-9)) * unit


def bounds(values: Values) -> tuple[float, float]:
    """A range of round numbers around `values`."""
    known = values[~np.isnan(values)]
    if not len(known):
        return 0.0, 1.0
    low, top = float(known.min()), float(known.max())
    # The noise of a steady curve is not magnified.
    spread = max(top - low, 0.02 * max(abs(low), abs(top)), 1e-12)
    unit = 10.0 ** math.floor(math.log10(spread)) / 2
    return math.floor(low / unit - 0.2) * unit, math.ceil(top / unit + 0.2) * unit


def with_axes(
    body: Sequence[Strip],
    labels: Sequence[tuple[float, str]],
    seconds: float,
    now: float,
    gutter: int,
    context: RenderContext,
    marks: Sequence[Mark] = (),
) -> list[Strip]:
    """`body` with values on its left and times below.

    Args:
        body: lines of the graph, top first.
        labels: height from 0 to 1 and text of each value on the left, the most important first.
        seconds: seconds per cell of the body.
        now: time of the last cell.
        gutter: cells for the values.
        context: the palette.
        marks: marks on the time axis.
    """
    height = len(body)
    width = body[0].cell_length if body else 0
    at: dict[int, str] = {}
    for share, text in labels:
        at.setdefault(height - 1 - min(height - 1, max(0, int(share * height))), text)
    side, tick = "│", "┤"
    rows = []
    for y, strip in enumerate(body):
        text = fit(at.get(y, ""), gutter - 1, "right")
        rule = tick if y in at else side
        left = line([(text, context.palette.faint), (rule, context.palette.rule)], gutter)
        rows.append(Strip.join([left, strip]))
    below = time_axis(width, seconds, now, context, marks)
    rows.append(Strip.join([line([(" " * gutter, context.palette.rule)], gutter), below]))
    return rows


def mark_cells(mark: Mark, width: int, seconds: float, now: float) -> range:
    """The cells of a time axis from the mark to its end."""
    zero = math.floor(now / seconds) - width + 1
    first, last = (math.floor(time / seconds) - zero for time in (mark.time, mark.end or mark.time))
    return range(max(0, first), max(0, min(width, last + 1)))


def time_axis(
    width: int, seconds: float, now: float, context: RenderContext, marks: Sequence[Mark] = ()
) -> Strip:
    """A rule with times before `now`, and marks."""
    cells: list[Part] = [(glyphs.RULE, context.palette.rule)] * width
    occupied: set[int] = set()
    for mark in marks:
        found = mark_cells(mark, width, seconds, now)
        occupied.update(found)
        cells[found.start : found.stop] = [(glyphs.FULL, mark.style)] * len(found)
        if found and mark.time > now - width * seconds:
            cells[found.start] = (mark.symbol, mark.style)

    def write(start: int, text: str) -> None:
        span = range(start, start + len(text))
        if start >= 0 and span.stop <= width and occupied.isdisjoint(span):
            cells[span.start : span.stop] = [(char, context.palette.faint) for char in text]

    write(width - 4, " now")
    step = next((tick for tick in TICKS if tick / seconds >= 14), TICKS[-1])
    ago = step
    while (start := width - 1 - round(ago / seconds)) >= 0:
        write(start, f"-{units.age(ago) if ago % 60 == 0 or ago < 60 else units.span(ago)} ")
        ago += step
    return line(runs(cells), width)


def series(
    times: Values, values: Values, now: float, width: int, seconds: float
) -> tuple[Values, float]:
    """`values` in `width` slots that span `seconds`, and the length of a slot in seconds."""
    slot = slot_seconds(width, seconds)
    return buckets(times, values, now, width, slot), slot
