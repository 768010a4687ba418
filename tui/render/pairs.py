"""Probe results as a matrix, node by node, and the slowest links by name."""

from collections import Counter

from textual.strip import Strip

from trntop.core import units
from trntop.core.model import Severity

from .context import RenderContext, mark
from .fabric import Fabric
from .fleet_map import tail_names
from .graph import runs
from .incidents import wrap
from .layers import microseconds, slowness
from .line import Part, beside, fit, flow, line
from .palette import level_of
from .probed import LATENCY, Pairs

WORST = 4
"""Least links that are named; more where there is room."""
NAMED = 32
"""Least cells that a named link takes."""
WIDEST_NAMED = 50
WIDEST = 5
"""Cells of a pair that shows its number, the gap included."""
GAP = 1
LONGEST = 12
"""Cells of a node's name."""
TRIED = "No EFA counter exposes latency: an active probe measures it."
HOW = (
    "trntop check 'trn-[001-016]' measures it between nodes, agents with --probe-every now and "
    "then (docs/check.md); what they find is shown here.",
    "To see it: trntop 'sim:latency-regression?nodes=8'",
)


def draw(fabric: Fabric, width: int, height: int, context: RenderContext) -> list[Strip]:
    """How it was probed, the matrix, and the slowest links.

    Args:
        fabric: what to draw.
        width: cells.
        height: lines there are; 0 asks for as many as it takes.
        context: to draw with.
    """
    pairs = fabric.pairs
    if not pairs.probes:
        return [*_failed(pairs, width, context), *_empty(width, context)]
    names = tail_names(list(pairs.nodes))
    label = min(LONGEST, max(map(len, names)))
    head = _head(fabric, width, context)
    failed = _failed(pairs, width, context)
    room = (height or 99) - len(head) - len(failed) - 1
    bins = -(-len(names) // _share(len(names), room))
    # One above the other, where the matrix then has numbers.
    wide = label + 1 + WIDEST * len(names)
    numbered = wide <= width < wide + GAP + NAMED and len(names) + WORST + 2 <= room
    if not numbered and width - label - 1 - bins - GAP >= NAMED:
        share, matrix = _matrix(fabric, names, label, width - NAMED - GAP, room, context)
        wide = max(strip.cell_length for strip in matrix)
        count = max(WORST, len(matrix) - 1)
        worst = _worst(fabric, count, min(WIDEST_NAMED, width - wide - GAP), context)
        body = beside([(matrix, wide), (worst, width - wide - GAP)], GAP)
    else:
        tall = max(4, room - WORST - 1)
        share, body = _matrix(fabric, names, label, width, tall, context)
        count = max(WORST, height and room - len(body) - 1)
        body += _worst(fabric, count, min(width, WIDEST_NAMED), context)
    head += [_verdict(fabric, share, width, context), *failed]
    return [*head, *(strip.adjust_cell_length(width) for strip in body)]


def _head(fabric: Fabric, width: int, context: RenderContext) -> list[Strip]:
    """By which tool, of what, under which load, and how old."""
    pairs, now = fabric.pairs, fabric.view_model.view.time
    assert pairs.kind is not None
    tool, statistic, size = pairs.kind
    median = f"median {units.seconds(pairs.typical)}{mark(LATENCY)} of {len(pairs.probes)} links"
    said = [median, tool, statistic, f"{size} B" if size else ""]
    said += [one if one.startswith("load") else f"load {one}" for one in pairs.loads[:2]]
    times = [probe.time for probe in pairs.probes]
    said.append(f"{units.age(now - max(times))} to {units.age(now - min(times))} old")
    if pairs.others:
        said.append(f"{pairs.others} probed otherwise left out")
    text = " · ".join(part for part in said if part)
    return _wrapped(text, width, context)


def _verdict(fabric: Fabric, share: int, width: int, context: RenderContext) -> Strip:
    """How many links are as quick as the others, and how many are not.

    Args:
        fabric: all links.
        share: nodes that a row of the matrix stands for.
        width: cells.
        context: to draw with.
    """
    palette, counts = context.palette, Counter(fabric.graded.values())
    good = len(fabric.pairs.probes) - len(fabric.graded)
    groups: list[tuple[int, list[Part]]] = [
        (80, [(f"{context.glyphs.calm} ", palette.ok), (f"{good} alike", palette.muted)])
    ]
    for severity, word in ((Severity.WARNING, "slow"), (Severity.CRITICAL, "very slow")):
        if count := counts[severity]:
            sign = context.glyphs.severities[severity]
            groups.append((90, [(f"{sign} {count} {word}", palette.severity(severity))]))
    if share > 1:
        groups.append((85, [(f"a row is {share} nodes", palette.muted)]))
    return flow(groups, width, ("   ", palette.faint))


def _wrapped(text: str, width: int, context: RenderContext) -> list[Strip]:
    return [line([(part, context.palette.muted)], width) for part in wrap(text, width)]


def _failed(pairs: Pairs, width: int, context: RenderContext) -> list[Strip]:
    """The links that could not be probed."""
    if not pairs.failed:
        return []
    named = ", ".join(f"{one.node} {context.glyphs.cursor} {one.peer}" for one in pairs.failed[:3])
    more = f" +{len(pairs.failed) - 3}" if len(pairs.failed) > 3 else ""
    sign = context.glyphs.severities[Severity.WARNING]
    return [
        line([(fit(f"{sign} no answer: {named}{more}", width), context.palette.warning)], width)
    ]


def _empty(width: int, context: RenderContext) -> list[Strip]:
    first, *rest = (wrap(text, width) for text in (TRIED, *HOW))
    lines = [line([(part, context.palette.text)], width) for part in first]
    return lines + [line([(part, context.palette.muted)], width) for text in rest for part in text]


def _matrix(
    fabric: Fabric, names: list[str], label: int, width: int, height: int, context: RenderContext
) -> tuple[int, list[Strip]]:
    """A row and a column a node; where there is no room, a cell stands for several, the worst.

    Returns:
        How many nodes a row stands for, and the lines.
    """
    palette, pairs = context.palette, fabric.pairs
    count = len(names)
    room = max(1, width - label - 1)
    share = max(_share(count, height), -(-count // room))
    table, bad = pairs.matrix(share), _bad(fabric, share)
    shown = names[::share]
    cell = max(1, min(WIDEST, room // len(shown)))
    cell = cell if cell in (1, 2, WIDEST) else 2
    lines = [_columns(shown, label, cell, context)]
    for row, name in enumerate(shown):
        cells: list[Part] = []
        for column in range(len(shown)):
            severity = bad.get((row, column))
            cells.append(_pair(table[row, column], severity, max(1, cell - 1), pairs, context))
            if cell > 1:
                cells.append((" ", palette.faint))
        lines.append(
            line([(fit(name, label), palette.muted), (" ", palette.faint), *runs(cells)],
                 label + 1 + cell * len(shown))
        )  # fmt: skip
    return share, lines


def _share(count: int, height: int) -> int:
    """Nodes that one row stands for, so that all fit below the heading."""
    return -(-count // max(1, height - 1))


def _columns(names: list[str], label: int, cell: int, context: RenderContext) -> Strip:
    """The names above the columns where they fit, else the first and the last."""
    width = cell * len(names)
    if max(map(len, names)) < cell:
        text = "".join(fit(name, cell) for name in names)
    else:
        first, last = names[0], names[-1]
        inner = width - len(first) - (cell > 1)
        text = first + fit(last, inner, "right") if inner > len(last) else ""
    lead = " " * (label + 1)
    return line([(lead + fit(text, width), context.palette.muted)], label + 1 + width)


def _bad(fabric: Fabric, share: int) -> dict[tuple[int, int], Severity]:
    """Cells with a link that needs attention, and how bad its worst is."""
    places = {name: place // share for place, name in enumerate(fabric.pairs.nodes)}
    found: dict[tuple[int, int], Severity] = {}
    for probe, severity in sorted(fabric.graded.items(), key=lambda entry: entry[1].rank):
        start, end = places[probe.node], places[probe.peer]
        found[start, end] = found[end, start] = severity
    return found


def _pair(
    value: float, severity: Severity | None, size: int, pairs: Pairs, context: RenderContext
) -> Part:
    """One pair: its colour beside the usual latency, its number where there is room."""
    palette, glyphs = context.palette, context.glyphs
    text = microseconds(value) if size >= WIDEST - 1 and value == value else ""
    if severity is not None:
        sign = glyphs.severities[severity]
        return fit(text or sign * size, size, "right"), palette.severity(severity)
    if value != value:
        return glyphs.absent.center(size), palette.faint
    level = level_of(slowness(value, pairs.typical))
    if text:
        return fit(text, size, "right"), palette.cells[level]
    return glyphs.cell * size, palette.levels[level]


def _worst(fabric: Fabric, count: int, width: int, context: RenderContext) -> list[Strip]:
    """The `count` slowest links by name, beside the median of all."""
    palette, pairs, now = context.palette, fabric.pairs, fabric.view_model.view.time
    names = dict(zip(pairs.nodes, tail_names(list(pairs.nodes)), strict=True))
    titles = f" {'one way':>7} {'median':>6} {'age':>5}"
    lines = [line([(f"{fit('  slowest', width - len(titles))}{titles}", palette.muted)], width)]
    for probe in pairs.worst(count):
        severity = fabric.graded.get(probe)
        sign = context.glyphs.severities[severity] if severity else context.glyphs.calm
        style = palette.severity(severity) if severity else palette.text
        times = f"{probe.seconds / pairs.typical:.1f}×"
        tail = f" {units.seconds(probe.seconds):>7} {times:>6} {units.age(now - probe.time):>5}"
        ends = f"{probe.node} {context.glyphs.cursor} {probe.peer}"
        if len(ends) > width - 2 - len(tail):
            ends = f"{names[probe.node]} {context.glyphs.cursor} {names[probe.peer]}"
        name = fit(ends, max(1, width - 2 - len(tail)))
        rest = palette.muted if severity is None else style
        lead = (f"{sign} ", palette.ok if severity is None else style)
        lines.append(line([lead, (name, style), (tail, rest)], width))
    return lines
