"""One EFA card: what it carries, what is wrong with it, where it is, all it counts."""

from dataclasses import replace

from textual.strip import Strip

from trntop.analysis.cards import is_up
from trntop.analysis.detectors.efa import ERROR_KINDS
from trntop.catalog import CATALOG, Entity
from trntop.core import units
from trntop.core.model import Frame, Incident, NodeView, Severity

from ..measures import RETRANSMIT, TRANSMIT
from ..scene import Scene
from . import efa, moments, probed, trends
from .fabric import Fabric
from .graph import bar
from .incidents import lasted as lasting
from .incidents import wrap
from .line import Part, fit, flow, length, line
from .pen import Pen

LABEL = 8
BAR = 12
COUNTERS = {
    "tx_bytes": "bytes sent",
    "rx_bytes": "bytes received",
    "tx_pkts": "packets sent",
    "retrans_pkts": "sent again",
    **ERROR_KINDS,
    "rdma_read_bytes": "RDMA bytes read",
    "rdma_write_bytes": "RDMA bytes written",
    "send_bytes": "bytes of sends",
    "cmds_err": "admin commands failed",
    "no_completion_cmds": "admin commands stuck",
}
"""The driver's counters worth a look, in the words of incidents."""
TROUBLE = frozenset({*ERROR_KINDS, "no_completion_cmds"})
"""Of these any is too many."""


def draw(fabric: Fabric, node: NodeView, place: int, width: int, pen: Pen) -> list[Strip]:
    """All there is to say of the card at `place` of a node's inventory."""
    card = str(node.inventory.of(Entity.EFA)[place])
    return [
        *_verdict(fabric, node, place, card, width, pen),
        *_traffic(fabric, node, place, card, width, pen),
        *_whereabouts(node, card, width, pen),
        *_counters(fabric.scene, node, place, card, width, pen),
    ]


def past(scene: Scene, node: str, width: int, height: int, pen: Pen) -> list[Strip]:
    """What a node's cards sent and sent again lately, as much as fits; of single cards it is not
    kept.
    """
    charts = [
        replace(trend, title=f"{title} of {node}")
        for quantity, title in (
            (TRANSMIT, "EFA tx, all cards"),
            (RETRANSMIT, "retransmits, worst card"),
        )
        if (trend := trends.of_node(scene, node, quantity)) is not None
    ]
    marks = moments.of_node(scene, node, pen)
    # A line apart from what stands above.
    drawn = trends.draw(charts, scene.view.time, width, height - 1, pen, marks)
    return [line([], width), *drawn]


def missing(node: NodeView, width: int, pen: Pen) -> list[Strip]:
    """Why there is no card to show."""
    if node.inventory.of(Entity.EFA):
        return _wrapped("this node has no card of that name", width, pen)
    return _wrapped(f"no EFA cards known: {node.frame.why_absent(efa.TX)}", width, pen)


def incident_of(fabric: Fabric, node: str, card: str) -> Incident | None:
    """The open incident that names the card, else one that names a link of it."""
    found = fabric.scene.by_node.get(node, ())
    by_name = next((one for one in found if one.component == f"efa:{card}"), None)
    if by_name is not None or not fabric.blamed:
        return by_name
    links = fabric.pairs.of_card(node, card)
    return next((fabric.blamed[link] for link in links if link in fabric.blamed), None)


def _verdict(
    fabric: Fabric, node: NodeView, place: int, card: str, width: int, pen: Pen
) -> list[Strip]:
    """What is wrong and since when, or that nothing is."""
    ink, glyphs, scene = pen.ink, pen.glyphs, fabric.scene
    incident = incident_of(fabric, node.name, card)
    severity: Severity | None = None
    if incident is not None:
        severity = incident.severity
        since = units.clock(incident.opened_at, utc=scene.utc)
        lasted = units.span(lasting(incident, scene.view.time))
        # Its sentence stands above the screen; what was seen says it shorter.
        seen = incident.evidence[0].text if incident.evidence else incident.summary
        text = f"{incident.kind} since {since}, for {lasted}: {seen}"
    elif place in node.lost_cards:
        severity, text = Severity.CRITICAL, "lost: it is listed, but nothing can be read of it"
    elif not is_up(state := node.inventory.efa_links.get(card, {}).get("state")):
        severity, text = Severity.WARNING, f"its link is not up: {state}"
    elif place in efa.outliers(node, scene.limits.retransmits):
        severity = Severity.WARNING
        text = "resends far more than its siblings; no incident yet"
    elif (slow := fabric.slow_cards.get((node.name, card))) is not None:
        severity, text = slow, _slow(fabric, node.name, card)
    elif node.frame.at(efa.TX, place) is None:
        return _wrapped(f"traffic unknown: {node.frame.why_absent(efa.TX)}", width, pen)
    else:
        sign: Part = (f"{glyphs.calm} ", ink.ok)
        return [line([sign, ("nothing is wrong with it", ink.muted)], width)]
    style = ink.severity(severity)
    lead = f"{glyphs.severities[severity]} "
    return [
        line([(lead if row == 0 else "  ", style), (part, style)], width)
        for row, part in enumerate(wrap(text, width - 2))
    ]


