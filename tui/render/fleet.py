"""The columns of the fleet table, and the order of its rows."""

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trntop.analysis.rulebook import NEXT_STEPS
from trntop.catalog import EFA_SOURCE, HBM_QUANTITIES, NEURON_MONITOR, Entity
from trntop.core import units
from trntop.core.model import Frame, Incident, NodeView, SourceState, Stage, State
from trntop.sources import TRAINING_SOURCES

from ..measures import MEASURES, Measure
from ..view_model import ViewModel
from . import glyphs, run
from .context import RenderContext, mark
from .graph import Values, sparkline
from .line import Part, fit, length
from .table import Column

WORST = "worst"
"""The default order: incidents first, then by state, then by name."""
ESSENTIAL = (NEURON_MONITOR, EFA_SOURCE)
"""Sources without which a node cannot be called healthy."""
NODE = "node"
"""The column that is always shown."""
OPTIONAL = ("efa_rx", "power", "cpu")
"""Columns that are shown on request only."""
REQUESTED_RANK = 50
"""Added to the importance of an optional column that is requested."""
EFA_KINDS = ("efa_degraded", "efa_down")
RELATED_KINDS = {"retx": EFA_KINDS, "comm": ("straggler", "comm_bound")}
"""Column → incidents that color its number. A straggler communicates less than the ranks that wait
for it."""
QUIET = 3
"""Step of the scale of levels that sparklines have."""
TRAFFIC_CELLS = 7
"""Width of a rate next to its sparkline."""

ORDER = (
    *(State.DOWN, State.NO_DATA, State.STALE, State.LATE),
    *(State.STARTING, State.FRESH, State.ENDED),
)
"""States, worst first."""


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One node of the table."""

    node: NodeView
    incidents: tuple[Incident, ...] = ()
    trail: Values | None = None
    """Recent EFA traffic, oldest first."""
    trail_top: float = 0.0
    """Value of the full height of all sparklines."""
    job_incidents: tuple[Incident, ...] = ()
    """Incidents of its jobs as a whole that its own numbers confirm, worst first."""


Draw = Callable[[FleetRow, int, RenderContext], list[Part]]


def job_incidents(view_model: ViewModel, node: NodeView) -> tuple[Incident, ...]:
    """The open incidents of a node's jobs that name no node, if the node exceeds the limit."""
    share = MEASURES["comm"].value(node)
    if share is None or share <= view_model.limits.comm_share:
        return ()
    jobs = node.inventory.of(Entity.JOB)
    return tuple(i for i in view_model.incidents if i.node is None and i.job in jobs)


def unreached(node: NodeView) -> str:
    """Why a node that is down has no data at all; empty if it has any."""
    if node.state is not State.DOWN or node.frame.columns:
        return ""
    return next((s.reason for s in node.frame.sources if s.reason), "unreachable")


