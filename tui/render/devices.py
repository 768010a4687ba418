"""The devices of a node and their cores: utilization, tensor engines, memory, power."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.style import Style
from textual.strip import Strip

from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import Frame, NodeView, Severity
from trntop.pipeline.smooth import TUNING

from ..view_model import ViewModel
from . import glyphs
from .context import RenderContext, mark
from .fleet_map import UTILIZATION_OF_CORE, device_places, device_utilization
from .graph import bar
from .line import Part, fit, line, wrapped
from .palette import level_of

USED = "device_memory_used_bytes"
TOTAL = "device_memory_total_bytes"
RATIO = "device_memory_used_ratio"
ENGINE_OF_CORE = "physical_core_tensor_engine_busy_ratio"
ENGINE = "device_tensor_engine_busy_ratio"
BANDWIDTH = "device_hbm_bytes_per_second"
BANDWIDTH_SHARE = "device_hbm_bandwidth_ratio"
BANDWIDTH_FLOOR = "device_hbm_bandwidth_floor_ratio"
POWER = "device_power_mean_ratio"
GIB = 1 << 30
WIDEST_BAR = 30
NARROWEST_BAR = 8
MARKED, BARE = (7, 10, 7), (5, 8, 6)
"""Cells of the mean of tensor engines, of HBM in use and of the share of its bandwidth: with the
marks of their provenance in the titles if there is room."""
SECOND = " TE % now"
FAR_OFF = 0.3
"""Difference from the other cores that has the brightest color."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Cells of each column, 0 for none."""

    cores: int
    """Logical cores of a device."""
    core: int
    engines: int
    """Physical cores of a device."""
    engine: int
    bar: int
    rate: int
    power: int
    mean: int
    memory: int
    share: int


def draw(view_model: ViewModel, node: NodeView, width: int, context: RenderContext) -> list[Strip]:
    """A header and a line per device; below, faults and why columns are unknown."""
    devices = node.inventory.of(Entity.DEVICE)
    frame, palette = node.frame, context.palette
    if not devices:
        return wrapped(f"no devices known: {frame.why_absent(TOTAL)}", width, palette.muted)
    plan = _plan(node, width)
    faults = dict(_faults(node))
    named = _named(view_model, node)
    means = device_utilization(node)
    lines = [_title(node, plan, width, context)]
    for index, device in enumerate(devices):
        severity = faults[index][0] if index in faults else named.get(index)
        sign = glyphs.SEVERITIES[severity] if severity else " "
        style = palette.severity(severity) if severity else palette.muted
        mean = float(means[index]) if means[index] == means[index] else None
        fill = palette.fill(severity) if severity else None
        owned = node.inventory.core_device == device
        parts: list[Part] = [(f"{sign}{device!s:>2} ", style)]
        parts += _cells(frame, UTILIZATION_OF_CORE, owned, plan.core, plan.cores, fill, context)
        parts += context.figure(_percent(mean), 0, 5)
        if plan.engine:
            owned = node.inventory.physical_device == device
            parts.append((" ", palette.text))
            parts += _cells(frame, ENGINE_OF_CORE, owned, plan.engine, plan.engines, fill, context)
        parts += context.figure(_percent(frame.at(ENGINE, index)), 0, plan.mean)
        parts += _memory(view_model, frame, index, plan, context)
        if plan.rate:
            rate = frame.at(BANDWIDTH, index)
            parts += context.figure(None if rate is None else rate / 1e9, 0, plan.rate)
        share = frame.at(BANDWIDTH_SHARE, index)
        floor = units.share_bounds(frame.at(BANDWIDTH_FLOOR, index), None)
        if share is None and floor != units.ABSENT:
            parts.append((fit(floor, plan.share, "right"), palette.text))
        else:
            parts += context.figure(_percent(share), 0, plan.share)
        if plan.power:
            parts += context.figure(_percent(frame.at(POWER, index)), 0, plan.power)
        lines.append(line(parts, width))
    for index, (severity, text) in faults.items():
        sign = glyphs.SEVERITIES[severity]
        lines.append(line([(f"{sign} device {devices[index]}: {text}", palette.severity(severity))],
                          width))  # fmt: skip
    return lines + _unknown(frame, width, context)


def _plan(node: NodeView, width: int) -> _Plan:
    """Gives the width to the most important columns first."""
    cores, engines = (
        int(np.bincount(owner).max()) if len(owner) else 0
        for owner in (node.inventory.core_device, node.inventory.physical_device)
    )
    sizes = MARKED if 4 + cores + 5 + sum(MARKED) <= width else BARE
    rest = width - (4 + cores + 5 + sum(sizes))

    def spend(cells: int, *, wanted: bool = True) -> bool:
        nonlocal rest
        if not wanted or cells > rest:
            return False
        rest -= cells
        return True

    engine = int(spend(engines + 1, wanted=engines > 0))
    power = 6 if spend(6) else 0
    # Room for 100 and a blank.
    core = 1 + 3 * spend(3 * cores)
    rate = 8 if spend(8) else 0
    if engine:
        engine += 3 * spend(3 * engines)
    spare = min(WIDEST_BAR, rest - 1)
    bar = spare if spare >= NARROWEST_BAR else 0
    return _Plan(cores, core, engines, engine, bar, rate, power, *sizes)


