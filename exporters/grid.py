"""Tables and wrapped text for terminals and pipes."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len, set_cell_size

from trntop.catalog import CATALOG
from trntop.core import units
from trntop.core.model import Frame, Inventory

GAP = "  "

Format = Callable[[float | None], str]


@dataclass(slots=True)
class Column:
    """A column of text: its title, unit and cells."""

    title: str
    unit: str = ""
    left: bool = False
    rank: int = 0
    """The column with the highest rank is dropped first in a narrow terminal; 0 always stays."""
    cells: list[str] = field(default_factory=list)

    def width(self) -> int:
        """Cells of its widest text."""
        return max(cell_len(text) for text in (self.title, self.unit, *self.cells))


def lines(columns: Sequence[Column], width: int) -> list[str]:
    """Title, units and rows of the columns that fit; the first is cut if no more can be dropped.

    Empty columns are omitted; columns without room are listed below.
    """
    shown = [column for column in columns if not column.cells or any(column.cells)]
    dropped: list[Column] = []
    widths = {id(column): column.width() for column in shown}
    # A long name is cut before a column is lost.
    first = id(shown[0])
    widths[first] = min(widths[first], max(16, width * 2 // 5))
    while (over := _total(shown, widths) - width) > 0:
        least = max(shown, key=lambda column: column.rank)
        if least.rank == 0:
            widths[first] = max(4, widths[first] - over)
            break
        shown.remove(least)
        dropped.append(least)
    rows = [[column.title for column in shown], [column.unit for column in shown]]
    rows += [list(texts) for texts in zip(*(column.cells for column in shown), strict=True)]
    drawn = [
        fit(
            GAP.join(
                _pad(text, widths[id(column)], left=column.left)
                for column, text in zip(shown, row, strict=True)
            ),
            width,
        )
        for row in rows
        if any(row)
    ]
    if dropped:
        names = ", ".join(
            (column.title.partition(",")[0] or column.unit).strip() for column in dropped
        )
        note = f"not shown at this width: {names} (wider terminal, or --json)"
        drawn += wrapped(note, width, "")
    return drawn


def fill(columns: Sequence[Column], row: Sequence[str]) -> None:
    """Adds a row."""
    for column, text in zip(columns, row, strict=True):
        column.cells.append(text)


def _total(columns: Sequence[Column], widths: dict[int, int]) -> int:
    return sum(widths[id(column)] for column in columns) + len(GAP) * (len(columns) - 1)


# Values


def value(
    quantity: str, number: float | None, form: Format, inventory: Inventory | None = None
) -> str:
    """A number without its unit, then its provenance mark or a blank."""
    text = form(number).partition(" ")[0]
    return text + (mark(quantity, inventory) or " " if text != units.ABSENT else " ")


def part(
    frame: Frame, quantity: str, index: int, form: Format, inventory: Inventory | None = None
) -> str:
    """`value` of one part."""
    return value(quantity, frame.at(quantity, index), form, inventory)


def mark(quantity: str, inventory: Inventory | None = None) -> str:
    return units.mark(inventory.provenance(quantity) if inventory else CATALOG[quantity].provenance)


# Text


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 node`, `2 nodes`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def wrapped(text: str, width: int, indent: str, bullet: str = "") -> list[str]:
    """`text` in lines of at most `width` cells."""
    # textwrap counts characters; wide ones take two cells.
    return textwrap.wrap(
        text,
        width if cell_len(text) == len(text) else width // 2,
        initial_indent=indent + bullet,
        subsequent_indent=indent + " " * len(bullet),
    )


def packed(groups: Sequence[str], width: int, lead: str) -> list[str]:
    """Groups in lines, broken only between groups; the first line starts with `lead`."""
    rows: list[str] = []
    line = lead
    for group in groups:
        if line.strip() and line != lead and cell_len(line) + len(GAP) + cell_len(group) > width:
            rows.append(line)
            line = " " * cell_len(lead)
        line += ("" if line.isspace() or line == lead else GAP) + group
    return [fit(row, width) for row in (*rows, line)]


def _pad(text: str, width: int, *, left: bool) -> str:
    text = fit(text, width)
    blanks = " " * (width - cell_len(text))
    return text + blanks if left else blanks + text


def fit(text: str, width: int) -> str:
    """`text` in at most `width` cells, cut with an ellipsis."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…"
