"""What a quantity is, where its value comes from, and who judges it: for one node or for all."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from textual.strip import Strip

from trntop.analysis.rule import Rule
from trntop.catalog import CATALOG, Entity, Provenance, Quantity, inputs, page_of
from trntop.core import units
from trntop.core.model import Incident, Key, NodeView, SourceState, State

from ..measures import MEASURES
from ..view_model import ViewModel
from . import blame, moments, trends
from .context import RenderContext, mark
from .fleet import ORDER
from .line import Part, fit, line
from .markdown import flowed
from .table import Column

LABEL = 8
"""Cells of the words on the left."""
MAX_INPUTS = 8
"""Inputs of one quantity that are shown; the others are counted."""
MAX_RULES = 4
CHART = 8
"""Lines of the chart below the words."""

_PROVENANCE = {
    Provenance.MEASURED: "measured: a counter or a clock gave it",
    Provenance.REPORTED: "reported: the training process said so",
    Provenance.DERIVED: "derived: computed from measured values",
    Provenance.ESTIMATED: "estimated: bounded or modelled",
}
_PARTS = {
    Entity.NODE: "nodes",
    Entity.DEVICE: "devices",
    Entity.CORE: "cores",
    Entity.PHYSICAL_CORE: "physical cores",
    Entity.EFA: "EFA devices",
    Entity.RUNTIME: "processes",
    Entity.JOB: "jobs",
    Entity.RANK: "ranks",
    Entity.LINK: "links",
}
_SUFFIXES = ("_ratio", "_bytes", "_seconds", "_total")
_TITLES = {measure.quantity: measure.title for measure in MEASURES.values()}
_HELP = {
    one.quantity: one.help[0].upper() + one.help[1:]
    for one in MEASURES.values()
    if CATALOG[one.quantity].rollup_of
}
"""What a value of many is; the catalog only says of which, and so does the formula."""


@dataclass(frozen=True, slots=True)
class Values:
    """What is known of a quantity: one value, or many of which the outermost have names."""

    known: int
    parts: int
    mean: float
    least: tuple[float, str]
    most: tuple[float, str]


def title(name: str) -> str:
    """What a column of it is called, else its name in words."""
    if name in _TITLES:
        return _TITLES[name]
    short = name.removesuffix("_per_second")
    for suffix in _SUFFIXES:
        short = short.removesuffix(suffix)
    if CATALOG[name].entity is Entity.EFA:
        short = f"card_{short.removeprefix('efa_')}"
    return short.removeprefix("node_").replace("_", " ").replace("efa ", "EFA ")


def written(value: float | None, name: str) -> str:
    """A value with its unit; traffic of cards in bits, as on every screen."""
    quantity = CATALOG[name]
    if quantity.unit == "bytes_per_second" and "efa_" in name:
        return units.gigabits(value)
    return units.stated(value, quantity.unit)


def values(view_model: ViewModel, node: str | None, name: str) -> Values | None:
    """The values of one node's parts, or those of all nodes; None where there is none."""
    views = _views(view_model, node)
    found = [view.frame.columns.get(name, _NOTHING) for view in views]
    if not found:
        return None
    column = np.concatenate(found)
    known = ~np.isnan(column)
    parts = sum(len(view.inventory.of(CATALOG[name].entity)) for view in views)
    if not known.any():
        return None
    ends = np.cumsum([len(one) for one in found])

    def named(place: int) -> tuple[float, str]:
        owner = int(np.searchsorted(ends, place, side="right"))
        index = place - (int(ends[owner - 1]) if owner else 0)
        return float(column[place]), _label(views[owner], CATALOG[name].entity, index, node)

    return Values(
        int(known.sum()),
        max(parts, len(column)),
        float(column[known].mean()),
        named(int(np.nanargmin(column))),
        named(int(np.nanargmax(column))),
    )


_NOTHING = np.empty(0)


def _views(view_model: ViewModel, node: str | None) -> list[NodeView]:
    nodes = view_model.cluster.nodes
    return list(nodes.values()) if node is None else [nodes[node]] if node in nodes else []


