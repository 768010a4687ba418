"""The EFA devices of a node; a device that deviates from its peers is marked."""

from collections.abc import Mapping

import numpy as np
from textual.strip import Strip

from trntop.analysis.detectors.efa import PEER_FACTOR
from trntop.catalog import CATALOG, Entity
from trntop.catalog.efa import ERROR_KINDS, is_up
from trntop.core import units
from trntop.core.model import Incident, NodeView, Severity

from ..measures import GIGABIT
from ..view_model import ViewModel
from . import glyphs
from .context import RenderContext, mark
from .fleet_map import efa_places
from .graph import bar
from .line import fit, line, wrapped

TX = "efa_tx_bytes_per_second"
RX = "efa_rx_bytes_per_second"
LINE_RATE = "efa_link_bytes_per_second"
RETRANSMIT = "efa_retransmit_ratio"
PEERS = "efa_tx_sibling_ratio"
COUNTER = "efa_tx_bytes_total"
EVENTS = {
    quantity: words
    for kind, words in ERROR_KINDS.items()
    if (quantity := f"efa_{kind}_per_second") in CATALOG
}
"""Errors, in the words of incidents."""
NARROWEST_BAR = 4
TITLED_BAR = 15
"""Width from which the bar has a title."""


def outliers(node: NodeView, least: float) -> frozenset[int]:
    """Devices that retransmit far more than their peers, and more than a share of `least`."""
    column = node.frame.columns.get(RETRANSMIT)
    if column is None or np.isnan(column).all():
        return frozenset()
    typical = float(np.nanmedian(column))
    return frozenset(np.flatnonzero(column > max(least, PEER_FACTOR * typical)).tolist())


def near_devices(node: NodeView) -> dict[str, tuple[list[int], list[int]]]:
    """EFA device → the Neuron devices on its PCI bus, and those on its NUMA node."""
    inventory = node.inventory
    found: dict[str, tuple[list[int], list[int]]] = {}
    for neuron in map(int, inventory.of(Entity.DEVICE)):
        bus = inventory.device_links.get(neuron, {}).get("pci", "").rpartition(":")[0]
        for name in inventory.near_efa_devices(neuron):
            on_bus = bool(bus) and inventory.efa_links[name].get("pci", "").startswith(f"{bus}:")
            found.setdefault(name, ([], []))[not on_bus].append(neuron)
    return found


def link_state(node: NodeView, device: str) -> str:
    """The state of a port that is not up; empty if it is up or unknown."""
    state = node.inventory.efa_links.get(device, {}).get("state")
    return "" if is_up(state) else str(state)


def draw(view_model: ViewModel, node: NodeView, width: int, context: RenderContext) -> list[Strip]:
    """A header and a line per device; below, missing devices and errors."""
    palette, frame = context.palette, node.frame
    names = [str(name) for name in node.inventory.of(Entity.EFA)]
    if not names:
        text = f"no EFA devices known: {frame.why_absent(TX)}"
        return wrapped(text, width, palette.muted)
    found = severities(view_model, node)
    name_cells = min(14, max(map(len, names)))
    rest = width - (2 + name_cells + 9 + 7 + 8 + 2)
    peers = 7 if rest >= 7 else 0
    bar_cells = min(20, rest - peers)
    bar_cells = bar_cells if bar_cells >= NARROWEST_BAR else 0
    sent = frame.columns.get(TX)
    busiest = 0.0 if sent is None or np.isnan(sent).all() else float(np.nanmax(sent))
    titles = [
        fit("  device", name_cells + 2), fit("tx Gb/s", 8, "right"),
        fit(" of the busiest" if bar_cells >= TITLED_BAR else "", bar_cells + 1),
        fit("rx", 7, "right"), fit("peer %", peers, "right"), fit("retx %", 8, "right"),
        f" {mark(TX)}",
    ]  # fmt: skip
    lines = [line([("".join(titles), palette.muted)], width)]
    for index in sorted(range(len(names)), key=lambda place: units.natural_sort_key(names[place])):
        severity = found.get(index)
        style = palette.severity(severity) if severity else palette.text
        parts = context.name(names[index], name_cells + 2, severity)
        if index in node.lost_efa_devices:
            lines.append(line([*parts, ("   lost", style)], width))
            continue
        tx, rx, share, retransmits = (frame.at(q, index) for q in (TX, RX, PEERS, RETRANSMIT))
        parts += context.figure(None if tx is None else tx / GIGABIT, 1, 8)
        parts.append((" ", palette.text))
        if bar_cells:
            level = None if tx is None or not busiest else tx / busiest
            fill = palette.severity(severity) if severity else palette.graph
            parts += bar(level, bar_cells, fill, palette.rule)
        parts += context.figure(None if rx is None else rx / GIGABIT, 1, 7)
        if peers:
            low = share is not None and share < view_model.limits.card_traffic
            shown = None if share is None else 100 * share
            parts += context.figure(shown, 0, peers, style if low else None)
        shown = None if retransmits is None else 100 * retransmits
        parts += context.figure(shown, 1, 8, style)
        lines.append(line(parts, width))
    for severity, note in [*_missing(node), *_errors(view_model, node, found)]:
        sign, style = glyphs.SEVERITIES[severity], palette.severity(severity)
        lines += wrapped(note, width, style, [(f"{sign} ", style)])
    return lines


def severities(view_model: ViewModel, node: NodeView) -> dict[int, Severity]:
    """Device → severity of its incident, else of its deviation from its peers.

    Low traffic alone is normal: many jobs use the devices unevenly.
    """
    found = dict.fromkeys(outliers(node, view_model.limits.retransmits), Severity.WARNING)
    found |= dict.fromkeys(node.lost_efa_devices, Severity.CRITICAL)
    named = incidents(view_model, node)
    return found | {place: incident.severity for place, incident in named.items()}


def incidents(view_model: ViewModel, node: NodeView) -> dict[int, Incident]:
    """Device → its worst open incident."""
    return view_model.by_part(node, efa_places(node))


def _missing(node: NodeView) -> list[tuple[Severity, str]]:
    up, expected = map(node.frame.value, ("node_efa_cards", "node_efa_cards_expected"))
    if up is None or expected is None or up >= expected:
        return []
    return [(Severity.WARNING, f"{up:.0f}/{expected:.0f} EFA devices up")]


def _errors(
    view_model: ViewModel, node: NodeView, severities: Mapping[int, Severity]
) -> list[tuple[Severity, str]]:
    """A note per device with errors, or with a link that is not up.

    For a device with an incident it is the evidence, which covers more than one tick.
    """
    notes, named = [], incidents(view_model, node)
    for index, name in enumerate(map(str, node.inventory.of(Entity.EFA))):
        found = []
        if (incident := named.get(index)) is not None:
            found = [
                evidence.text
                for evidence in incident.evidence
                if evidence.node == node.name and evidence.quantity is None
            ]
        if not found:
            state = link_state(node, name)
            found = [f"link {state}"] if state else []
            found += [
                f"{rate:.2g} {words}/s"
                for quantity, words in EVENTS.items()
                if (rate := node.frame.at(quantity, index))
            ]
        if found:
            severity = severities.get(index, Severity.WARNING)
            notes.append((severity, f"{name}: {', '.join(found)}"))
    return notes
