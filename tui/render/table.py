"""Tables of columns; the width decides which columns fit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.style import Style
from textual.strip import Strip

from . import glyphs
from .context import RenderContext, mark
from .line import Align, Part, fit, line, short

Row = TypeVar("Row")

GAP = 2


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column; `draw` returns parts of exactly the given width."""

    id: str
    title: str
    width: int
    """Minimum cells."""
    rank: int
    """Importance: the least important columns are hidden first."""
    draw: Callable[[Row, int, RenderContext], Sequence[Part]]
    unit: str = ""
    max_width: int = 0
    """Maximum cells; 0 for `width`."""
    align: Align = "left"
    quantity: str = ""
    """Catalog name of the values, whose provenance the header marks."""

    @property
    def heading(self) -> str:
        """Title, unit and mark of the provenance."""
        symbol = mark(self.quantity) if self.quantity else ""
        return " ".join(part for part in (self.title, self.unit, symbol) if part)

    @property
    def min_width(self) -> int:
        """Minimum cells; the heading fits."""
        return max(self.width, len(self.heading))


Layout = Sequence[tuple[Column[Row], int]]


def layout(columns: Sequence[Column[Row]], width: int) -> Layout[Row]:
    """The columns that fit into `width`, in order, each with its cells."""
    kept = list(columns)
    while len(kept) > 1 and _needed(kept) > width:
        kept.remove(min(kept, key=lambda column: column.rank))
    spare = width - _needed(kept)
    widths = []
    for column in kept:
        extra = min(max(0, spare), max(0, column.max_width - column.min_width))
        spare -= extra
        widths.append(column.min_width + extra)
    return list(zip(kept, widths, strict=True))


def _needed(columns: Sequence[Column[Row]]) -> int:
    return 2 + sum(column.min_width for column in columns) + GAP * max(0, len(columns) - 1)


def column_at(columns: Layout[Row], x: int) -> Column[Row] | None:
    """The column at the cell `x`, including the gap after it."""
    end = 2
    for column, cells in columns:
        end += cells + GAP
        if 2 <= x < end:
            return column
    return None


def header(
    columns: Layout[Row], width: int, context: RenderContext, sorted_by: str, reverse: bool
) -> Strip:
    """The line of headings; the sort column is marked."""
    parts: list[Part] = [("  ", context.palette.muted)]
    for index, (column, cells) in enumerate(columns):
        if index:
            parts.append((" " * GAP, context.palette.muted))
        title = column.heading
        if column.id == sorted_by:
            arrow = glyphs.UP if reverse else glyphs.DOWN
            if len(title) >= cells:  # without the unit
                title = short(column.title, cells - 1)
            parts.append((fit(f"{title}{arrow}", cells, column.align), context.palette.key))
        else:
            parts.append((fit(title, cells, column.align), context.palette.muted))
    return line(parts, width)


def row(
    columns: Layout[Row],
    value: Row,
    width: int,
    context: RenderContext,
    *,
    cursor: bool,
    focus: bool = True,
    note: str = "",
) -> Strip:
    """One row; the row under the cursor has a background and a pointer.

    Args:
        columns: the columns, with their widths.
        value: the row.
        width: cells of the line.
        context: the palette.
        cursor: whether the cursor is on the row.
        focus: whether the table has the focus.
        note: replaces the columns between the first and the last.
    """
    pointer = f"{glyphs.CURSOR} " if cursor else "  "
    parts: list[Part] = [(pointer, context.palette.key if focus else context.palette.muted)]
    if note and len(columns) > 2:
        (first, start), *between, (last, end) = columns
        room = sum(cells + GAP for _, cells in between) - GAP
        columns = []
        parts += first.draw(value, start, context)
        parts += [(" " * GAP, Style.null()), (fit(note, room), context.palette.muted)]
        parts += [(" " * GAP, Style.null()), *last.draw(value, end, context)]
    for index, (column, cells) in enumerate(columns):
        if index:
            parts.append((" " * GAP, Style.null()))
        parts.extend(column.draw(value, cells, context))
    strip = line(parts, width)
    return strip.apply_style(context.palette.cursor) if cursor else strip