def _label(view: NodeView, entity: Entity, index: int, node: str | None) -> str:
    """Names a part of a node, with the node where there are several."""
    if entity is Entity.NODE:
        return view.name
    keys: Sequence[Key] = view.inventory.of(entity)
    key = str(keys[index]) if index < len(keys) else "?"
    numbered = entity in (Entity.DEVICE, Entity.CORE, Entity.PHYSICAL_CORE, Entity.RUNTIME)
    what = {Entity.PHYSICAL_CORE: "core", Entity.RUNTIME: "pid"}.get(entity, str(entity))
    part = f"{what} {key}" if numbered else key
    return part if node is not None else f"{view.name} {part}"


def briefly(view_model: ViewModel, node: str | None, name: str) -> str:
    """The value, or the mean of several, with its unit."""
    found = [view.frame.columns.get(name, _NOTHING) for view in _views(view_model, node)]
    column = np.concatenate([_NOTHING, *found])
    known = column[column == column]
    return written(float(known.mean()) if len(known) else None, name)


@dataclass(frozen=True, slots=True)
class Entry:
    """A quantity in the list."""

    name: str
    value: str


def _title(entry: Entry, width: int, context: RenderContext) -> list[Part]:
    return [(fit(title(entry.name), width), context.palette.text)]


def _now(entry: Entry, width: int, context: RenderContext) -> list[Part]:
    # After a unit a bare letter would read as a part of it.
    sign = "" if entry.value == units.ABSENT else mark(entry.name)
    return [*context.number(entry.value, "", width - 2), (f" {sign or ' '}", context.palette.faint)]


COLUMNS: tuple[Column[Entry], ...] = (
    Column("quantity", "quantity", 12, 100, _title, wide=30),
    Column("now", "now", 12, 90, _now, align="right"),
)


def draw(
    view_model: ViewModel,
    node: str | None,
    name: str,
    rules: Iterable[Rule],
    width: int,
    context: RenderContext,
) -> list[Strip]:
    """Everything about one quantity, in as many lines as it takes."""
    palette, quantity = context.palette, CATALOG[name]
    said = _HELP.get(name, quantity.help)
    rows = [
        [(name, palette.accent)],
        *flowed([(said, palette.strong)], width, ("", palette.text)),
        [],
    ]
    rows += _fact("now", _value(view_model, node, name, context), width, context)
    rows += _words("", _origin(view_model, node, quantity), width, context, faint=True)
    if quantity.rate_of:
        rows += _words("formula", f"change of {quantity.rate_of} per second", width, context)
    elif quantity.formula or quantity.rollup_of:
        how = quantity.formula or f"{quantity.combine} of {quantity.rollup_of}"
        rows += _words("formula", how, width, context)
    rows += _inputs(view_model, node, name, width, context)
    rows += _sources(view_model, node, name, width, context)
    if quantity.needs:
        rows += _words("needs", quantity.needs, width, context)
    rows += _judges(view_model, node, name, rules, width, context)
    page = page_of(quantity)
    where = f"{quantity.metric}, a {quantity.kind} on {page.path}" if page else "on no page"
    rows += _words("metric", where if page else f"{where}: screen and JSON only", width, context)
    rows += _words("docs", ", ".join(_pages(name)), width, context)
    return [*(line(row, width) for row in rows), *_past(view_model, node, name, width, context)]


def _past(
    view_model: ViewModel, node: str | None, name: str, width: int, context: RenderContext
) -> list[Strip]:
    """Its last minutes, where they are kept: of a node's quantity, and of a job's."""
    if CATALOG[name].entity is Entity.JOB:
        job = _job(view_model, node)
        told = None if job is None else trends.of_job(view_model, job, name)
        trend = told and replace(told, title=f"{told.title}, mean over {job}")
        marks = blame.marks(view_model, job or "", context)
    elif node is not None:
        trend = trends.of_node(view_model, node, name)
        marks = moments.of_node(view_model, node, context)
    else:
        return []
    if trend is None or not trends.known(trend):
        return []
    drawn = trends.draw([trend], view_model.view.time, width, CHART, context, marks)
    return [line([], width), *drawn] if drawn else []


def _job(view_model: ViewModel, node: str | None) -> str | None:
    """The job whose values are shown, if it is one."""
    if node is None:
        return view_model.job.job if len(view_model.cluster.jobs) == 1 and view_model.job else None
    jobs = [str(job) for view in _views(view_model, node) for job in view.inventory.of(Entity.JOB)]
    return jobs[0] if len(jobs) == 1 else None


