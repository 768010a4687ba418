"""What the EFA screen draws from, and the lines that sum all cards up."""

from collections import Counter
from functools import cached_property

import numpy as np
from textual.strip import Strip

from trntop.catalog import EFA_SOURCE
from trntop.core import units
from trntop.core.model import Incident, Severity, State

from ..measures import RECEIVE, TRANSMIT
from ..scene import Scene
from . import efa, engine, probed, rails
from .line import Part, flow
from .pen import Pen

LINE = "node_efa_link_bytes_per_second"
SHARE = "node_efa_tx_share_ratio"
CARDS, EXPECTED = "node_efa_cards", "node_efa_cards_expected"
EVEN = 0.1
"""Up to which rails are alike: steps catch each card at another moment."""


class Fabric:
    """The cards and links of one tick. What is computed is computed once.

    Args:
        scene: the tick.
        before: that of an earlier tick, whose pairs stand until a link is probed anew.
    """

    def __init__(self, scene: Scene, before: "Fabric | None" = None) -> None:
        self.scene = scene
        self.rails = rails.Rails(tuple(scene.cluster.nodes.values()))
        kept: probed.Pairs | None = before.pairs if before is not None else None
        stands = kept is not None and kept.stands(scene.cluster)
        self.pairs: probed.Pairs = kept if kept and stands else probed.Pairs(scene.cluster, kept)

    @cached_property
    def shares(self) -> rails.Table:
        """What each card transmits as a share of its line rate, `[node, rail]`."""
        sent, line = self.rails.table(efa.TX), self.rails.table(efa.LINK)
        shares = np.full(sent.shape, np.nan)
        np.divide(sent, line, out=shares, where=line > 0)
        return shares

    @cached_property
    def latency(self) -> rails.Table:
        """The latency of each card's slowest link in seconds, `[node, rail]`."""
        table = np.full((len(self.rails.nodes), len(self.rails.names)), np.nan)
        columns = {name: column for column, name in enumerate(self.rails.names)}
        for (node, card), seconds in self.pairs.by_card().items():
            if card in columns and node in self.rails.row_of:
                table[self.rails.row_of[node], columns[card]] = seconds
        return table

    @cached_property
    def blamed(self) -> dict[probed.Probe, Incident]:
        """The links that open incidents name: by their ends, their card or their node."""
        found: dict[probed.Probe, Incident] = {}
        for incident in reversed(self.scene.incidents):
            if incident.kind != "latency_regression" or incident.node is None:
                continue
            for probe in self.pairs.probes:
                ends = (
                    (probe.node, probe.peer, probe.card),
                    (probe.peer, probe.node, probe.peer_card),
                )
                if any(
                    node == incident.node
                    and incident.component in (None, f"link:{other}", f"efa:{card}")
                    for node, other, card in ends
                ):
                    found[probe] = incident
        return found

    @cached_property
    def graded(self) -> dict[probed.Probe, Severity]:
        """How bad the links are that need a look: by the incident that names them, else beside all
        others.
        """
        check = self.scene.check
        found = {
            probe: severity
            for probe in self.pairs.probes
            if (severity := self.pairs.grade(probe.seconds, check)) is not None
        }
        return found | {probe: incident.severity for probe, incident in self.blamed.items()}

    @cached_property
    def slow_nodes(self) -> dict[str, int]:
        """Node → the rank of the worst of its links that need a look."""
        found: dict[str, int] = {}
        for (node, _), severity in self.slow_cards.items():
            found[node] = max(severity.rank, found.get(node, -1))
        return found

    @cached_property
    def slow_cards(self) -> dict[tuple[str, str], Severity]:
        """Node and card → the worst of its links that need a look."""
        found: dict[tuple[str, str], Severity] = {}
        for probe, severity in sorted(self.graded.items(), key=lambda entry: entry[1].rank):
            for end in ((probe.node, probe.card), (probe.peer, probe.peer_card)):
                found[end] = severity
        return found

    @cached_property
    def drivers(self) -> Counter[str]:
        """EFA driver → nodes that have it."""
        found: Counter[str] = Counter()
        for node in self.rails.nodes:
            link = next(iter(node.inventory.efa_links.values()), {})
            if driver := link.get("driver"):
                found[driver] += 1
        return found


def sums(fabric: Fabric, width: int, pen: Pen) -> list[Strip]:
    """Two lines: what all cards carry, and whether they are all there and alike."""
    gap: Part = ("   ", pen.ink.faint)
    return [
        flow([(rank, parts) for rank, parts in groups if parts], width, gap)
        for groups in (_traffic(fabric, pen), _health(fabric, pen))
    ]


def _total(fabric: Fabric, quantity: str) -> float | None:
    column = fabric.scene.cluster.column(quantity)
    known = column[~np.isnan(column)]
    return float(known.sum()) if len(known) else None


def _labelled(label: str, text: str, quantity: str, pen: Pen) -> list[Part]:
    return [(f"{label} ", pen.ink.muted), *pen.number(text, quantity)]


