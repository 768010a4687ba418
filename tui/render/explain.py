"""A quantity explained: its formula, inputs, sources and rules; for one node or for all."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from textual.strip import Strip

from trntop.analysis.coverage import lack
from trntop.analysis.rule import Rule
from trntop.analysis.runbook import kind_name
from trntop.catalog import (
    CATALOG,
    Entity,
    Provenance,
    Quantity,
    all_inputs,
    inputs,
    page_of,
    sources_of,
)
from trntop.core import units
from trntop.core.model import Cluster, Incident, Inventory, Key, NodeView, SourceState, State

from ..measures import MEASURES
from ..view_model import ViewModel
from . import glyphs
from .context import RenderContext, mark
from .fleet import ORDER
from .line import Part, fit, line
from .markdown import flowed
from .table import Column

LABEL = 8
MAX_INPUTS = 8
MAX_RULES = 4

_PROVENANCE = {
    Provenance.MEASURED: "measured by a counter or a clock",
    Provenance.REPORTED: "reported by the training process",
    Provenance.DERIVED: "derived: computed from measured values",
    Provenance.ESTIMATED: "estimated: bounded or modeled",
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
    measure.quantity: measure.help[0].upper() + measure.help[1:]
    for measure in MEASURES.values()
    if CATALOG[measure.quantity].rollup_of
}
"""For roll-ups, whose help in the catalog only names the quantity."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a quantity: mean, smallest and largest."""

    known: int
    parts: int
    mean: float
    least: tuple[float, str]
    most: tuple[float, str]


def title(name: str) -> str:
    """The title of its column, else its name in words."""
    if name in _TITLES:
        return _TITLES[name]
    short = name.removesuffix("_per_second")
    for suffix in _SUFFIXES:
        short = short.removesuffix(suffix)
    if CATALOG[name].entity is Entity.EFA:
        short = f"device_{short.removeprefix('efa_')}"
    words = short.removeprefix("node_").replace("_", " ")
    return words.replace("efa cards", "EFA devices").replace("efa ", "EFA ")


def written(value: float | None, name: str) -> str:
    """A value with its unit; EFA traffic in bits, as on every screen."""
    quantity = CATALOG[name]
    if quantity.unit == "bytes_per_second" and "efa_" in name:
        return units.gigabits(value)
    return units.with_unit(value, quantity.unit)


def values(view_model: ViewModel, node: str | None, name: str) -> Values | None:
    """The values of one node, or of all nodes; None without any."""
    views = _views(view_model, node)
    found = [view.frame.columns.get(name, _NOTHING) for view in views]
    if not found:
        return None
    column = np.concatenate(found)
    known = ~np.isnan(column)
    parts = sum(len(view.inventory.of(CATALOG[name].entity)) for view in views)
    if not known.any():
        return None
    ends = np.cumsum([len(values) for values in found])

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


def _owner(view_model: ViewModel, node: str | None) -> Inventory | Cluster:
    views = _views(view_model, node)
    return views[0].inventory if node is not None and views else view_model.cluster


def _label(view: NodeView, entity: Entity, index: int, node: str | None) -> str:
    """The name of a part of a node, after the node if several nodes are shown."""
    if entity is Entity.NODE:
        return view.name
    keys: Sequence[Key] = view.inventory.of(entity)
    key = str(keys[index]) if index < len(keys) else "?"
    numbered = entity in (Entity.DEVICE, Entity.CORE, Entity.PHYSICAL_CORE, Entity.RUNTIME)
    what = {Entity.PHYSICAL_CORE: "core", Entity.RUNTIME: "pid"}.get(entity, str(entity))
    part = f"{what} {key}" if numbered else key
    return part if node is not None else f"{view.name} {part}"


def short_value(view_model: ViewModel, node: str | None, name: str) -> str:
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
    Column("quantity", "quantity", 12, 100, _title, max_width=30),
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
    """Everything about one quantity."""
    palette, quantity = context.palette, CATALOG[name]
    rows = [
        [(name, palette.accent)],
        *flowed([(_HELP.get(name, quantity.help), palette.strong)], width, ("", palette.text)),
        [],
        *_fact("now", _value(view_model, node, name, context), width, context),
        *_fact("", [(_origin(view_model, node, quantity), palette.faint)], width, context),
    ]

    def text(label: str, words: str) -> None:
        rows.extend(_fact(label, [(words, palette.text)], width, context))

    if quantity.rate_of:
        text("formula", f"change of {quantity.rate_of} per second")
    elif quantity.formula or quantity.rollup_of:
        text("formula", quantity.formula or f"{quantity.combine} of {quantity.rollup_of}")
    found = inputs(name)
    for place, source in enumerate(found[:MAX_INPUTS]):
        value = _value(view_model, node, source, context)
        parts: list[Part] = [(f"{source} ", palette.accent), *value]
        rows += _fact("inputs" if place == 0 else "", parts, width, context)
    if len(found) > MAX_INPUTS:
        text("", f"and {len(found) - MAX_INPUTS} more")
    rows += _sources(view_model, node, name, width, context)
    if quantity.needs:
        text("needs", quantity.needs)
    rows += _rules(view_model, node, name, rules, width, context)
    page = page_of(quantity)
    where = f"a {quantity.kind} on {page.path}" if page else "on no page: screen and JSON only"
    text("metric", f"{quantity.metric}, {where}")
    return [line(row, width) for row in rows]


