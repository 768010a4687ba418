"""One EFA card: what it carries, what is wrong with it, where it is, all it counts."""

from dataclasses import replace

from textual.strip import Strip

from trntop.catalog import CATALOG, Entity
from trntop.catalog.efa import ERROR_KINDS, is_up
from trntop.core import units
from trntop.core.model import Frame, Incident, NodeView, Severity

from ..measures import RETRANSMIT, TRANSMIT
from ..view_model import ViewModel
from . import efa, moments, probed, trends
from .context import RenderContext
from .fabric import Fabric
from .graph import bar
from .incidents import lasted as lasting
from .incidents import wrap
from .line import Part, fit, flow, length, line

LABEL = 8
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
"""The driver's counters worth a look, in the words of incidents."""
TROUBLE = frozenset({*ERROR_KINDS, "no_completion_cmds"})
"""Of these any is too many."""


def draw(
    fabric: Fabric, node: NodeView, place: int, width: int, context: RenderContext
) -> list[Strip]:
    """All there is to say of the card at `place` of a node's inventory."""
    card = str(node.inventory.of(Entity.EFA)[place])
    return [
        *_verdict(fabric, node, place, card, width, context),
        *_traffic(fabric, node, place, card, width, context),
        *_whereabouts(node, card, width, context),
        *_counters(fabric.view_model, node, place, card, width, context),
    ]


def past(
    view_model: ViewModel, node: str, width: int, height: int, context: RenderContext
) -> list[Strip]:
    """What a node's cards sent and sent again lately, as much as fits; of single cards it is not
    kept.
    """
    charts = [
        replace(trend, title=f"{title} of {node}")
        for quantity, title in (
            (TRANSMIT, "EFA tx, all devices"),
            (RETRANSMIT, "retransmits, worst device"),
        )
        if (trend := trends.of_node(view_model, node, quantity)) is not None
    ]
    marks = moments.of_node(view_model, node, context)
    # A line apart from what stands above.
    drawn = trends.draw(charts, view_model.view.time, width, height - 1, context, marks)
    return [line([], width), *drawn]


def missing(node: NodeView, width: int, context: RenderContext) -> list[Strip]:
    """Why there is no card to show."""
    if node.inventory.of(Entity.EFA):
        return _wrapped("this node has no EFA device of that name", width, context)
    return _wrapped(f"no EFA devices known: {node.frame.why_absent(efa.TX)}", width, context)


def incident_of(fabric: Fabric, node: str, card: str) -> Incident | None:
    """The open incident that names the card, else one that names a link of it."""
    found = fabric.view_model.by_node.get(node, ())
    by_name = next((one for one in found if one.component == f"efa:{card}"), None)
    if by_name is not None or not fabric.blamed:
        return by_name
    links = fabric.pairs.of_card(node, card)
    return next((fabric.blamed[link] for link in links if link in fabric.blamed), None)


def _verdict(
    fabric: Fabric, node: NodeView, place: int, card: str, width: int, context: RenderContext
) -> list[Strip]:
    """What is wrong and since when, or that nothing is."""
    palette, glyphs, view_model = context.palette, context.glyphs, fabric.view_model
    incident = incident_of(fabric, node.name, card)
    severity: Severity | None = None
    if incident is not None:
        severity = incident.severity
        since = units.clock(incident.opened_at, utc=view_model.utc)
        lasted = units.span(lasting(incident, view_model.view.time))
        # Its sentence stands above the screen; what was seen says it shorter.
        seen = incident.evidence[0].text if incident.evidence else incident.summary
        text = f"{incident.kind} since {since}, for {lasted}: {seen}"
    elif place in node.lost_cards:
        severity, text = Severity.CRITICAL, "lost: it is listed, but nothing can be read of it"
    elif not is_up(state := node.inventory.efa_links.get(card, {}).get("state")):
        severity, text = Severity.WARNING, f"its link is not up: {state}"
    elif place in efa.outliers(node, view_model.limits.retransmits):
        severity = Severity.WARNING
        text = "retransmits far more than its peers; no incident yet"
    elif (slow := fabric.slow_cards.get((node.name, card))) is not None:
        severity, text = slow, _slow(fabric, node.name, card)
    elif node.frame.at(efa.TX, place) is None:
        return _wrapped(f"traffic unknown: {node.frame.why_absent(efa.TX)}", width, context)
    else:
        sign: Part = (f"{glyphs.calm} ", palette.ok)
        return [line([sign, ("healthy", palette.muted)], width)]
    style = palette.severity(severity)
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
    known = fabric.view_model.by_node.get(peer)
    why = f"{peer} has {known[0].kind}" if known else "no incident yet"
    return f"its link to {peer} takes {times} the median of all{others}; {why}"


