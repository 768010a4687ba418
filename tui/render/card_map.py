"""The map of EFA cards: a row a node, a cell a card, so that rails are columns."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

import numpy as np
from rich.style import Style
from textual.strip import Strip

from trntop.catalog import Entity
from trntop.catalog.efa import is_up
from trntop.core import units
from trntop.core.model import Incident, NodeView, Severity, State

from ..measures import RECEIVE, RETRANSMIT, TRANSMIT
from . import efa, rails
from .context import RenderContext, bare
from .fabric import Fabric
from .fleet import CARD_KINDS, ORDER
from .graph import runs
from .layers import Layer
from .line import Part, fit, flow, line
from .palette import LEVELS, level_of
from .probed import LATENCY
from .table import GAP, Column, Layout, layout, row

WIDEST_CELL = 6
NUMBERED = 5
"""Cells of a card from which on it shows its number."""
NAMED = 3
"""Cells of a card from which on its bus and slot stand above it."""
FIGURE = 7
"""Cells of a node's sums."""
STEP = 2
"""Steps of the scale that look the same here: neighbours that differ little are one colour."""
LONGEST_NAME = 16
_BUS = re.compile(r"^\D*(\d+)\D+(\d+)$")
"""The bus and the slot in rdma-core's names: `rdmap16s27`."""


@dataclass(frozen=True, slots=True)
class CardRow:
    """One node's cards, or the median of all nodes'."""

    name: str
    sign: str
    severity: Severity | None
    state: State
    values: Sequence[float]
    """Of the layer, one a rail; NaN where it is absent."""
    there: frozenset[int]
    """Columns in which the node has a card."""
    levels: Sequence[float]
    """From 0, calm, to 1."""
    texts: Sequence[str]
    marks: Mapping[int, Severity] = field(default_factory=dict)
    """Columns of cards that need a look."""
    transmit: float | None = None
    receive: float | None = None
    resent: float | None = None
    blamed: Severity | None = None
    """The worst that is wrong with what its cards send, not with how long it takes."""
    note: str = ""
    cursor: int | None = None
    """The column of the card under the cursor."""


@dataclass(frozen=True, slots=True)
class Look:
    """How the map is looked at."""

    layer: Layer
    top: float
    """What the brightest colour stands for, where the layer has no scale of its own."""
    column: int | None = None
    """The rail under the cursor."""


def worst_first(fabric: Fabric, layer: Layer) -> list[NodeView]:
    """Nodes with an incident of their cards or links, then those with other trouble, by name.

    Before them those with slow links, where the layer is latency.
    """
    by_node = fabric.view_model.by_node
    slow = fabric.slow_nodes if layer.quantity == LATENCY else {}

    def key(node: NodeView) -> tuple[int, int, int, int]:
        found = [one.severity.rank for one in by_node.get(node.name, ()) if of_fabric(one)]
        return (
            -slow.get(node.name, -1), -max(found, default=-1), -len(node.lost_cards),
            ORDER.index(node.state),
        )  # fmt: skip

    # Nodes are sorted by name and sorting is stable, so rows of one rank stand still.
    return sorted(fabric.rails.nodes, key=key)


def of_fabric(incident: Incident) -> bool:
    """Whether it concerns cards or links."""
    component = incident.component or ""
    return component.startswith(("efa:", "link:")) or incident.kind.startswith(("efa", "latency"))


def marks(fabric: Fabric, node: NodeView, *, links: bool = False) -> dict[int, Severity]:
    """Column → how bad the card there is, of those that need a look.

    Args:
        fabric: all cards.
        node: whose cards.
        links: whether a card that has a link which needs attention needs one too.
    """
    columns = fabric.rails.columns(fabric.rails.row_of[node.name])
    found = efa.severities(fabric.view_model, node)
    for place, card in enumerate(node.inventory.of(Entity.EFA)):
        slow = fabric.slow_cards.get((node.name, str(card))) if links else None
        if slow is not None and (place not in found or slow.rank > found[place].rank):
            found[place] = slow
        if not is_up(node.inventory.efa_links.get(str(card), {}).get("state")):
            found.setdefault(place, Severity.WARNING)
    return {columns[place]: severity for place, severity in found.items()}


