"""A pen for tests, and the text of what it drew."""

from collections.abc import Iterable

from textual.strip import Strip

from trntop.tui.render.glyphs import ASCII, BLOCK, Glyphs
from trntop.tui.render.ink import ink
from trntop.tui.render.pen import Pen
from trntop.tui.themes import DARK

VARIABLES = {
    name: str(getattr(DARK, name))
    for name in (
        "background",
        "foreground",
        "primary",
        "secondary",
        "accent",
        "success",
        "warning",
        "error",
    )
} | DARK.variables


def pen(glyphs: Glyphs = BLOCK) -> Pen:
    return Pen(ink(VARIABLES), glyphs)


PEN = pen()
PLAIN = pen(ASCII)


def text(lines: Iterable[Strip]) -> str:
    return "\n".join(strip.text.rstrip() for strip in lines)
