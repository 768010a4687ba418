"""The parts of a single node as text: devices, cores, cards, processes, host, sources."""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import Frame, NodeView, Phase, Runtime
from trntop.pipeline.jobs import holders

from .grid import Column, cells, fill, fit, full, lines, packed, part, wrapped

MAX_NEAR = 4
"""Nearest cards of a device that are named."""
ACTIVE = "ACTIVE"
"""What the link of a card that works says of itself."""

_CARD = (
    ("out", "Gb/s ", "efa_tx_bytes_per_second", units.gigabits, 0),
    ("in", "Gb/s ", "efa_rx_bytes_per_second", units.gigabits, 0),
    ("line", "Gb/s ", "efa_link_bytes_per_second", units.gigabits, 4),
    ("siblings", "% ", "efa_tx_sibling_ratio", units.percent, 3),
    ("retransmits", "% ", "efa_retransmit_ratio", units.percent, 0),
    ("drops", "1/s ", "efa_rx_drops_per_second", units.count, 1),
    ("timeouts", "1/s ", "efa_retrans_timeout_events_per_second", units.count, 2),
    ("impaired", "1/s ", "efa_impaired_remote_conn_events_per_second", units.count, 2),
    ("unresponsive", "1/s ", "efa_unresponsive_remote_events_per_second", units.count, 5),
)
"""Title, unit, quantity, format and rank of the columns of a card."""
_HOST = (
    ("network in", "node_network_rx_bytes_per_second"),
    ("network out", "node_network_tx_bytes_per_second"),
    ("disk read", "node_disk_read_bytes_per_second"),
    ("disk written", "node_disk_written_bytes_per_second"),
    ("Lustre read", "node_lustre_read_bytes_per_second"),
    ("Lustre written", "node_lustre_written_bytes_per_second"),
)


def blocks(node: NodeView, width: int, *, utc: bool) -> Iterator[list[str]]:
    """One block of lines per kind of part that the node has."""
    inventory = node.inventory
    if node.frame.phase is not None:
        yield _phase(node.frame.phase, width, utc=utc)
    if given := holders(inventory):
        yield wrapped(f"given to {given}", width, "")
    if inventory.of(Entity.DEVICE):
        yield lines(_devices(node), width)
        yield lines(_cores(node), width)
    if inventory.of(Entity.EFA):
        yield [*_fewer(node, width), *lines(_cards(node), width)]
    if inventory.runtimes or inventory.processes:
        yield _processes(node, width)
    yield _host(node, width)
    yield _sources(node, width)


def _phase(found: Phase, width: int, *, utc: bool) -> list[str]:
    """What the run is busy with, since when, and what tells so."""
    since = f" since {units.clock(found.since, utc=utc)}" if found.since is not None else ""
    mark = units.mark(found.provenance)
    return wrapped(f"{found.stage} {mark}{since}: {found.why}", width, "")


def _devices(node: NodeView) -> list[Column]:
    """One row per device."""
    frame, links = node.frame, node.inventory.device_links
    columns = [
        Column("device"),
        Column("HBM", "% "),
        Column("used", "GiB "),
        Column("of", "GiB ", rank=3),
        Column("HBM bw", "% "),
        Column("", "GB/s ", rank=2),
        Column("TE", "% "),
        Column("power", "% ", rank=1),
        Column("ECC", "uncorr. "),
        Column("unhealthy", "", rank=4),
        Column("NUMA", rank=5),
        Column("PCI", left=True, rank=6),
        Column("near EFA", left=True, rank=7),
        Column("", left=True),
    ]
    for index, device in enumerate(node.inventory.of(Entity.DEVICE)):
        link = links.get(int(device), {})
        fill(
            columns,
            (
                str(device),
                part(frame, "device_memory_used_ratio", index, units.percent),
                part(frame, "device_memory_used_bytes", index, units.gib),
                part(frame, "device_memory_total_bytes", index, units.gib),
                part(frame, "device_hbm_bandwidth_ratio", index, units.percent),
                part(frame, "device_hbm_bytes_per_second", index, _gigabytes),
                part(frame, "device_tensor_engine_busy_ratio", index, units.percent),
                part(frame, "device_power_mean_ratio", index, units.percent),
                _errors(frame.uncorrected(index)),
                part(frame, "device_unhealthy_components", index, units.count),
                link.get("numa_node", ""),
                link.get("pci", ""),
                ", ".join(node.inventory.near_cards(int(device))[:MAX_NEAR]),
                _complaint(link),
            ),
        )
    return columns


def _gigabytes(rate: float | None) -> str:
    return units.count(None if rate is None else rate / 1e9)


def _errors(count: float | None) -> str:
    return f"{units.ABSENT} " if count is None else f"{count:,.0f} "


def _complaint(link: Mapping[str, str]) -> str:
    """What the driver says is wrong with a device."""
    return ", ".join(f"{key}: {link[key]}" for key in ("lost", "unhealthy") if link.get(key))


