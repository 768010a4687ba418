"""A render context for tests, and the text of what was drawn."""

from collections.abc import Iterable

from textual.strip import Strip

from trntop.tui.render.context import RenderContext
from trntop.tui.render.palette import palette
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


CONTEXT = RenderContext(palette(VARIABLES))


def text(lines: Iterable[Strip]) -> str:
    return "\n".join(strip.text.rstrip() for strip in lines)
