"""What the EFA screen draws from, and the lines that sum all cards up."""

from collections import Counter
from functools import cached_property

import numpy as np
from textual.strip import Strip

from trntop.catalog import EFA_SOURCE
from trntop.core import units
from trntop.core.model import Incident, Severity, State

from ..measures import RECEIVE, TRANSMIT
from ..view_model import ViewModel
from . import efa, probed, prometheus, rails
from .context import RenderContext
from .line import Part, flow

LINE = "node_efa_link_bytes_per_second"
SHARE = "node_efa_tx_share_ratio"
CARDS, EXPECTED = "node_efa_cards", "node_efa_cards_expected"
EVEN = 0.1
"""Up to which rails are alike: steps catch each card at another moment."""


class Fabric:
    """The cards and links of one tick. What is computed is computed once.

    Args:
        view_model: the tick.
        before: that of an earlier tick, whose pairs stand until a link is probed anew.
    """

    def __init__(self, view_model: ViewModel, before: "Fabric | None" = None) -> None:
        self.view_model = view_model
        self.rails = rails.Rails(tuple(view_model.cluster.nodes.values()))
        kept: probed.Pairs | None = before.pairs if before is not None else None
        stands = kept is not None and kept.stands(view_model.cluster)
        self.pairs: probed.Pairs = (
            kept if kept and stands else probed.Pairs(view_model.cluster, kept)
        )

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
        for incident in reversed(self.view_model.incidents):
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
        check = self.view_model.check
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


def sums(fabric: Fabric, width: int, context: RenderContext) -> list[Strip]:
    """Two lines: what all cards carry, and whether they are all there and alike."""
    gap: Part = ("   ", context.palette.faint)
    return [
        flow([(rank, parts) for rank, parts in groups if parts], width, gap)
        for groups in (_traffic(fabric, context), _health(fabric, context))
    ]


def _total(fabric: Fabric, quantity: str) -> float | None:
    column = fabric.view_model.cluster.column(quantity)
    known = column[~np.isnan(column)]
    return float(known.sum()) if len(known) else None


def _labelled(label: str, text: str, quantity: str, context: RenderContext) -> list[Part]:
    return [(f"{label} ", context.palette.muted), *context.number(text, quantity)]


def _traffic(fabric: Fabric, context: RenderContext) -> list[tuple[int, list[Part]]]:
    sent, line = _total(fabric, TRANSMIT), _total(fabric, LINE)
    share = sent / line if sent is not None and line else None
    of = [*context.number(units.percent(share), SHARE), (" of line rate", context.palette.muted)]
    of = [] if share is None else of
    scope = prometheus.partial(fabric.view_model)
    return [
        (98, [(f" {scope}", context.palette.muted)] if scope else []),
        (100, _labelled(" tx", units.gigabits(sent), TRANSMIT, context)),
        (70, of),
        (90, _labelled("rx", units.gigabits(_total(fabric, RECEIVE)), RECEIVE, context)),
        (95, _worst(fabric, context)),
        (60, _latency(fabric, context)),
    ]


def _worst(fabric: Fabric, context: RenderContext) -> list[Part]:
    """The card that resends most."""
    ratios = fabric.rails.table(efa.RETRANSMIT)
    label = "most retransmits"
    if np.isnan(ratios).all():
        return _labelled(label, units.ABSENT, efa.RETRANSMIT, context)
    row, column = divmod(int(np.nanargmax(ratios)), ratios.shape[1])
    most = float(ratios[row, column])
    parts = _labelled(label, units.percent(most), efa.RETRANSMIT, context)
    if most <= fabric.view_model.limits.retransmits:
        return parts
    node, place = fabric.rails.nodes[row], fabric.rails.card(row, column)
    assert place is not None
    severity = efa.severities(fabric.view_model, node).get(place, Severity.WARNING)
    where = f" {node.name} {fabric.rails.names[column]}"
    return [
        parts[0],
        (parts[1][0], context.palette.severity(severity)),
        *parts[2:],
        (where, context.palette.text),
    ]


