"""The parts of a single node as text: devices, EFA devices, processes, sources."""

from collections.abc import Iterator, Mapping

from rich.cells import cell_len

from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import NodeView, Phase, Runtime
from trntop.pipeline.jobs import holders

from .grid import Column, fill, lines, part, wrapped

MAX_NEAR = 4
"""Limit of the nearest EFA devices listed for a device."""
ACTIVE = "ACTIVE"
"""Link state of a working EFA device."""


def _gigabytes(rate: float | None) -> str:
    return units.count(None if rate is None else rate / 1e9)


def _milliseconds(duration: float | None) -> str:
    return units.ABSENT if duration is None else f"{1e3 * duration:.1f}"


_DEVICE = (
    ("HBM", "% ", "device_memory_used_ratio", units.percent, 0),
    ("used", "GiB ", "device_memory_used_bytes", units.gib, 0),
    ("of", "GiB ", "device_memory_total_bytes", units.gib, 3),
    ("HBM bw", "% ", "device_hbm_bandwidth_ratio", units.percent, 0),
    ("", "GB/s ", "device_hbm_bytes_per_second", _gigabytes, 2),
    ("TE", "% ", "device_tensor_engine_busy_ratio", units.percent, 0),
    ("power", "% ", "device_power_mean_ratio", units.percent, 1),
)
"""Title, unit, quantity, format and rank of the columns of a device."""
_EFA = (
    ("out", "Gb/s ", "efa_tx_bytes_per_second", units.gigabits, 0),
    ("in", "Gb/s ", "efa_rx_bytes_per_second", units.gigabits, 0),
    ("line", "Gb/s ", "efa_link_bytes_per_second", units.gigabits, 4),
    ("peers", "% ", "efa_tx_sibling_ratio", units.percent, 3),
    ("retransmits", "% ", "efa_retransmit_ratio", units.percent, 0),
    ("drops", "1/s ", "efa_rx_drops_per_second", units.count, 1),
    ("timeouts", "1/s ", "efa_retrans_timeout_events_per_second", units.count, 2),
    ("impaired", "1/s ", "efa_impaired_remote_conn_events_per_second", units.count, 2),
    ("unresponsive", "1/s ", "efa_unresponsive_remote_events_per_second", units.count, 5),
)
"""The same of an EFA device."""
_RUNTIME = (
    ("exec", "1/s ", "runtime_executions_completed_per_second", units.count, 0),
    ("p50", "ms ", "runtime_total_latency_p50_seconds", _milliseconds, 0),
    ("p99", "ms ", "runtime_total_latency_p99_seconds", _milliseconds, 0),
    ("HBM", "GiB ", "runtime_device_memory_used_bytes", units.gib, 1),
)
"""The same of a Neuron process."""


def blocks(node: NodeView, width: int, *, utc: bool) -> Iterator[list[str]]:
    """One block of lines per kind of part that the node has."""
    inventory = node.inventory
    if node.frame.phase is not None:
        yield _phase(node.frame.phase, width, utc=utc)
    if allocated := holders(inventory):
        yield wrapped(f"allocated to {allocated}", width, "")
    if inventory.of(Entity.DEVICE):
        yield lines(_devices(node), width)
    if inventory.of(Entity.EFA):
        yield lines(_efa_devices(node), width)
    if inventory.runtimes or inventory.processes:
        yield lines(_processes(node), width)
    yield _sources(node, width)


def _phase(phase: Phase, width: int, *, utc: bool) -> list[str]:
    since = f" since {units.clock(phase.since, utc=utc)}" if phase.since is not None else ""
    mark = units.mark(phase.provenance)
    return wrapped(f"{phase.stage} {mark}{since}: {phase.why}", width, "")


