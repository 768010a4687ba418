"""Views by hand: small, deterministic, and whole (every entity, every kind of column)."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from trntop.catalog import (
    CPU_MODES,
    ECC_EVENTS,
    EFA_DEVICE_COUNTERS,
    EFA_PORT_COUNTERS,
    EFA_SOURCE,
    EXECUTION_ERRORS,
    EXECUTION_STATUSES,
    LATENCY_PERCENTILES,
    MEMORY_CATEGORIES,
    NEURON_MONITOR,
    STEPS,
    Entity,
)
from trntop.derive import derive
from trntop.model import (
    Cluster,
    Column,
    Evidence,
    Frame,
    Incident,
    Inventory,
    NodeView,
    Runtime,
    Severity,
    SourceState,
    State,
    View,
)

GIB = 1 << 30
NOON = 1_763_640_000.0
"""2025-11-20 12:00:00 UTC."""
HELD = (State.FRESH, State.LATE, State.ENDED)
"""States in which a source's values are still there."""

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
) -> NodeView:
    """One node.

    Args:
        index: sets the node's numbers, and its name unless `name` is given.
        devices: its chips.
        cores_per_device: logical cores of a chip.
        efa: its EFA cards.
        name: its name.
        jobs: the jobs that report from it.
        runtimes: its Neuron processes.
        simulated: whether its values are made up.
        state: the state of all its sources.
        states: the state of single sources, over `state`.
        reason: what sources in another state than FRESH say.
        time: of the frame.
        facts: over `FACTS`.
        columns: values instead of the usual ones; None takes a column away. What is computed
            from them follows.
    """
    name = name or node_name(index)
    total = devices * cores_per_device
    of = dict.fromkeys((NEURON_MONITOR, EFA_SOURCE, STEPS), state) | dict(states or {})
    inventory = Inventory(
        node=name,
        version=1,
        facts={"instance_id": f"i-{index:08x}", **FACTS, **(facts or {})},
        lnc=2,
        keys={
            Entity.DEVICE: tuple(range(devices)),
            Entity.CORE: tuple(range(total)),
            Entity.EFA: tuple(efa_name(card) for card in range(efa)),
            Entity.RUNTIME: tuple(4711 + number for number in range(runtimes)),
            Entity.JOB: tuple(jobs),
        },
        runtimes=tuple(
            Runtime(4711 + number, f"{number}", models=("model.neff",))
            for number in range(runtimes)
        ),
        core_device=np.repeat(np.arange(devices), cores_per_device),
        efa_links={
            efa_name(card): {"pci": f"0000:{16 * (card + 1):02x}:1b.0", "driver": "2.17.3g"}
            for card in range(efa)
        },
    )
    values: dict[str, Column] = {}
    if of[NEURON_MONITOR] in HELD:
        values |= _neuron_columns(index, devices, total, runtimes)
    if of[EFA_SOURCE] in HELD and efa:
        values |= _efa_columns(index, efa)
    if of[STEPS] in HELD and jobs:
        values |= _job_columns(index, len(jobs))
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
            one,
            reason if one is not State.FRESH else "",
            None if one is State.STARTING else time - (0.5 if one is State.FRESH else 14.0),
            1.0,
            {"readings": 60 + index, "restarts": 0},
        )
        for source, one in of.items()
    )
    return NodeView(inventory, Frame(name, time, values, sources, simulated))


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
    cluster = Cluster(time, {node.name: node for node in sorted(nodes, key=lambda one: one.name)})
    return View(generation, time, cluster, tuple(incidents), ended)


def with_state(node: NodeView, source: str, state: State, reason: str = "") -> NodeView:
    """The same node with one source in another state; its columns stay."""
    sources = tuple(
        dataclasses.replace(one, state=state, reason=reason) if one.name == source else one
        for one in node.frame.sources
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
        summary=summary or "EFA card rdmap32s27 on trn-001 retransmits 2.1 % (siblings 0.0 %)",
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
        "neuroncore_physical_utilization_min_ratio": (88 + (core + index) % 10) / 100,
        "neuroncore_physical_utilization_max_ratio": (90 + (core + index) % 10) / 100,
        "device_memory_total_bytes": np.full(devices, 96.0 * GIB),
    }
    # A part in fifteen of what a core uses: half of its share of the HBM, or somewhat more.
    share = 96 * GIB * devices / max(cores, 1) * (0.5 + (core + index) % 10 / 50) // 15
    for place, category in enumerate(MEMORY_CATEGORIES):
        columns[f"neuroncore_memory_{category}_bytes"] = share * (place + 1)
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
    columns |= {name: np.array([value]) for name, value in node.items()}
    if runtimes:
        process: Column = np.ones(runtimes)
        columns["runtime_host_memory_used_bytes"] = process * 4 * GIB
        columns["runtime_device_memory_used_bytes"] = process * 40 * GIB
        columns["runtime_executions_completed_per_second"] = process * 200
        columns["runtime_loaded_models"] = process
        for scope in ("total", "device"):
            for place, percentile in enumerate(LATENCY_PERCENTILES):
                columns[f"runtime_{scope}_latency_{percentile}_seconds"] = process * (
                    0.004 + 0.0005 * place
                )
    return columns


def _efa_columns(index: int, cards: int) -> dict[str, Column]:
    card = np.arange(cards, dtype=np.float64)
    columns: dict[str, Column] = {}
    for place, counter in enumerate(EFA_PORT_COUNTERS | EFA_DEVICE_COUNTERS):
        quiet = counter.endswith("_err") or counter == "no_completion_cmds"
        columns[f"efa_{counter}_total"] = (
            np.zeros(cards) if quiet else 1e6 * (place + 1) + card + 100.0 * index
        )
    columns["efa_link_bytes_per_second"] = np.full(cards, 25e9)
    columns["efa_tx_bytes_per_second"] = 20e9 + 1e8 * card
    columns["efa_rx_bytes_per_second"] = 19e9 + 1e8 * card
    columns["efa_tx_pkts_per_second"] = np.full(cards, 2.5e6)
    columns["efa_rx_drops_per_second"] = np.zeros(cards)
    columns["efa_retrans_pkts_per_second"] = 250.0 * (card + 1)
    for counter in (
        "retrans_timeout_events",
        "unresponsive_remote_events",
        "impaired_remote_conn_events",
    ):
        columns[f"efa_{counter}_per_second"] = np.zeros(cards)
    return columns


def _job_columns(index: int, jobs: int) -> dict[str, Column]:
    one: Column = np.ones(jobs)
    return {
        "job_step": one * 1204,
        "job_ranks": one * 64,
        "job_step_seconds": one * (4.25 + 0.125 * index),
        "job_compute_seconds": one * 3.25,
        "job_comm_seconds": one * 1.25,
        "job_exposed_comm_seconds": one * 0.75,
        "job_tokens_per_second": one * 971_000,
    }
