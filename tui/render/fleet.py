"""The columns of the fleet table, their order, and what has changed since a baseline."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trntop.catalog import EFA_SOURCE, NEURON_MONITOR, Entity
from trntop.core import units
from trntop.core.model import Incident, NodeView, SourceState, Stage, State

from ..measures import MEASURES, Measure
from ..view_model import ViewModel
from . import run
from .context import RenderContext, bare
from .graph import Values, bar, sparkline
from .line import Part, fit, length
from .table import Column

WORST = "worst"
"""The standard order: incidents first, then the silent, then by name."""
ESSENTIAL = (NEURON_MONITOR, EFA_SOURCE)
"""Sources without a word from which there is no all-clear; the others are there or are not."""
NODE = "node"
"""The column that is always there."""
OPTIONAL = ("efa_rx", "power", "cpu", "job", "type")
"""Columns that are shown only where they are asked for."""
ASKED_FOR = 50
"""What an optional column is worth more than it were: it was asked for."""
CARD_KINDS = ("efa_degraded", "efa_down")
"""Incidents that the retransmits of a card tell of; its links may be slow without any."""
BLAME = {"retx": CARD_KINDS, "comm": ("straggler", "comm_bound")}
"""Column → incidents that its number tells of. Who is waited for communicates less than those who
wait.
"""
NOTABLE = 0.1
"""Share of what it was from which a change is drawn as bright as other numbers."""
ARROW_CELLS = 7
"""From this width on, a change has an arrow before its sign, where both fit."""
TRAFFIC_CELLS = 7
"""Cells of a rate beside its trail."""

ORDER = (
    *(State.DOWN, State.NO_DATA, State.STALE, State.LATE),
    *(State.STARTING, State.FRESH, State.ENDED),
)
"""States from the one that needs attention most."""


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One node of the table."""

    node: NodeView
    incidents: tuple[Incident, ...] = ()
    trail: Values | None = None
    """Recent EFA traffic, oldest first."""
    trail_top: float = 0.0
    """What the full height of the trail stands for, the same for all rows."""
    before: NodeView | None = None
    """The node at the baseline; None where there is none, or the node was not there."""
    of_jobs: tuple[Incident, ...] = ()
    """Incidents of its jobs as a whole that its own numbers bear out, worst first."""


Draw = Callable[[FleetRow, int, RenderContext], list[Part]]


def of_jobs(view_model: ViewModel, node: NodeView) -> tuple[Incident, ...]:
    """The open incidents of a node's jobs that name no node; none where it keeps to the limit."""
    share = MEASURES["comm"].of(node)
    if share is None or share <= view_model.limits.comm_share:
        return ()
    jobs = node.inventory.of(Entity.JOB)
    return tuple(one for one in view_model.incidents if one.node is None and one.job in jobs)


def unreached(node: NodeView) -> str:
    """Why nothing at all is known of a node that is down; empty where anything is."""
    if node.state is not State.DOWN or node.frame.columns:
        return ""
    return next((one.reason for one in node.frame.sources if one.reason), "unreachable")


def badness(incidents: Sequence[Incident], node: NodeView) -> tuple[int, int]:
    """Sort key of the standard order: the worst incident, then the state."""
    severity = incidents[0].severity.rank if incidents else -1
    return severity, -ORDER.index(node.state)


