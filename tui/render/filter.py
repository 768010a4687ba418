"""The line of the filter: the active filter, the matching nodes, syntax errors."""

from collections.abc import Sequence

from rich.cells import cell_len
from textual.strip import Strip

from ..selection import Selection
from . import glyphs
from .context import RenderContext
from .line import Part, fit, flow, line, short

PROMPT = " / "


def active(
    selection: Selection, shown: int, nodes: int, width: int, context: RenderContext
) -> Strip:
    """The filter, the number of matching nodes, and the keys."""
    palette, text = context.palette, selection.filter.text if selection.filter else ""
    groups: list[tuple[int, list[Part]]] = []
    if text:
        room = max(8, width - 30)
        groups.append((90, [(PROMPT, palette.key), (short(text, room), palette.strong)]))
    if selection.faults:
        groups.append((80, [("" if text else " ", palette.text), ("faults only", palette.accent)]))
    keys: list[Part] = [("/ ", palette.key), ("edit  ", palette.faint), ("Esc ", palette.key)]
    right: list[tuple[int, list[Part]]] = [
        (100, _counted(shown, nodes, context)),
        (10, [*keys, ("clear ", palette.faint)]),
    ]
    return flow(groups, width, ("   ", palette.faint), right=right)


def _counted(shown: int, nodes: int, context: RenderContext) -> list[Part]:
    noun = "node" if nodes == 1 else "nodes"
    style = context.palette.text if shown else context.palette.warning
    return [(f"{shown:,} of {nodes:,} {noun}", style)]


def hint(shown: int, nodes: int, names: Sequence[str], width: int, context: RenderContext) -> Strip:
    """Below the input: the number of matching nodes, and completions."""
    text, style = _counted(shown, nodes, context)[0]
    parts = [
        (" " * len(PROMPT), context.palette.text),
        (text, style if shown else context.palette.muted),
    ]
    if names:
        parts += [("   ", context.palette.faint), ("Tab ", context.palette.key)]
        parts += [(f"{name} ", context.palette.muted) for name in names[:1]]
        parts.append((" ".join(names[1:]), context.palette.faint))
    return line(parts, width)


def problem(message: str, at: int, unfinished: bool, width: int, context: RenderContext) -> Strip:
    """Below the input: the error at the cell `at`, on the side with more room."""
    style = context.palette.muted if unfinished else context.palette.warning
    place = min(max(0, at) + len(PROMPT), width - 1)
    before, behind = max(0, place - 1), max(0, width - place - 2)
    if cell_len(message) <= behind or behind >= before:
        text = short(message, behind)
        return line([(" " * place, style), (f"{glyphs.UP} {text}", style)], width)
    return line([(fit(message, before, "right"), style), (f" {glyphs.UP}", style)], width)
