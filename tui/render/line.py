"""Lines of styled text in a given width."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

Part = tuple[str, Style]
Align = Literal["left", "right"]

_UNIT = re.compile(r"(?<=\d) (?=(?:%|[mµ]?s|min|h|d|[KMGT]?i?B|Gb/s)(?:[\s,;.)]|$))")
"""Blank between a number and its unit, where lines are not broken."""


def printable(text: str) -> str:
    """`text` without control characters; `trntop.core.text` already removes them from input."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def fit(text: str, width: int, align: Align = "left") -> str:
    """`text` in exactly `width` cells, cut with an ellipsis."""
    text = printable(text)
    size = len(text) if text.isascii() else cell_len(text)
    if size > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    pad = " " * (width - size)
    return pad + text if align == "right" else text + pad


def short(text: str, most: int) -> str:
    """`text` in at most `most` cells, cut with an ellipsis."""
    return fit(text, min(most, cell_len(printable(text))))


def length(parts: Iterable[Part]) -> int:
    """Cells of `parts`."""
    return sum(cell_len(text) for text, _ in parts)


def line(parts: Iterable[Part], width: int) -> Strip:
    """`parts` in a row, cut or padded to `width`.

    Blanks get the style before them, because each change of style is bytes to the terminal.
    """
    segments: list[Segment] = []
    cells = 0
    for text, style in parts:
        if not text:
            continue
        text = printable(text)
        cells += len(text) if text.isascii() else cell_len(text)
        if segments:
            before = segments[-1]
            assert before.style is not None
            plain = style.bgcolor is None and before.style.bgcolor is None
            if style is before.style or (plain and text.isspace()):
                segments[-1] = Segment(before.text + text, before.style)
                continue
        segments.append(Segment(text, style))
    if cells < width:
        segments.append(Segment(" " * (width - cells)))
        cells = width
    return Strip(segments, cells).adjust_cell_length(width)


def flow(
    groups: Sequence[tuple[int, Sequence[Part]]],
    width: int,
    gap: Part,
    *,
    right: Sequence[tuple[int, Sequence[Part]]] = (),
) -> Strip:
    """Groups from the left and from the right; the least important are left out if needed.

    Args:
        groups: importance (larger stays longer) and parts, in reading order.
        width: cells.
        gap: between groups.
        right: groups at the right edge.
    """
    kept = [(rank, list(parts), False) for rank, parts in groups if parts]
    kept += [(rank, list(parts), True) for rank, parts in right if parts]
    space = cell_len(gap[0])

    def needed() -> int:
        return sum(length(parts) for _, parts, _ in kept) + space * max(0, len(kept) - 1)

    while len(kept) > 1 and needed() > width:
        kept.remove(min(kept, key=lambda group: group[0]))
    sides: list[list[Part]] = [[], []]
    for _, parts, is_right in kept:
        side = sides[is_right]
        if side:
            side.append(gap)
        side.extend(parts)
    left, end = sides
    fill = width - length(left) - length(end)
    return line([*left, (" " * max(0, fill), Style()), *end], width)


def side_by_side(blocks: Sequence[tuple[Sequence[Strip], int]], gap: int = 2) -> list[Strip]:
    """Blocks of lines side by side.

    Args:
        blocks: lines and the width each block takes.
        gap: blank cells between blocks.
    """
    height = max((len(lines) for lines, _ in blocks), default=0)
    rows = []
    for y in range(height):
        parts: list[Strip] = []
        for index, (lines, width) in enumerate(blocks):
            if index:
                parts.append(Strip.blank(gap))
            strip = lines[y] if y < len(lines) else Strip.blank(width)
            parts.append(strip.adjust_cell_length(width))
        rows.append(Strip.join(parts))
    return rows


def wrap(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells, broken at blanks if possible."""
    lines: list[str] = []
    current = ""
    width = max(1, width)
    words = _UNIT.sub("\0", " ".join(text.split())).split(" ")
    for piece in (part for word in words for part in chop_cells(word.replace("\0", " "), width)):
        candidate = f"{current} {piece}".strip()
        if current and cell_len(candidate) > width:
            lines.append(current)
            current = piece
        else:
            current = candidate
    return [*lines, current] if current else lines or [""]


def wrapped(text: str, width: int, style: Style, lead: Sequence[Part] = ()) -> list[Strip]:
    """`text` as lines; the first one starts with `lead`, the others are indented by its width."""
    indent = length(lead)
    first, *rest = wrap(text, width - indent)
    below = [line([(" " * indent, style), (part, style)], width) for part in rest]
    return [line([*lead, (first, style)], width), *below]
