"""The columns of the fleet table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trntop import units
from trntop.catalog import Entity
from trntop.model import Incident, NodeView, State

from . import run
from .graph import Values, bar, sparkline
from .line import Part, fit, length
from .pen import Pen, bare
from .table import Column

UTILIZATION = "node_neuroncore_utilization_mean_ratio"
ENGINE = "node_tensor_engine_busy_mean_ratio"
MEMORY = "node_device_memory_used_max_ratio"
BANDWIDTH = "node_hbm_bandwidth_ratio"
TRANSMIT = "node_efa_tx_bytes_per_second"
RETRANSMIT = "node_efa_retransmit_max_ratio"
COMM = "job_comm_share_ratio"
EXPOSED = "job_exposed_comm_share_ratio"
STEP = "job_step_seconds"
PACE = "job_step_pace_seconds"
"""A step's time where no job states it: by the pace of its log lines."""

ORDER = (State.DOWN, State.STALE, State.LATE, State.STARTING, State.FRESH, State.ENDED)
"""States from the one that needs a look most."""


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One node of the table."""

    node: NodeView
    incidents: tuple[Incident, ...] = ()
    trail: Values | None = None
    """Recent EFA traffic, oldest first."""
    trail_top: float = 0.0
    """What the full height of the trail stands for, the same for all rows."""


def job_worst(node: NodeView, quantity: str) -> float | None:
    """A job quantity of a node; the largest where it runs several jobs."""
    column = node.frame.columns.get(quantity)
    if column is None or not node.inventory.of(Entity.JOB) or np.isnan(column).all():
        return None
    return float(np.nanmax(column))


def _sort_by(quantity: str) -> Callable[[NodeView], float]:
    """Largest first; absent values at the end."""
    job = quantity.startswith("job_")

    def key(node: NodeView) -> float:
        value = job_worst(node, quantity) if job else node.frame.value(quantity)
        return float("-inf") if value is None else value

    return key


def badness(incidents: Sequence[Incident], node: NodeView) -> tuple[int, int]:
    """Sort key of the standard order: the worst incident, then the state."""
    severity = incidents[0].severity.rank if incidents else -1
    return severity, -ORDER.index(node.state)


def _name(row: FleetRow, width: int, pen: Pen) -> list[Part]:
    state = row.node.state
    if not row.incidents:
        calm = state in (State.FRESH, State.ENDED)
        sign = " " if calm else pen.glyphs.states[state]
        style = pen.ink.text if calm else pen.ink.state(state)
        return [(f"{sign} ", style), (fit(row.node.name, width - 2), style)]
    severity = row.incidents[0].severity
    text = f"{pen.glyphs.severities[severity]} {row.node.name}"
    return [(fit(text, width), pen.ink.severity(severity))]


def _utilization(row: FleetRow, width: int, pen: Pen) -> list[Part]:
    value = row.node.frame.value(UTILIZATION)
    number = pen.number(bare(units.percent(value)), UTILIZATION, 5)
    cells = width - 6
    if cells < 4:
        return [(" " * max(0, width - 5), pen.ink.text), *number]
    style = pen.ink.level(value or 0.0)
    return [*bar(value, cells, pen.glyphs, style, pen.ink.rule), (" ", pen.ink.text), *number]


def _share(quantity: str) -> Callable[[FleetRow, int, Pen], list[Part]]:
    """A node's ratio in percent."""

    def draw(row: FleetRow, width: int, pen: Pen) -> list[Part]:
        return pen.number(bare(units.percent(row.node.frame.value(quantity))), quantity, width)

    return draw


def _transmit(row: FleetRow, width: int, pen: Pen) -> list[Part]:
    value = row.node.frame.value(TRANSMIT)
    number = pen.number(bare(units.gigabits(value)), TRANSMIT, 6)
    cells = width - 7
    if cells < 4 or row.trail is None:
        return [(" " * max(0, width - 6), pen.ink.text), *number]
    trail = sparkline(row.trail[-cells:], pen.glyphs, row.trail_top)
    return [*number, (" ", pen.ink.text), (fit(trail, cells, "right"), pen.ink.graph)]


def _retransmit(row: FleetRow, width: int, pen: Pen) -> list[Part]:
    value = row.node.frame.value(RETRANSMIT)
    number = pen.number(bare(units.percent(value)), RETRANSMIT, width)
    blamed = [one for one in row.incidents if (one.component or "").startswith("efa:")]
    if blamed and value is not None:
        number[0] = (number[0][0], pen.ink.severity(blamed[0].severity))
    return number