def _devices(node: NodeView) -> list[Column]:
    frame = node.frame
    columns = [
        Column("device"),
        *(Column(title, unit, rank=rank) for title, unit, _, _, rank in _DEVICE),
        Column("ECC", "uncorr. "),
        Column("unhealthy", "", rank=4),
        Column("NUMA", rank=5),
        Column("PCI", left=True, rank=6),
        Column("near EFA", left=True, rank=7),
        Column("", left=True),
    ]
    for index, device in enumerate(node.inventory.of(Entity.DEVICE)):
        link = node.inventory.device_links.get(int(device), {})
        fill(
            columns,
            (
                str(device),
                *(part(frame, quantity, index, form) for _, _, quantity, form, _ in _DEVICE),
                f"{units.count(frame.uncorrected(index))} ",
                part(frame, "device_unhealthy_components", index, units.count),
                link.get("numa_node", ""),
                link.get("pci", ""),
                ", ".join(node.inventory.near_cards(int(device))[:MAX_NEAR]),
                _problem(link),
            ),
        )
    return columns


def _problem(link: Mapping[str, str]) -> str:
    """The faults that the driver reports of a device."""
    return ", ".join(f"{key}: {link[key]}" for key in ("lost", "unhealthy") if link.get(key))


def _efa_devices(node: NodeView) -> list[Column]:
    columns = [
        Column("EFA device", left=True),
        *(Column(title, unit, rank=rank) for title, unit, _, _, rank in _EFA),
        Column("NUMA", rank=6),
        Column("", left=True),
    ]
    lost = node.lost_cards
    devices = enumerate(node.inventory.of(Entity.EFA))
    for index, device in sorted(devices, key=lambda pair: units.natural(str(pair[1]))):
        link = node.inventory.efa_links.get(str(device), {})
        state = link.get("state", ACTIVE)
        fill(
            columns,
            (
                str(device),
                *(part(node.frame, quantity, index, form) for _, _, quantity, form, _ in _EFA),
                link.get("numa_node", ""),
                "lost" if index in lost else "" if ACTIVE in state else state,
            ),
        )
    return columns


def _processes(node: NodeView) -> list[Column]:
    """One row per process that has a Neuron runtime or holds devices."""
    inventory = node.inventory
    holders = {process.pid: process for process in inventory.processes}
    runtimes = {runtime.pid: runtime for runtime in inventory.runtimes}
    places = {pid: place for place, pid in enumerate(inventory.of(Entity.RUNTIME))}
    columns = [
        Column("process", left=True),
        Column("pid"),
        Column("devices", left=True, rank=2),
        Column("cores", left=True, rank=3),
        *(Column(title, unit, rank=rank) for title, unit, _, _, rank in _RUNTIME),
        Column("runtime", left=True, rank=4),
        Column("programs, * running", left=True, rank=5),
    ]
    for pid in sorted(runtimes.keys() | holders.keys()):
        holder, runtime = holders.get(pid), runtimes.get(pid)
        place = places.get(pid, len(places))
        name = (holder.command if holder else "") or (runtime.tag if runtime else "") or "-"
        fill(
            columns,
            (
                f"{name} {runtime.error}" if runtime and runtime.error else name,
                str(pid),
                units.ranges(holder.devices) if holder else "",
                units.ranges(runtime.cores) if runtime else "",
                *(part(node.frame, quantity, place, form) for _, _, quantity, form, _ in _RUNTIME),
                holder.runtime_version if holder else "",
                _programs(runtime),
            ),
        )
    return columns


def _programs(runtime: Runtime | None) -> str:
    return ", ".join(neff.name + "*" * neff.running for neff in (runtime.neffs if runtime else ()))


def _sources(node: NodeView, width: int) -> list[str]:
    """One row per source, with the reason if it or a part of it has no data."""
    columns = [
        Column("source", left=True),
        Column("state", left=True),
        Column("age"),
        Column("every"),
    ]
    for source in node.frame.sources:
        fill(
            columns,
            (
                source.name,
                str(source.state),
                units.age(source.age(node.frame.time)),
                units.ABSENT if source.period is None else f"{round(source.period, 1):g} s",
            ),
        )
    title, *rows = lines(columns, width)
    shown = [title]
    for source, row in zip(node.frame.sources, rows, strict=True):
        reason = source.reason
        if reason and cell_len(row) + cell_len(reason) + 2 <= width:
            shown.append(f"{row}  {reason}")
        else:
            shown += [row, *wrapped(reason, width, "    ")]
    return shown
