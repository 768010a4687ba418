"""The map of the fleet: every node, in as much detail as fits."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from textual.color import Color
from textual.content import Content
from textual.strip import Strip
from textual.style import Style

from trntop.catalog import Entity
from trntop.core.model import NodeView, State

from ..filter.fields import Mask
from ..measures import TENSOR_ENGINE, UTILIZATION
from ..view_model import ViewModel, worst
from . import glyphs
from .context import RenderContext
from .graph import runs
from .line import Part, fit, line
from .palette import LEVELS

UTILIZATION_OF_CORE = "neuroncore_utilization_ratio"
MAX_DEVICES = 16
"""Cells of one tile."""
SCALE_CELLS = 8
"""Of the scale in the heading."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The quantity of the colors."""

    title: str
    node: str
    """The value of a node, if a cell is a node."""
    devices: Callable[[NodeView], np.ndarray]
    """One value per device."""


def device_utilization(node: NodeView) -> np.ndarray:
    """Mean utilization of each device's cores, NaN where none is known."""
    devices = len(node.inventory.of(Entity.DEVICE))
    column = node.frame.columns.get(UTILIZATION_OF_CORE)
    owner = node.inventory.core_device
    result = np.full(devices, np.nan)
    if column is None or len(owner) != len(column):
        return result
    known = ~np.isnan(column) & (owner < devices)
    count = np.bincount(owner[known], minlength=devices)
    total = np.bincount(owner[known], weights=column[known], minlength=devices)
    filled = count > 0
    result[filled] = total[filled] / count[filled]
    return result


def device_engines(node: NodeView) -> np.ndarray:
    """Busy share of each device's tensor engines, NaN where it is not known."""
    devices = len(node.inventory.of(Entity.DEVICE))
    column = node.frame.columns.get("device_tensor_engine_busy_ratio")
    return np.full(devices, np.nan) if column is None else column


LAYERS = (
    Layer("utilization", UTILIZATION, device_utilization),
    Layer("tensor engines (TE)", TENSOR_ENGINE, device_engines),
)
"""A core that waits counts as utilized; its tensor engine shows that it waits."""


@dataclass(frozen=True, slots=True)
class Grain:
    """The level of detail of the map."""

    title: str
    tile: int = 0
    """Cells of a node after its name; 0 for cells without names."""
    share: int = 1
    """Nodes of a cell."""


@lru_cache(maxsize=1)
def grain(view_model: ViewModel, width: int, height: int) -> Grain:
    """Devices of each node, else a named cell per node, else bare cells: the finest that fits."""
    nodes = list(view_model.cluster.nodes.values())
    name = max(map(len, tail_names([node.name for node in nodes])), default=0)
    # A Prometheus backend has the devices of one node only.
    detailed = nodes if view_model.cluster.whole is None else []
    devices = min(
        MAX_DEVICES, max((len(node.inventory.of(Entity.DEVICE)) for node in detailed), default=0)
    )
    if name <= 12 and devices:
        # Wider tiles where they cost no more lines.
        least = _lines(len(nodes), name + 2 + devices, 3, width)
        for tile in range(4 * devices, 0, -devices):
            if _lines(len(nodes), name + 2 + tile, 3, width) == least <= height:
                return Grain("of each device", tile)
    if name <= 6 and _lines(len(nodes), name + 3, 1, width) <= height:
        return Grain("of each node", 1)
    share = -(-len(nodes) // max(1, width * height))
    return Grain("of each node" if share <= 1 else f"the least of {share} nodes", share=share)


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
    fitting = grain(view_model, width, height)
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
    return Content.assemble(
        f"{title} {grain(view_model, width, height).title} · 0 ", *steps, " 100 %"
    )


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
    cells = name + 2 + tile
    least = 3 if tile > 1 else 1
    per_line = max(1, (width + least) // (cells + least))
    if len(nodes) > per_line:
        gap = min(12, (width - per_line * cells) // max(1, per_line - 1))
    else:
        gap = least
    rows = []
    for start in range(0, len(nodes), per_line):
        parts: list[Part] = []
        for node, tail in zip(
            nodes[start : start + per_line], tails[start : start + per_line], strict=True
        ):
            severity = worst(node, view_model)
            style = context.palette.severity(severity) if severity else context.palette.muted
            strip = _strip(node, tile, context, layer)
            if node.name in dimmed:
                style = context.palette.dim
                strip = [("".join(text for text, _ in strip), context.palette.rule)]
            parts += [_sign(node, view_model, context), (f"{fit(tail, name)} ", style), *strip]
            parts.append((" " * gap, context.palette.text))
        rows.append(line(parts, width))
    return rows


def _strip(node: NodeView, tile: int, context: RenderContext, layer: Layer) -> list[Part]:
    """One node's devices (or the node as one) in `tile` colored cells."""
    if tile == 1:
        mean = node.frame.value(layer.node)
        values = [np.nan if mean is None else mean]
    else:
        known = layer.devices(node)
        values = known[:MAX_DEVICES].tolist()
    size = max(1, tile // max(1, len(values)))
    cells: list[Part] = []
    for value in values:
        if value != value:
            cells.append((glyphs.ABSENT * size, context.palette.faint))
        else:
            cells.append((glyphs.CELL * size, context.palette.level(value)))
    cells.append((" " * (tile - size * len(values)), context.palette.text))
    return runs(cells)


def _cells(
    nodes: list[NodeView],
    view_model: ViewModel,
    width: int,
    share: int,
    context: RenderContext,
    layer: Layer,
    dimmed: frozenset[str],
) -> list[Strip]:
    """One cell per `share` nodes, with the smallest value."""
    rows = []
    groups = [nodes[start : start + share] for start in range(0, len(nodes), share)]
    for start in range(0, len(groups), width):
        cells: list[Part] = []
        for group in groups[start : start + width]:
            signs = [sign for node in group if (sign := _sign(node, view_model, context))[0] != " "]
            shown = [node for node in group if node.name not in dimmed]
            values = (node.frame.value(layer.node) for node in shown)
            known = [value for value in values if value is not None]
            if signs:
                cells.append(signs[0])
            elif not shown:
                cells.append((glyphs.CELL, context.palette.rule))
            elif known:
                cells.append((glyphs.CELL, context.palette.level(min(known))))
            else:
                cells.append((glyphs.ABSENT, context.palette.faint))
        rows.append(line(runs(cells), width))
    return rows