def _value(
    view_model: ViewModel, node: str | None, name: str, context: RenderContext
) -> list[Part]:
    """The number, and of several the outermost with their names."""
    palette = context.palette
    found = values(view_model, node, name)
    if found is None:
        return [(units.ABSENT, palette.faint), (f" {_why(view_model, node, name)}", palette.muted)]
    parts: list[Part] = [
        (written(found.mean, name), palette.strong),
        (f" {mark(name)}", palette.faint),
    ]
    if found.parts == 1:
        return parts
    over = f" mean of {_counted(view_model, node, name, found)}"
    least, most = (written(end[0], name) for end in (found.least, found.most))
    if least == most:
        return [*parts, (over.replace("mean of", "each of"), palette.muted)]
    outer = f"; {least} at {found.least[1]}, {most} at {found.most[1]}"
    return [*parts, (over + outer, palette.muted)]


def _counted(view_model: ViewModel, node: str | None, name: str, found: Values) -> str:
    """`64 cores`, `15 of 16 nodes`."""
    entity = CATALOG[name].entity
    what = _PARTS[entity]
    if node is None and entity is Entity.JOB:
        what = "jobs on nodes" if len(view_model.cluster.jobs) > 1 else "nodes"
    every = found.known == found.parts
    return f"{found.known:,} {what}" if every else f"{found.known:,} of {found.parts:,} {what}"


def _why(view_model: ViewModel, node: str | None, name: str) -> str:
    """Why nothing is known; of a fleet, what its first node says."""
    views = _views(view_model, node)
    if not views:
        return "this node is gone" if node is not None else "no node is known"
    return views[0].frame.why_absent(name)


def _origin(view_model: ViewModel, node: str | None, quantity: Quantity) -> str:
    """The provenance in words; what a simulation made up is said to be that."""
    simulated = any(view.frame.simulated for view in _views(view_model, node))
    words, sign = _PROVENANCE[quantity.provenance], mark(quantity.name)
    lead = f"{sign} is {words}" if sign else words
    return f"{lead}; here the simulator made it up" if simulated else lead


def _inputs(
    view_model: ViewModel, node: str | None, name: str, width: int, context: RenderContext
) -> list[list[Part]]:
    """What it is computed from, with values, and what that is computed from."""
    rows: list[list[Part]] = []
    for one in inputs(name)[:MAX_INPUTS]:
        rows += _input(view_model, node, one, 0, width, context, "" if rows else "inputs")
        for below in inputs(one)[:MAX_INPUTS]:
            rows += _input(view_model, node, below, 1, width, context, "")
        rows += _more(one, 1, width, context)
    return rows + _more(name, 0, width, context)


def _input(
    view_model: ViewModel,
    node: str | None,
    name: str,
    depth: int,
    width: int,
    context: RenderContext,
    label: str,
) -> list[list[Part]]:
    indent = "  " * depth
    sign = "└ " if depth and context.glyphs.name != "ascii" else "- " * bool(depth)
    parts: list[Part] = [
        (f"{sign}{name} ", context.palette.accent),
        *_value(view_model, node, name, context),
    ]
    return _fact(label, parts, width, context, indent)


def _more(name: str, depth: int, width: int, context: RenderContext) -> list[list[Part]]:
    left = len(inputs(name)) - MAX_INPUTS
    return (
        _words("", f"{'  ' * depth}and {left} more", width, context, faint=True) if left > 0 else []
    )


@cache
def _below(name: str) -> tuple[str, ...]:
    """What it is computed from, down to what sources give; nearest first."""
    found: dict[str, None] = {}
    waiting = list(inputs(name))
    for one in waiting:
        if one not in found:
            found[one] = None
            waiting += inputs(one)
    return tuple(found)


def sources_of(name: str) -> tuple[str, ...]:
    """The sources that it comes from in the end, those that stand in for others last."""
    rows = [CATALOG[one] for one in (name, *_below(name))]
    names = [row.source for row in rows] + [row.fallback for row in rows]
    return tuple(dict.fromkeys(filter(None, names)))


def _sources(
    view_model: ViewModel, node: str | None, name: str, width: int, context: RenderContext
) -> list[list[Part]]:
    rows: list[list[Part]] = []
    for source in sources_of(name):
        label = "" if rows else "source"
        parts: list[Part] = [
            (f"{source} ", context.palette.text),
            *_state(view_model, node, source, context),
        ]
        rows += _fact(label, parts, width, context)
    return rows


