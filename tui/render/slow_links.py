"""The panel of the latency between nodes: how it was measured, and the slowest links."""

from collections import Counter
from heapq import nlargest

from textual.strip import Strip

from trntop.core import units
from trntop.core.model import Severity

from . import glyphs
from .context import RenderContext, mark
from .fabric import Fabric
from .line import Part, fit, flow, line, wrapped
from .links import LATENCY, Links

WIDEST = 60


def draw(fabric: Fabric, width: int, height: int, context: RenderContext) -> list[Strip]:
    links = fabric.links
    failed = _failed(links, width, context)
    if not links.probes:
        return failed
    head = [*_head(fabric, width, context), _counts(fabric, width, context), *failed]
    slowest = _slowest(fabric, max(1, height - len(head) - 1), min(width, WIDEST), context)
    return [*head, *(strip.adjust_cell_length(width) for strip in slowest)]


def _head(fabric: Fabric, width: int, context: RenderContext) -> list[Strip]:
    """Median, tool, message size, load and age."""
    links, now = fabric.links, fabric.view_model.view.time
    assert links.kind is not None
    tool, statistic, size = links.kind
    median = f"median {units.seconds(links.median)}{mark(LATENCY)} of {len(links.probes)} links"
    facts = [median, tool, statistic, f"{size} B" if size else ""]
    facts += [load if load.startswith("load") else f"load {load}" for load in links.loads[:2]]
    times = [probe.time for probe in links.probes]
    facts.append(f"{units.age(now - max(times))} to {units.age(now - min(times))} old")
    if links.others:
        facts.append(f"{links.others} results of other kinds not shown")
    return wrapped(" · ".join(filter(None, facts)), width, context.palette.muted)


def _counts(fabric: Fabric, width: int, context: RenderContext) -> Strip:
    """The number of normal and slow links."""
    palette, counts = context.palette, Counter(fabric.slow_links.values())
    normal = len(fabric.links.probes) - len(fabric.slow_links)
    groups: list[tuple[int, list[Part]]] = [
        (80, [(f"{glyphs.CALM} ", palette.ok), (f"{normal} normal", palette.muted)])
    ]
    for severity in (Severity.WARNING, Severity.CRITICAL):
        if count := counts[severity]:
            sign = glyphs.SEVERITIES[severity]
            groups.append((90, [(f"{sign} {count} slow", palette.severity(severity))]))
    return flow(groups, width, ("   ", palette.faint))


def _failed(links: Links, width: int, context: RenderContext) -> list[Strip]:
    """The links that could not be probed."""
    if not links.failed:
        return []
    named = ", ".join(f"{p.node} {glyphs.CURSOR} {p.peer}" for p in links.failed[:3])
    more = f" +{len(links.failed) - 3}" if len(links.failed) > 3 else ""
    sign = glyphs.SEVERITIES[Severity.WARNING]
    text = fit(f"{sign} no answer: {named}{more}", width)
    return [line([(text, context.palette.warning)], width)]


def _slowest(fabric: Fabric, count: int, width: int, context: RenderContext) -> list[Strip]:
    palette, links, now = context.palette, fabric.links, fabric.view_model.view.time
    titles = f" {'one way':>7} {'median':>6} {'age':>5}"
    lines = [line([(f"{fit('  slowest', width - len(titles))}{titles}", palette.muted)], width)]
    for probe in nlargest(count, links.probes, key=lambda probe: probe.seconds):
        severity = fabric.slow_links.get(probe)
        sign = glyphs.SEVERITIES[severity] if severity else glyphs.CALM
        style = palette.severity(severity) if severity else palette.text
        times = f"{probe.seconds / links.median:.1f}×"
        tail = f" {units.seconds(probe.seconds):>7} {times:>6} {units.age(now - probe.time):>5}"
        ends = f"{probe.node} {glyphs.CURSOR} {probe.peer}"
        lead = (f"{sign} ", palette.ok if severity is None else style)
        rest = (tail, palette.muted if severity is None else style)
        name = (fit(ends, max(1, width - 2 - len(tail))), style)
        lines.append(line([lead, name, rest], width))
    return lines
