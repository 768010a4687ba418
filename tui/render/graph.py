"""Bars, sparklines and charts."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rich.style import Style
from textual.strip import Strip

from trntop.core.model import Severity
from trntop.pipeline.statistics import group_mean

from . import glyphs
from .context import RenderContext
from .line import Part, line

AIR = 1.5
"""Top of a graph, relative to its largest value."""

Values = npt.NDArray[np.floating]


def bar(
    ratio: float | None,
    width: int,
    style: Style,
    track: Style,
    *,
    limit: float | None = None,
    limit_style: Style | None = None,
) -> list[Part]:
    """A bar of `width` cells for a ratio from 0 to 1, with a tick at `limit`.

    An absent ratio is blank: an empty bar would mean zero.
    """
    if width <= 0:
        return []
    if ratio is None:
        return [(" " * width, track)]
    halves = round(min(1.0, max(0.0, ratio)) * width * 2)
    cells = [(glyphs.FULL, style)] * (halves // 2)
    if halves % 2:
        cells.append((glyphs.HALF, style))
    cells += [(glyphs.TRACK, track)] * (width - len(cells))
    if limit is not None and 0 <= limit < 1:
        cells[min(width - 1, int(limit * width))] = (glyphs.LIMIT, limit_style or track)
    return runs(cells)


def runs(cells: list[Part]) -> list[Part]:
    """Joins neighbors of one style."""
    runs: list[Part] = []
    for text, style in cells:
        if runs and runs[-1][1] is style:
            runs[-1] = (runs[-1][0] + text, style)
        else:
            runs.append((text, style))
    return runs


def buckets(times: Values, values: Values, now: float, width: int, seconds: float) -> Values:
    """Means of `values` in `width` slots of `seconds`, the last one holding `now`.

    Slots start at multiples of `seconds`, so that the graph changes only when a slot is complete. A
    slot without a value is NaN.
    """
    last = np.floor(now / seconds)
    slots = (np.floor(np.asarray(times) / seconds) - last).astype(np.int64) + width - 1
    inside = (slots >= 0) & (slots < width)
    return group_mean(values[inside].astype(np.float64), slots[inside], width)


def sparkline(values: Values, top: float | None = None) -> str:
    """One character per value, from 0 to `top`; absent is a blank.

    Without `top` the largest value has two thirds of the height.
    """
    if top is None:
        known = len(values) and not np.isnan(values).all()
        top = AIR * float(np.nanmax(values)) if known else 1.0
    steps = len(glyphs.SPARK)
    scale = steps / top if top > 0 else 0.0
    return "".join(
        " " if value != value else glyphs.SPARK[min(steps - 1, max(0, int(value * scale)))]
        for value in values.tolist()
    )


def chart(
    values: Values,
    height: int,
    context: RenderContext,
    *,
    low: float = 0.0,
    top: float,
    limit: float | None = None,
    over: Sequence[Style] | None = None,
    shown: range | None = None,
) -> list[Strip]:
    """A graph of `height` lines and one cell per value, from `low` to `top`.

    Columns above `limit` have the shades `over`, those outside `shown` have not; the limit is a
    dotted line.
    """
    palette = context.palette
    steps = len(glyphs.COLUMN) - 1
    scale = height * steps / (top - low) if top > low else 0.0
    levels = [
        -1 if value != value else min(height * steps, max(1, round((value - low) * scale)))
        for value in values.tolist()
    ]
    shades = (palette.area, over or palette.over[Severity.WARNING])
    above = [
        limit is not None and value > limit and (shown is None or place in shown)
        for place, value in enumerate(values.tolist())
    ]
    at = None
    if limit is not None and low < limit < top:
        at = height - 1 - int((limit - low) * scale) // steps
    rows = []
    for row in reversed(range(height)):
        cells: list[Part] = []
        shade = (len(palette.area) - 1) * (row + 1) // height
        for level, is_above in zip(levels, above, strict=True):
            inside = min(steps, max(0, level - row * steps))
            if inside:
                cells.append((glyphs.COLUMN[inside], shades[is_above][shade]))
            elif height - 1 - row == at:
                cells.append(("╌", palette.faint))
            else:
                cells.append((" ", palette.faint))
        rows.append(line(runs(cells), len(levels)))
    return rows