def _job(
    quantity: str, form: Callable[[float | None], str]
) -> Callable[[FleetRow, int, Pen], list[Part]]:
    def draw(row: FleetRow, width: int, pen: Pen) -> list[Part]:
        return pen.number(bare(form(job_worst(row.node, quantity))), quantity, width)

    return draw


def _comm(row: FleetRow, width: int, pen: Pen) -> list[Part]:
    """The share that jobs report, else the estimated range."""
    if job_worst(row.node, COMM) is not None:
        return _job(COMM, units.percent)(row, width, pen)
    return pen.number(run.comm_bounds(row.node.frame), "", width)


def _step(row: FleetRow, width: int, pen: Pen) -> list[Part]:
    """The time of a step that jobs state, else the one worked out."""
    return _job(_step_quantity(row.node), units.plain_seconds)(row, width, pen)


def _step_quantity(node: NodeView) -> str:
    return STEP if job_worst(node, STEP) is not None else PACE


def _by_step(node: NodeView) -> float:
    return _sort_by(_step_quantity(node))(node)


def _phase(row: FleetRow, width: int, pen: Pen) -> list[Part]:
    found = row.node.frame.phase
    if found is None:
        return [(fit(units.ABSENT, width), pen.ink.faint)]
    return [(fit(found.stage.value, width), run.style_of(found.stage, pen.ink))]


def _incident(row: FleetRow, width: int, pen: Pen) -> list[Part]:
    if not row.incidents:
        return [(" " * width, pen.ink.text)]
    first = row.incidents[0]
    more = f" +{len(row.incidents) - 1}" if len(row.incidents) > 1 else ""
    text = f"{pen.glyphs.severities[first.severity]} {first.kind}{more}"
    return [(fit(text, width), pen.ink.severity(first.severity))]


def state_parts(node: NodeView, pen: Pen) -> list[Part]:
    """Glyph, word and age of a node's state; the age stays quiet while all is well."""
    state = node.state
    age = node.age()
    calm = state is State.FRESH
    parts: list[Part] = [
        (pen.glyphs.states[state], pen.ink.state(state)),
        (f" {state.value}", pen.ink.muted if calm else pen.ink.state(state)),
    ]
    if age is not None and state is not State.ENDED:
        parts.append((f" {units.age(age)}", pen.ink.faint if calm else pen.ink.muted))
    return parts


def _state(row: FleetRow, width: int, pen: Pen) -> list[Part]:
    parts = state_parts(row.node, pen)
    if length(parts) > width:
        parts = [parts[0], (fit(parts[1][0], width - 1), parts[1][1])]
    return [*parts, (" " * max(0, width - length(parts)), pen.ink.text)]


def columns(name_width: int) -> tuple[Column[FleetRow], ...]:
    """The table's columns; the name's takes the longest name up to a third of 80 columns."""
    names = min(max(name_width, 4), 26)
    return (
        Column("node", "  node", min(names, 12) + 2, 100, _name, wide=names + 2),
        Column("util", "util", 6, 90, _utilization, unit="%", wide=26, align="right",
               sort=_sort_by(UTILIZATION)),
        Column("engine", "TE", 5, 82, _share(ENGINE), unit="%", align="right",
               sort=_sort_by(ENGINE)),
        Column("hbm", "HBM", 6, 70, _share(MEMORY), unit="%", align="right",
               sort=_sort_by(MEMORY)),
        Column("bandwidth", "HBM bw", 8, 65, _share(BANDWIDTH), unit="%", align="right",
               sort=_sort_by(BANDWIDTH)),
        Column("efa", "EFA tx", 11, 80, _transmit, unit="Gb/s", wide=24,
               sort=_sort_by(TRANSMIT)),
        Column("retransmit", "retx", 7, 60, _retransmit, unit="%", align="right",
               sort=_sort_by(RETRANSMIT)),
        Column("comm", "comm", 7, 75, _comm, unit="%", align="right", sort=_sort_by(COMM)),
        Column("exposed", "exposed", 9, 43, _job(EXPOSED, units.percent), unit="%",
               align="right", sort=_sort_by(EXPOSED)),
        Column("step", "step", 7, 40, _step, unit="s", align="right", sort=_by_step),
        Column("phase", "phase", 13, 44, _phase),
        Column("incident", "incident", 14, 45, _incident, wide=24),
        Column("state", "state", 7, 85, _state, wide=15),
    )  # fmt: skip
