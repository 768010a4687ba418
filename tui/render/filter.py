"""The line of the filter: what it says, what it finds, and where it makes no sense."""

from collections.abc import Sequence

from rich.cells import cell_len
from textual.strip import Strip

from ..selection import Selection
from .line import Part, fit, flow, line, short
from .pen import Pen

PROMPT = " / "


def kept(selection: Selection, shown: int, nodes: int, width: int, pen: Pen) -> Strip:
    """What holds: filter, faults only, how many nodes are let through, and the keys for it.

    Args:
        selection: what holds.
        shown: nodes that it lets through.
        nodes: all there are.
        width: cells.
        pen: what to draw with.
    """
    ink, text = pen.ink, selection.filter.text if selection.filter else ""
    groups: list[tuple[int, list[Part]]] = []
    if text:
        room = max(8, width - 30)
        groups.append((90, [(PROMPT, ink.key), (short(text, room), ink.strong)]))
    if selection.faults:
        groups.append((80, [("" if text else " ", ink.text), ("faults only", ink.accent)]))
    keys: list[Part] = [("/ ", ink.key), ("edit  ", ink.faint), ("Esc ", ink.key)]
    right: list[tuple[int, list[Part]]] = [
        (100, _counted(shown, nodes, pen)),
        (10, [*keys, ("clear ", ink.faint)]),
    ]
    return flow(groups, width, ("   ", ink.faint), right=right)


def _counted(shown: int, nodes: int, pen: Pen) -> list[Part]:
    noun = "node" if nodes == 1 else "nodes"
    style = pen.ink.text if shown else pen.ink.warning
    return [(f"{shown:,} of {nodes:,} {noun}", style)]


def hint(shown: int, nodes: int, names: Sequence[str], width: int, pen: Pen) -> Strip:
    """Under what is typed: how many nodes it finds, and which names may come next."""
    text, style = _counted(shown, nodes, pen)[0]
    parts = [(" " * len(PROMPT), pen.ink.text), (text, style if shown else pen.ink.muted)]
    if names:
        parts += [("   ", pen.ink.faint), ("Tab ", pen.ink.key)]
        parts += [(f"{name} ", pen.ink.muted) for name in names[:1]]
        parts.append((" ".join(names[1:]), pen.ink.faint))
    return line(parts, width)


def problem(message: str, at: int, unfinished: bool, width: int, pen: Pen) -> Strip:
    """Under what is typed: what is wrong, at the cell `at` of the text.

    The message stands right of its sign; where it does not fit there, on the side with more room.
    """
    style = pen.ink.muted if unfinished else pen.ink.warning
    place = min(max(0, at) + len(PROMPT), width - 1)
    before, behind = max(0, place - 1), max(0, width - place - 2)
    if cell_len(message) <= behind or behind >= before:
        said = short(message, behind)
        return line([(" " * place, style), (f"{pen.glyphs.up} {said}", style)], width)
    return line([(fit(message, before, "right"), style), (f" {pen.glyphs.up}", style)], width)
