"""The EFA devices and links of one tick, and the two lines of their totals."""

from collections import Counter
from functools import cached_property

import numpy as np
from textual.strip import Strip

from trntop.catalog import EFA_SOURCE
from trntop.core import units
from trntop.core.model import Incident, Severity, State

from ..measures import RECEIVE, TRANSMIT
from ..view_model import ViewModel
from . import efa, glyphs, links, prometheus, rails
from .context import RenderContext
from .line import Part, flow

LINE_RATE = "node_efa_link_bytes_per_second"
SHARE = "node_efa_tx_share_ratio"
DEVICES, EXPECTED = "node_efa_cards", "node_efa_cards_expected"
EVEN = 0.1
"""Deviation up to which rails are balanced: a reading catches each device at another moment."""


class Fabric:
    """The EFA devices and links of one tick; values are computed when first used."""

    def __init__(self, view_model: ViewModel) -> None:
        self.view_model = view_model
        self.rails = rails.Rails(tuple(view_model.cluster.nodes.values()))
        self.links = links.Links(view_model.cluster)

    @cached_property
    def latency(self) -> rails.Table:
        """The latency of the slowest link of each device in seconds, `[node, rail]`."""
        table = np.full((len(self.rails.nodes), len(self.rails.names)), np.nan)
        columns = {name: column for column, name in enumerate(self.rails.names)}
        for (node, device), seconds in self.links.slowest_by_device().items():
            if device in columns and node in self.rails.row_of:
                table[self.rails.row_of[node], columns[device]] = seconds
        return table

    @cached_property
    def link_incidents(self) -> dict[links.Probe, Incident]:
        """The links of open incidents, which name a link, a device or a node."""
        found: dict[links.Probe, Incident] = {}
        for incident in reversed(self.view_model.incidents):
            if incident.kind != "latency_regression" or incident.node is None:
                continue
            for probe in self.links.probes:
                ends = (
                    (probe.node, probe.peer, probe.device),
                    (probe.peer, probe.node, probe.peer_device),
                )
                if any(
                    node == incident.node
                    and incident.component in (None, f"link:{peer}", f"efa:{device}")
                    for node, peer, device in ends
                ):
                    found[probe] = incident
        return found

    @cached_property
    def slow_links(self) -> dict[links.Probe, Severity]:
        """Severity of slow links: of their incident; a warning where no incident is open yet."""
        check = self.view_model.check
        found = {
            probe: Severity.WARNING
            for probe in self.links.probes
            if self.links.is_slow(probe.seconds, check)
        }
        return found | {probe: i.severity for probe, i in self.link_incidents.items()}

    @cached_property
    def slow_devices(self) -> dict[tuple[str, str], Severity]:
        """Node and device → severity of its slowest link."""
        found: dict[tuple[str, str], Severity] = {}
        for probe, severity in sorted(self.slow_links.items(), key=lambda entry: entry[1].rank):
            for end in ((probe.node, probe.device), (probe.peer, probe.peer_device)):
                found[end] = severity
        return found

    @cached_property
    def slow_nodes(self) -> dict[str, int]:
        """Node → rank of the severity of its slowest link."""
        found: dict[str, int] = {}
        for (node, _), severity in self.slow_devices.items():
            found[node] = max(severity.rank, found.get(node, -1))
        return found


def totals(fabric: Fabric, width: int, context: RenderContext) -> list[Strip]:
    """Two lines: the traffic of all devices, and their health."""
    gap: Part = ("   ", context.palette.faint)
    scope = prometheus.partial(fabric.view_model)
    lead = [(98, [(f" {scope}", context.palette.muted)])] if scope else []
    return [
        flow([*lead, *((rank, parts) for rank, parts in groups if parts)], width, gap)
        for groups in (_traffic(fabric, context), _health(fabric, context))
    ]


def _total(fabric: Fabric, quantity: str) -> float | None:
    return fabric.view_model.cluster.over_nodes(quantity, np.sum)


def _labelled(label: str, text: str, quantity: str, context: RenderContext) -> list[Part]:
    return [(f"{label} ", context.palette.muted), *context.number(text, quantity)]


def _traffic(fabric: Fabric, context: RenderContext) -> list[tuple[int, list[Part]]]:
    sent, line = _total(fabric, TRANSMIT), _total(fabric, LINE_RATE)
    share: list[Part] = []
    if sent is not None and line:
        share = [
            *context.number(units.percent(sent / line), SHARE),
            (" of line rate", context.palette.muted),
        ]
    received = units.gigabits(_total(fabric, RECEIVE))
    return [
        (100, _labelled(" tx", units.gigabits(sent), TRANSMIT, context)),
        (70, share),
        (90, _labelled("rx", received, RECEIVE, context)),
        (95, _most_retransmits(fabric, context)),
    ]