def _name(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
    state = row.node.state
    if not row.incidents:
        calm = state in (State.FRESH, State.ENDED)
        sign = " " if calm else context.glyphs.states[state]
        style = context.palette.text if calm else context.palette.state(state)
        return [(f"{sign} ", style), (fit(row.node.name, width - 2), style)]
    severity = row.incidents[0].severity
    text = f"{context.glyphs.severities[severity]} {row.node.name}"
    return [(fit(text, width), context.palette.severity(severity))]


def _digits(measure: Measure, value: float | None) -> str:
    """A value as its column shows it; what rounds to nothing is 0, like nothing."""
    text = bare(measure.form(value))
    return text if text.strip("0.") else "0"


def _number(measure: Measure) -> Draw:
    """The number as it is."""

    def draw(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
        text = _digits(measure, measure.of(row.node))
        return context.number(text, measure.quantity_of(row.node), width)

    return draw


def _change(measure: Measure) -> Draw:
    """By how much it is more or less than at the baseline; in points, where it is percent."""

    def draw(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
        now = measure.of(row.node)
        before = None if row.before is None else measure.of(row.before)
        if now is None or before is None:
            return context.number(units.ABSENT, measure.quantity, width)
        size = _digits(measure, abs(now - before))
        if size == "0":
            return [(fit("0 ", width, "right"), context.palette.faint)]
        arrow, sign = (context.glyphs.up, "+") if now > before else (context.glyphs.down, "-")
        text = f"{sign}{size}"
        if width >= max(ARROW_CELLS, len(text) + 3):  # arrow, blank, and mark behind
            text = f"{arrow} {text}"
        parts = context.number(text, measure.quantity_of(row.node), width)
        if abs(now - before) < NOTABLE * abs(before):
            parts[0] = (parts[0][0], context.palette.muted)
        return parts

    return draw


def _with_bar(number: Draw, measure: Measure) -> Draw:
    """The level beside the number, where there is room."""

    def draw(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
        cells = width - 6
        if cells < 4:
            return number(row, width, context)
        value = measure.of(row.node)
        level = bar(
            value, cells, context.glyphs, context.palette.level(value or 0.0), context.palette.rule
        )
        return [*level, (" ", context.palette.text), *number(row, 5, context)]

    return draw


def _with_trail(number: Draw) -> Draw:
    """The last seconds beside the number, where there is room."""

    def draw(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
        cells = width - TRAFFIC_CELLS - 1
        if cells < 4 or row.trail is None:
            return number(row, width, context)
        trail = sparkline(row.trail[-cells:], context.glyphs, row.trail_top)
        parts = [*number(row, TRAFFIC_CELLS, context), (" ", context.palette.text)]
        return [*parts, (fit(trail, cells, "right"), context.palette.graph)]

    return draw


def _with_blame(number: Draw, kinds: Sequence[str]) -> Draw:
    """In the colour of the worst incident of these kinds that the node or its job has."""

    def draw(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
        parts = number(row, width, context)
        blamed = [one.severity for one in (*row.incidents, *row.of_jobs) if one.kind in kinds]
        if blamed and parts[0][1] is context.palette.text:
            worst = max(blamed, key=lambda one: one.rank)
            parts[0] = (parts[0][0], context.palette.severity(worst))
        return parts

    return draw


def _with_bounds(number: Draw) -> Draw:
    """The share that jobs report, else the estimated range."""

    def draw(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
        if MEASURES["comm"].of(row.node) is not None:
            return number(row, width, context)
        return context.number(run.comm_bounds(row.node.frame), "", width)

    return draw


def _text(of: Callable[[NodeView], str]) -> Draw:
    def draw(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
        text = of(row.node)
        return [
            (
                fit(text or units.ABSENT, width),
                context.palette.text if text else context.palette.faint,
            )
        ]

    return draw


def _job(node: NodeView) -> str:
    return ", ".join(str(job) for job in node.inventory.of(Entity.JOB))


def _type(node: NodeView) -> str:
    return node.inventory.instance_type


def _phase(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
    found = row.node.frame.phase
    if found is None:
        return [(fit(units.ABSENT, width), context.palette.faint)]
    return [(fit(found.stage.value, width), run.style_of(found.stage, context.palette))]


def _incident(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
    if not row.incidents:
        return [(" " * width, context.palette.text)]
    first = row.incidents[0]
    more = f" +{len(row.incidents) - 1}" if len(row.incidents) > 1 else ""
    text = f"{context.glyphs.severities[first.severity]} {first.kind}{more}"
    return [(fit(text, width), context.palette.severity(first.severity))]


def state_parts(node: NodeView, context: RenderContext) -> list[Part]:
    """Glyph, word and age of a node's state; of a fresh one that lost sources, how many."""
    state = node.state
    age = node.age()
    calm = state is State.FRESH
    silent = [one for one in node.frame.sources if is_missed(one)]
    if calm and silent:
        counts = Counter(one.state for one in silent)
        return [
            (f"{' ' * bool(place)}{context.glyphs.states[lost]} {counts[lost]} {lost.value}", style)
            for place, lost in enumerate(sorted(counts, key=ORDER.index))
            for style in (context.palette.state(lost),)
        ]
    parts: list[Part] = [
        (context.glyphs.states[state], context.palette.state(state)),
        (f" {state.value}", context.palette.muted if calm else context.palette.state(state)),
    ]
    if age is not None and state not in (State.ENDED, State.NO_DATA):
        parts.append(
            (f" {units.age(age)}", context.palette.faint if calm else context.palette.muted)
        )
    return parts


def is_missed(source: SourceState) -> bool:
    """Whether a source is silent that spoke before, or without which a node is not known."""
    if source.state not in (State.DOWN, State.STALE):
        return False
    return source.time is not None or source.name in ESSENTIAL


def _state(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
    parts = state_parts(row.node, context)
    while len(parts) > 1 and length(parts) > width:
        parts.pop()
    return [*parts, (" " * max(0, width - length(parts)), context.palette.text)]


def columns(name_width: int, *, changes: bool = False) -> tuple[Column[FleetRow], ...]:
    """All columns; the name's takes the longest name up to a third of 80 columns.

    Args:
        name_width: cells of the longest name.
        changes: whether numbers are shown as their change since the baseline.
    """
    names = min(max(name_width, 4), 26)
    ratio = ARROW_CELLS if changes else 6

    def number(name: str, width: int, rank: int, wide: int = 0) -> Column[FleetRow]:
        measure = MEASURES[name]
        draw = _change(measure) if changes else _number(measure)
        if name == "util" and not changes:
            draw = _with_bar(draw, measure)
        elif name == "efa_tx":
            draw = _with_trail(draw)
        elif name == "comm" and not changes:
            draw = _with_bounds(draw)
        if name in BLAME:
            draw = _with_blame(draw, BLAME[name])
        title, unit = measure.title, measure.unit
        if changes:  # points have no sign of their own, and the card's name no room
            title, unit = title.removeprefix("EFA "), f"±{unit.removesuffix('%')}"
        return Column(
            name, title, width, rank, draw, unit=unit, wide=wide,
            align="left" if name == "efa_tx" else "right",
            help=measure.help,
        )  # fmt: skip

    return (
        Column(NODE, "  node", min(names, 12) + 2, 100, _name, wide=names + 2, help="its name"),
        number("util", 6, 90, 26),
        number("te", 5 if changes else 4, 82),
        number("hbm", 6, 70),
        number("hbm_bw", 8, 65),
        number("efa_tx", 11, 80, 24),
        number("efa_rx", 11, 79),
        number("retx", ratio, 76),
        number("comm", ratio, 75),
        number("exposed", 9, 43),
        number("step", 8 if changes else 7, 40),
        number("power", 7, 42),
        number("cpu", 6, 41),
        Column("phase", "phase", 13, 44, _phase, help="what its run is busy with"),
        Column("job", "job", 12, 39, _text(_job), wide=24, help="the jobs that report from it"),
        Column("type", "type", 14, 38, _text(_type), wide=18, help="EC2 instance type"),
        Column("incident", "incident", 14, 45, _incident, wide=24, help="its worst incident"),
        Column("state", "state", 10, 85, _state, wide=15, help="whether it speaks, and its age"),
    )


TITLES: Mapping[str, str] = {one.id: one.title.strip() for one in columns(4)}
"""Column → what its header says, without the unit."""


def chosen(
    found: Sequence[Column[FleetRow]], wanted: Sequence[str]
) -> tuple[Column[FleetRow], ...]:
    """The columns that are wanted, in their order; the standard ones where none is named."""
    if not wanted:
        return tuple(one for one in found if one.id not in OPTIONAL)
    return tuple(
        replace(one, rank=one.rank + ASKED_FOR) if one.id in OPTIONAL else one
        for one in found
        if one.id == NODE or one.id in wanted
    )


def order(view_model: ViewModel, by: str, *, reverse: bool) -> list[int]:
    """The places of the cluster's nodes in the order of a column, largest or worst first.

    What is absent comes last either way; what is equal stays in the order of names. With a
    baseline, numbers are ordered by their change.
    """
    ranks = _ranks(view_model, by)
    return np.argsort(ranks if reverse else -ranks, kind="stable").tolist()  # type: ignore[no-any-return]


def _ranks(view_model: ViewModel, by: str) -> Values:
    """What the nodes are sorted by, `[node]`."""
    nodes = view_model.cluster.nodes
    if (measure := MEASURES.get(by)) is not None:
        values = measure.over(view_model.cluster)
        return values if view_model.baseline is None else values - _then(view_model, measure)
    if by in ("job", "type"):
        of = _job if by == "job" else _type
        texts = [of(node) for node in nodes.values()]
        place = {text: -float(index) for index, text in enumerate(sorted(set(texts)))}
        return np.array([place[text] if text else np.nan for text in texts])
    if by == "phase":
        places = {stage: -float(index) for index, stage in enumerate(Stage)}
        phases = [node.frame.phase for node in nodes.values()]
        return np.array([places[one.stage] if one else np.nan for one in phases])
    if by == NODE:
        return -np.arange(len(nodes), dtype=np.float64)
    by_node = view_model.by_node
    pairs = [badness(by_node.get(name, ()), node) for name, node in nodes.items()]
    badnesses = np.array(pairs, np.float64).reshape(-1, 2)
    # One step of severity is more than all states.
    weights = {WORST: (len(ORDER), 1), "incident": (1, 0), "state": (0, 1)}[by]
    return badnesses @ np.array(weights, np.float64)


def _then(view_model: ViewModel, measure: Measure) -> Values:
    """A measure at the baseline, along the nodes of today."""
    assert view_model.baseline is not None
    before = view_model.baseline.cluster
    values = measure.over(before)
    if before.names == view_model.cluster.names:
        return values
    known = dict(zip(before.names, values.tolist(), strict=True))
    return np.array([known.get(name, np.nan) for name in view_model.cluster.names])
