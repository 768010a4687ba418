"""The alert line: the worst incident, or why there is none."""

from functools import lru_cache

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from trntop.analysis.coverage import beginning, lacks
from trntop.core import units
from trntop.core.model import Severity, SourceState, State

from ..view_model import Mode, ViewModel
from . import glyphs, incidents, prometheus
from .context import RenderContext
from .fleet import ORDER, is_missed
from .line import Part, fit, flow, length, line, wrap

NodeSources = list[tuple[str, SourceState]]


def draw(view_model: ViewModel, width: int, context: RenderContext) -> list[Strip]:
    """The worst incident and its cost: one line, or two if needed."""
    palette = context.palette
    if view_model.mode is Mode.FAILED:
        text = f"collection stopped: {view_model.failure}"
        return _sentence([(" ", palette.critical)], text, palette.critical, [], width)
    if not view_model.incidents:
        return _no_incidents(view_model, width, context)
    first, others = view_model.incidents[0], len(view_model.incidents) - 1
    sign, style = glyphs.SEVERITIES[first.severity], palette.severity(first.severity)
    word = f" {first.severity.value.upper()}" if width >= 100 else ""
    text_style = palette.strong if first.severity is Severity.CRITICAL else palette.text
    if first.id in view_model.acknowledged:  # acknowledged ones are last, so all of them are
        word, style, text_style = " acked", palette.muted, palette.muted
    since = units.clock(first.opened_at, utc=view_model.utc)
    duration = f" ({units.age(incidents.seconds_open(first, view_model.view.time))})"
    cost = incidents.consequence(view_model, first)
    text = f"{first.summary} · {cost}" if cost else first.summary
    end: list[Part] = [(f"  +{others} more", palette.muted)] if others else []
    end += [("  g", palette.key), (" go ", palette.muted)]
    lead: list[Part] = [(f" {sign}{word} ", style), (f"{since}{duration}  ", palette.muted)]
    if length(lead) + length(end) + cell_len(text) > width:
        lead[1] = (f"{since}  ", palette.muted)
    return _sentence(lead, text, text_style, end, width)


def _no_incidents(view_model: ViewModel, width: int, context: RenderContext) -> list[Strip]:
    palette, nodes = context.palette, view_model.cluster.nodes
    missed = _missed(view_model)
    groups: list[tuple[int, list[Part]]] = []
    if warning := prometheus.warning(view_model):
        groups = [(90, [(f" {glyphs.SEVERITIES[Severity.WARNING]} {warning}", palette.warning)])]
    elif view_model.loaded is not None:
        groups = [(90, [(" loading recent history", palette.muted)])]
    elif view_model.mode is Mode.WAITING or view_model.starting == len(nodes):
        groups = [(90, [(" waiting for the first reading", palette.muted)])]
    elif not view_model.has_data and view_model.no_devices:
        reason = next(iter(nodes.values())).why_no_data
        groups = [
            (90, [(f" {units.ABSENT} no Neuron or EFA device: {reason}", palette.muted)]),
            (80, [("trntop demo shows a simulated run", palette.text)]),
        ]
    elif missed:
        return _missed_sources(missed, width, context)
    elif not view_model.has_data and nodes:
        reason = next(iter(nodes.values())).why_no_data
        text = f" {units.ABSENT} incidents not evaluated: {reason}"
        groups = [(90, [(text, palette.muted)])]
    elif early := beginning(view_model.view.coverage, view_model.view.time, utc=view_model.utc):
        groups = [(90, [(f" {' · '.join(early)}", palette.muted)])]
        if closed := len(view_model.view.incidents):
            groups.append((50, [(f"{closed} closed", palette.faint)]))
        groups += _judges(view_model, context)
    else:
        later, closed = view_model.later, len(view_model.view.incidents)
        word = "no incidents yet" if later else "no incidents"
        groups = [(90, [(f" {glyphs.CALM} ", palette.ok), (word, palette.muted)])]
        if later:
            since = units.clock(min(i.opened_at for i in later), utc=view_model.utc)
            first = "" if len(later) == 1 else "the first "
            text = f"{len(later)} detected later, {first}since {since}"
            groups.append((80, [(text, palette.text)]))
        if starting := view_model.starting:
            text = f"no data yet from {starting:,} node{'s' * (starting != 1)}"
            groups.append((60, [(text, palette.muted)]))
        if closed:
            groups.append((50, [(f"{closed} closed", palette.faint)]))
        if pending := lacks(view_model.view.coverage, view_model.view.time):
            groups.append((25, [(pending[0], palette.faint)]))
        groups += [(40, [(note, palette.warning)]) for note in view_model.notes]
        groups += _judges(view_model, context)
    return [flow(groups, width, ("  ", palette.faint))]


def _judges(view_model: ViewModel, context: RenderContext) -> list[tuple[int, list[Part]]]:
    """What evaluates the rules, if it is not this dashboard alone."""
    palette, cluster = context.palette, view_model.cluster
    groups: list[tuple[int, list[Part]]] = []
    for judge in cluster.judges:
        address = judge.address.partition("://")[2]
        groups.append((20, [(f"judged by {address}", palette.faint)]))
        if judge.behind:
            late = f"{address} is behind by {units.span(judge.behind)}"
            groups.append((45, [(late, palette.warning)]))
    if not cluster.judges and cluster.aggregated is False and len(cluster.nodes) > 1:
        text = "no aggregator: without a dashboard, only single-node rules are evaluated"
        groups.append((20, [(text, palette.faint)]))
    return groups


@lru_cache(maxsize=1)
def _missed(view_model: ViewModel) -> NodeSources:
    """The missed sources, worst first."""
    found = [
        (node.name, source)
        for node in view_model.cluster.nodes.values()
        for source in node.frame.sources
        # The common case is fresh: a large cluster has thousands.
        if source.state is not State.FRESH and is_missed(source)
    ]
    return sorted(found, key=lambda entry: ORDER.index(entry[1].state))


def _missed_sources(missed: NodeSources, width: int, context: RenderContext) -> list[Strip]:
    """The first missed source: without its data, no incident does not mean healthy."""
    palette, (name, source), others = context.palette, missed[0], len(missed) - 1
    more = f"  +{others} more source{'s' * (others > 1)} " if others else ""
    sign = f" {glyphs.STATES[source.state]} {source.state.value} "
    why = source.reason or "no data"
    text = why if why.startswith(source.name) else f"{source.name}: {why}"
    end: list[Part] = [(more, palette.muted)]
    return _sentence(
        [(sign, palette.state(source.state))], f"{name} {text}", palette.text, end, width
    )


def _sentence(
    lead: list[Part], text: str, style: Style, end: list[Part], width: int
) -> list[Strip]:
    """`text` between `lead` and `end` in one line, or in two if needed."""
    indent = length(lead)
    room = max(1, width - indent - length(end))
    top, *rest = wrap(text, room)
    rows = [line([*lead, (fit(top, room), style), *end], width)]
    if rest:
        below = fit(" ".join(rest), max(1, width - indent - 1))
        rows.append(line([(" " * indent, style), (below, style)], width))
    return rows