def _wrapped(text: str, width: int, context: RenderContext) -> list[Strip]:
    return [line([(part, context.palette.muted)], width) for part in wrap(text, width)]


def _label(text: str, context: RenderContext) -> Part:
    return f"{text:<{LABEL}}", context.palette.muted


def _right(text: str, quantity: str, width: int, context: RenderContext) -> list[Part]:
    """A number with its unit and mark, right-aligned."""
    parts = context.number(text, quantity)
    lead = max(0, width - length(parts))
    return [(" " * lead, context.palette.text), *parts]


def _traffic(
    fabric: Fabric, node: NodeView, place: int, card: str, width: int, context: RenderContext
) -> list[Strip]:
    """Both ways as a share of the line rate; then beside what others do."""
    palette, frame = context.palette, node.frame
    rate = frame.at(efa.LINK, place)
    gap: Part = ("  ", palette.faint)
    lines = []
    for label, quantity in (("tx", efa.TX), ("rx", efa.RX)):
        value = frame.at(quantity, place)
        share = None if value is None or not rate else value / rate
        of = "" if share is None else f"{units.percent(share)} of {units.gigabits(rate)}"
        groups = [
            (100, [_label(label, context), *_right(units.gigabits(value), quantity, 11, context)]),
            (60, bar(share, BAR, context.glyphs, palette.graph, palette.rule)),
            (80, [(of, palette.muted)] if of else []),
        ]
        lines.append(flow(groups, width, gap))
    severity = efa.severities(fabric.view_model, node).get(place)
    share = frame.at(efa.SIBLINGS, place)
    beside = context.number(units.percent(share), efa.SIBLINGS)
    # Carrying little says nothing by itself: many jobs use cards unevenly.
    if severity is not None and share is not None and share < fabric.view_model.limits.card_traffic:
        beside[0] = (beside[0][0], palette.severity(severity))
    lines.append(
        line(
            [_label("carries", context), *beside, (" of peer traffic", palette.muted)],
            width,
        )
    )
    resent, limit = frame.at(efa.RETRANSMIT, place), fabric.view_model.limits.retransmits
    number = context.number(units.percent(resent), efa.RETRANSMIT)
    if resent is not None and resent > limit:
        number[0] = (number[0][0], palette.severity(severity or Severity.WARNING))
    allowed = (f" limit {units.percent(limit)}", palette.faint)
    lines.append(line([_label("retx", context), *number, allowed], width))
    if links := fabric.pairs.of_card(node.name, card):
        lines.append(flow(_latency(fabric.view_model, node, links, context), width, gap))
    return lines


def _latency(
    view_model: ViewModel, node: NodeView, links: list[probed.Probe], context: RenderContext
) -> list[tuple[int, list[Part]]]:
    """Of a card's links: what is usual, the slowest, and how old."""
    slowest = max(links, key=lambda link: link.seconds)
    peer = slowest.peer if slowest.node == node.name else slowest.node
    usual = units.seconds(probed.median(link.seconds for link in links))
    newest = units.age(view_model.view.time - max(link.time for link in links))
    return [
        (100, [_label("latency", context), *context.number(usual, probed.LATENCY)]),
        (70, [(f"median of {len(links)}", context.palette.muted)]),
        (90, [("slowest ", context.palette.muted),
              (units.seconds(slowest.seconds), context.palette.text),
              (f" {peer}", context.palette.muted)]),
        (50, [(f"newest {newest} ago", context.palette.muted)]),
    ]  # fmt: skip