def _traffic(fabric: Fabric, pen: Pen) -> list[tuple[int, list[Part]]]:
    sent, line = _total(fabric, TRANSMIT), _total(fabric, LINE)
    share = sent / line if sent is not None and line else None
    of = [*pen.number(units.percent(share), SHARE), (" of line rate", pen.ink.muted)]
    of = [] if share is None else of
    scope = engine.partial(fabric.scene)
    return [
        (98, [(f" {scope}", pen.ink.muted)] if scope else []),
        (100, _labelled(" tx", units.gigabits(sent), TRANSMIT, pen)),
        (70, of),
        (90, _labelled("rx", units.gigabits(_total(fabric, RECEIVE)), RECEIVE, pen)),
        (95, _worst(fabric, pen)),
        (60, _latency(fabric, pen)),
    ]


def _worst(fabric: Fabric, pen: Pen) -> list[Part]:
    """The card that resends most."""
    ratios = fabric.rails.table(efa.RETRANSMIT)
    label = "most retransmits"
    if np.isnan(ratios).all():
        return _labelled(label, units.ABSENT, efa.RETRANSMIT, pen)
    row, column = divmod(int(np.nanargmax(ratios)), ratios.shape[1])
    most = float(ratios[row, column])
    parts = _labelled(label, units.percent(most), efa.RETRANSMIT, pen)
    if most <= fabric.scene.limits.retransmits:
        return parts
    node, place = fabric.rails.nodes[row], fabric.rails.card(row, column)
    assert place is not None
    severity = efa.severities(fabric.scene, node).get(place, Severity.WARNING)
    where = f" {node.name} {fabric.rails.names[column]}"
    return [parts[0], (parts[1][0], pen.ink.severity(severity)), *parts[2:], (where, pen.ink.text)]


def _rails(fabric: Fabric, pen: Pen) -> list[Part]:
    """Which rail is lame, or how even they are."""
    ink, table = pen.ink, fabric.rails.table(efa.SIBLINGS)
    if len(fabric.rails.nodes) < 2 or np.isnan(table).all():
        return []
    found = rails.lame(table, fabric.scene.limits.card_traffic)
    means = rails.mean(table)
    if found:
        worst = min(found, key=lambda column: means[column])
        more = f" +{len(found) - 1}" if len(found) > 1 else ""
        carries = f"carries {100 * means[worst]:.0f} % of what its siblings do"
        return [(f"rail {fabric.rails.names[worst]} {carries}{more}", ink.accent)]
    off = float(np.nanmax(np.abs(means - 1.0)))
    if off > EVEN:
        return [(f"rails uneven, within {100 * off:.0f} %", ink.muted)]
    even = (f"rails even, within {100 * off:.0f} %", ink.muted)
    few = int((table < fabric.scene.limits.card_traffic).sum())
    but = f" but for {few} card{'s' * (few != 1)}"
    return [even, (but, ink.text)] if few else [even]


def _health(fabric: Fabric, pen: Pen) -> list[tuple[int, list[Part]]]:
    scope = engine.partial(fabric.scene)
    return [
        (98, [(f" {scope}", pen.ink.muted)] if scope else []),
        (100, [(" ", pen.ink.text), *_present(fabric, pen)]),
        (80, _drivers(fabric, pen)),
        (90, _rails(fabric, pen)),
        (85, _silent(fabric, pen)),
    ]


def _present(fabric: Fabric, pen: Pen) -> list[Part]:
    there, expected = _total(fabric, CARDS), _total(fabric, EXPECTED)
    if there is None:
        return _labelled("cards", units.ABSENT, "", pen)
    fewer = expected is not None and there < expected
    sign = f"{pen.glyphs.severities[Severity.WARNING]} " if fewer else ""
    of = "" if expected is None else f" of {units.count(expected)}"
    style = pen.ink.warning if fewer else pen.ink.text
    return [(f"{sign}{units.count(there)}{of}", style), (" cards answer", pen.ink.muted)]


def _drivers(fabric: Fabric, pen: Pen) -> list[Part]:
    if not fabric.drivers:
        return _labelled("driver", units.ABSENT, "", pen)
    (common, nodes), *others = fabric.drivers.most_common()
    if not others:
        where = " everywhere" if nodes > 1 else ""
        return [("driver ", pen.ink.muted), (common, pen.ink.text), (where, pen.ink.muted)]
    sign = pen.glyphs.severities[Severity.WARNING]
    rest = ", ".join(f"{driver} on {count}" for driver, count in others[:2])
    return [(f"{sign} drivers differ: {common} on {nodes}, {rest}", pen.ink.warning)]


def _latency(fabric: Fabric, pen: Pen) -> list[Part]:
    pairs = fabric.pairs
    if not pairs.probes:
        return [*_labelled("latency", units.ABSENT, "", pen), (" not probed", pen.ink.faint)]
    parts = _labelled("latency, median", units.seconds(pairs.typical), probed.LATENCY, pen)
    return [*parts, (f" of {len(pairs.probes)} links", pen.ink.muted)]


def _silent(fabric: Fabric, pen: Pen) -> list[Part]:
    """Nodes whose cards nobody reads now."""
    found = Counter(
        source.state
        for node in fabric.rails.nodes
        for source in node.frame.sources
        if source.name == EFA_SOURCE and source.state in (State.STALE, State.DOWN)
    )
    parts: list[Part] = []
    for state, count in found.items():
        text = f"{pen.glyphs.states[state]} {count} {state.value} "
        parts.append((text, pen.ink.state(state)))
    return parts
