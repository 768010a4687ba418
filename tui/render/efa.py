"""EFA cards of a node, with the one that differs from its siblings marked."""

import re

import numpy as np
from textual.strip import Strip

from trntop import units
from trntop.catalog import Entity
from trntop.model import NodeView, Severity

from ..scene import Scene
from .devices import at
from .graph import bar
from .line import Part, fit, line
from .pen import Pen, bare

OUTLIER_RATIO = 1e-3
"""A card below this share of retransmitted packets is never marked."""
OUTLIER_FACTOR = 10.0
"""How far above the median of its siblings a card's retransmits must be to be marked."""

TX = "efa_tx_bytes_per_second"
RX = "efa_rx_bytes_per_second"
LINK = "efa_link_bytes_per_second"
RETRANSMIT = "efa_retransmit_ratio"


def outliers(node: NodeView) -> frozenset[int]:
    """Indices of cards that retransmit far more than their siblings."""
    column = node.frame.columns.get(RETRANSMIT)
    if column is None or np.isnan(column).all():
        return frozenset()
    typical = float(np.nanmedian(column))
    limit = max(OUTLIER_RATIO, OUTLIER_FACTOR * typical)
    return frozenset(np.flatnonzero(column > limit).tolist())


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key by which `rdmap16s27` comes before `rdmap112s27`."""
    return tuple(
        (int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)
    )


def draw(scene: Scene, node: NodeView, width: int, pen: Pen) -> list[Strip]:
    """A header, then a line per card."""
    ink, frame = pen.ink, node.frame
    cards = node.inventory.of(Entity.EFA)
    if not cards:
        return [line([(f"no EFA cards known: {frame.why_absent(TX)}", ink.muted)], width)]
    name = min(14, max(len(str(card)) for card in cards))
    numa = width >= 58
    cells = max(0, min(20, width - name - 32 - (6 if numa else 0)))
    link = at(frame, LINK, 0)
    of = f" of {units.gigabits(link)}" if link is not None else " Gb/s"
    title: list[Part] = [
        (fit("  card", name + 2), ink.muted),
        (fit("tx", 7, "right"), ink.muted),
        (fit(of, cells + 1) if cells >= 4 else " " * (cells + 1), ink.muted),
        (fit("rx", 6, "right"), ink.muted),
        (fit("retx %", 12, "right"), ink.muted),
        (fit("numa", 7, "right") if numa else "", ink.muted),
    ]
    named = {
        incident.component.removeprefix("efa:"): incident.severity
        for incident in reversed(scene.by_node.get(node.name, ()))
        if incident.component and incident.component.startswith("efa:")
    }
    odd = outliers(node)
    lines = [line(title, width)]
    for index in sorted(range(len(cards)), key=lambda place: natural(str(cards[place]))):
        card = cards[index]
        severity = named.get(str(card), Severity.WARNING if index in odd else None)
        sign = pen.glyphs.severities[severity] if severity else " "
        style = ink.severity(severity) if severity else ink.text
        tx, rate = at(frame, TX, index), at(frame, LINK, index)
        parts: list[Part] = [(f"{sign} ", style), (fit(str(card), name), style)]
        parts += pen.number(bare(units.gigabits(tx)), TX, 7)
        parts.append((" ", ink.text))
        if cells >= 4:
            share = None if tx is None or not rate else tx / rate
            parts += bar(share, cells, pen.glyphs, ink.graph, ink.rule)
        else:
            parts.append((" " * cells, ink.text))
        parts += pen.number(bare(units.gigabits(at(frame, RX, index))), RX, 7)
        number = pen.number(bare(units.percent(at(frame, RETRANSMIT, index))), RETRANSMIT, 11)
        if severity and at(frame, RETRANSMIT, index) is not None:
            number[0] = (number[0][0], style)
        parts += number
        if numa:
            place = node.inventory.efa_links.get(str(card), {}).get("numa_node", units.ABSENT)
            parts.append((fit(place, 7, "right"), ink.muted))
        lines.append(line(parts, width))
    return lines
