"""The map of the fleet: every node, in as much detail as fits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from textual.color import Color
from textual.content import Content
from textual.strip import Strip
from textual.style import Style

from trntop.catalog import Entity
from trntop.core.model import NodeView, Severity, State
from trntop.pipeline.statistics import group_mean

from ..filter.fields import Mask
from ..measures import COMM, MEMORY, RETRANSMIT, TENSOR_ENGINE, UTILIZATION, job_worst
from ..view_model import ViewModel, worst
from . import glyphs
from .context import RenderContext
from .graph import Values, runs
from .line import Part, fit, line
from .palette import LEVELS, retransmit_level

UTILIZATION_OF_CORE = "neuroncore_utilization_ratio"
MAX_PARTS = 16
"""Parts of a node that are shown."""
SCALE_CELLS = 8
"""Of the scale in the heading."""
FEW_LINES = 2
"""A coarser grain is better than more lines."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The quantity of the colors."""

    title: str
    entity: Entity
    """The parts of a node."""
    node: str
    """The value of a node, if a cell is a node."""
    parts: Callable[[NodeView], Values]
    """One value per part."""
    span: float
    """Difference from the peers' median that has the brightest color; 0 for the limit's scale."""
    kinds: tuple[str, ...] = ()
    """Incidents for which this layer is shown first."""


def device_utilization(node: NodeView) -> Values:
    """Mean utilization of each device's cores, NaN where none is known."""
    devices = len(node.inventory.of(Entity.DEVICE))
    column = node.frame.columns.get(UTILIZATION_OF_CORE)
    owner = node.inventory.core_device
    if column is None or len(owner) != len(column):
        return np.full(devices, np.nan)
    listed = owner < devices
    return group_mean(column[listed], owner[listed], devices)


def _column(quantity: str, entity: Entity) -> Callable[[NodeView], Values]:
    def values(node: NodeView) -> Values:
        column = node.frame.columns.get(quantity)
        return np.full(len(node.inventory.of(entity)), np.nan) if column is None else column

    return values


def _comm(node: NodeView) -> Values:
    share = job_worst(node, COMM)
    return np.array([np.nan if share is None else share])


LAYERS = (
    Layer("utilization", Entity.DEVICE, UTILIZATION, device_utilization, 0.3),
    Layer(
        "tensor engines (TE)", Entity.DEVICE, TENSOR_ENGINE,
        _column("device_tensor_engine_busy_ratio", Entity.DEVICE), 0.15,
        ("straggler", "slowdown"),
    ),
    Layer(
        "retransmits", Entity.EFA, RETRANSMIT, _column("efa_retransmit_ratio", Entity.EFA), 0.0,
        ("efa_degraded", "efa_down", "latency_regression"),
    ),
    Layer("comm share", Entity.NODE, COMM, _comm, 0.15, ("comm_bound",)),
    Layer(
        "HBM", Entity.DEVICE, MEMORY, _column("device_memory_used_ratio", Entity.DEVICE), 0.2,
        ("memory_pressure",),
    ),
)  # fmt: skip
"""In the order of the key that changes them."""
_NAMES = {Entity.DEVICE: "device", Entity.EFA: "EFA device", Entity.NODE: "node"}


def layer_of(view_model: ViewModel | None) -> Layer:
    """The layer that shows the worst incident."""
    kind = view_model.incidents[0].kind if view_model and view_model.incidents else ""
    return next((layer for layer in LAYERS if kind in layer.kinds), LAYERS[0])


def device_places(node: NodeView) -> dict[str, int]:
    """Component of an incident → index of the device, for devices and their cores."""
    inventory = node.inventory
    places = {f"device:{key}": place for place, key in enumerate(inventory.of(Entity.DEVICE))}
    for core, owner in zip(inventory.of(Entity.CORE), inventory.core_device.tolist(), strict=False):
        if (device := f"device:{owner}") in places:
            places[f"core:{core}"] = places[device]
    return places


def efa_places(node: NodeView) -> dict[str, int]:
    """Component of an incident → index of the EFA device."""
    return {f"efa:{name}": place for place, name in enumerate(node.inventory.of(Entity.EFA))}


def _marks(
    view_model: ViewModel, node: NodeView, layer: Layer, count: int
) -> Mapping[int, Severity]:
    """Part → its worst open severity; an incident of the node is one of all its parts."""
    incidents = view_model.by_node.get(node.name)
    if not incidents:
        return {}
    device, efa = device_places(node), efa_places(node)
    places = {Entity.DEVICE: device, Entity.EFA: efa}.get(layer.entity, {})
    found: dict[int, Severity] = {}
    for incident in reversed(incidents):
        component = incident.component or ""
        if component in places:
            found[places[component]] = incident.severity
        elif layer.entity is Entity.NODE or (component not in device and component not in efa):
            found |= dict.fromkeys(range(count), incident.severity)
    return found