def _value(
    view_model: ViewModel, node: str | None, name: str, context: RenderContext
) -> list[Part]:
    """The value, or mean, smallest and largest of several."""
    palette = context.palette
    found = values(view_model, node, name)
    if found is None:
        return [(units.ABSENT, palette.faint), (f" {_why(view_model, node, name)}", palette.muted)]
    parts: list[Part] = [
        (written(found.mean, name), palette.strong),
        (f" {mark(name, _owner(view_model, node))}", palette.faint),
    ]
    if found.parts == 1:
        return parts
    count = (
        f"{found.known:,} of {found.parts:,}" if found.known < found.parts else f"{found.known:,}"
    )
    what = f"{count} {_PARTS[CATALOG[name].entity]}"
    least, most = (written(end[0], name) for end in (found.least, found.most))
    if least == most:
        return [*parts, (f" each of {what}", palette.muted)]
    ends = f"{least} at {found.least[1]}, {most} at {found.most[1]}"
    return [*parts, (f" mean of {what}; {ends}", palette.muted)]


def _why(view_model: ViewModel, node: str | None, name: str) -> str:
    """Why the value is unknown; for a fleet, on its first node."""
    views = _views(view_model, node)
    if not views:
        return "this node is gone" if node is not None else "no nodes"
    return views[0].frame.why_absent(name)


def _origin(view_model: ViewModel, node: str | None, quantity: Quantity) -> str:
    """The provenance in words."""
    simulated = any(view.frame.simulated for view in _views(view_model, node))
    owner = _owner(view_model, node)
    words, sign = _PROVENANCE[owner.provenance(quantity.name)], mark(quantity.name, owner)
    lead = f"{sign} is {words}" if sign else words
    return f"{lead}; here from the simulator" if simulated else lead


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
    """The state of a source; for a fleet, the number of nodes in each state."""
    palette = context.palette
    states = [
        (view, state)
        for view in _views(view_model, node)
        for state in view.frame.sources
        if state.name == source
    ]
    if not states:
        return [("not present", palette.muted)]
    if node is not None:
        return _one_state(*states[0], context)
    counts = {
        state: sum(found.state is state for _, found in states)
        for state in reversed(ORDER)
        if any(found.state is state for _, found in states)
    }
    return [
        (f"{glyphs.STATES[state]} {count:,} {state.value}  ", palette.state(state))
        for state, count in counts.items()
    ]


def _one_state(view: NodeView, state: SourceState, context: RenderContext) -> list[Part]:
    palette = context.palette
    facts = [f"{units.age(state.age(view.frame.time))} ago" if state.time is not None else ""]
    facts += [f"every {round(state.period, 1):g} s" if state.period else ""]
    facts += [state.reason if state.state is not State.FRESH else ""]
    return [
        (f"{glyphs.STATES[state.state]} {state.state.value}", palette.state(state.state)),
        (" " + ", ".join(filter(None, facts)), palette.muted),
    ]


def rules_of(name: str, rules: Iterable[Rule]) -> Iterator[tuple[Rule, str]]:
    """The rules that read it, directly or not, and the quantity that each of them reads."""
    below = all_inputs(name)
    indirect = []
    for rule in rules:
        if name in rule.needs:
            yield rule, name
        elif by := next((quantity for quantity in below if quantity in rule.needs), ""):
            indirect.append((rule, by))
    yield from indirect


def _rules(
    view_model: ViewModel,
    node: str | None,
    name: str,
    rules: Iterable[Rule],
    width: int,
    context: RenderContext,
) -> list[list[Part]]:
    """The rules that read it, those with an open incident first."""
    palette = context.palette
    found = list(rules_of(name, rules))
    if not found:
        return _fact("rules", [("none", palette.text)], width, context)
    jobs = {str(job) for view in _views(view_model, node) for job in view.inventory.of(Entity.JOB)}
    # The worst incident of each kind.
    open_kinds = {i.kind: i for i in reversed(view_model.incidents) if _concerns(i, node, jobs)}
    found.sort(key=lambda pair: pair[0].kind not in open_kinds)
    coverage = {state.kind: state for state in view_model.view.coverage.rules}
    rows: list[list[Part]] = []
    for rule, by in found[:MAX_RULES]:
        parts: list[Part] = [(f"{kind_name(rule.kind)}:", palette.text)]
        if (incident := open_kinds.get(rule.kind)) is not None:
            sign = glyphs.SEVERITIES[incident.severity]
            since = units.clock(incident.opened_at, utc=view_model.utc)
            parts = [
                (
                    f"{sign} {kind_name(rule.kind)} since {since}:",
                    palette.severity(incident.severity),
                )
            ]
        parts.append((f" {rule.stated(view_model.limits)}", palette.muted))
        if by != name:
            parts.append((f" (by {by})", palette.faint))
        state = coverage.get(rule.kind)
        if state is not None and (needs := lack(state, view_model.view.time)):
            parts.append((f"; {needs}", palette.warning))
        rows += _fact("" if rows else "rules", parts, width, context)
    if len(found) > MAX_RULES:
        rest = ", ".join(kind_name(rule.kind) for rule, _ in found[MAX_RULES:])
        rows += _fact("", [(f"and {rest}", palette.text)], width, context)
    return rows


def _concerns(incident: Incident, node: str | None, jobs: Container[str]) -> bool:
    """Whether an incident is of this node, or of one of its jobs as a whole."""
    return node is None or incident.node == node or (not incident.node and incident.job in jobs)


def _fact(label: str, parts: list[Part], width: int, context: RenderContext) -> list[list[Part]]:
    return list(flowed(parts, width, (f"{label:<{LABEL}}", context.palette.muted)))
