"""The map of EFA devices: a row per node, a cell per device, so that rails are columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from rich.style import Style
from textual.strip import Strip

from trntop.analysis.runbook import kind_name
from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import Incident, NodeView, Severity

from ..measures import GIGABIT, RECEIVE, RETRANSMIT, TRANSMIT
from . import efa, glyphs
from .context import RenderContext
from .fabric import Fabric
from .fleet import EFA_KINDS, ORDER
from .graph import runs
from .layers import Layer
from .line import Part, fit, flow, line
from .links import LATENCY
from .palette import LEVELS, level_of
from .table import GAP, Column

WIDEST_CELL = 6
NUMBERED = 5
"""Width of a cell from which it shows its number."""
NAMED = 3
"""Width of a cell from which its column has a number of two digits."""
FIGURE = 9
STEP = 2
"""Steps of the scale that have one color here."""
LONGEST_NAME = 16


@dataclass(frozen=True, slots=True)
class MapRow:
    """The devices of one node."""

    node: NodeView
    severity: Severity | None
    values: Sequence[float]
    """Of the layer, one per rail; NaN if unknown."""
    columns: frozenset[int]
    """Rails in which the node has a device."""
    levels: Sequence[float]
    """From 0 to 1."""
    texts: Sequence[str]
    marks: Mapping[int, Severity] = field(default_factory=dict)
    """Rails of devices that need attention."""
    retransmit_severity: Severity | None = None
    note: str = ""
    cursor: int | None = None
    """Rail of the selected device."""


@dataclass(frozen=True, slots=True)
class MapState:
    """Layer and selected rail of the map."""

    layer: Layer
    column: int | None = None


def worst_first(fabric: Fabric, layer: Layer) -> list[NodeView]:
    """Nodes with incidents of devices or links first, then degraded ones, then by name.

    In the layer of latency, nodes with slow links are first.
    """
    by_node = fabric.view_model.by_node
    slow = fabric.slow_nodes if layer.quantity == LATENCY else {}

    def key(node: NodeView) -> tuple[int, int, int, int]:
        found = [i.severity.rank for i in by_node.get(node.name, ()) if _is_fabric_incident(i)]
        return (
            -slow.get(node.name, -1), -max(found, default=-1), -len(node.lost_efa_devices),
            ORDER.index(node.state),
        )  # fmt: skip

    return sorted(fabric.rails.nodes, key=key)


def _is_fabric_incident(incident: Incident) -> bool:
    component = incident.component or ""
    return component.startswith(("efa:", "link:")) or incident.kind.startswith(("efa", "latency"))


def marks(fabric: Fabric, node: NodeView, *, links: bool = False) -> dict[int, Severity]:
    """Rail → severity of the device there; with `links`, also of its slow links."""
    columns = fabric.rails.columns(fabric.rails.row_of[node.name])
    found = efa.severities(fabric.view_model, node)
    for place, device in enumerate(map(str, node.inventory.of(Entity.EFA))):
        slow = fabric.slow_devices.get((node.name, device)) if links else None
        if slow is not None and (place not in found or slow.rank > found[place].rank):
            found[place] = slow
        if efa.link_state(node, device):
            found.setdefault(place, Severity.WARNING)
    return {columns[place]: severity for place, severity in found.items()}


def row_of(fabric: Fabric, node: NodeView, state: MapState, *, cursor: bool) -> MapRow:
    row, layer = fabric.rails.row_of[node.name], state.layer
    values = layer.values(fabric)[row].tolist()
    found = [i for i in fabric.view_model.by_node.get(node.name, ()) if _is_fabric_incident(i)]
    note = kind_name(found[0].kind) if found else ""
    if not found and node.inventory.of(Entity.EFA) and efa.TX not in node.frame.columns:
        note = node.frame.why_absent(efa.TX)
    return MapRow(
        node=node,
        severity=found[0].severity if found else None,
        values=values,
        columns=frozenset(fabric.rails.columns(row)),
        levels=[0.0 if v != v else layer.level(v, fabric) for v in values],
        texts=["" if v != v else layer.text(v) for v in values],
        marks=marks(fabric, node, links=layer.quantity == LATENCY),
        retransmit_severity=next((i.severity for i in found if i.kind in EFA_KINDS), None),
        note=note,
        cursor=state.column if cursor else None,
    )


def cell_width(fabric: Fabric, width: int) -> int:
    """Cells of one device in a map of `width`, its gap included."""
    count = len(fabric.rails.names)
    if not count:
        return 0
    room = width - first_cell(fabric)
    cells = [(room - figures * (GAP + FIGURE)) // count for figures in (2, 1)]
    # Numbers of devices are more important than totals of nodes.
    wanted = cells[0] if cells[0] >= NAMED else cells[1]
    return min(WIDEST_CELL, max(1, wanted))


def _name_width(fabric: Fabric) -> int:
    longest = max((len(node.name) for node in fabric.rails.nodes), default=0)
    return 2 + min(LONGEST_NAME, max(4, longest))


def first_cell(fabric: Fabric) -> int:
    """Where the devices start."""
    return 2 + _name_width(fabric) + GAP + 1


def columns(fabric: Fabric, width: int) -> tuple[Column[MapRow], ...]:
    cell = cell_width(fabric, width)
    numbers = range(1, len(fabric.rails.names) + 1)
    digits = 2 if cell >= NAMED else 1
    title = " " + "".join(
        fit(str(n)[-digits:].rjust(max(1, cell - 1) if cell >= NUMBERED else 1), cell)
        for n in numbers
    )
    return (
        Column("node", "  node", _name_width(fabric), 100, _name),
        Column("devices", title, len(title), 99, partial(_devices, cell)),
        Column(
            "tx",
            "tx",
            FIGURE,
            80,
            partial(_rate, TRANSMIT),
            "Gb/s",
            align="right",
            quantity=TRANSMIT,
        ),
        Column(
            "retransmit", "retx", FIGURE, 90, _retransmit, "%", align="right", quantity=RETRANSMIT
        ),
        Column(
            "rx", "rx", FIGURE, 70, partial(_rate, RECEIVE), "Gb/s", align="right", quantity=RECEIVE
        ),
        Column("note", "incident", 14, 60, _note, max_width=60),
    )


def legend(fabric: Fabric, state: MapState, width: int, context: RenderContext) -> Strip:
    """The scale of colors and the signs."""
    palette, layer = context.palette, state.layer
    if np.isnan(layer.values(fabric)).all():
        return line([(f"  {_why_unknown(fabric, layer)}", palette.muted)], width)
    low, high = layer.ends(fabric)
    swatch: list[Part] = [(glyphs.CELL, palette.levels[step]) for step in range(0, LEVELS, STEP)]
    scale: list[Part] = [
        (f"  {low} ", palette.muted), *runs(swatch), (f" {high}", palette.muted),
    ]  # fmt: skip
    signs: list[Part] = [
        (glyphs.SEVERITIES[Severity.CRITICAL], palette.critical), (" ", palette.muted),
        (glyphs.SEVERITIES[Severity.WARNING], palette.warning), (" needs attention", palette.muted),
    ]  # fmt: skip
    limit: list[Part] = []
    if layer.quantity == efa.RETRANSMIT:
        text = units.percent(fabric.view_model.limits.retransmits)
        limit = [(f"limit {text}", palette.muted)]
    unknown: list[Part] = [(f"{glyphs.ABSENT} unknown", palette.faint)]
    return flow(
        [(100, scale), (80, limit), (60, signs), (40, unknown)], width, ("   ", palette.faint)
    )


def _why_unknown(fabric: Fabric, layer: Layer) -> str:
    node = next((node for node in fabric.rails.nodes if node.inventory.of(Entity.EFA)), None)
    if node is None:
        first = next(iter(fabric.rails.nodes), None)
        why = "" if first is None else f": {first.frame.why_absent(efa.TX)}"
        return f"no EFA devices known{why}"
    if layer.quantity == LATENCY:
        return "no link was probed; m switches to the counters of the devices"
    if not node.frame.columns.keys() & {efa.TX, efa.COUNTER} and fabric.view_model.behind:
        return "the history has no EFA devices for this many nodes"
    return f"unknown: {node.frame.why_absent(layer.quantity)}"


def _name(row: MapRow, width: int, context: RenderContext) -> list[Part]:
    return context.name(row.node.name, width, row.severity, row.node.state)


def _devices(cell: int, row: MapRow, width: int, context: RenderContext, /) -> list[Part]:
    """All devices of a node; the selected one in brackets."""
    selected = row.cursor if cell > 1 else None
    brackets = {} if selected is None else {selected: "[", selected + 1: "]"}
    parts: list[Part] = [(brackets.get(0, " "), context.palette.key)]
    for column in range(len(row.values)):
        text, style = _cell(row, column, max(1, cell - 1), context)
        bracket = brackets.get(column + 1, "")
        # A gap has the color of the cell before it: fewer changes, fewer bytes.
        parts.append((text if bracket or cell == 1 else f"{text} ", style))
        parts.append((bracket, context.palette.key))
    parts = [part for part in parts if part[0]]
    used = sum(len(text) for text, _ in parts)
    return [*runs(parts), (" " * (width - used), context.palette.faint)]


def _cell(row: MapRow, column: int, size: int, context: RenderContext) -> Part:
    """One device: the sign of its severity, or its color; with its number if there is room."""
    palette, value = context.palette, row.values[column]
    text = (row.texts[column] or units.ABSENT) if size >= NUMBERED - 1 else ""
    if size < WIDEST_CELL - 1 and len(text) == size and text[:2].isdigit():
        text = f"{float(text):.0f}"  # as long as the numbers after a sign
    if column not in row.columns:
        return " " * size, palette.faint
    if (severity := row.marks.get(column)) is not None:
        sign = glyphs.SEVERITIES[severity]
        if len(text) >= size and text[:1].isdigit():
            text = f"{float(text):.1f}"
        shown = fit(f"{sign}{text}", size, "right") if text else sign * size
        return shown, palette.fill(severity)
    if value != value:
        shown = fit(glyphs.ABSENT, size, "right") if text else glyphs.ABSENT.center(size)
        return shown, palette.faint
    level = level_of(row.levels[column]) // STEP * STEP
    if text:
        return fit(text, size, "right"), palette.cells[level]
    style = palette.levels[level]
    selected = size == 1 and row.cursor == column
    return glyphs.CELL * size, style + Style(reverse=True) if selected else style


def _rate(quantity: str, row: MapRow, width: int, context: RenderContext, /) -> list[Part]:
    rate = row.node.frame.value(quantity)
    return context.figure(None if rate is None else rate / GIGABIT, 0, width)


def _retransmit(row: MapRow, width: int, context: RenderContext) -> list[Part]:
    ratio = row.node.frame.value(RETRANSMIT)
    severity = row.retransmit_severity
    style = context.palette.severity(severity) if severity else None
    return context.figure(None if ratio is None else 100 * ratio, 1, width, style)


def _note(row: MapRow, width: int, context: RenderContext) -> list[Part]:
    if row.severity is None:
        return [(fit(row.note, width), context.palette.muted)]
    text = f"{glyphs.SEVERITIES[row.severity]} {row.note}"
    return [(fit(text, width), context.palette.severity(row.severity))]