def _slow(fabric: Fabric, node: str, card: str) -> str:
    """`its link to trn-003 takes 3.4× the median of all; no incident yet`, or that of the peer."""
    links = [link for link in fabric.pairs.of_card(node, card) if link in fabric.graded]
    slowest = max(links, key=lambda link: link.seconds)
    peer = slowest.peer if slowest.node == node else slowest.node
    others = f", {len(links) - 1} more are slow too" if len(links) > 1 else ""
    times = f"{slowest.seconds / fabric.pairs.typical:.1f}×"
    known = fabric.scene.by_node.get(peer)
    why = f"{peer} has {known[0].kind}" if known else "no incident yet"
    return f"its link to {peer} takes {times} the median of all{others}; {why}"


def _wrapped(text: str, width: int, pen: Pen) -> list[Strip]:
    return [line([(part, pen.ink.muted)], width) for part in wrap(text, width)]


def _label(text: str, pen: Pen) -> Part:
    return f"{text:<{LABEL}}", pen.ink.muted


def _right(text: str, quantity: str, width: int, pen: Pen) -> list[Part]:
    """A number with its unit and mark, right-aligned."""
    parts = pen.number(text, quantity)
    lead = max(0, width - length(parts))
    return [(" " * lead, pen.ink.text), *parts]


def _traffic(
    fabric: Fabric, node: NodeView, place: int, card: str, width: int, pen: Pen
) -> list[Strip]:
    """Both ways as a share of the line rate; then beside what others do."""
    ink, frame = pen.ink, node.frame
    rate = frame.at(efa.LINK, place)
    gap: Part = ("  ", ink.faint)
    lines = []
    for label, quantity in (("tx", efa.TX), ("rx", efa.RX)):
        value = frame.at(quantity, place)
        share = None if value is None or not rate else value / rate
        of = "" if share is None else f"{units.percent(share)} of {units.gigabits(rate)}"
        groups = [
            (100, [_label(label, pen), *_right(units.gigabits(value), quantity, 11, pen)]),
            (60, bar(share, BAR, pen.glyphs, ink.graph, ink.rule)),
            (80, [(of, ink.muted)] if of else []),
        ]
        lines.append(flow(groups, width, gap))
    severity = efa.severities(fabric.scene, node).get(place)
    share = frame.at(efa.SIBLINGS, place)
    beside = pen.number(units.percent(share), efa.SIBLINGS)
    # Carrying little says nothing by itself: many jobs use cards unevenly.
    if severity is not None and share is not None and share < fabric.scene.limits.card_traffic:
        beside[0] = (beside[0][0], ink.severity(severity))
    lines.append(
        line([_label("carries", pen), *beside, (" of what its siblings do", ink.muted)], width)
    )
    resent, limit = frame.at(efa.RETRANSMIT, place), fabric.scene.limits.retransmits
    number = pen.number(units.percent(resent), efa.RETRANSMIT)
    if resent is not None and resent > limit:
        number[0] = (number[0][0], ink.severity(severity or Severity.WARNING))
    allowed = (f" limit {units.percent(limit)}", ink.faint)
    lines.append(line([_label("resends", pen), *number, allowed], width))
    if links := fabric.pairs.of_card(node.name, card):
        lines.append(flow(_latency(fabric.scene, node, links, pen), width, gap))
    return lines


def _latency(
    scene: Scene, node: NodeView, links: list[probed.Probe], pen: Pen
) -> list[tuple[int, list[Part]]]:
    """Of a card's links: what is usual, the slowest, and how old."""
    slowest = max(links, key=lambda link: link.seconds)
    peer = slowest.peer if slowest.node == node.name else slowest.node
    usual = units.seconds(probed.median(link.seconds for link in links))
    newest = units.age(scene.view.time - max(link.time for link in links))
    return [
        (100, [_label("latency", pen), *pen.number(usual, probed.LATENCY)]),
        (70, [(f"median of {len(links)}", pen.ink.muted)]),
        (90, [("slowest ", pen.ink.muted), (units.seconds(slowest.seconds), pen.ink.text),
              (f" {peer}", pen.ink.muted)]),
        (50, [(f"newest {newest} ago", pen.ink.muted)]),
    ]  # fmt: skip


