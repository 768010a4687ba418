"""Views by hand: small, deterministic, and whole (every entity, every kind of column)."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from trntop.catalog import (
    CORE_STATUSES,
    CPU_MODES,
    ECC_EVENTS,
    EFA_DEVICE_COUNTERS,
    EFA_PORT_COUNTERS,
    EFA_SOURCE,
    EXECUTION_ERRORS,
    EXECUTION_STATUSES,
    HOST,
    KERNEL_LOG,
    LATENCY_PERCENTILES,
    LOG,
    MEMORY_CATEGORIES,
    NEURON_LS,
    NEURON_MONITOR,
    NEURON_SYSFS,
    PROFILES,
    STEPS,
    SYSFS_ECC,
    TENSOR_ENGINE,
    Entity,
)
from trntop.core.model import (
    Cluster,
    Column,
    Compilation,
    Evidence,
    Frame,
    Incident,
    Inventory,
    Neff,
    NeffProfile,
    NodeView,
    Phase,
    Process,
    Runtime,
    Severity,
    SourceState,
    Stage,
    State,
    View,
)
from trntop.pipeline import hbm
from trntop.pipeline.derive import derive
from trntop.sources import LOCAL_SOURCES

GIB = 1 << 30
NOON = 1_763_640_000.0
"""2025-11-20 12:00:00 UTC."""
HELD = (State.FRESH, State.LATE, State.ENDED)
"""States in which a source's values are still there."""
LNC = 2
"""Physical cores behind a logical one."""
NEFF = Neff("train_step.neff", "5f2c", running=True)
PERIODS = {NEURON_SYSFS: 10.0, HOST: 10.0, KERNEL_LOG: 10.0, NEURON_LS: 60.0, PROFILES: 60.0}
"""Seconds; the other sources report each second."""

FACTS = {
    "instance_type": "trn2.48xlarge",
    "instance_name": "training",
    "availability_zone": "us-west-2d",
    "region": "us-west-2",
    "subnet_id": "subnet-0123",
    "neuron_device_type": "trainium2",
    "neuroncore_version": "v3",
}


def node_name(index: int) -> str:
    return f"trn-{index:03d}"


def efa_name(index: int) -> str:
    return f"rdmap{16 * (index + 1)}s27"


