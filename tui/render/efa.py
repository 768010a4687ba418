"""EFA cards of a node, with the one that differs from its siblings marked."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from rich.style import Style
from textual.strip import Strip

from trntop.analysis.detectors.efa import PEER_FACTOR
from trntop.catalog import CATALOG, Entity
from trntop.catalog.efa import ERROR_KINDS, is_up
from trntop.core import units
from trntop.core.model import Frame, Incident, NodeView, Severity

from ..view_model import ViewModel
from .context import RenderContext, bare
from .graph import bar
from .incidents import wrap
from .line import Part, fit, line

TX = "efa_tx_bytes_per_second"
RX = "efa_rx_bytes_per_second"
LINK = "efa_link_bytes_per_second"
RETRANSMIT = "efa_retransmit_ratio"
SIBLINGS = "efa_tx_sibling_ratio"
COUNTER = "efa_tx_bytes_total"
EVENTS = {
    quantity: words
    for kind, words in ERROR_KINDS.items()
    if (quantity := f"efa_{kind}_per_second") in CATALOG
}
"""What should not happen, in the words of incidents."""
NARROWEST_BAR = 4
NEAR = 9
"""Cells of the devices that a card is near to."""
TITLED_BAR = 11
"""From this length on the bar's title says what its full length stands for."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What there is room for: cells of each column, 0 for none."""

    name: int
    bar: int
    siblings: int
    near: int


def outliers(node: NodeView, least: float) -> frozenset[int]:
    """Indices of cards that retransmit far more than their siblings, and a share of `least`."""
    column = node.frame.columns.get(RETRANSMIT)
    if column is None or np.isnan(column).all():
        return frozenset()
    typical = float(np.nanmedian(column))
    return frozenset(np.flatnonzero(column > max(least, PEER_FACTOR * typical)).tolist())


def near_devices(node: NodeView) -> dict[str, tuple[list[int], list[int]]]:
    """Card → the devices on its PCI bus, and those on its NUMA node that have no nearer card."""
    inventory = node.inventory
    found: dict[str, tuple[list[int], list[int]]] = {}
    for device in map(int, inventory.of(Entity.DEVICE)):
        bus = inventory.device_links.get(device, {}).get("pci", "").rpartition(":")[0]
        for card in inventory.near_cards(device):
            on_bus = bool(bus) and inventory.efa_links[card].get("pci", "").startswith(f"{bus}:")
            found.setdefault(card, ([], []))[not on_bus].append(device)
    return found


def draw(view_model: ViewModel, node: NodeView, width: int, context: RenderContext) -> list[Strip]:
    """A header and a line per card; below, how many are missing and what else is wrong."""
    palette, frame = context.palette, node.frame
    cards = node.inventory.of(Entity.EFA)
    if not cards:
        reason = wrap(f"no EFA devices known: {frame.why_absent(TX)}", width)
        return [line([(part, palette.muted)], width) for part in reason]
    plan = _plan([str(card) for card in cards], width)
    found = severities(view_model, node)
    gone, near = node.lost_cards, near_devices(node)
    lines = [_title(frame, plan, width, context)]
    for index in sorted(range(len(cards)), key=lambda place: units.natural(str(cards[place]))):
        card, severity = str(cards[index]), found.get(index)
        sign = context.glyphs.severities[severity] if severity else " "
        style = palette.severity(severity) if severity else palette.text
        parts: list[Part] = [(f"{sign} ", style), (fit(card, plan.name), style)]
        if index in gone:
            lines.append(line([*parts, ("   lost", style)], width))
            continue
        tx, rate = frame.at(TX, index), frame.at(LINK, index)
        parts += context.number(bare(units.gigabits(tx)), TX, 7)
        parts.append((" ", palette.text))
        if plan.bar:
            share = None if tx is None or not rate else tx / rate
            parts += bar(share, plan.bar, context.glyphs, palette.graph, palette.rule)
        parts += context.number(bare(units.gigabits(frame.at(RX, index))), RX, 7)
        if plan.siblings:
            share = frame.at(SIBLINGS, index)
            number = context.number(_whole_percent(share), SIBLINGS, plan.siblings)
            lame = share is not None and share < view_model.limits.card_traffic
            parts += _stressed(number, style, when=severity is not None and lame)
        resent = frame.at(RETRANSMIT, index)
        number = context.number(bare(units.percent(resent)), RETRANSMIT, 7)
        parts += _stressed(number, style, when=severity is not None and resent is not None)
        if plan.near:
            on_bus, on_node = near.get(card, ([], []))
            devices = units.ranges(on_bus or on_node) or units.ABSENT
            parts.append((fit(devices, plan.near, "right"), palette.muted))
        lines.append(line(parts, width))
    for severity, note in [*_fewer(node), *_notes(view_model, node, found)]:
        sign, style = context.glyphs.severities[severity], palette.severity(severity)
        lines += [
            line([(f"{sign} " if row == 0 else "  ", style), (part, style)], width)
            for row, part in enumerate(wrap(note, width - 2))
        ]
    return lines


