"""Markdown that also reads well as plain text.

Foreign text (names, summaries, reasons) is escaped, so that no name of a job becomes a heading, a
link or HTML where a report is shown.
"""

import re
import time
from collections.abc import Sequence

from rich.cells import cell_len

from trntop.core import units

_SPECIAL = re.compile(r"[\\`*\[\]<>|~&$]|(?<![^\W_])_|_(?![^\W_])")
_LEADING = re.compile(r"^(#|[-+=](?=\s|$|[-+=])|\d{1,9}(?=[.)]))")


def plain(text: str) -> str:
    """Foreign text as Markdown shows it unchanged, on one line."""
    # What would begin a heading, a list or a rule; after a number, its dot is what makes a list.
    return _LEADING.sub(
        lambda found: f"{found[0]}\\" if found[0].isdigit() else f"\\{found[0]}", inner(text)
    )


def inner(text: str) -> str:
    """The same where it cannot begin a line: in a cell of a table, after other words."""
    return _escaped(" ".join(text.split()))


def with_code(text: str) -> str:
    """Text of our own with commands between backquotes, which stay as they are."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:
        return plain(text)
    return "".join(f"`{part}`" if place % 2 else _escaped(part) for place, part in enumerate(parts))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", text)


def moment(unix: float) -> str:
    """Date and time in UTC: who reads a report may sit elsewhere."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(unix))
    except (ValueError, OverflowError, OSError):  # a recording may hold any number
        return units.ABSENT


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns also line up as plain text; the last one is not padded."""
    widths = [max(cell_len(row[place]) for row in rows) for place in range(len(rows[0]) - 1)]

    def line(row: Sequence[str]) -> str:
        *padded, last = row
        for place, width in enumerate(widths):
            padded[place] += " " * (width - cell_len(padded[place]))
        return f"| {' | '.join(padded)} | {last} |"

    rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|------|"
    return "\n".join([line(rows[0]), rule, *map(line, rows[1:])])