def _levels(values: Values, peers: float, layer: Layer, view_model: ViewModel) -> Values:
    """0 to 1: how far each value is from its peers; NaN if unknown."""
    if not layer.span:
        limit = view_model.limits.retransmits
        return np.array(
            [value if value != value else retransmit_level(value, limit) for value in values]
        )
    levels: Values = np.minimum(1.0, np.abs(values - peers) / layer.span)
    return levels


def _median(values: Values) -> float:
    known = values[values == values]
    return float(np.median(known)) if len(known) else 0.0


@dataclass(frozen=True, slots=True)
class Grain:
    """The level of detail of the map."""

    title: str
    tile: int = 0
    """Cells of a node after its name; 0 for cells without names."""
    share: int = 1
    """Nodes of a cell."""


def _parts(view_model: ViewModel, layer: Layer) -> int:
    """The parts of a node; 0 if only values of nodes are known."""
    # A Prometheus backend has the devices of one node only.
    if view_model.cluster.whole is not None and not view_model.cluster.judges:
        return 0
    if layer.entity is Entity.NODE:
        return 1
    nodes = view_model.cluster.nodes.values()
    return min(MAX_PARTS, max((len(n.inventory.of(layer.entity)) for n in nodes), default=0))


@lru_cache(maxsize=2)
def grain(view_model: ViewModel, width: int, height: int, layer: Layer = LAYERS[0]) -> Grain:
    """Parts of each node, else several per cell, else a cell per node: the finest that fits."""
    nodes = list(view_model.cluster.nodes.values())
    name = max(map(len, tail_names([node.name for node in nodes])), default=0)
    parts = _parts(view_model, layer)
    cells = parts if parts > 1 else MAX_PARTS
    if name <= 12 and parts:
        tiles = [4 * cells, 3 * cells, 2 * cells, cells, -(-cells // 2), -(-cells // 4)]
        for most in (min(FEW_LINES, height), height):
            for tile in tiles:
                if _lines(len(nodes), name + 2 + tile, _gap(tile), width) <= most:
                    share = -(-parts // tile)
                    what = f"each {_NAMES[layer.entity]}"
                    return Grain(
                        what if share == 1 else f"{share} {_NAMES[layer.entity]}s each", tile
                    )
    if name <= 6 and _lines(len(nodes), name + 3, 1, width) <= height:
        return Grain("each node", 1)
    share = -(-len(nodes) // max(1, width * height))
    return Grain("each node" if share <= 1 else f"{share} nodes each", share=share)


def _gap(tile: int) -> int:
    """The least blanks between tiles."""
    return 3 if tile >= MAX_PARTS else 1


def draw(
    view_model: ViewModel,
    width: int,
    height: int,
    context: RenderContext,
    layer: Layer = LAYERS[0],
    selected: Mask | None = None,
) -> list[Strip]:
    """Lines of the map, in the grain that fits.

    Args:
        view_model: the fleet.
        width: cells.
        height: maximum lines.
        context: palette and glyphs.
        layer: the quantity of the colors.
        selected: `[node]`; the others are dimmed. None is all.
    """
    nodes = list(view_model.cluster.nodes.values())
    if not nodes or width < 4:
        return []
    dimmed = frozenset[str]()
    if selected is not None:
        pairs = zip(nodes, selected.tolist(), strict=True)
        dimmed = frozenset(node.name for node, is_selected in pairs if not is_selected)
    fitting = grain(view_model, width, height, layer)
    if not fitting.tile:
        return _cells(nodes, view_model, width, fitting.share, context, layer, dimmed)
    tails = tail_names([node.name for node in nodes])
    name = max(map(len, tails))
    return _tiles(nodes, tails, name, fitting.tile, view_model, width, context, layer, dimmed)


def heading(
    view_model: ViewModel | None, layer: Layer, width: int, height: int, context: RenderContext
) -> Content:
    """The title: the quantity, the level of detail and the scale of colors."""
    title = f"fleet · {layer.title}"
    if view_model is None or not view_model.cluster.nodes or not width:
        return Content(title)
    steps = [
        (glyphs.CELL, Style(foreground=Color.from_rich_color(level.color)))
        for level in context.palette.levels[:: LEVELS // SCALE_CELLS]
    ]
    low, high = "as peers", f"{100 * layer.span:.0f} % off"
    if not layer.span:
        low, high = "none", f"{1000 * view_model.limits.retransmits:.2g} %"
    of = grain(view_model, width, height, layer).title
    return Content.assemble(f"{title}, {of} · {low} ", *steps, f" {high}")


def _lines(count: int, cells: int, gap: int, width: int) -> int:
    """Lines that `count` tiles take; more than any screen where not one fits in a line."""
    per_line = (width + gap) // (cells + gap)
    return -(-count // per_line) if per_line else 1 << 30


def tail_names(names: list[str]) -> list[str]:
    """Names without the prefix they share, cut after its last separator."""
    if len(names) < 2:
        return names
    first, last = min(names), max(names)
    size = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b),
        min(len(first), len(last)),
    )
    while size and first[size - 1] not in "-._/":
        size -= 1
    return [name[size:] or name for name in names]


def _sign(node: NodeView, view_model: ViewModel, context: RenderContext) -> Part:
    """The severity or state of a node, in one cell."""
    severity = worst(node, view_model)
    if severity is not None:
        return glyphs.SEVERITIES[severity], context.palette.severity(severity)
    if node.state in (State.FRESH, State.ENDED):
        return " ", context.palette.text
    return glyphs.STATES[node.state], context.palette.state(node.state)


def _tiles(
    nodes: list[NodeView],
    tails: list[str],
    name: int,
    tile: int,
    view_model: ViewModel,
    width: int,
    context: RenderContext,
    layer: Layer,
    dimmed: frozenset[str],
) -> list[Strip]:
    palette, cells, least = context.palette, name + 2 + tile, _gap(tile)
    per_line = max(1, (width + least) // (cells + least))
    gap = least
    if len(nodes) > per_line:
        gap = min(12, (width - per_line * cells) // max(1, per_line - 1))
    if tile == 1:
        tables = [_node_values([node], layer) for node in nodes]
    else:
        tables = [layer.parts(node)[:MAX_PARTS] for node in nodes]
    peers = _median(np.concatenate(tables))
    rows = []
    for start in range(0, len(nodes), per_line):
        parts: list[Part] = []
        for place in range(start, min(len(nodes), start + per_line)):
            node, values = nodes[place], tables[place]
            severity = worst(node, view_model)
            style = palette.severity(severity) if severity else palette.muted
            marks = _marks(view_model, node, layer, len(values))
            levels = _levels(values, peers, layer, view_model)
            strip = _strip(levels.tolist(), marks, tile, context)
            if node.name in dimmed:
                style = palette.dim
                strip = [("".join(text for text, _ in strip), palette.rule)]
            name_part = (f"{fit(tails[place], name)} ", style)
            parts += [_sign(node, view_model, context), name_part, *strip]
            parts.append((" " * gap, palette.text))
        rows.append(line(parts, width))
    return rows


def _strip(
    levels: list[float], marks: Mapping[int, Severity], tile: int, context: RenderContext
) -> list[Part]:
    """The parts of one node in `tile` cells; a cell of several parts has the worst."""
    palette, count = context.palette, max(1, len(levels))
    size, share = max(1, tile // count), -(-count // tile)
    cells: list[Part] = []
    for start in range(0, len(levels), share):
        inside = range(start, min(count, start + share))
        severities = [marks[place] for place in inside if place in marks]
        known = [levels[place] for place in inside if levels[place] == levels[place]]
        if severities:
            severity = max(severities, key=lambda found: found.rank)
            cells.append((glyphs.SEVERITIES[severity] * size, palette.fill(severity)))
        elif known:
            cells.append((glyphs.CELL * size, palette.level(max(known))))
        else:
            cells.append((glyphs.ABSENT * size, palette.faint))
    cells.append((" " * (tile - size * len(cells)), palette.text))
    return runs(cells)


def _node_values(nodes: list[NodeView], layer: Layer) -> Values:
    """The value of each node, NaN if unknown."""
    if layer.entity is Entity.NODE:
        return np.concatenate([layer.parts(node) for node in nodes])
    found = [node.frame.value(layer.node) for node in nodes]
    return np.array([np.nan if value is None else value for value in found])


def _cells(
    nodes: list[NodeView],
    view_model: ViewModel,
    width: int,
    share: int,
    context: RenderContext,
    layer: Layer,
    dimmed: frozenset[str],
) -> list[Strip]:
    """One cell per `share` nodes, with the largest deviation."""
    rows, palette = [], context.palette
    values = _node_values(nodes, layer)
    levels = _levels(values, _median(values), layer, view_model).tolist()
    for first in range(0, len(nodes), share * width):
        cells: list[Part] = []
        for start in range(first, min(len(nodes), first + share * width), share):
            group = nodes[start : start + share]
            signs = [sign for node in group if (sign := _sign(node, view_model, context))[0] != " "]
            shown = [place for place, node in enumerate(group, start) if node.name not in dimmed]
            known = [levels[place] for place in shown if levels[place] == levels[place]]
            if signs:
                cells.append(signs[0])
            elif not shown:
                cells.append((glyphs.CELL, palette.rule))
            elif known:
                cells.append((glyphs.CELL, palette.level(max(known))))
            else:
                cells.append((glyphs.ABSENT, palette.faint))
        rows.append(line(runs(cells), width))
    return rows