def _rails(fabric: Fabric, context: RenderContext) -> list[Part]:
    """Which rail is lame, or how even they are."""
    palette, table = context.palette, fabric.rails.table(efa.SIBLINGS)
    if len(fabric.rails.nodes) < 2 or np.isnan(table).all():
        return []
    found = rails.lame(table, fabric.view_model.limits.card_traffic)
    means = rails.mean(table)
    if found:
        worst = min(found, key=lambda column: means[column])
        more = f" +{len(found) - 1}" if len(found) > 1 else ""
        carries = f"carries {100 * means[worst]:.0f} % of peer traffic"
        return [(f"rail {fabric.rails.names[worst]} {carries}{more}", palette.accent)]
    off = float(np.nanmax(np.abs(means - 1.0)))
    if off > EVEN:
        return [(f"rails uneven, within {100 * off:.0f} %", palette.muted)]
    even = (f"rails balanced within {100 * off:.0f} %", palette.muted)
    few = int((table < fabric.view_model.limits.card_traffic).sum())
    but = f", {few} exception{'s' * (few != 1)}"
    return [even, (but, palette.text)] if few else [even]


def _health(fabric: Fabric, context: RenderContext) -> list[tuple[int, list[Part]]]:
    scope = prometheus.partial(fabric.view_model)
    return [
        (98, [(f" {scope}", context.palette.muted)] if scope else []),
        (100, [(" ", context.palette.text), *_present(fabric, context)]),
        (80, _drivers(fabric, context)),
        (90, _rails(fabric, context)),
        (85, _silent(fabric, context)),
    ]


def _present(fabric: Fabric, context: RenderContext) -> list[Part]:
    there, expected = _total(fabric, CARDS), _total(fabric, EXPECTED)
    if there is None:
        return _labelled("EFA devices", units.ABSENT, "", context)
    fewer = expected is not None and there < expected
    sign = f"{context.glyphs.severities[Severity.WARNING]} " if fewer else ""
    of = "" if expected is None else f"/{units.count(expected)}"
    style = context.palette.warning if fewer else context.palette.text
    return [(f"{sign}{units.count(there)}{of}", style), (" EFA devices up", context.palette.muted)]


def _drivers(fabric: Fabric, context: RenderContext) -> list[Part]:
    if not fabric.drivers:
        return _labelled("driver", units.ABSENT, "", context)
    (common, nodes), *others = fabric.drivers.most_common()
    if not others:
        where = " on all nodes" if nodes > 1 else ""
        return [
            ("driver ", context.palette.muted),
            (common, context.palette.text),
            (where, context.palette.muted),
        ]
    sign = context.glyphs.severities[Severity.WARNING]
    rest = ", ".join(f"{driver} on {count}" for driver, count in others[:2])
    return [(f"{sign} drivers differ: {common} on {nodes}, {rest}", context.palette.warning)]


def _latency(fabric: Fabric, context: RenderContext) -> list[Part]:
    pairs = fabric.pairs
    if not pairs.probes:
        return [
            *_labelled("latency", units.ABSENT, "", context),
            (" not probed", context.palette.faint),
        ]
    parts = _labelled("latency, median", units.seconds(pairs.typical), probed.LATENCY, context)
    return [*parts, (f" of {len(pairs.probes)} links", context.palette.muted)]


def _silent(fabric: Fabric, context: RenderContext) -> list[Part]:
    """Nodes whose cards nobody reads now."""
    found = Counter(
        source.state
        for node in fabric.rails.nodes
        for source in node.frame.sources
        if source.name == EFA_SOURCE and source.state in (State.STALE, State.DOWN)
    )
    parts: list[Part] = []
    for state, count in found.items():
        text = f"{context.glyphs.states[state]} {count} {state.value} "
        parts.append((text, context.palette.state(state)))
    return parts
