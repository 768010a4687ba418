"""Devices and their cores: a row a device, a cell a core."""

import numpy as np
from rich.style import Style
from textual.strip import Strip

from trntop import units
from trntop.catalog import ECC_EVENTS, Entity
from trntop.model import Frame, NodeView, Severity

from ..scene import Scene
from .fleet_map import UTILIZATION_OF_CORE, device_utilization
from .graph import bar
from .ink import level_of
from .line import Part, fit, line
from .pen import Pen, bare

USED = "device_memory_used_bytes"
TOTAL = "device_memory_total_bytes"
GIB = 1 << 30
RATIO = "device_memory_used_ratio"


def at(frame: Frame, quantity: str, index: int) -> float | None:
    """One value of a column, None when absent."""
    column = frame.columns.get(quantity)
    if column is None or index >= len(column):
        return None
    value = float(column[index])
    return None if value != value else value


def draw(scene: Scene, node: NodeView, width: int, pen: Pen) -> list[Strip]:
    """A header, then a line per device: cores, their mean, HBM and ECC errors."""
    devices = node.inventory.of(Entity.DEVICE)
    frame, ink = node.frame, pen.ink
    if not devices:
        why = frame.why_absent("device_memory_total_bytes")
        return [line([(f"no devices known: {why}", ink.muted)], width)]
    owner = node.inventory.core_device
    most = int(np.bincount(owner).max()) if len(owner) else 0
    cell = _cell_width(most, width)
    cores = cell * most
    rest = width - 3 - cores - 2 - 4
    memory = rest >= 12
    title: list[Part] = [
        ("dev ", ink.muted),
        (fit("cores %" if cores >= 7 else "", cores), ink.muted),
        (fit("mean", 6, "right"), ink.muted),
    ]
    if memory:
        title.append((f"   HBM {_of_total(frame)}", ink.muted))
    means = device_utilization(node)
    lines = [line(title, width)]
    for index, device in enumerate(devices):
        mean = float(means[index]) if index < len(means) and means[index] == means[index] else None
        parts: list[Part] = [(f"{device!s:>3} ", ink.muted)]
        parts += _cores(node, index, cell, most, pen)
        parts += [(" ", ink.text)]
        parts += pen.number(bare(units.percent(mean)), "", 5)
        if memory:
            parts += [("   ", ink.text), *_memory(scene, frame, index, rest - 5, pen)]
        lines.append(line(parts, width))
    return lines


def _cell_width(most: int, width: int) -> int:
    """Cells for one core: with its number where there is room, else colour alone."""
    for size, need in ((4, 40), (3, 30), (2, 24)):
        if most and size * most + need <= width:
            return size
    return 1


def _of_total(frame: Frame) -> str:
    total = at(frame, TOTAL, 0)
    return f"GiB of {total / GIB:.0f}" if total is not None else "GiB"


def _cores(node: NodeView, index: int, cell: int, most: int, pen: Pen) -> list[Part]:
    column = node.frame.columns.get(UTILIZATION_OF_CORE)
    owner = node.inventory.core_device
    places = np.flatnonzero(owner == index)
    parts: list[Part] = []
    for place in places.tolist():
        value = None if column is None else float(column[place])
        if value is None or value != value:
            parts.append((fit(pen.glyphs.absent, cell, "right"), pen.ink.faint))
        elif cell >= 3:
            number = f"{100 * value:.0f}"
            parts.append((f"{number:>{cell - (cell > 3)}}{' ' * (cell > 3)}", _ground(value, pen)))
        else:
            parts.append((pen.glyphs.cell * cell, pen.ink.level(value)))
    parts.append((" " * (cell * (most - len(places))), pen.ink.text))
    return parts


def _ground(value: float, pen: Pen) -> Style:
    return pen.ink.cells[level_of(value)]


def _memory(scene: Scene, frame: Frame, index: int, width: int, pen: Pen) -> list[Part]:
    ratio, used = at(frame, RATIO, index), at(frame, USED, index)
    full = ratio is not None and ratio > scene.limits.memory
    style = pen.ink.warning if full else pen.ink.graph
    parts: list[Part] = []
    cells = min(30, width - 9)
    if cells >= 8:
        parts += [
            *bar(ratio, cells, pen.glyphs, style, pen.ink.rule, limit=scene.limits.memory,
                 limit_style=pen.ink.faint),
            (" ", pen.ink.text),
        ]  # fmt: skip
    number = pen.number(units.gib(used), USED, 6)
    if full:
        number[0] = (number[0][0], pen.ink.warning)
    parts += number
    ecc = [at(frame, f"device_{event}_events", index) for event in ECC_EVENTS]
    broken = sum(value or 0 for event, value in zip(ECC_EVENTS, ecc, strict=True)
                 if event.endswith("uncorrected"))  # fmt: skip
    if broken:
        sign = pen.glyphs.severities[Severity.CRITICAL]
        parts.append((f" {sign} ECC {broken:.0f}", pen.ink.critical))
    return parts