def _title(node: NodeView, plan: _Plan, width: int, context: RenderContext) -> Strip:
    total = node.frame.at(TOTAL, 0)
    room = f" of {total / GIB:.0f}" if total is not None and plan.bar else ""
    engines = plan.engines * plan.engine + bool(plan.engine)
    util = plan.cores * plan.core + 5
    is_marked = plan.share == MARKED[2]
    engine, used, share = (
        f" {mark(quantity, node.inventory)}" if is_marked else ""
        for quantity in (ENGINE, USED, BANDWIDTH_SHARE)
    )
    has_second = engines >= len(SECOND)
    titles = (
        ("dev ", 4),
        ("util %" if util > 5 else "util", util),
        (SECOND if has_second else "", engines),
        (f"{f'{TUNING.window:.0f} s' if has_second else 'TE %'}{engine}", plan.mean),
        (f"HBM GiB{room}{used}", plan.memory + plan.bar + bool(plan.bar)),
        ("bw GB/s", plan.rate),
        (f"bw %{share}", plan.share),
        ("pwr %", plan.power),
    )
    return line(
        [(fit(text, cells, "right"), context.palette.muted) for text, cells in titles if cells],
        width,
    )


def _cells(
    frame: Frame,
    quantity: str,
    owned: npt.NDArray[np.bool_],
    cell: int,
    most: int,
    fill: Style | None,
    context: RenderContext,
) -> list[Part]:
    """The cores of a device, colored by their difference from the node's median.

    Args:
        frame: of the node.
        quantity: of the cores.
        owned: which cores are the device's.
        cell: of one core, with a number if there is room.
        most: cores of a device.
        fill: of a faulty device.
        context: palette and glyphs.
    """
    column = frame.columns.get(quantity)
    peers = 0.0 if column is None or np.isnan(column).all() else float(np.nanmedian(column))
    parts: list[Part] = []
    places = np.flatnonzero(owned).tolist()
    for place in places:
        value = float("nan") if column is None else float(column[place])
        if value != value:
            dot = fit(glyphs.ABSENT, min(cell, 3), "right")
            parts.append((fit(dot, cell), context.palette.faint))
        elif cell > 1:
            style = fill or context.palette.cells[level_of(abs(value - peers) / FAR_OFF)]
            parts.append((fit(f"{100 * value:3.0f}", cell), style))
        else:
            style = context.palette.level(abs(value - peers) / FAR_OFF)
            parts.append((" ", fill) if fill else (glyphs.CELL, style))
    parts.append((" " * (cell * (most - len(places))), context.palette.text))
    return parts


def _memory(
    view_model: ViewModel, frame: Frame, index: int, plan: _Plan, context: RenderContext
) -> list[Part]:
    ratio, used = frame.at(RATIO, index), frame.at(USED, index)
    limit = view_model.limits.memory
    full = ratio is not None and ratio > limit
    parts: list[Part] = []
    warning = context.palette.warning if full else None
    if plan.bar:
        style = warning or context.palette.graph
        parts.append((" ", context.palette.text))
        parts += bar(ratio, plan.bar, style, context.palette.rule, limit=limit,
                     limit_style=context.palette.faint)  # fmt: skip
    return parts + context.figure(None if used is None else used / GIB, 1, plan.memory, warning)


def _faults(node: NodeView) -> Iterator[tuple[int, tuple[Severity, str]]]:
    """Faults of single devices, from the driver."""
    for index, device in enumerate(node.inventory.of(Entity.DEVICE)):
        link = node.inventory.device_links.get(int(device), {})
        errors = node.frame.uncorrected(index)
        if lost := link.get("lost"):
            yield index, (Severity.CRITICAL, f"lost ({lost})")
        elif errors:
            yield index, (Severity.CRITICAL, f"{errors:.0f} uncorrected ECC errors")
        elif unhealthy := link.get("unhealthy"):
            yield index, (Severity.WARNING, f"unhealthy: {unhealthy}")


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else 100 * ratio


def _named(view_model: ViewModel, node: NodeView) -> dict[int, Severity]:
    """Devices with an open incident, of the device or of one of its cores."""
    found = view_model.by_part(node, device_places(node))
    return {place: incident.severity for place, incident in found.items()}


def _unknown(frame: Frame, width: int, context: RenderContext) -> list[Strip]:
    """Why a column has no values."""
    palette = context.palette
    lead = [(f"{units.ABSENT} ", palette.faint)]
    return [
        row
        for label, quantity in (("TE", ENGINE), ("HBM bandwidth", BANDWIDTH))
        if quantity not in frame.columns
        for row in wrapped(f"{label}: {frame.why_absent(quantity)}", width, palette.muted, lead)
    ]
