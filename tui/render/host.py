"""The host of a node: processors, memory, traffic, compilers."""

from textual.strip import Strip

from trntop.core import units
from trntop.core.model import Frame, NodeView, Severity

from ..view_model import ViewModel
from . import glyphs
from .context import RenderContext
from .graph import bar
from .line import Part, flow, wrapped

_TRAFFIC = (
    ("network", (("rx", "network_rx"), ("tx", "network_tx"))),
    ("disk", (("read", "disk_read"), ("written", "disk_written"))),
    ("lustre", (("read", "lustre_read"), ("written", "lustre_written"))),
)
_ERRORS = (("Neuron", "node_kernel_neuron_errors_total"), ("EFA", "node_kernel_efa_errors_total"))
LABEL = 10
BAR = 12


def draw(_view_model: ViewModel, node: NodeView, width: int, context: RenderContext) -> list[Strip]:
    """A line per subject with known values."""
    frame = node.frame
    rows = [
        ("cpu", _cpu(frame, context)),
        ("memory", _memory(frame, context)),
        *((label, _traffic(frame, ways, context)) for label, ways in _TRAFFIC),
        ("compiler", _compiler(frame, context)),
        ("kernel", _kernel(frame, context)),
    ]
    lines = [
        flow([(100, [(f"{label:<{LABEL}}", context.palette.muted), *groups[0]]),
              *((90 - rank, group) for rank, group in enumerate(groups[1:]))],
             width, ("  ", context.palette.faint))
        for label, groups in rows
        if groups
    ]  # fmt: skip
    if lines:
        return lines
    why = frame.why_absent("node_cpu_busy_ratio")
    return wrapped(f"no host data: {why}", width, context.palette.muted)


def _cpu(frame: Frame, context: RenderContext) -> list[list[Part]]:
    busy, load = (frame.value(name) for name in ("node_cpu_busy_ratio", "node_load1"))
    vcpus, processes = (frame.value(name) for name in ("node_vcpus", "node_processes"))
    palette = context.palette
    groups: list[list[Part]] = []
    if busy is not None:
        total = "" if vcpus is None else f" of {vcpus:.0f} vCPUs"
        groups.append([
            *bar(busy, BAR, palette.graph, palette.rule),
            (f" {units.percent(busy)}", palette.text), (total, palette.muted),
        ])  # fmt: skip
    if load is not None:
        groups.append([("load ", palette.muted), (f"{load:.1f}", palette.text)])
    if processes is not None:
        groups.append([(f"{processes:,.0f} processes", palette.muted)])
    return groups


def _memory(frame: Frame, context: RenderContext) -> list[list[Part]]:
    used, total = (frame.value(f"node_memory_{what}_bytes") for what in ("used", "total"))
    free = frame.value("node_memory_available_bytes")
    palette = context.palette
    groups: list[list[Part]] = []
    if used is not None and total:
        groups.append([
            *bar(used / total, BAR, palette.graph, palette.rule),
            (f" {units.bytes_iec(used)}", palette.text),
            (f" of {units.bytes_iec(total)}", palette.muted),
        ])  # fmt: skip
    if free is not None:
        groups.append([(units.bytes_iec(free), palette.text), (" available", palette.muted)])
    return groups


def _traffic(
    frame: Frame, ways: tuple[tuple[str, str], ...], context: RenderContext
) -> list[list[Part]]:
    groups: list[list[Part]] = []
    for label, name in ways:
        quantity = f"node_{name}_bytes_per_second"
        rate = frame.value(quantity)
        if rate is not None:
            number = context.number(units.bytes_rate(rate), quantity)
            groups.append([(f"{label} ", context.palette.muted), *number])
    return groups


def _compiler(frame: Frame, context: RenderContext) -> list[list[Part]]:
    running, modules = map(frame.value, ("node_compilers", "node_compile_cache_modules"))
    palette = context.palette
    groups: list[list[Part]] = []
    if running is not None:
        text = f"{running:.0f} running" if running else "none running"
        groups.append([(text, palette.accent if running else palette.muted)])
    if modules is not None:
        groups.append([(f"{modules:,.0f}", palette.text), (" modules in the cache", palette.muted)])
    return groups


def _kernel(frame: Frame, context: RenderContext) -> list[list[Part]]:
    """Errors in the kernel log, if any."""
    sign = glyphs.SEVERITIES[Severity.WARNING]
    return [
        [(f"{sign} {count:.0f} {name} errors in the kernel log", context.palette.warning)]
        for name, quantity in _ERRORS
        if (count := frame.value(quantity))
    ]