def of_node(fabric: Fabric, node: NodeView, look: Look, *, cursor: bool) -> CardRow:
    """The row of one node."""
    place = fabric.rails.row_of[node.name]
    values = look.layer.values(fabric)[place].tolist()
    found = [one for one in fabric.view_model.by_node.get(node.name, ()) if of_fabric(one)]
    frame = node.frame
    note = found[0].kind if found else ""
    if not found and node.inventory.of(Entity.EFA) and efa.TX not in frame.columns:
        note = frame.why_absent(efa.TX)
    return CardRow(
        name=node.name,
        sign="",
        severity=found[0].severity if found else None,
        state=node.state,
        values=values,
        there=frozenset(fabric.rails.columns(place)),
        levels=_levels(values, fabric, look),
        texts=_texts(values, look),
        marks=marks(fabric, node, links=look.layer.quantity == LATENCY),
        transmit=frame.value(TRANSMIT),
        receive=frame.value(RECEIVE),
        resent=frame.value(RETRANSMIT),
        blamed=next((one.severity for one in found if one.kind in CARD_KINDS), None),
        note=note,
        cursor=look.column if cursor else None,
    )


def of_rails(fabric: Fabric, look: Look) -> CardRow:
    """The median of each rail over all nodes."""
    values = rails.median(look.layer.values(fabric)).tolist()
    quantities = (TRANSMIT, RECEIVE, RETRANSMIT)
    of_nodes = np.stack([fabric.view_model.cluster.column(name) for name in quantities], axis=1)
    sent, received, resent = (
        None if value != value else value for value in rails.median(of_nodes).tolist()
    )
    return CardRow(
        name="median",
        sign=" ",
        severity=None,
        state=State.FRESH,
        values=values,
        there=frozenset(range(len(values))),
        levels=_levels(values, fabric, look),
        texts=_texts(values, look),
        transmit=sent,
        receive=received,
        resent=resent,
    )


def _levels(values: Sequence[float], fabric: Fabric, look: Look) -> list[float]:
    level = look.layer.level
    return [0.0 if value != value else level(value, fabric, look.top) for value in values]


def _texts(values: Sequence[float], look: Look) -> list[str]:
    return ["" if value != value else look.layer.text(value) for value in values]