def _plan(names: list[str], width: int) -> _Plan:
    """Spends the width on the most telling first."""
    name = min(14, max(map(len, names)))
    rest = width - (2 + name + 8 + 7 + 7)
    siblings = 7 if rest >= 7 else 0
    near = NEAR if rest - siblings >= NEAR + TITLED_BAR else 0
    bar = min(20, rest - siblings - near)
    return _Plan(name, bar if bar >= NARROWEST_BAR else 0, siblings, near)


def _title(frame: Frame, plan: _Plan, width: int, context: RenderContext) -> Strip:
    link = frame.at(LINK, 0)
    whole = f" of {units.gigabits(link)}" if link is not None and plan.bar >= TITLED_BAR else ""
    parts = [
        fit("  device", plan.name + 2),
        fit("tx" if whole else "tx Gb/s", 7, "right"),
        fit(whole, plan.bar + 1),
        fit("rx", 6, "right") + " ",
        fit("peer %", plan.siblings, "right") if plan.siblings else "",
        fit("retx %", 7, "right"),
        fit("near dev", plan.near, "right") if plan.near else "",
    ]
    return line([("".join(parts), context.palette.muted)], width)


def severities(view_model: ViewModel, node: NodeView) -> dict[int, Severity]:
    """Card → how bad it is: by its incident, else by what sets it apart from its siblings.

    That a card carries less than others says nothing by itself: many jobs use cards unevenly.
    """
    found = dict.fromkeys(outliers(node, view_model.limits.retransmits), Severity.WARNING)
    found |= dict.fromkeys(node.lost_cards, Severity.CRITICAL)
    return found | {place: one.severity for place, one in incidents(view_model, node).items()}


def incidents(view_model: ViewModel, node: NodeView) -> dict[int, Incident]:
    """Card → the worst open incident that names it."""
    places = {f"efa:{card}": place for place, card in enumerate(node.inventory.of(Entity.EFA))}
    return {
        places[one.component]: one
        for one in reversed(view_model.by_node.get(node.name, ()))
        if one.component in places
    }


def _stressed(number: list[Part], style: Style, *, when: bool) -> list[Part]:
    return [(number[0][0], style), *number[1:]] if when else number


def _whole_percent(share: float | None) -> str:
    return units.ABSENT if share is None else f"{100 * share:.0f}"


def _fewer(node: NodeView) -> list[tuple[Severity, str]]:
    cards, expected = map(node.frame.value, ("node_efa_cards", "node_efa_cards_expected"))
    if cards is None or expected is None or cards >= expected:
        return []
    return [(Severity.WARNING, f"{cards:.0f}/{expected:.0f} EFA devices up")]


def _notes(
    view_model: ViewModel, node: NodeView, severities: Mapping[int, Severity]
) -> list[tuple[Severity, str]]:
    """What should not happen and does, and links that are not up: a note per card.

    Of a card that an incident names it says what the incident saw, which spans more than a tick:
    two numbers for one thing would be one too many.
    """
    notes, named = [], incidents(view_model, node)
    for index, card in enumerate(node.inventory.of(Entity.EFA)):
        one = named.get(index)
        found = _seen(one, node) if one is not None else []
        if found := found or _events(node, index, str(card)):
            severity = severities.get(index, Severity.WARNING)
            notes.append((severity, f"{card}: {', '.join(found)}"))
    return notes


def _seen(incident: Incident, node: NodeView) -> list[str]:
    """What an incident saw of its card that is no quantity, as columns show those."""
    return [one.text for one in incident.evidence if one.node == node.name and one.quantity is None]


def _events(node: NodeView, index: int, card: str) -> list[str]:
    found = [
        f"{rate:.2g} {what}/s"
        for quantity, what in EVENTS.items()
        if (rate := node.frame.at(quantity, index))
    ]
    state = node.inventory.efa_links.get(card, {}).get("state")
    return found if is_up(state) else [f"link {state}", *found]
