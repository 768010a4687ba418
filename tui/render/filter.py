"""The line of the filter: what it says, what it finds, and where it makes no sense."""

from collections.abc import Sequence

from rich.cells import cell_len
from textual.strip import Strip

from .line import Part, fit, flow, line
from .pen import Pen

PROMPT = " / "


def kept(text: str, faults: bool, shown: int, nodes: int, width: int, pen: Pen) -> Strip:
    """The filter that holds: its text, how many nodes it lets through, and the keys for it."""
    ink = pen.ink
    groups: list[tuple[int, list[Part]]] = []
    if text:
        room = max(8, width - 30)
        shorter = text if cell_len(text) <= room else fit(text, room)
        groups.append((90, [(PROMPT, ink.key), (shorter, ink.strong)]))
    if faults:
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
    """Under what is typed: what is wrong, at the cell `at` of the text."""
    style = pen.ink.muted if unfinished else pen.ink.warning
    place = min(max(0, at) + len(PROMPT), width - 1)
    if place + 2 + cell_len(message) <= width:
        return line([(" " * place, style), (f"{pen.glyphs.up} {message}", style)], width)
    room = max(0, place - 1)
    return line([(fit(message, room, "right"), style), (f" {pen.glyphs.up}", style)], width)