def cell_width(fabric: Fabric, width: int) -> int:
    """Cells of one card in a map of `width`, its gap included."""
    count = len(fabric.rails.names)
    if not count:
        return 0
    room = width - first_card(fabric)
    cells = [(room - beside * (GAP + FIGURE)) // count for beside in (2, 1)]
    # A card's name counts for more than what all of a node's carry.
    wanted = cells[0] if cells[0] >= NAMED else cells[1]
    return min(WIDEST_CELL, max(1, wanted))


def _name_width(fabric: Fabric) -> int:
    longest = max((len(node.name) for node in fabric.rails.nodes), default=0)
    return 2 + min(LONGEST_NAME, max(len("median"), longest))


def first_card(fabric: Fabric) -> int:
    """The cell at which the cards begin."""
    return 2 + _name_width(fabric) + GAP + 1


def columns(fabric: Fabric, width: int) -> tuple[Column[CardRow], ...]:
    """The columns of the map."""
    cell = cell_width(fabric, width)
    names = _name_width(fabric)
    _, slots = labels(fabric.rails.names, cell)
    return (
        Column("node", "  node", names, 100, _name),
        Column("cards", slots, len(slots), 99, partial(_cards, cell)),
        Column("tx", "tx Gb/s", FIGURE, 80, partial(_rate, "transmit", TRANSMIT), align="right"),
        Column("retransmit", "retx %", FIGURE, 90, _resent, align="right"),
        Column("rx", "rx Gb/s", FIGURE, 70, partial(_rate, "receive", RECEIVE), align="right"),
        Column("note", "incident", 14, 60, _note, wide=60),
    )


def labels(names: Sequence[str], cell: int) -> tuple[str, str]:
    """Two lines that name the columns: bus above slot, else numbers in order.

    Args:
        names: of the cards.
        cell: cells of one card.
    """
    found = [_BUS.match(name) for name in names]
    parts = [(one[1], one[2]) for one in found if one is not None]
    gap = 1 if cell > 1 else 0
    if len(parts) == len(names) and all(len(slot) <= cell - gap for _, slot in parts):
        above = ""
        for bus, group in groupby(parts, key=lambda part: part[0]):
            room = cell * len(list(group))
            if len(bus) > room - 1:
                break
            above += _label(bus, room, cell)
        else:
            return f" {above}", " " + "".join(_label(slot, cell, cell) for _, slot in parts)
    fits = len(str(len(names))) <= cell - gap
    numbers = (str(n) if fits else str(n % 10) for n in range(1, len(names) + 1))
    return "", " " + "".join(_label(number, cell, cell) for number in numbers)


def _label(text: str, room: int, cell: int) -> str:
    """A name over its cells: over the number of the first one, where it shows one."""
    return fit(text.rjust(cell - 1) if cell >= NUMBERED else text, room)


def heading(fabric: Fabric, look: Look, width: int, context: RenderContext) -> Strip:
    """The buses above the columns, that of the card under the cursor marked."""
    cell = cell_width(fabric, width)
    names = fabric.rails.names
    above, _ = labels(names, cell)
    lead = fit("bus, slot " if above.strip() else "", first_card(fabric) - 1, "right")
    if look.column is None or look.column >= len(names):
        return line([(lead, context.palette.muted), (above, context.palette.muted)], width)
    name = names[look.column]
    if not above:
        # Numbers stand below: the name of the one under the cursor tells which card it is.
        start = min(look.column * cell + 1, max(1, len(names) * cell - len(name)))
        return line(
            [(lead + " " * start, context.palette.muted), (name, context.palette.key)], width
        )
    bus = _BUS.match(name)
    label = bus[1] if bus else ""
    first = next(i for i, one in enumerate(names) if (m := _BUS.match(one)) and m[1] == label)
    start = above.index(label, first * cell)
    return line(
        [
            (lead + above[:start], context.palette.muted),
            (label, context.palette.key),
            (above[start + len(label) :], context.palette.muted),
        ],
        width,
    )


def footing(fabric: Fabric, look: Look, width: int, context: RenderContext) -> list[Strip]:
    """The medians of the rails, and what the colours stand for."""
    shown: Layout[CardRow] = layout(columns(fabric, width), width)
    return [
        row(shown, of_rails(fabric, look), width, context, cursor=False),
        legend(fabric, look, width, context),
    ]


def legend(fabric: Fabric, look: Look, width: int, context: RenderContext) -> Strip:
    """The scale of colours and the signs."""
    palette, glyphs = context.palette, context.glyphs
    if np.isnan(look.layer.values(fabric)).all():
        return line([(f"  {_why(fabric, look)}", palette.muted)], width)
    low, high = look.layer.ends(fabric, look.top)
    swatch: list[Part] = [(glyphs.cell, palette.levels[step]) for step in range(0, LEVELS, STEP)]
    scale: list[Part] = [
        (f"  {low} ", palette.muted), *runs(swatch), (f" {high}", palette.muted),
    ]  # fmt: skip
    signs: list[Part] = [
        (glyphs.severities[Severity.CRITICAL], palette.critical), (" ", palette.muted),
        (glyphs.severities[Severity.WARNING], palette.warning), (" needs attention", palette.muted),
    ]  # fmt: skip
    limit: list[Part] = []
    if look.layer.quantity == efa.RETRANSMIT:
        text = units.percent(fabric.view_model.limits.retransmits)
        limit = [(f"limit {text}", palette.muted)]
    absent: list[Part] = [(f"{glyphs.absent} not known", palette.faint)]
    return flow(
        [(100, scale), (80, limit), (60, signs), (40, absent)], width, ("   ", palette.faint)
    )


def _why(fabric: Fabric, look: Look) -> str:
    """Why nothing is known of any card."""
    node = next((node for node in fabric.rails.nodes if node.inventory.of(Entity.EFA)), None)
    if node is None:
        first = next(iter(fabric.rails.nodes), None)
        why = "" if first is None else f": {first.frame.why_absent(efa.TX)}"
        return f"no EFA devices known{why}"
    if look.layer.quantity.startswith("link_"):
        return "no link was probed; m switches to the devices' own counters"
    if not node.frame.columns.keys() & {efa.TX, efa.COUNTER} and fabric.view_model.behind:
        return "EFA device history is not kept for this many nodes"
    return f"nothing known: {node.frame.why_absent(look.layer.quantity)}"


def _name(one: CardRow, width: int, context: RenderContext) -> list[Part]:
    calm = one.state in (State.FRESH, State.ENDED)
    if one.severity is not None:
        sign, style = (
            context.glyphs.severities[one.severity],
            context.palette.severity(one.severity),
        )
    elif one.sign:
        sign, style = one.sign, context.palette.muted
    else:
        sign = " " if calm else context.glyphs.states[one.state]
        style = context.palette.text if calm else context.palette.state(one.state)
    return [(f"{sign} ", style), (fit(one.name, width - 2), style)]


def _cards(cell: int, one: CardRow, width: int, context: RenderContext, /) -> list[Part]:
    """All cards of a node; brackets stand round the one under the cursor."""
    brackets = {} if one.cursor is None or cell == 1 else {one.cursor: "[", one.cursor + 1: "]"}
    parts: list[Part] = [(brackets.get(0, " "), context.palette.key)]
    for column in range(len(one.values)):
        text, style = _cell(one, column, max(1, cell - 1), context)
        bracket = brackets.get(column + 1, "")
        # A gap takes the colour of what stands before it: fewer changes, fewer bytes.
        parts.append((text if bracket or cell == 1 else f"{text} ", style))
        parts.append((bracket, context.palette.key))
    parts = [part for part in parts if part[0]]
    used = sum(len(text) for text, _ in parts)
    return [*runs(parts), (" " * (width - used), context.palette.faint)]


def _cell(one: CardRow, column: int, size: int, context: RenderContext) -> Part:
    """A card: its colour, its number where there is room, or the sign that it needs attention."""
    palette, glyphs, value = context.palette, context.glyphs, one.values[column]
    text = (one.texts[column] or units.ABSENT) if size >= NUMBERED - 1 else ""
    if size < WIDEST_CELL - 1 and len(text) == size and text[:2].isdigit():
        text = f"{float(text):.0f}"  # as those are that need a sign; the card's panel has the rest
    if column not in one.there:
        return " " * size, palette.faint
    if (severity := one.marks.get(column)) is not None:
        sign = glyphs.severities[severity]
        if len(text) >= size and text[:1].isdigit():
            text = f"{float(text):.1f}"
        shown = fit(f"{sign}{text}", size, "right") if text else sign * size
        return shown, palette.severity(severity)
    if value != value:
        shown = fit(glyphs.absent, size, "right") if text else glyphs.absent.center(size)
        return shown, palette.faint
    level = level_of(one.levels[column]) // STEP * STEP
    if text:
        return fit(text, size, "right"), palette.cells[level]
    style = palette.levels[level]
    reverse = size == 1 and one.cursor == column
    return glyphs.cell * size, style + Style(reverse=True) if reverse else style


def _rate(
    which: str, quantity: str, one: CardRow, width: int, context: RenderContext, /
) -> list[Part]:
    value: float | None = getattr(one, which)
    return context.number(units.gigabits(value, unit=False), quantity, width)


def _resent(one: CardRow, width: int, context: RenderContext) -> list[Part]:
    number = context.number(bare(units.percent(one.resent)), RETRANSMIT, width)
    if one.blamed is not None and one.resent is not None:
        number[0] = (number[0][0], context.palette.severity(one.blamed))
    return number


def _note(one: CardRow, width: int, context: RenderContext) -> list[Part]:
    if not one.note:
        return [(" " * width, context.palette.text)]
    if one.severity is None:
        return [(fit(one.note, width), context.palette.muted)]
    text = f"{context.glyphs.severities[one.severity]} {one.note}"
    return [(fit(text, width), context.palette.severity(one.severity))]
