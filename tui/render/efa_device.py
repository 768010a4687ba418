"""One EFA device: its health, traffic, location and counters."""

from collections.abc import Sequence

import numpy as np
from rich.style import Style
from textual.strip import Strip

from trntop.analysis.runbook import kind_name
from trntop.catalog import CATALOG, Entity
from trntop.catalog.efa import ERROR_KINDS
from trntop.core import units
from trntop.core.model import Incident, NodeView, Severity

from . import efa, glyphs, links
from .context import RenderContext
from .fabric import Fabric
from .graph import bar
from .incidents import seconds_open
from .line import Part, fit, flow, length, line, side_by_side, wrapped

LABEL = 9
BAR = 12
COUNTERS = {
    "tx_bytes": "bytes sent",
    "rx_bytes": "bytes received",
    "tx_pkts": "packets sent",
    "retrans_pkts": "retransmitted",
    **ERROR_KINDS,
    "rdma_read_bytes": "RDMA bytes read",
    "rdma_write_bytes": "RDMA bytes written",
    "send_bytes": "bytes of sends",
    "cmds_err": "admin commands failed",
    "no_completion_cmds": "admin commands stuck",
}
"""The counters of the driver, in the words of incidents."""
WIDE, GUTTER = 100, 4
"""Width from which the counters are next to the facts."""
ERRORS = frozenset({*ERROR_KINDS, "no_completion_cmds"})


def draw(
    fabric: Fabric, node: NodeView, place: int | None, width: int, context: RenderContext
) -> list[Strip]:
    """Everything about the device at index `place` of a node."""
    names = node.inventory.of(Entity.EFA)
    if place is None:
        text = "this node has no EFA device of that name"
        if not names:
            text = f"no EFA devices known: {node.frame.why_absent(efa.TX)}"
        return wrapped(text, width, context.palette.muted)
    name, page = str(names[place]), (width - GUTTER) // 2 if width >= WIDE else width
    facts = [
        *_health(fabric, node, place, name, page, context),
        *_traffic(fabric, node, place, name, page, context),
        *_location(node, name, page, context),
    ]
    counters = _counters(fabric, node, place, page, context)
    if page == width:
        return facts + counters
    return side_by_side(((facts, page), (counters, page)), GUTTER)


def incident_of(fabric: Fabric, node: str, device: str) -> Incident | None:
    """The open incident of the device, else of one of its links."""
    found = fabric.view_model.by_node.get(node, ())
    named = next((i for i in found if i.component == f"efa:{device}"), None)
    if named is not None:
        return named
    of_links = map(fabric.link_incidents.get, fabric.links.of_device(node, device))
    return next(filter(None, of_links), None)


def _health(
    fabric: Fabric, node: NodeView, place: int, name: str, width: int, context: RenderContext
) -> list[Strip]:
    palette, view_model = context.palette, fabric.view_model
    incident = incident_of(fabric, node.name, name)
    severity = Severity.WARNING
    if incident is not None:
        severity = incident.severity
        since = units.clock(incident.opened_at, utc=view_model.utc)
        duration = units.span(seconds_open(incident, view_model.view.time))
        # The alert line has the summary; the evidence is shorter.
        evidence = incident.evidence[0].text if incident.evidence else incident.summary
        text = f"{kind_name(incident.kind)} since {since}, for {duration}: {evidence}"
    elif place in node.lost_efa_devices:
        severity, text = Severity.CRITICAL, "lost: listed, but its counters cannot be read"
    elif state := efa.link_state(node, name):
        text = f"link not up: {state}"
    elif place in efa.outliers(node, view_model.limits.retransmits):
        text = "retransmits far more than its peers; no incident yet"
    elif (slow := fabric.slow_devices.get((node.name, name))) is not None:
        severity, text = slow, _slow_link(fabric, node.name, name)
    elif node.frame.at(efa.TX, place) is None:
        return wrapped(f"traffic unknown: {node.frame.why_absent(efa.TX)}", width, palette.muted)
    else:
        return [line([(f"{glyphs.CALM} ", palette.ok), ("healthy", palette.muted)], width)]
    style = palette.severity(severity)
    return wrapped(text, width, style, [(f"{glyphs.SEVERITIES[severity]} ", style)])