def _state(
    view_model: ViewModel, node: str | None, source: str, context: RenderContext
) -> list[Part]:
    """How a source of a node does; of a fleet, on how many nodes it does how."""
    palette = context.palette
    states = [
        (view, state)
        for view in _views(view_model, node)
        for state in view.frame.sources
        if state.name == source
    ]
    if not states:
        return [("not there", palette.muted)]
    if node is not None:
        return _one_state(*states[0], context)
    counts = {
        state: sum(found.state is state for _, found in states)
        for state in reversed(ORDER)
        if any(found.state is state for _, found in states)
    }
    return [
        (f"{context.glyphs.states[state]} {count:,} {state.value}  ", palette.state(state))
        for state, count in counts.items()
    ]


def _one_state(view: NodeView, state: SourceState, context: RenderContext) -> list[Part]:
    palette = context.palette
    facts = [f"{units.age(state.age(view.frame.time))} ago" if state.time is not None else ""]
    facts += [f"every {round(state.period, 1):g} s" if state.period else ""]
    facts += [state.reason if state.state is not State.FRESH else ""]
    return [
        (f"{context.glyphs.states[state.state]} {state.state.value}", palette.state(state.state)),
        (" " + ", ".join(filter(None, facts)), palette.muted),
    ]


def judges(name: str, rules: Iterable[Rule]) -> Iterator[tuple[Rule, str]]:
    """The rules that go by it, and the quantity by which they do: first those that name it."""
    below = _below(name)
    indirect = []
    for rule in rules:
        if name in rule.needs:
            yield rule, name
        elif by := next((one for one in below if one in rule.needs), ""):
            indirect.append((rule, by))
    yield from indirect


def _judges(
    view_model: ViewModel,
    node: str | None,
    name: str,
    rules: Iterable[Rule],
    width: int,
    context: RenderContext,
) -> list[list[Part]]:
    """What would count as wrong with it: first what is so now."""
    palette = context.palette
    found = list(judges(name, rules))
    if not found:
        return _words("judged", "by no rule", width, context)
    jobs = {str(job) for view in _views(view_model, node) for job in view.inventory.of(Entity.JOB)}
    # The worst incident of each kind: they come worst first.
    held = {one.kind: one for one in reversed(view_model.incidents) if _concerns(one, node, jobs)}
    found.sort(key=lambda pair: pair[0].kind not in held)
    rows: list[list[Part]] = []
    for rule, by in found[:MAX_RULES]:
        parts: list[Part] = [(f"{rule.kind}:", palette.text)]
        if (incident := held.get(rule.kind)) is not None:
            sign = context.glyphs.severities[incident.severity]
            since = units.clock(incident.opened_at, utc=view_model.utc)
            parts = [(f"{sign} {rule.kind} since {since}:", palette.severity(incident.severity))]
        parts.append((f" {rule.stated(view_model.limits)}", palette.muted))
        if by != name:
            parts.append((f" (by {by})", palette.faint))
        rows += _fact("" if rows else "judged", parts, width, context)
    if len(found) > MAX_RULES:
        rest = ", ".join(rule.kind for rule, _ in found[MAX_RULES:])
        rows += _words("", f"and by {rest}", width, context)
    return rows


def _concerns(incident: Incident, node: str | None, jobs: Container[str]) -> bool:
    """Whether an incident is about this node, or about a job of it as a whole."""
    return node is None or incident.node == node or (not incident.node and incident.job in jobs)


def _pages(name: str) -> Iterator[str]:
    """Where the documentation says more."""
    entity = str(CATALOG[name].entity).replace("_", "-")
    yield f"docs/metrics.md#per-{entity}"
    sources = sources_of(name)
    yield f"docs/sources.md#{sources[0] if sources else 'computed'}"


def _fact(
    label: str, parts: list[Part], width: int, context: RenderContext, indent: str = ""
) -> list[list[Part]]:
    return list(flowed(parts, width, (f"{label:<{LABEL}}{indent}", context.palette.muted)))


def _words(
    label: str, text: str, width: int, context: RenderContext, *, faint: bool = False
) -> list[list[Part]]:
    return _fact(
        label, [(text, context.palette.faint if faint else context.palette.text)], width, context
    )