def _name(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
    severity = row.incidents[0].severity if row.incidents else None
    return context.name(row.node.name, width, severity, row.node.state)


def _number(measure: Measure) -> Draw:
    """The number; a provenance that is not that of the column is marked."""
    varies = bool(measure.fallback) or measure.quantity in HBM_QUANTITIES

    def draw(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
        value = measure.value(row.node)
        shown = None if value is None else value / measure.scale
        figure = context.figure(shown, measure.decimals, width - varies)
        if not varies:
            return figure
        sign = mark(measure.quantity_of(row.node), row.node.inventory)
        is_marked = value is not None and sign != mark(measure.quantity)
        return [*figure, (sign if is_marked else " ", context.palette.faint)]

    return draw


def _with_trail(number: Draw) -> Draw:
    """A sparkline next to the number, if there is room."""

    def draw(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
        cells = width - TRAFFIC_CELLS - 1
        if cells < 4 or row.trail is None:
            return number(row, width, context)
        trail = sparkline(row.trail[-cells:], row.trail_top)
        parts = [*number(row, TRAFFIC_CELLS, context), (" ", context.palette.text)]
        return [*parts, (fit(trail, cells, "right"), context.palette.levels[QUIET])]

    return draw


def _with_severity(number: Draw, kinds: Sequence[str]) -> Draw:
    """The color of the worst incident of these kinds of the node or its job."""

    def draw(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
        parts = number(row, width, context)
        found = [i.severity for i in (*row.incidents, *row.job_incidents) if i.kind in kinds]
        if found and parts[0][1] is context.palette.text:
            worst = max(found, key=lambda severity: severity.rank)
            parts[0] = (parts[0][0], context.palette.severity(worst))
        return parts

    return draw


def _with_bounds(number: Draw, measure: Measure, bounds: Callable[[Frame], str]) -> Draw:
    """The value, else its estimated range."""

    def draw(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
        text = bounds(row.node.frame)
        if measure.value(row.node) is not None or text == units.ABSENT:
            return number(row, width, context)
        return [(fit(text, width, "right"), context.palette.text)]

    return draw


def _text(read: Callable[[NodeView], str]) -> Draw:
    def draw(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
        text = read(row.node)
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
    phase = row.node.frame.phase
    return run.stage_cell(phase.stage if phase else None, width, context)


def _next(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
    step = NEXT_STEPS.get(row.incidents[0].kind, "") if row.incidents else ""
    return [(fit(step, width), context.palette.text)]


def _incident(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
    return context.worst_incident(row.incidents, width)


def state_parts(node: NodeView, context: RenderContext) -> list[Part]:
    """Sign, word and age of the state of a node; for a fresh node, its lost sources."""
    state = node.state
    age = node.age()
    calm = state is State.FRESH
    silent = _missed(node)
    if calm and silent:
        counts = Counter(source.state for source in silent)
        return [
            (f"{' ' * bool(place)}{glyphs.STATES[lost]} {counts[lost]} {lost.value}", style)
            for place, lost in enumerate(sorted(counts, key=ORDER.index))
            for style in (context.palette.state(lost),)
        ]
    parts: list[Part] = [
        (glyphs.STATES[state], context.palette.state(state)),
        (f" {state.value}", context.palette.muted if calm else context.palette.state(state)),
    ]
    if age is not None and state not in (State.ENDED, State.NO_DATA):
        parts.append(
            (f" {units.age(age)}", context.palette.faint if calm else context.palette.muted)
        )
    return parts


def _missed(node: NodeView) -> list[SourceState]:
    """Its silent sources; a run that stalls has no steps to report."""
    phase = node.frame.phase
    expected = TRAINING_SOURCES if phase and phase.stage is Stage.STALLED else ()
    return [s for s in node.frame.sources if is_missed(s) and s.name not in expected]


def is_missed(source: SourceState) -> bool:
    """Whether a source is silent that had data before, or that is essential."""
    if source.state not in (State.DOWN, State.STALE):
        return False
    return source.time is not None or source.name in ESSENTIAL


def _state(row: FleetRow, width: int, context: RenderContext) -> list[Part]:
    parts = state_parts(row.node, context)
    while len(parts) > 1 and length(parts) > width:
        parts.pop()
    return [*parts, (" " * max(0, width - length(parts)), context.palette.text)]


def columns(name_width: int) -> tuple[Column[FleetRow], ...]:
    """All columns; `name_width` is the length of the longest name."""
    names = min(max(name_width, 4), 26)

    def number(name: str, width: int, rank: int, wide: int = 0) -> Column[FleetRow]:
        measure = MEASURES[name]
        draw = _number(measure)
        if name == "efa_tx":
            draw = _with_trail(draw)
        elif name == "comm":
            draw = _with_bounds(draw, measure, run.comm_bounds)
        elif name == "hbm_bw":
            draw = _with_bounds(draw, measure, run.hbm_floor)
        if name in RELATED_KINDS:
            draw = _with_severity(draw, RELATED_KINDS[name])
        return Column(
            name, measure.title, width, rank, draw, unit=measure.unit, max_width=wide,
            align="left" if name == "efa_tx" else "right", quantity=measure.quantity,
        )  # fmt: skip

    return (
        Column(NODE, "  node", min(names, 12) + 2, 100, _name, max_width=names + 2),
        number("util", 6, 90),
        number("te", 4, 82),
        number("hbm", 6, 70),
        number("hbm_bw", 8, 65),
        number("efa_tx", 11, 80, 18),
        number("efa_rx", 11, 79),
        number("retx", 6, 76),
        number("comm", 6, 75),
        number("exposed", 9, 73),
        number("step", 7, 72),
        number("power", 7, 42),
        number("cpu", 6, 41),
        Column("phase", "phase", 13, 44, _phase),
        Column("job", "job", 12, 39, _text(_job), max_width=24),
        Column("type", "type", 14, 38, _text(_type), max_width=18),
        Column("incident", "incident", 20, 77, _incident, max_width=24),
        Column("next", "next step", 32, 71, _next, max_width=80),
        Column("state", "state", 10, 85, _state, max_width=15),
    )


TITLES: Mapping[str, str] = {column.id: column.title.strip() for column in columns(4)}
"""Column → its title, without the unit."""


def uniform(view_model: ViewModel) -> frozenset[str]:
    """Columns that are the same in every row."""
    nodes, found = view_model.cluster.nodes.values(), set[str]()
    if not any(view_model.by_node.values()):
        found |= {"incident", "next"}
    if len(view_model.phases) < 2 and all(node.frame.phase for node in nodes):
        found.add("phase")
    fresh = view_model.states.keys() <= {State.FRESH}
    if fresh and not any(map(_missed, nodes)):
        found.add("state")
    if view_model.phases.keys() == {Stage.STALLED}:
        found |= {"comm", "exposed", "step"}
    if len(view_model.cluster.jobs) < 2:
        found.add("job")
    if len({_type(node) for node in nodes}) < 2:
        found.add("type")
    return frozenset(found)


def selected(
    found: Sequence[Column[FleetRow]], names: Sequence[str], hidden: Container[str] = ()
) -> tuple[Column[FleetRow], ...]:
    """The named columns; without names, the default ones that are not hidden."""
    if not names:
        return tuple(c for c in found if c.id not in OPTIONAL and c.id not in hidden)
    return tuple(
        replace(column, rank=column.rank + REQUESTED_RANK) if column.id in OPTIONAL else column
        for column in found
        if column.id == NODE or column.id in names
    )


def order(view_model: ViewModel, by: str, *, reverse: bool) -> list[int]:
    """Indices of the nodes in the order of a column, largest or worst first.

    Unknown values are last in both directions; equal values keep the order of names.
    """
    keys = _sort_keys(view_model, by)
    return np.argsort(keys if reverse else -keys, kind="stable").tolist()  # type: ignore[no-any-return]


def _sort_keys(view_model: ViewModel, by: str) -> Values:
    """`[node]`, larger is first."""
    nodes = view_model.cluster.nodes
    if (measure := MEASURES.get(by)) is not None:
        return measure.values(view_model.cluster)
    if by in ("job", "type"):
        texts = [(_job if by == "job" else _type)(node) for node in nodes.values()]
        place = {text: -float(index) for index, text in enumerate(sorted(set(texts)))}
        return np.array([place[text] if text else np.nan for text in texts])
    if by == "phase":
        places = {stage: -float(index) for index, stage in enumerate(Stage)}
        phases = [node.frame.phase for node in nodes.values()]
        return np.array([places[phase.stage] if phase else np.nan for phase in phases])
    if by == NODE:
        return -np.arange(len(nodes), dtype=np.float64)
    severities = np.array([
        incidents[0].severity.rank if (incidents := view_model.by_node.get(name)) else -1.0
        for name in nodes
    ])  # fmt: skip
    states = np.array([-float(ORDER.index(node.state)) for node in nodes.values()])
    if by == "incident":
        return severities
    return states if by == "state" else severities * len(ORDER) + states