def _slow_link(fabric: Fabric, node: str, device: str) -> str:
    """`link to trn-003 takes 3.4× the median; no incident yet`."""
    slow = [p for p in fabric.links.of_device(node, device) if p in fabric.slow_links]
    slowest = max(slow, key=lambda probe: probe.seconds)
    peer = slowest.other_end(node)
    others = f", {len(slow) - 1} more are slow too" if len(slow) > 1 else ""
    times = f"{slowest.seconds / fabric.links.median:.1f}×"
    known = fabric.view_model.by_node.get(peer)
    why = f"{peer} has {kind_name(known[0].kind)}" if known else "no incident yet"
    return f"link to {peer} takes {times} the median of all{others}; {why}"


def _label(text: str, context: RenderContext) -> Part:
    return f"{text:<{LABEL}}", context.palette.muted


def _right(
    text: str, quantity: str, width: int, context: RenderContext, style: Style | None = None
) -> list[Part]:
    """A number with its unit and mark, right-aligned."""
    parts = context.number(text, quantity, style=style)
    return [(" " * max(0, width - length(parts)), context.palette.text), *parts]


def _traffic(
    fabric: Fabric, node: NodeView, place: int, name: str, width: int, context: RenderContext
) -> list[Strip]:
    """The share of its peers, retransmits; both directions; latency."""
    palette, frame, limits = context.palette, node.frame, fabric.view_model.limits
    rate, gap = frame.at(efa.LINE_RATE, place), ("  ", palette.faint)
    lines = []
    severity = efa.severities(fabric.view_model, node).get(place)
    share = frame.at(efa.PEERS, place)
    # Low traffic alone is normal: many jobs use the devices unevenly.
    low = severity is not None and share is not None and share < limits.card_traffic
    style = palette.severity(severity) if low else None
    peers = context.number(units.percent(share), efa.PEERS, style=style)
    of_peers = (" of the traffic of its peers", palette.muted)
    lines.append(line([_label("carries", context), *peers, of_peers], width))
    retransmits = frame.at(efa.RETRANSMIT, place)
    above = retransmits is not None and retransmits > limits.retransmits
    style = palette.severity(severity or Severity.WARNING) if above else None
    number = context.number(units.percent(retransmits), efa.RETRANSMIT, style=style)
    limit = (f" limit {units.percent(limits.retransmits)}", palette.faint)
    lines.append(line([_label("retx", context), *number, limit], width))
    for label, quantity in (("tx", efa.TX), ("rx", efa.RX)):
        value = frame.at(quantity, place)
        share = None if value is None or not rate else value / rate
        text = "" if share is None else f"{units.percent(share)} of {units.gigabits(rate)}"
        busiest = bar(_of_busiest(node, quantity, value), BAR, palette.graph, palette.rule)
        groups: list[tuple[int, Sequence[Part]]] = [
            (100, [_label(label, context), *_right(units.gigabits(value), quantity, 11, context)]),
            (80, [*busiest, (" of the busiest", palette.muted)]),
            (60, [(text, palette.muted)] if text else []),
        ]
        lines.append(flow(groups, width, gap))
    if found := fabric.links.of_device(node.name, name):
        lines.append(flow(_latency(fabric, node, found, context), width, gap))
    return lines


def _of_busiest(node: NodeView, quantity: str, value: float | None) -> float | None:
    """The share of the largest value on the node."""
    column = node.frame.columns.get(quantity)
    most = 0.0 if column is None or np.isnan(column).all() else float(np.nanmax(column))
    return value / most if value is not None and most else None


