"""The host of a node: processors, memory, traffic, compilers."""

from collections.abc import Callable, Sequence

from textual.strip import Strip

from trntop.core import units
from trntop.core.model import Frame, NodeView, Severity

from ..view_model import ViewModel
from . import glyphs
from .context import RenderContext
from .graph import bar
from .line import Part, flow, line, wrapped

LABEL = 10
BAR = 12
Value = tuple[str, str, Callable[[float | None], str], str]
"""The words before it, the quantity, its format, the words after it."""


def _traffic(label: str, *ways: tuple[str, str]) -> tuple[str, tuple[Value, ...]]:
    values = [
        (f"{word} ", f"node_{name}_bytes_per_second", units.bytes_rate, "") for word, name in ways
    ]
    return label, tuple(values)


_ROWS: Sequence[tuple[str, tuple[Value, ...]]] = (
    ("cpu", (
        ("", "node_cpu_busy_ratio", units.percent, ""),
        ("", "node_vcpus", units.count, " vCPUs"),
        ("load ", "node_load1", "{:.1f}".format, ""),
        ("", "node_processes", units.count, " processes"),
    )),
    ("memory", (
        ("", "node_memory_used_bytes", units.bytes_iec, ""),
        ("of ", "node_memory_total_bytes", units.bytes_iec, ""),
        ("", "node_memory_available_bytes", units.bytes_iec, " available"),
    )),
    _traffic("network", ("rx", "network_rx"), ("tx", "network_tx")),
    _traffic("disk", ("read", "disk_read"), ("written", "disk_written")),
    _traffic("lustre", ("read", "lustre_read"), ("written", "lustre_written")),
    _traffic("nfs", ("read", "nfs_read"), ("written", "nfs_written")),
    ("compiler", (
        ("", "node_compilers", units.count, " running"),
        ("", "node_compile_cache_modules", units.count, " modules in the cache"),
    )),
)  # fmt: skip
"""Label and values of each line."""
_ERRORS = (("Neuron", "node_kernel_neuron_errors_total"), ("EFA", "node_kernel_efa_errors_total"))


def draw(_view_model: ViewModel, node: NodeView, width: int, context: RenderContext) -> list[Strip]:
    """A line per subject with known values, and the errors in the kernel log."""
    frame, palette = node.frame, context.palette
    lines = []
    for label, values in _ROWS:
        groups = [
            [(before, palette.muted), *context.number(form(number), name), (after, palette.muted)]
            for before, name, form, after in values
            if (number := frame.value(name)) is not None
        ]
        if groups:
            lead: list[Part] = [(f"{label:<{LABEL}}", palette.muted)]
            if (share := _share(frame, label)) is not None:
                lead += [*bar(share, BAR, palette.graph, palette.rule), (" ", palette.text)]
            groups[0] = [*lead, *groups[0]]
            ranked = [(100 - rank, group) for rank, group in enumerate(groups)]
            lines.append(flow(ranked, width, ("  ", palette.faint)))
    sign = glyphs.SEVERITIES[Severity.WARNING]
    for name, quantity in _ERRORS:
        if count := frame.value(quantity):
            text = f"{'kernel':<{LABEL}}{sign} {count:.0f} {name} errors in the kernel log"
            lines.append(line([(text, palette.warning)], width))
    why = frame.why_absent("node_cpu_busy_ratio")
    return lines or wrapped(f"no host data: {why}", width, palette.muted)


def _share(frame: Frame, label: str) -> float | None:
    """The share that the bar of a line shows."""
    if label == "cpu":
        return frame.value("node_cpu_busy_ratio")
    used, total = (frame.value(f"node_memory_{what}_bytes") for what in ("used", "total"))
    return used / total if label == "memory" and used is not None and total else None