def _most_retransmits(fabric: Fabric, context: RenderContext) -> list[Part]:
    ratios = fabric.rails.table(efa.RETRANSMIT)
    label = "most retransmits"
    if np.isnan(ratios).all():
        return _labelled(label, units.ABSENT, efa.RETRANSMIT, context)
    row, column = divmod(int(np.nanargmax(ratios)), ratios.shape[1])
    most = float(ratios[row, column])
    parts = _labelled(label, units.percent(most), efa.RETRANSMIT, context)
    if most > fabric.view_model.limits.retransmits:
        node, place = fabric.rails.nodes[row], fabric.rails.device(row, column)
        found = efa.severities(fabric.view_model, node)
        severity = found.get(-1 if place is None else place, Severity.WARNING)
        parts[1] = (parts[1][0], context.palette.severity(severity))
        parts.append((f" {node.name} {fabric.rails.names[column]}", context.palette.text))
    return parts


def _latency(fabric: Fabric, context: RenderContext) -> list[Part]:
    found = fabric.links
    if not found.probes:
        absent = _labelled("latency", units.ABSENT, "", context)
        return [*absent, (" not probed: trntop check", context.palette.faint)]
    parts = _labelled("latency, median", units.seconds(found.median), links.LATENCY, context)
    return [*parts, (f" of {len(found.probes)} links", context.palette.muted)]


def _health(fabric: Fabric, context: RenderContext) -> list[tuple[int, list[Part]]]:
    return [
        (100, [(" ", context.palette.text), *_up(fabric, context)]),
        (80, _drivers(fabric, context)),
        (90, _rails(fabric, context)),
        (85, _silent(fabric, context)),
        (82, _latency(fabric, context)),
    ]


def _up(fabric: Fabric, context: RenderContext) -> list[Part]:
    up, expected = _total(fabric, DEVICES), _total(fabric, EXPECTED)
    if up is None:
        return _labelled("EFA devices", units.ABSENT, "", context)
    fewer = expected is not None and up < expected
    sign = f"{glyphs.SEVERITIES[Severity.WARNING]} " if fewer else ""
    text = f"{sign}{units.count(up)}" + ("" if expected is None else f"/{units.count(expected)}")
    style = context.palette.warning if fewer else context.palette.text
    return [(text, style), (" EFA devices up", context.palette.muted)]


def _drivers(fabric: Fabric, context: RenderContext) -> list[Part]:
    found = Counter(
        driver
        for node in fabric.rails.nodes
        if (driver := next(iter(node.inventory.efa_links.values()), {}).get("driver"))
    )
    if not found:
        return _labelled("driver", units.ABSENT, "", context)
    (common, nodes), *others = found.most_common()
    if others:
        sign = glyphs.SEVERITIES[Severity.WARNING]
        rest = ", ".join(f"{driver} on {count}" for driver, count in others[:2])
        return [(f"{sign} drivers differ: {common} on {nodes}, {rest}", context.palette.warning)]
    palette = context.palette
    where = " on all nodes" if nodes > 1 else ""
    return [("driver ", palette.muted), (common, palette.text), (where, palette.muted)]


def _rails(fabric: Fabric, context: RenderContext) -> list[Part]:
    """The degraded rail, or how balanced the rails are."""
    palette, table = context.palette, fabric.rails.table(efa.PEERS)
    if len(fabric.rails.nodes) < 2 or np.isnan(table).all():
        return []
    limit = fabric.view_model.limits.card_traffic
    means, found = rails.mean(table), rails.degraded(table, limit)
    if found:
        worst = min(found, key=lambda column: means[column])
        more = f" +{len(found) - 1}" if len(found) > 1 else ""
        carries = f"carries {100 * means[worst]:.0f} % of peer traffic"
        return [(f"rail {fabric.rails.names[worst]} {carries}{more}", palette.accent)]
    off = float(np.nanmax(np.abs(means - 1.0)))
    if off > EVEN:
        return [(f"rails uneven, within {100 * off:.0f} %", palette.muted)]
    few = int((table < limit).sum())
    exceptions = f", {few} exception{'s' * (few != 1)}" if few else ""
    return [(f"rails balanced within {100 * off:.0f} %", palette.muted), (exceptions, palette.text)]


def _silent(fabric: Fabric, context: RenderContext) -> list[Part]:
    """Nodes without EFA data."""
    found = Counter(
        source.state
        for node in fabric.rails.nodes
        for source in node.frame.sources
        if source.name == EFA_SOURCE and source.state in (State.STALE, State.DOWN)
    )
    return [
        (f"{glyphs.STATES[state]} {count} {state.value} ", context.palette.state(state))
        for state, count in found.items()
    ]
