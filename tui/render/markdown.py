"""The Markdown of the runbooks as lines: headings, paragraphs, lists, code.

It takes a millisecond; Textual's Markdown mounts a widget for each block.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from .line import Part, line
from .palette import Palette

_INLINE = re.compile(r"`([^`]+)`|\*{1,2}([^*]+)\*{1,2}|\[([^\]]+)\]\([^)]*\)")
_ITEM = re.compile(r"(- |\d+\. )")
_INDENT = 2

Block = tuple[str, str]
"""Kind (`#`, `##`, `-`, `1.`, `code` or nothing) and text."""


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """The blocks of a page; each line of code is a block."""
    found: list[Block] = []
    code = False
    for text in page.splitlines():
        if text.startswith("```"):
            code = not code
            found.append(("", ""))
        elif code:
            found.append(("code", text))
        elif text.startswith("#"):
            sign, _, title = text.partition(" ")
            found.append((sign, title))
        elif item := _ITEM.match(text):
            found.append((item[0].strip(), text[item.end() :]))
        elif text and found and found[-1][1] and found[-1][0][:1] != "#":
            kind, before = found[-1]
            found[-1] = (kind, f"{before} {text.strip()}")
        else:
            found.append(("", text.strip()))
    return tuple(found)


@lru_cache(maxsize=8)
def draw(page: str, width: int, palette: Palette) -> tuple[Strip, ...]:
    """The page in `width` cells, without its first heading and without blank lines in a row."""
    rows: list[list[Part]] = []
    for kind, text in blocks(page):
        if kind == "#":
            continue
        if not text:
            if rows and rows[-1]:
                rows.append([])
        elif kind.startswith("#"):
            rows.append([(text, palette.strong)])
        elif kind == "code":
            rows += _code(text, width, palette)
        else:
            lead = f"{kind} " if kind else ""
            rows += flowed(list(_runs(text, palette)), width, (lead, palette.muted))
    while rows and not rows[-1]:
        rows.pop()
    return tuple(line(row, width) for row in rows)


def flowed(runs: list[Part], width: int, lead: Part) -> Iterator[list[Part]]:
    """Styled text, broken at blanks; `lead` starts the first line and indents the others."""
    indent = cell_len(lead[0])
    row: list[Part] = [lead]
    used = indent
    for word in _words(runs):
        size = sum(cell_len(text) for text, _ in word)
        gap = 0 if used == indent else 1
        if used > indent and used + gap + size > width:
            yield row
            row, used, gap = [(" " * indent, Style())], indent, 0
        if gap:
            row.append((" ", Style()))
        row += word
        used += gap + size
    yield row


def _words(runs: list[Part]) -> Iterator[list[Part]]:
    """The parts between blanks; a word may have several styles."""
    word: list[Part] = []
    for text, style in runs:
        for piece in re.split(r"(\s+)", text):
            if piece.isspace():
                if word:
                    yield word
                word = []
            elif piece:
                word.append((piece, style))
    if word:
        yield word


def _runs(text: str, palette: Palette) -> Iterator[Part]:
    end = 0
    for found in _INLINE.finditer(text):
        yield text[end : found.start()], palette.text
        code, strong, link = found.groups()
        yield code or strong or link, palette.accent if code else palette.strong
        end = found.end()
    yield text[end:], palette.text


def _code(text: str, width: int, palette: Palette) -> Iterator[list[Part]]:
    """A command; its comment is on another line if the width is too small."""
    indent = " " * _INDENT
    command, sign, remark = text.partition("  #")
    remark = f"{sign.strip()}{remark}" if sign else ""
    if remark and cell_len(text) + _INDENT <= width:
        blank = text[len(command.rstrip()) : text.index(remark)]
        yield [
            (indent, palette.text),
            (command.rstrip() + blank, palette.key),
            (remark, palette.muted),
        ]
        return
    if remark:
        yield from flowed([(remark, palette.muted)], width, (indent, palette.text))
    rest = command.rstrip()
    room = max(8, width - 2 * _INDENT)
    yield [(indent, palette.text), (rest[: width - _INDENT], palette.key)]
    rest = rest[width - _INDENT :]
    while rest:
        yield [(indent * 2, palette.text), (rest[:room], palette.key)]
        rest = rest[room:]