def _whereabouts(node: NodeView, card: str, width: int, context: RenderContext) -> list[Strip]:
    """Whom it serves, and where it sits."""
    palette = context.palette
    gap: Part = (" · ", palette.faint)
    near_by = efa.near_devices(node).get(card, ([], []))
    lines = []
    for devices, on in zip(near_by, ("PCI bus", "NUMA node"), strict=True):
        if not devices:
            continue
        owners, cores = node.inventory.core_device.tolist(), node.inventory.of(Entity.CORE)
        near = [int(core) for core, owner in zip(cores, owners, strict=True) if owner in devices]
        which = f"device{'s' * (len(devices) > 1)} {units.ranges(devices)}"
        groups: list[tuple[int, list[Part]]] = [
            (100, [_label("near", context), (which, palette.text)])
        ]
        if near:
            groups.append((90, [(f"cores {units.ranges(near)}", palette.text)]))
        groups.append((50, [(f"on its {on}", palette.muted)]))
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
                [(rank, [_label("place", context), (first, palette.muted)]),
                 *((rank, [(text, palette.muted)]) for rank, text in rest)],
                width, gap,
            )
        )  # fmt: skip
    return lines


def _counters(
    view_model: ViewModel, node: NodeView, place: int, card: str, width: int, context: RenderContext
) -> list[Strip]:
    """A line per counter that ever counted; then what never did, and what is not told."""
    palette, frame = context.palette, node.frame
    severity = efa.severities(view_model, node).get(place, Severity.WARNING)
    before, when = _baseline(view_model, node.name, card)
    title = f"{'':<22}{'per second':>14} {'total':>11}"
    if before is not None:
        title += f" {f'since {units.clock(when, utc=view_model.utc)}':>15}"
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
        style = palette.severity(severity) if name in TROUBLE and rate else palette.text
        parts: list[Part] = [(fit(words, 22), palette.muted if style is palette.text else style)]
        if quantity in CATALOG:
            shown = units.bytes_rate(rate) if name.endswith("_bytes") else units.si(rate)
            number = _right(shown, quantity, 14, context)
            number[1] = (number[1][0], style if rate is not None else palette.faint)
            parts += number
        else:
            parts.append((" " * 14, palette.text))
        parts.append((f" {form(total):>11}", palette.text))
        if before is not None:
            earlier = before.get(f"efa_{name}_total")
            grown = None if earlier is None or earlier > total else total - earlier
            text = units.ABSENT if grown is None else f"+{form(grown)}"
            parts.append((f" {text:>15}", palette.text if grown else palette.faint))
        rows.append(line(parts, width))
    lines = [line([(title, palette.muted)], width), *rows] if rows else []
    if never:
        lines += _wrapped(f"never: {', '.join(never)}", width, context)
    if unknown and rows:
        needs = {CATALOG[f"efa_{name}_total"].needs for name in COUNTERS
                 if COUNTERS[name] in unknown} - {""}  # fmt: skip
        why = f" (needs {'; '.join(sorted(needs))})" if needs else ""
        lines += _wrapped(f"{units.ABSENT} not reported: {', '.join(unknown)}{why}", width, context)
    return lines


def _baseline(view_model: ViewModel, node: str, card: str) -> tuple[dict[str, float] | None, float]:
    """The card's counters at the marked moment, and when that was; None where none is marked."""
    if view_model.baseline is None:
        return None, 0.0
    then = view_model.baseline.cluster.nodes.get(node)
    if then is None or card not in (cards := then.inventory.of(Entity.EFA)):
        return {}, view_model.baseline.time
    return _totals(then.frame, cards.index(card)), view_model.baseline.time


def _totals(frame: Frame, place: int) -> dict[str, float]:
    totals = {f"efa_{name}_total": frame.at(f"efa_{name}_total", place) for name in COUNTERS}
    return {name: total for name, total in totals.items() if total is not None}