def _whereabouts(node: NodeView, card: str, width: int, pen: Pen) -> list[Strip]:
    """Whom it serves, and where it sits."""
    ink = pen.ink
    gap: Part = (" · ", ink.faint)
    near_by = efa.near_devices(node).get(card, ([], []))
    lines = []
    for devices, on in zip(near_by, ("PCI bus", "NUMA node"), strict=True):
        if not devices:
            continue
        owners, cores = node.inventory.core_device.tolist(), node.inventory.of(Entity.CORE)
        near = [int(core) for core, owner in zip(cores, owners, strict=True) if owner in devices]
        which = f"device{'s' * (len(devices) > 1)} {units.ranges(devices)}"
        groups: list[tuple[int, list[Part]]] = [(100, [_label("near", pen), (which, ink.text)])]
        if near:
            groups.append((90, [(f"cores {units.ranges(near)}", ink.text)]))
        groups.append((50, [(f"on its {on}", ink.muted)]))
        lines.append(flow(groups, width, gap))
    link = node.inventory.efa_links.get(card, {})
    facts = [
        (rank, f"{label}{value}")
        for rank, label, name in (
            (90, "PCI ", "pci"), (80, "NUMA node ", "numa_node"), (70, "driver ", "driver"),
            (60, "port ", "state"), (50, "peer memory ", "p2p"),
        )
        if (value := link.get(name))
    ]  # fmt: skip
    if facts:
        (rank, first), *rest = facts
        lines.append(
            flow(
                [(rank, [_label("place", pen), (first, ink.muted)]),
                 *((rank, [(text, ink.muted)]) for rank, text in rest)],
                width, gap,
            )
        )  # fmt: skip
    return lines


def _counters(
    scene: Scene, node: NodeView, place: int, card: str, width: int, pen: Pen
) -> list[Strip]:
    """A line per counter that ever counted; then what never did, and what is not told."""
    ink, frame = pen.ink, node.frame
    severity = efa.severities(scene, node).get(place, Severity.WARNING)
    before, when = _baseline(scene, node.name, card)
    title = f"{'':<22}{'per second':>14} {'total':>11}"
    if before is not None:
        title += f" {f'since {units.clock(when, utc=scene.utc)}':>15}"
    rows: list[Strip] = []
    never: list[str] = []
    unknown: list[str] = []
    for name, words in COUNTERS.items():
        total = frame.at(f"efa_{name}_total", place)
        if not total:
            (unknown if total is None else never).append(words)
            continue
        quantity = f"efa_{name}_per_second"
        rate = frame.at(quantity, place) if quantity in CATALOG else None
        form = units.bytes_iec if name.endswith("_bytes") else units.si
        style = ink.severity(severity) if name in TROUBLE and rate else ink.text
        parts: list[Part] = [(fit(words, 22), ink.muted if style is ink.text else style)]
        if quantity in CATALOG:
            shown = units.bytes_rate(rate) if name.endswith("_bytes") else units.si(rate)
            number = _right(shown, quantity, 14, pen)
            number[1] = (number[1][0], style if rate is not None else ink.faint)
            parts += number
        else:
            parts.append((" " * 14, ink.text))
        parts.append((f" {form(total):>11}", ink.text))
        if before is not None:
            earlier = before.get(f"efa_{name}_total")
            grown = None if earlier is None or earlier > total else total - earlier
            text = units.ABSENT if grown is None else f"+{form(grown)}"
            parts.append((f" {text:>15}", ink.text if grown else ink.faint))
        rows.append(line(parts, width))
    lines = [line([(title, ink.muted)], width), *rows] if rows else []
    if never:
        lines += _wrapped(f"never: {', '.join(never)}", width, pen)
    if unknown and rows:
        needs = {CATALOG[f"efa_{name}_total"].needs for name in COUNTERS
                 if COUNTERS[name] in unknown} - {""}  # fmt: skip
        why = f" (needs {'; '.join(sorted(needs))})" if needs else ""
        lines += _wrapped(f"{units.ABSENT} not told: {', '.join(unknown)}{why}", width, pen)
    return lines


def _baseline(scene: Scene, node: str, card: str) -> tuple[dict[str, float] | None, float]:
    """The card's counters at the marked moment, and when that was; None where none is marked."""
    if scene.baseline is None:
        return None, 0.0
    then = scene.baseline.cluster.nodes.get(node)
    if then is None or card not in (cards := then.inventory.of(Entity.EFA)):
        return {}, scene.baseline.time
    return _totals(then.frame, cards.index(card)), scene.baseline.time


def _totals(frame: Frame, place: int) -> dict[str, float]:
    totals = {f"efa_{name}_total": frame.at(f"efa_{name}_total", place) for name in COUNTERS}
    return {name: total for name, total in totals.items() if total is not None}
