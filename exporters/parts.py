"""The parts of a single node as text: devices, EFA devices, processes, sources."""

from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len

from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import NodeView, Phase, Process, Runtime
from trntop.pipeline.jobs import holders

from .grid import Column, Format, lines, part, wrapped

MAX_NEAR = 4
"""Limit of the nearest EFA devices listed for a device."""
ACTIVE = "ACTIVE"
"""Link state of a working EFA device."""


def _milliseconds(duration: float | None) -> str:
    return units.ABSENT if duration is None else f"{1e3 * duration:.1f}"


Spec = tuple[str, str, str, Format, int]
"""Title, unit, quantity, format and rank of a column."""
_DEVICE: tuple[Spec, ...] = (
    ("HBM", "% ", "device_memory_used_ratio", units.percent, 0),
    ("used", "GiB ", "device_memory_used_bytes", units.gib, 0),
    ("of", "GiB ", "device_memory_total_bytes", units.gib, 3),
    ("HBM bw", "% ", "device_hbm_bandwidth_ratio", units.percent, 0),
    ("", "GB/s ", "device_hbm_bytes_per_second", units.gigabytes, 2),
    ("TE", "% ", "device_tensor_engine_busy_ratio", units.percent, 0),
    ("power", "% ", "device_power_mean_ratio", units.percent, 1),
)
_UNHEALTHY: tuple[Spec, ...] = (("unhealthy", "", "device_unhealthy_components", units.count, 4),)
_EFA: tuple[Spec, ...] = (
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
_RUNTIME: tuple[Spec, ...] = (
    ("exec", "1/s ", "runtime_executions_completed_per_second", units.count, 0),
    ("p50", "ms ", "runtime_total_latency_p50_seconds", _milliseconds, 0),
    ("p99", "ms ", "runtime_total_latency_p99_seconds", _milliseconds, 0),
    ("HBM", "GiB ", "runtime_device_memory_used_bytes", units.gib, 1),
)


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


def _values(node: NodeView, specs: Sequence[Spec], places: Sequence[int]) -> list[Column]:
    return [
        Column(
            title,
            unit,
            rank=rank,
            cells=[part(node.frame, name, at, form, node.inventory) for at in places],
        )
        for title, unit, name, form, rank in specs
    ]


def _devices(node: NodeView) -> list[Column]:
    frame, inventory = node.frame, node.inventory
    devices = [int(device) for device in inventory.of(Entity.DEVICE)]
    places = range(len(devices))
    links = [inventory.device_links.get(device, {}) for device in devices]
    near = [", ".join(inventory.near_efa_devices(device)[:MAX_NEAR]) for device in devices]
    errors = [f"{units.count(frame.uncorrected(place))} " for place in places]
    return [
        Column("device", cells=[str(device) for device in devices]),
        *_values(node, _DEVICE, places),
        Column("ECC", "uncorr. ", cells=errors),
        *_values(node, _UNHEALTHY, places),
        Column("NUMA", rank=5, cells=[link.get("numa_node", "") for link in links]),
        Column("PCI", left=True, rank=6, cells=[link.get("pci", "") for link in links]),
        Column("near EFA", left=True, rank=7, cells=near),
        Column("", left=True, cells=[_problem(link) for link in links]),
    ]


def _problem(link: Mapping[str, str]) -> str:
    """The faults that the driver reports of a device."""
    return ", ".join(f"{key}: {link[key]}" for key in ("lost", "unhealthy") if link.get(key))


def _efa_devices(node: NodeView) -> list[Column]:
    names = [str(name) for name in node.inventory.of(Entity.EFA)]
    places = sorted(range(len(names)), key=lambda place: units.natural_sort_key(names[place]))
    links = [node.inventory.efa_links.get(names[place], {}) for place in places]
    states = [link.get("state", ACTIVE) for link in links]
    problems = [
        "lost" if place in node.lost_efa_devices else "" if ACTIVE in state else state
        for place, state in zip(places, states, strict=True)
    ]
    return [
        Column("EFA device", left=True, cells=[names[place] for place in places]),
        *_values(node, _EFA, places),
        Column("NUMA", rank=6, cells=[link.get("numa_node", "") for link in links]),
        Column("", left=True, cells=problems),
    ]


def _processes(node: NodeView) -> list[Column]:
    """One row per process that has a Neuron runtime or holds devices."""
    inventory = node.inventory
    runtimes = {runtime.pid: runtime for runtime in inventory.runtimes}
    processes = {process.pid: process for process in inventory.processes}
    pids = sorted(runtimes.keys() | processes.keys())
    held = [processes.get(pid) or Process(pid, "") for pid in pids]
    run = [runtimes.get(pid) or Runtime(pid, "") for pid in pids]
    names = [
        f"{process.command or runtime.name or '-'} {runtime.error}".rstrip()
        for process, runtime in zip(held, run, strict=True)
    ]
    places = {pid: place for place, pid in enumerate(inventory.of(Entity.RUNTIME))}
    return [
        Column("process", left=True, cells=names),
        Column("pid", cells=[str(pid) for pid in pids]),
        Column(
            "devices", left=True, rank=2, cells=[units.ranges(process.devices) for process in held]
        ),
        Column("cores", left=True, rank=3, cells=[units.ranges(runtime.cores) for runtime in run]),
        *_values(node, _RUNTIME, [places.get(pid, len(places)) for pid in pids]),
        Column("runtime", left=True, rank=4, cells=[process.runtime_version for process in held]),
        Column(
            "programs, * running", left=True, rank=5, cells=[_programs(runtime) for runtime in run]
        ),
    ]


def _programs(runtime: Runtime) -> str:
    return ", ".join(neff.name + "*" * neff.running for neff in runtime.neffs)


def _sources(node: NodeView, width: int) -> list[str]:
    """One row per source, with the reason if it or a part of it has no data."""
    sources, now = node.frame.sources, node.frame.time
    columns = [
        Column("source", left=True, cells=[source.name for source in sources]),
        Column("state", left=True, cells=[str(source.state) for source in sources]),
        Column("age", cells=[units.age(source.age(now)) for source in sources]),
        Column("every", cells=[_period(source.period) for source in sources]),
    ]
    title, *rows = lines(columns, width)
    shown = [title]
    for source, row in zip(sources, rows, strict=True):
        reason = source.reason
        if reason and cell_len(row) + cell_len(reason) + 2 <= width:
            shown.append(f"{row}  {reason}")
        else:
            shown += [row, *wrapped(reason, width, "    ")]
    return shown


def _period(seconds: float | None) -> str:
    return units.ABSENT if seconds is None else f"{round(seconds, 1):g} s"