def _latency(
    fabric: Fabric, node: NodeView, found: list[links.Probe], context: RenderContext
) -> list[tuple[int, list[Part]]]:
    """The median and the slowest link, and their age."""
    palette = context.palette
    slowest = max(found, key=lambda probe: probe.seconds)
    median = units.seconds(links.median(probe.seconds for probe in found))
    newest = units.age(fabric.view_model.view.time - max(probe.time for probe in found))
    return [
        (100, [_label("latency", context), *context.number(median, links.LATENCY)]),
        (70, [(f"median of {len(found)}", palette.muted)]),
        (90, [("slowest ", palette.muted), (units.seconds(slowest.seconds), palette.text),
              (f" {slowest.other_end(node.name)}", palette.muted)]),
        (50, [(f"newest {newest} ago", palette.muted)]),
    ]  # fmt: skip


def _location(node: NodeView, name: str, width: int, context: RenderContext) -> list[Strip]:
    """The Neuron devices nearby, and where the device is."""
    palette, facts = context.palette, node.inventory.efa_links.get(name, {})
    gap: Part = (" · ", palette.faint)
    lines = []
    near = efa.near_devices(node).get(name, ([], []))
    for neuron, where in zip(near, ("PCI bus", "NUMA node"), strict=True):
        if neuron:
            owners, cores = node.inventory.core_device.tolist(), node.inventory.of(Entity.CORE)
            found = [int(c) for c, owner in zip(cores, owners, strict=True) if owner in neuron]
            which = f"device{'s' * (len(neuron) > 1)} {units.ranges(neuron)}"
            groups: list[tuple[int, list[Part]]] = [
                (100, [_label("near", context), (which, palette.text)]),
                (90, [(f"cores {units.ranges(found)}", palette.text)] if found else []),
                (50, [(f"on its {where}", palette.muted)]),
            ]
            lines.append(flow(groups, width, gap))
    known = [
        (rank, [(f"{label}{facts[key]}", palette.muted)])
        for rank, label, key in (
            (90, "PCI ", "pci"), (80, "NUMA node ", "numa_node"), (70, "driver ", "driver"),
            (60, "port ", "state"), (50, "peer memory ", "p2p"),
        )
        if facts.get(key)
    ]  # fmt: skip
    if known:
        known[0][1].insert(0, _label("location", context))
        lines.append(flow(known, width, gap))
    return lines


def _counters(
    fabric: Fabric, node: NodeView, place: int, width: int, context: RenderContext
) -> list[Strip]:
    """A line per counter above 0; then the counters at 0, and the unknown ones."""
    palette, frame = context.palette, node.frame
    severity = efa.severities(fabric.view_model, node).get(place, Severity.WARNING)
    rows: list[Strip] = []
    zero: list[str] = []
    unknown: list[str] = []
    for name, words in COUNTERS.items():
        total = frame.at(f"efa_{name}_total", place)
        if not total:
            (unknown if total is None else zero).append(words)
            continue
        in_bytes, quantity = name.endswith("_bytes"), f"efa_{name}_per_second"
        rate = frame.at(quantity, place) if quantity in CATALOG else None
        wrong = name in ERRORS and bool(rate)
        style = palette.severity(severity) if wrong else palette.text
        parts: list[Part] = [(fit(words, 22), style if wrong else palette.muted)]
        if quantity in CATALOG:
            shown = units.bytes_rate(rate) if in_bytes else units.si(rate)
            parts += _right(shown, quantity, 14, context, style)
        else:
            parts.append((" " * 14, palette.text))
        text = units.bytes_iec(total) if in_bytes else units.si(total)
        rows.append(line([*parts, (f" {text:>11}", palette.text)], width))
    title = f"{'':<22}{'per second':>14} {'total':>11}"
    lines = [line([(title, palette.muted)], width), *rows] if rows else []
    if zero:
        lines += wrapped(f"zero: {', '.join(zero)}", width, palette.muted)
    if unknown and rows:
        text = f"{units.ABSENT} not reported: {', '.join(unknown)}"
        lines += wrapped(text, width, palette.muted)
    return lines