def make_node(
    index: int = 0,
    devices: int = 2,
    cores_per_device: int = 2,
    efa: int = 2,
    *,
    name: str = "",
    jobs: Sequence[str] = ("pretrain-13b",),
    runtimes: int = 1,
    simulated: bool = False,
    state: State = State.FRESH,
    states: Mapping[str, State] | None = None,
    reason: str = "",
    time: float = NOON,
    facts: Mapping[str, str] | None = None,
    columns: Mapping[str, Sequence[float] | None] | None = None,
    compilation: Compilation | None = None,
) -> NodeView:
    """One node.

    Args:
        index: sets the node's numbers, and its name unless `name` is given.
        devices: its chips.
        cores_per_device: logical cores of a chip.
        efa: its EFA devices.
        name: its name.
        jobs: the jobs that report from it.
        runtimes: its Neuron processes.
        simulated: whether its values are made up.
        state: the state of all its sources.
        states: the state of single sources, over `state`.
        reason: the reason of sources in another state than FRESH.
        time: of the frame.
        facts: over `FACTS`.
        columns: values instead of the usual ones; None takes a column away. What is computed
            from them follows.
        compilation: what its compilers are at.
    """
    name = name or node_name(index)
    total = devices * cores_per_device
    of = dict.fromkeys(LOCAL_SOURCES, state) | dict(states or {})
    held = {source for source, state in of.items() if state in HELD}
    pids = tuple(4711 + number for number in range(runtimes))
    inventory = Inventory(
        node=name,
        version=1,
        facts={"instance_id": f"i-{index:08x}", **FACTS, **(facts or {})},
        lnc=LNC,
        keys={
            Entity.DEVICE: tuple(range(devices)),
            Entity.CORE: tuple(range(total)),
            Entity.PHYSICAL_CORE: tuple(range(LNC * total)),
            Entity.EFA: tuple(efa_name(device) for device in range(efa)),
            Entity.RUNTIME: pids,
            Entity.JOB: tuple(jobs),
        },
        runtimes=tuple(
            Runtime(pid, f"{number}", neffs=(NEFF,), cores=tuple(range(number, total, runtimes)))
            for number, pid in enumerate(pids)
        ),
        core_device=np.repeat(np.arange(devices), cores_per_device),
        physical_device=np.repeat(np.arange(devices), LNC * cores_per_device),
        efa_links={
            efa_name(device): {
                "pci": f"0000:{16 * (device + 1):02x}:1b.0",
                "numa_node": str(device * 2 // max(efa, 1)),
                "driver": "2.17.3g",
                "state": "4: ACTIVE",
            }
            for device in range(efa)
        },
        device_links=_device_links(devices) if NEURON_LS in held else {},
        processes=tuple(
            Process(pid, "python3 train.py", tuple(range(devices)), "2.30.51")
            for pid in (pids if NEURON_LS in held else ())
        ),
        profiles=_profiles(devices, runtimes) if PROFILES in held else (),
        compilation=compilation,
    )
    values: dict[str, Column] = {}
    if NEURON_MONITOR in held:
        values |= _neuron_columns(index, devices, total, runtimes)
    if NEURON_SYSFS in held:
        values |= _sysfs_columns(devices, LNC * total)
    if TENSOR_ENGINE in held:
        values |= _engine_columns(index, LNC * total)
    if EFA_SOURCE in held and efa:
        values |= _efa_columns(index, efa)
    if STEPS in held and jobs:
        values |= _job_columns(index, len(jobs))
    if LOG in held and jobs:
        values |= _log_columns(len(jobs))
    if HOST in held:
        values |= _host_columns(index)
    if KERNEL_LOG in held:
        values |= {f"node_kernel_{name}_errors_total": np.zeros(1) for name in ("neuron", "efa")}
    if held >= {EFA_SOURCE, TENSOR_ENGINE, NEURON_MONITOR} and not (STEPS in held and jobs):
        values["node_comm_share_floor_ratio"] = np.array([0.03])
        values["node_comm_share_ceiling_ratio"] = np.array([0.4])
    for quantity, given in (columns or {}).items():
        if given is None:
            values.pop(quantity, None)
        else:
            values[quantity] = np.array(given, np.float64)
    derive(values, inventory)
    for quantity, given in (columns or {}).items():
        if given is None:
            values.pop(quantity, None)
    sources = tuple(
        SourceState(
            source,
            state,
            reason if state is not State.FRESH else "",
            None if state is State.STARTING else time - (0.5 if state is State.FRESH else 14.0),
            PERIODS.get(source, 1.0),
            {"readings": 60 + index, "restarts": 0},
        )
        for source, state in of.items()
    )
    why = hbm.why_unknown(values, inventory, {})
    frame = Frame(
        name,
        time,
        values,
        sources,
        simulated,
        reasons=dict.fromkeys(hbm.HBM_QUANTITIES, why) if why else {},
        phase=_phase(values, inventory, time),
    )
    return NodeView(inventory, frame)


def _phase(values: Mapping[str, Column], inventory: Inventory, time: float) -> Phase | None:
    if inventory.compilation is not None:
        since = inventory.compilation.since
        return Phase(Stage.COMPILING, since, "2 compilers, 12 modules in the cache")
    if "job_step" in values:
        return Phase(Stage.TRAINING, time - 11_520, f"step {values['job_step'].max():,.0f}")
    if "node_neuroncore_utilization_mean_ratio" in values:
        return Phase(Stage.TRAINING, None, "cores 92 % utilized")
    return None


def _device_links(devices: int) -> dict[int, dict[str, str]]:
    return {
        device: {
            "pci": f"{device:02x}:1e.0",
            "numa_node": str(device * 2 // devices),
            "connected_to": f"{(device + 1) % devices}, {(device - 1) % devices}",
            "serial_number": f"{0xC0FFEE00 + device:016x}",
            "name": "Trainium2",
            "power_status": "POWER_STATUS_VALID",
        }
        for device in range(devices)
    }


def _profiles(devices: int, runtimes: int) -> tuple[NeffProfile, ...]:
    """Of a NEFF that takes 38 % of what the devices' HBM can do."""
    moved = 0.38 * 2.9e12 * devices / max(200 * runtimes, 1)
    return (NeffProfile(NEFF.name, NEFF.uuid, 0.6 * moved, 0.4 * moved, 0.005),)


def make_view(
    nodes: int = 2,
    devices: int = 2,
    cores_per_device: int = 2,
    efa: int = 2,
    *,
    jobs: Sequence[str] = ("pretrain-13b",),
    runtimes: int = 1,
    incidents: Sequence[Incident] = (),
    simulated: bool = False,
    state: State = State.FRESH,
    states: Mapping[str, State] | None = None,
    reason: str = "",
    time: float = NOON,
    generation: int = 1,
    ended: bool = False,
    facts: Mapping[str, str] | None = None,
    columns: Mapping[str, Sequence[float] | None] | None = None,
    compilation: Compilation | None = None,
) -> View:
    """A view of `nodes` nodes, each as `make_node` makes it."""
    views = [
        make_node(
            index,
            devices,
            cores_per_device,
            efa,
            jobs=jobs,
            runtimes=runtimes,
            simulated=simulated,
            state=state,
            states=states,
            reason=reason,
            time=time,
            facts=facts,
            columns=columns,
            compilation=compilation,
        )
        for index in range(nodes)
    ]
    return view_of(*views, incidents=incidents, time=time, generation=generation, ended=ended)


def view_of(
    *nodes: NodeView,
    incidents: Sequence[Incident] = (),
    time: float = NOON,
    generation: int = 1,
    ended: bool = False,
) -> View:
    """A view of the given nodes."""
    cluster = Cluster(time, {node.name: node for node in sorted(nodes, key=lambda node: node.name)})
    return View(generation, time, cluster, tuple(incidents), ended)


def with_state(node: NodeView, source: str, state: State, reason: str = "") -> NodeView:
    """The same node with one source in another state; its columns stay."""
    sources = tuple(
        dataclasses.replace(known, state=state, reason=reason) if known.name == source else known
        for known in node.frame.sources
    )
    return dataclasses.replace(node, frame=dataclasses.replace(node.frame, sources=sources))


def make_incident(
    kind: str = "comm_bound",
    *,
    severity: Severity = Severity.WARNING,
    summary: str = "",
    opened_at: float = NOON - 60,
    closed_at: float | None = None,
    job: str | None = None,
    node: str | None = "trn-001",
    component: str | None = "efa:rdmap32s27",
) -> Incident:
    """One incident with two pieces of evidence."""
    return Incident(
        id=f"{kind}:{node}:{component}:{opened_at:.0f}",
        kind=kind,
        severity=severity,
        summary=summary or "rdmap32s27 on trn-001: 2.1 % retransmits (peers 0.0 %)",
        opened_at=opened_at,
        closed_at=closed_at,
        job=job,
        node=node,
        component=component,
        evidence=(
            Evidence(
                "comm share 31 % of step time", node, "job_comm_share_ratio", 0.31, limit=0.25
            ),
            Evidence("16 nodes wait 0.9 s a step"),
        ),
    )


def _neuron_columns(index: int, devices: int, cores: int, runtimes: int) -> dict[str, Column]:
    core = np.arange(cores, dtype=np.float64)
    columns: dict[str, Column] = {
        "neuroncore_utilization_ratio": (90 + (core + index) % 10) / 100,
        "neuroncore_flops_per_second": 40e12 + core * 1e9,
        "device_memory_total_bytes": np.full(devices, 96.0 * GIB),
    }
    # A part in fifteen of what a core uses: half of its share of the HBM, or somewhat more.
    share = 96 * GIB * devices / max(cores, 1) * (0.5 + (core + index) % 10 / 50) // 15
    for position, category in enumerate(MEMORY_CATEGORIES):
        columns[f"neuroncore_memory_{category}_bytes"] = share * (position + 1)
    columns["neuroncore_memory_used_bytes"] = share * 15
    for event in ECC_EVENTS:
        columns[f"device_{event}_events"] = np.zeros(devices)
    node: dict[str, float] = {
        "node_memory_total_bytes": 2048.0 * GIB,
        "node_memory_used_bytes": (300.0 + index) * GIB,
        "node_swap_total_bytes": 0.0,
        "node_swap_used_bytes": 0.0,
        "node_vcpus": 192.0,
        "node_context_switches": 1e6 + index,
        "node_devices": float(devices),
        "node_neuroncores": float(cores),
        "node_runtimes": float(runtimes),
    }
    node |= {f"node_vcpu_{mode}_ratio": 0.125 for mode in CPU_MODES}
    node |= {f"node_executions_{status}_total": 0.0 for status in EXECUTION_STATUSES}
    node |= {f"node_execution_errors_{error}_total": 0.0 for error in EXECUTION_ERRORS}
    node["node_executions_completed_total"] = 12_000.0 + index
    node["node_executions_failed_total"] = 0.0
    columns |= {name: np.array([value]) for name, value in node.items()}
    if runtimes:
        process: Column = np.ones(runtimes)
        columns["runtime_host_memory_used_bytes"] = process * 4 * GIB
        columns["runtime_device_memory_used_bytes"] = process * 40 * GIB
        columns["runtime_executions_completed_per_second"] = process * 200
        columns["runtime_loaded_models"] = process
        for scope in ("total", "device"):
            for position, percentile in enumerate(LATENCY_PERCENTILES):
                columns[f"runtime_{scope}_latency_{percentile}_seconds"] = process * (
                    0.004 + 0.0005 * position
                )
    return columns


def _sysfs_columns(devices: int, cores: int) -> dict[str, Column]:
    core: Column = np.arange(cores, dtype=np.float64)
    columns: dict[str, Column] = {"physical_core_memory_used_bytes": 6 * GIB + 1e6 * core}
    for status in CORE_STATUSES:
        columns[f"physical_core_{status}_total"] = np.zeros(cores)
    columns["physical_core_success_total"] = 12_000.0 + core
    for name in SYSFS_ECC:
        columns[f"device_{name}_total"] = np.zeros(devices)
    for statistic, share in (("min", 0.4), ("max", 0.8), ("mean", 0.6)):
        columns[f"device_power_{statistic}_ratio"] = np.full(devices, share)
    columns["device_unhealthy_components"] = np.zeros(devices)
    return columns


def _engine_columns(index: int, cores: int) -> dict[str, Column]:
    core = np.arange(cores, dtype=np.float64)
    share = (30 + (core + index) % 8) / 100
    columns: dict[str, Column] = {}
    for state, part in (
        ("matmul", 0.9 * share),
        ("weight_load", 0.1 * share),
        ("idle", 1 - share),
    ):
        name = f"physical_core_tensor_engine_{state}_cycles"
        columns[f"{name}_per_second"] = 1.4e9 * part
        columns[f"{name}_total"] = 1e13 * part
    return columns


def _host_columns(index: int) -> dict[str, Column]:
    node = {
        "node_cpu_busy_ratio": 0.21,
        "node_load1": 40.5,
        "node_memory_available_bytes": 1700.0 * GIB,
        "node_processes": 812.0,
        "node_compilers": 0.0,
        "node_compile_cache_modules": 12.0,
    }
    for position, name in enumerate(("network_rx", "network_tx", "disk_read", "disk_written",
                                  "lustre_read", "lustre_written",
                                  "nfs_read", "nfs_written")):  # fmt: skip
        node[f"node_{name}_bytes_total"] = 1e12 * (position + 1) + index
        node[f"node_{name}_bytes_per_second"] = 1e7 * (position + 1)
    return {name: np.array([value]) for name, value in node.items()}


def _log_columns(jobs: int) -> dict[str, Column]:
    ones: Column = np.ones(jobs)
    return {
        "job_grad_norm": ones * 0.75,
        "job_tokens_per_second_per_device": ones * 3_800,
        "job_samples_per_second": ones * 237,
        "job_logged_step_seconds": ones * 4.25,
        "job_logged_step_total": ones * 1204,
        "job_logged_steps_per_second": ones * 0.25,
    }


def _efa_columns(index: int, devices: int) -> dict[str, Column]:
    device = np.arange(devices, dtype=np.float64)
    columns: dict[str, Column] = {}
    for position, counter in enumerate(EFA_PORT_COUNTERS | EFA_DEVICE_COUNTERS):
        quiet = counter.endswith("_err") or counter == "no_completion_cmds"
        columns[f"efa_{counter}_total"] = (
            np.zeros(devices) if quiet else 1e6 * (position + 1) + device + 100.0 * index
        )
    columns["efa_stated_link_bytes_per_second"] = np.full(devices, 25e9)
    columns["node_efa_cards"] = np.array([float(devices)])
    columns["efa_tx_bytes_per_second"] = 20e9 + 1e8 * device
    columns["efa_rx_bytes_per_second"] = 19e9 + 1e8 * device
    columns["efa_tx_pkts_per_second"] = np.full(devices, 2.5e6)
    columns["efa_rx_drops_per_second"] = np.zeros(devices)
    columns["efa_retrans_pkts_per_second"] = 250.0 * (device + 1)
    for counter in (
        "retrans_timeout_events",
        "unresponsive_remote_events",
        "impaired_remote_conn_events",
    ):
        columns[f"efa_{counter}_per_second"] = np.zeros(devices)
    return columns


def _job_columns(index: int, jobs: int) -> dict[str, Column]:
    ones: Column = np.ones(jobs)
    return {
        "job_step": ones * 1204,
        "job_ranks": ones * 64,
        "job_step_seconds": ones * (4.25 + 0.125 * index),
        "job_compute_seconds": ones * 3.25,
        "job_comm_seconds": ones * 1.25,
        "job_exposed_comm_seconds": ones * 0.75,
        "job_tokens_per_second": ones * 971_000,
        "job_loss": ones * 2.5,
        "job_mfu_ratio": ones * 0.38,
    }