def _cores(node: NodeView) -> list[Column]:
    """Utilization and tensor-engine work, one row per device, its cores in one cell."""
    frame, inventory = node.frame, node.inventory
    columns = [
        Column("device"),
        Column("cores", "util %", left=True),
        Column("physical cores", "TE % d", left=True),
    ]
    for device in inventory.of(Entity.DEVICE):
        fill(
            columns,
            (
                str(device),
                _shares(frame, "neuroncore_utilization_ratio", inventory.core_device == device),
                _shares(
                    frame,
                    "physical_core_tensor_engine_busy_ratio",
                    inventory.physical_device == device,
                ),
            ),
        )
    return columns


def _shares(frame: Frame, quantity: str, own: npt.NDArray[np.bool_]) -> str:
    """Percentages of a device's cores, in order."""
    shares = (frame.at(quantity, int(core)) for core in np.flatnonzero(own))
    return " ".join(f"{units.percent(share).partition(' ')[0]:>3}" for share in shares)


def _fewer(node: NodeView, width: int) -> list[str]:
    """That cards are missing, where the instance type tells how many there should be."""
    cards, expected = (
        node.frame.value(name) for name in ("node_efa_cards", "node_efa_cards_expected")
    )
    if cards is None or expected is None or cards >= expected:
        return []
    return [fit(f"{cards:.0f} of {expected:.0f} EFA cards answer", width)]


def _cards(node: NodeView) -> list[Column]:
    """One row per EFA card."""
    columns = [
        Column("EFA card", left=True),
        *(Column(title, unit, rank=rank) for title, unit, _, _, rank in _CARD),
        Column("NUMA", rank=6),
        Column("", left=True),
    ]
    gone = node.lost_cards
    cards = enumerate(node.inventory.of(Entity.EFA))
    for index, card in sorted(cards, key=lambda one: units.natural(str(one[1]))):
        link = node.inventory.efa_links.get(str(card), {})
        state = link.get("state", ACTIVE)
        fill(
            columns,
            (
                str(card),
                *(part(node.frame, quantity, index, form) for _, _, quantity, form, _ in _CARD),
                link.get("numa_node", ""),
                "lost" if index in gone else "" if ACTIVE in state else state,
            ),
        )
    return columns


def _processes(node: NodeView, width: int) -> list[str]:
    """One row per process that has a Neuron runtime or holds devices, then its programs."""
    frame, inventory = node.frame, node.inventory
    holders = {process.pid: process for process in inventory.processes}
    runtimes = {runtime.pid: runtime for runtime in inventory.runtimes}
    places = {pid: place for place, pid in enumerate(inventory.of(Entity.RUNTIME))}
    columns = [
        Column("process", left=True),
        Column("pid"),
        Column("devices", left=True, rank=2),
        Column("cores", left=True, rank=3),
        Column("exec", "1/s "),
        Column("p50", "ms "),
        Column("p99", "ms "),
        Column("HBM", "GiB ", rank=1),
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
                part(frame, "runtime_executions_completed_per_second", place, units.count),
                part(frame, "runtime_total_latency_p50_seconds", place, _milliseconds),
                part(frame, "runtime_total_latency_p99_seconds", place, _milliseconds),
                part(frame, "runtime_device_memory_used_bytes", place, units.gib),
                holder.runtime_version if holder else "",
                _programs(runtime),
            ),
        )
    return lines(columns, width)


def _programs(runtime: Runtime | None) -> str:
    return ", ".join(neff.name + "*" * neff.running for neff in (runtime.neffs if runtime else ()))


def _milliseconds(duration: float | None) -> str:
    return units.ABSENT if duration is None else f"{1e3 * duration:.1f}"


def _host(node: NodeView, width: int) -> list[str]:
    """CPU, memory, traffic and compilers in a few lines."""
    frame = node.frame
    used, total = (frame.value(f"node_memory_{what}_bytes") for what in ("used", "total"))
    groups = [
        f"CPU {full(frame, 'node_cpu_busy_ratio', units.percent)}",
        f"load {full(frame, 'node_load1', _load)}",
        f"memory {units.gib(used)} of {units.gib(total)} GiB used",
        f"{full(frame, 'node_memory_available_bytes', units.bytes_iec)} available",
        *(f"{what} {full(frame, name, units.bytes_rate)}" for what, name in _HOST),
        f"{full(frame, 'node_compilers', units.count)} compilers",
        f"{full(frame, 'node_compile_cache_modules', units.count)} modules in the compile cache",
    ]
    known = [group for group in groups if units.ABSENT not in group]
    return packed(known or [frame.why_absent("node_cpu_busy_ratio")], width, "host  ")


def _load(load: float | None) -> str:
    return units.ABSENT if load is None else f"{load:.1f}"


def _sources(node: NodeView, width: int) -> list[str]:
    """One row per source, and below it why it or a part of it does not speak."""
    now = node.frame.time
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
                units.age(source.age(now)),
                units.ABSENT if source.period is None else f"{round(source.period, 1):g} s",
            ),
        )
    title, *rows = lines(columns, width)
    shown = [title]
    for source, row in zip(node.frame.sources, rows, strict=True):
        reason = source.reason
        if reason and cells(row) + cells(reason) + 2 <= width:
            shown.append(f"{row}  {reason}")
        else:
            shown += [row, *wrapped(reason, width, "    ")]
    return shown
