"""The values that travel from a source to a screen.

    Reading        one payload of a source, verbatim
    Sample         the same, decoded: columns and facts
    Inventory      the parts of a node; changes rarely
    Frame          one tick of one node: one array per quantity; immutable
    Cluster        node → (inventory, frame), replaced atomically
    ClusterTotals  totals of all nodes, if the cluster has only the worst
    Incident       a result of the analysis
    View           one tick of everything: the input of screens and exporters

Times are unix seconds of the stream: the wall clock at the start plus monotonic progress for
live sources, the recorded times for recordings. Absent values are NaN in columns.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from trntop.catalog import (
    AGENT,
    CATALOG,
    DEVICE_SOURCES,
    FLEET,
    HBM_QUANTITIES,
    UNCORRECTED_ECC,
    Entity,
    Provenance,
    inputs,
)
from trntop.core import units
from trntop.core.text import clean

Column = npt.NDArray[np.float64]
Key = int | str
Time = Annotated[float, msgspec.Meta(ge=0.0, le=1e11)]
"""Unix seconds; what is decoded is neither NaN nor beyond what calendars have."""

NO_VALUE = float("nan")
STALE_PERIODS = 3.0
"""Periods without data after which a source is stale."""
PULSE = 15.0
"""Seconds; sources with at most this period decide whether a node is alive."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One payload of one source of one node, verbatim."""

    node: str
    source: str
    time: float
    data: bytes
    simulated: bool = False


class State(StrEnum):
    """The state of a source."""

    STARTING = "starting"
    FRESH = "fresh"
    LATE = "late"
    """More than two periods since the last reading; its values are still shown, with their age."""
    STALE = "stale"
    """More than three periods: its values are absent."""
    DOWN = "down"
    """The collector knows that there is no data: not installed, exited, unreachable."""
    ENDED = "ended"
    """A recording has ended; its last values remain."""
    NO_DATA = "no data"
    """Of a node: its sources report no device and no job, at most CPU and memory of the host."""


HAS_VALUES = (State.FRESH, State.LATE, State.ENDED)
"""States of a source whose newest values are shown."""


@dataclass(frozen=True, slots=True)
class Status:
    """The state that a collector reports; `counts` are totals since its start."""

    node: str
    source: str
    state: State
    reason: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceState:
    """A source of a node in a frame."""

    name: str
    state: State
    reason: str = ""
    time: float | None = None
    """Of its last reading; None before the first."""
    period: float | None = None
    """Seconds between readings, as observed or declared."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Totals since the start: readings, problems, restarts, dropped, …"""

    def age(self, now: float) -> float | None:
        """Seconds since the last reading, None before the first."""
        return None if self.time is None else max(0.0, now - self.time)


@dataclass(frozen=True, slots=True)
class Neff:
    """A compiled program that a process has loaded, once or onto several cores."""

    name: str
    """File name, without its directory."""
    uuid: str = ""
    running: bool = False


@dataclass(frozen=True, slots=True)
class Runtime:
    """One Neuron process."""

    pid: int
    tag: str
    error: str = ""
    neffs: tuple[Neff, ...] = ()
    cores: tuple[int, ...] = ()
    """Flat logical indices of the cores on which it holds memory."""

    @property
    def name(self) -> str:
        """Its tag, unless that is the default: the pid."""
        return "" if self.tag == str(self.pid) else self.tag

    @property
    def candidates(self) -> tuple[Neff, ...]:
        """The programs that may have been executed: those seen running, else all loaded ones."""
        return tuple(neff for neff in self.neffs if neff.running) or self.neffs

    @property
    def program(self) -> Neff | None:
        """The one program that it executes; None if it has none or several."""
        candidates = self.candidates
        return candidates[0] if len(candidates) == 1 else None


@dataclass(frozen=True, slots=True)
class NeffProfile:
    """Measurements of one execution of a NEFF on one core, from a profile."""

    name: str
    """File name of the NEFF, without its directory; empty if only the uuid is known."""
    uuid: str
    hbm_read_bytes: float
    hbm_write_bytes: float
    seconds: float | None = None
    """Time of the profiled execution."""
    comm_seconds: float | None = None
    """Of that, time in which a collective was active (`cc_op_active_time`)."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process that holds Neuron devices, as neuron-ls lists it."""

    pid: int
    command: str
    """Program and script, without directories and arguments, which may be private."""
    devices: tuple[int, ...] = ()
    runtime_version: str = ""


@dataclass(frozen=True, slots=True)
class Allocation:
    """The parts of a node that a scheduler allocated to a job or container, used or not."""

    job: str = ""
    """Id of a job of Slurm or a similar scheduler; empty for containers."""
    namespace: str = ""
    pod: str = ""
    container: str = ""
    claim: str = ""
    """`namespace/name` of its ResourceClaim, with Kubernetes' dynamic resource allocation."""
    devices: tuple[int, ...] = ()
    """Devices allocated completely."""
    cores: tuple[int, ...] = ()
    """Flat logical indices of single allocated cores."""
    whole: bool = False
    """Whether all devices of the node are allocated."""

    @property
    def holder(self) -> str:
        """The job id, or `namespace/pod/container`."""
        return self.job or f"{self.namespace}/{self.pod}/{self.container}"


@dataclass(frozen=True, slots=True)
class Compilation:
    """The running compilers of a node."""

    since: float
    """Unix seconds at which the oldest running compiler started."""
    processes: int


class Stage(StrEnum):
    """The stage of a training run on a node."""

    COMPILING = "compiling"
    WARMING_UP = "warming up"
    TRAINING = "training"
    EXECUTING = "executing"
    """Executions complete, without steps or a job of several nodes: inference, a test."""
    CHECKPOINTING = "checkpointing"
    EVALUATING = "evaluating"
    STALLED = "stalled"
    IDLE = "idle"

    @property
    def productive(self) -> bool:
        return self in (Stage.TRAINING, Stage.EXECUTING)


@dataclass(frozen=True, slots=True)
class Phase:
    """A node's stage, its start, and the evidence."""

    stage: Stage
    since: float | None
    """Unix seconds; None if it started before the first data."""
    why: str
    """A phrase with its numbers: `2 compilers since 14:02, 12 modules in the cache`."""
    provenance: Provenance = Provenance.DERIVED


@dataclass(frozen=True, slots=True)
class Inventory:
    """The parts of a node. Keys of an entity are the labels of its columns, in order."""

    node: str
    version: int = 0
    """Counts the changes since the node was first seen."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """instance_type, instance_id, ultraserver_id, availability zone, neuron versions, …"""
    lnc: int = 1
    """Physical cores behind one logical core."""
    keys: Mapping[Entity, tuple[Key, ...]] = field(default_factory=dict)
    runtimes: tuple[Runtime, ...] = ()
    core_device: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Device index of each core of `keys[CORE]`."""
    physical_device: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Device index of each core of `keys[PHYSICAL_CORE]`."""
    efa_links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """EFA device → pci, numa_node, driver, state, p2p."""
    device_links: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Device → pci, numa_node, connected_to, serial_number, name, unhealthy, power_status."""
    processes: tuple[Process, ...] = ()
    profiles: tuple[NeffProfile, ...] = ()
    """Profiles of NEFFs that this node may run."""
    compilation: Compilation | None = None
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Link to a peer → tool, statistic, size and load of the newest probe of it."""
    stages: Mapping[str, tuple[Stage, float]] = field(default_factory=dict)
    """Job → the stage that its process reported last, and its start."""
    allocations: tuple[Allocation, ...] | None = None
    """Allocations, one per job or container; None without a scheduler."""

    @property
    def instance_type(self) -> str:
        """EC2 instance type, empty when unknown."""
        return self.facts.get("instance_type", "")

    def provenance(self, name: str) -> Provenance:
        """The provenance of this node's values of a quantity, unless they are simulated.

        Executions are counted by process: of several loaded programs, the one seen running is
        assumed to have been executed each time.
        """
        if name in HBM_QUANTITIES and any(
            len(runtime.neffs) > 1 and runtime.program is not None for runtime in self.runtimes
        ):
            return Provenance.ESTIMATED
        return CATALOG[name].provenance

    def near_efa_devices(self, device: int) -> tuple[str, ...]:
        """The EFA devices nearest to a device: on its PCI bus, else on its NUMA node.

        Empty if neither is known. The EFA device that a core uses is known only to its runtime
        (`nrt_get_attached_efa_bdf`).
        """
        place = self.device_links.get(device, {})
        bus, numa = place.get("pci", "").rpartition(":")[0], place.get("numa_node", "")
        devices = {str(name): self.efa_links.get(str(name), {}) for name in self.of(Entity.EFA)}
        on_bus = [
            name
            for name, link in devices.items()
            if bus and link.get("pci", "").startswith(f"{bus}:")
        ]
        on_node = [name for name, link in devices.items() if numa and link.get("numa_node") == numa]
        return tuple(on_bus or on_node)

    def held_devices(self, allocation: Allocation) -> tuple[int, ...]:
        """The devices that an allocation has completely or partly, in order."""
        if allocation.whole:
            return tuple(int(device) for device in self.of(Entity.DEVICE))
        places = {int(core): place for place, core in enumerate(self.of(Entity.CORE))}
        owners = self.core_device.tolist()
        partly = {
            owners[place]
            for core in allocation.cores
            if (place := places.get(core, len(owners))) < len(owners)
        }
        return tuple(sorted({*allocation.devices, *partly}))

    def sum_by_device(self, values: Column, owner: npt.NDArray[np.int64]) -> Column:
        """Sums over the cores of each device, `[device]`; `owner` is the device of each core.

        Absent where the value of a core is.
        """
        devices = [int(device) for device in self.keys.get(Entity.DEVICE, ())]
        size = max(devices, default=-1) + 1
        sums = np.bincount(owner, weights=values, minlength=size).astype(np.float64)
        sums[np.bincount(owner, minlength=size) == 0] = np.nan  # lost: it has no cores
        return sums[devices]

    def of(self, entity: Entity) -> tuple[Key, ...]:
        if entity is Entity.NODE:
            return (self.node,)
        return self.keys.get(entity, ())


@dataclass(slots=True)
class Sample:
    """One decoded payload: columns along the keys of their entity, and facts."""

    keys: dict[Entity, tuple[Key, ...]] = field(default_factory=dict)
    columns: dict[str, Column] = field(default_factory=dict)
    deltas: dict[str, float] = field(default_factory=dict)
    """Node counters that the payload reports as changes per period."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Changes to the inventory, by its field names."""
    period: float | None = None
    problems: tuple[str, ...] = ()
    """Read errors and errors that the source itself reported, cleaned."""
    absent: dict[str, str] = field(default_factory=dict)
    """Quantity → reason why it has no value, if the source reported one."""
    unusable: str = ""
    """Why the source has no data although it responds: no driver, no devices."""
    simulated: bool = False
    part: str = ""
    """The part of the node that reports, if a source has several (`job/rank`)."""


@dataclass(frozen=True, eq=False)
class Frame:
    """One tick of one node."""

    node: str
    time: float
    columns: Mapping[str, Column]
    """Quantity → one value per key of its entity; a missing quantity is absent."""
    sources: tuple[SourceState, ...]
    simulated: bool = False
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Quantity → reason why it is absent, if known."""
    phase: Phase | None = None
    """None if unknown."""

    @cached_property
    def own_sources(self) -> tuple[SourceState, ...]:
        """The sources of the node, without node lists: being listed is no sign of life."""
        return tuple([source for source in self.sources if source.name != FLEET])

    @property
    def last_seen(self) -> float:
        """Time of the last reading of any source; NaN before the first."""
        times = [
            source.time
            for source in self.sources
            if source.time is not None and source.name != FLEET
        ]
        return max(times, default=NO_VALUE)

    def value(self, name: str) -> float | None:
        """A node quantity, None when absent."""
        column = self.columns.get(name)
        if column is None or not len(column):
            return None
        value = float(column[0])
        return None if value != value else value

    def at(self, name: str, index: int) -> float | None:
        """One part's value, None when absent."""
        column = self.columns.get(name)
        if column is None or index >= len(column):
            return None
        value = float(column[index])
        return None if value != value else value

    @property
    def comm_bounds(self) -> tuple[float | None, float | None]:
        """The estimated communication share: at least, at most."""
        floor, ceiling = (f"node_comm_share_{bound}_ratio" for bound in ("floor", "ceiling"))
        return self.value(floor), self.value(ceiling)

    def uncorrected(self, index: int) -> float | None:
        """Uncorrected memory errors of one device, from the driver, else from neuron-monitor."""
        for names in UNCORRECTED_ECC:
            known = [count for name in names if (count := self.at(name, index)) is not None]
            if known:
                return sum(known)
        return None

    def why_absent(self, name: str) -> str:
        """One phrase on why `name` has no value."""
        if reason := self.reasons.get(name):
            return reason
        quantity = CATALOG[name]
        if source := quantity.source:
            for state in self.sources:
                if state.name == source:
                    if state.state in HAS_VALUES:
                        return f"{source} does not report it"
                    reason = state.reason or str(state.state)
                    return reason if reason.startswith(source) else f"{source}: {reason}"
            return f"no {source} source"
        for needed in inputs(name):
            if needed not in self.columns:
                return self.why_absent(needed)
        if quantity.rate_of:
            return "a rate needs two readings of its counter"
        return "cannot be computed from what is reported"


@dataclass(frozen=True, eq=False)
class NodeView:
    """One node at one tick."""

    inventory: Inventory
    frame: Frame

    @property
    def name(self) -> str:
        """Name of the node."""
        return self.inventory.node

    @cached_property
    def state(self) -> State:
        """The node's state: that of its best source.

        Sources with a long period decide only if there are no others.
        """
        order = (State.FRESH, State.LATE, State.ENDED, State.STARTING, State.STALE, State.DOWN)
        for source in self.frame.sources:  # usually one of the first decides
            if (
                source.state is State.FRESH
                and source.period is not None
                and source.period <= PULSE
                and source.name != FLEET
            ):
                return self._with_parts(State.FRESH)
        sources = self.frame.own_sources or self.frame.sources
        quick = [
            source for source in sources if source.period is not None and source.period <= PULSE
        ]
        states = {source.state for source in quick or sources}
        return self._with_parts(next((state for state in order if state in states), State.STARTING))

    def _with_parts(self, state: State) -> State:
        """The state; data of the host alone does not make a Neuron node healthy."""
        if state not in (State.FRESH, State.LATE) or any(self.inventory.keys.values()):
            return state
        if all(source.name == AGENT for source in self.frame.sources):
            return state  # a metrics backend: it has the node's totals, its parts are not queried
        devices = [source.state for source in self.frame.sources if source.name in DEVICE_SOURCES]
        return State.STARTING if State.STARTING in devices else State.NO_DATA

    @property
    def why_no_data(self) -> str:
        """Why there is neither a device nor a job, by the first source that should report them."""
        named = {source.name: source.reason for source in self.frame.sources if source.reason}
        known = (named[name] for name in DEVICE_SOURCES if name in named)
        return next(known, "no Neuron device")

    @property
    def timeout(self) -> float:
        """Seconds without data after which its fastest source is stale."""
        periods = [source.period for source in self.frame.own_sources if source.period is not None]
        return STALE_PERIODS * min(periods, default=0.0)

    @cached_property
    def lost_efa_devices(self) -> frozenset[int]:
        """Indices of the EFA devices that are listed, but can no longer be read."""
        counts = self.frame.columns.get("efa_tx_bytes_total")
        lost = () if counts is None else np.flatnonzero(np.isnan(counts)).tolist()
        return frozenset(lost)

    def age(self) -> float | None:
        """Seconds since the last reading of any source."""
        last_seen = self.frame.last_seen
        return None if last_seen != last_seen else max(0.0, self.frame.time - last_seen)


@dataclass(frozen=True, slots=True)
class ClusterTotals:
    """Totals of a cluster of which not all nodes may be shown, from a Prometheus backend or from
    aggregators.
    """

    nodes: int = 0
    chosen: bool = False
    """Whether only the worst nodes are shown."""
    down: int = 0
    """Nodes that the backend cannot scrape, or whose agents do not respond to the aggregator."""
    newest: float | None = None
    """Time of the newest sample; None before the first."""
    old: bool = False
    """Whether the newest sample is too old to be current."""
    simulated: bool = False
    judged: bool = True
    """Whether incidents are reported."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Node quantity → its value over all nodes: a mean, a sum or the worst."""
    jobs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Job → job quantity → its value over all nodes; `nodes` is how many these are."""
    notes: tuple[str, ...] = ()
    """What the backend or its queries omitted."""
    problem: str = ""
    """Why there is no newer response."""

    def cleaned(self) -> "ClusterTotals":
        """The totals of another program: known quantities, text that is fit for a screen."""
        return replace(
            self,
            values={name: value for name, value in self.values.items() if name in CATALOG},
            jobs={clean(job): values for job, values in self.jobs.items()},
            notes=tuple(map(clean, self.notes)),
        )


@dataclass(frozen=True, slots=True)
class Judge:
    """An aggregator that evaluates the rules for nodes that are shown here."""

    address: str
    nodes: int
    since: float | None
    """From when on it has watched them."""
    behind: float
    """Seconds by which it is behind; 0 if it is not."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """All nodes at one tick, sorted by name."""

    time: float = 0.0
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    whole: ClusterTotals | None = None
    """Totals of all nodes, if a Prometheus backend or aggregators report them."""
    phases: Mapping[str, Phase] = field(default_factory=dict)
    """Job → what its run is doing, as the rules read it; empty for a cluster not yet judged."""
    first_steps: Mapping[str, float] = field(default_factory=dict)
    """Job → seconds of its first step, where the rules saw it begin."""
    judges: tuple[Judge, ...] = ()
    """Aggregators whose incidents are shown; nodes without one are judged here."""
    aggregated: bool | None = None
    """Whether an aggregator reads any of the agents that are shown; None if that is unknown."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.nodes)

    @property
    def size(self) -> int:
        """Number of nodes, including those that are not shown."""
        return max(len(self.nodes), 0 if self.whole is None else self.whole.nodes)

    @property
    def simulated(self) -> bool:
        """Whether any node is simulated."""
        if self.whole is not None and self.whole.simulated:
            return True
        return any(view.frame.simulated for view in self.nodes.values())

    def provenance(self, name: str) -> Provenance:
        """The provenance of a quantity; `estimated` if it is on any node."""
        found = {view.inventory.provenance(name) for view in self.nodes.values()}
        estimated = Provenance.ESTIMATED
        return estimated if estimated in found else CATALOG[name].provenance

    @property
    def has_parts(self) -> bool:
        """Whether any node has a device, an EFA device or a job."""
        return any(keys for view in self.nodes.values() for keys in view.inventory.keys.values())

    @property
    def has_values(self) -> bool:
        """Whether there is any value or part."""
        measured = any(view.frame.columns for view in self.nodes.values())
        return measured or self.has_parts or bool(self.whole and self.whole.values)

    @property
    def problems(self) -> list[str]:
        """Why sources have no data, one sentence per node and reason."""
        backend = self.whole.problem if self.whole is not None else ""
        if not self.nodes:
            return [f"no data: {backend or 'no source has reported yet'}"]
        found = [f"no newer data: {backend}"] if backend else []
        found += [
            f"no data from {view.name}: {source.reason or f'{source.name} {source.state}'}"
            for view in self.nodes.values()
            for source in view.frame.sources
            if source.state is not State.FRESH
        ]
        return list(dict.fromkeys(found))

    @cached_property
    def jobs(self) -> Mapping[str, tuple[str, ...]]:
        """Job → nodes that report steps of it."""
        jobs: dict[str, list[str]] = {}
        for name, view in self.nodes.items():
            for job in view.inventory.of(Entity.JOB):
                jobs.setdefault(str(job), []).append(name)
        return {job: tuple(nodes) for job, nodes in jobs.items()}

    def column(self, name: str) -> Column:
        """One node quantity over all nodes, `[node]`, NaN if absent; read-only."""
        found = self._columns.get(name)
        if found is None:
            values = (
                column.item(0) if (column := view.frame.columns.get(name)) is not None else NO_VALUE
                for view in self.nodes.values()
            )
            found = self._columns[name] = np.fromiter(values, np.float64, len(self.nodes))
            found.flags.writeable = False
        return found

    def over_nodes(self, name: str, reduce: Callable[[Column], Any]) -> float | None:
        """One number of a node quantity over the nodes that have it; None without any."""
        column = self.column(name)
        known = column[~np.isnan(column)]
        return float(reduce(known)) if len(known) else None

    def job_column(self, job: str, name: str) -> Column:
        """A job quantity over the nodes of the job, NaN if absent; read-only."""
        found = self._job_columns.get((job, name))
        if found is None:
            values = (
                column.item(place) if (column := columns.get(name)) is not None else NO_VALUE
                for columns, place in self._seats(job)
            )
            found = self._job_columns[job, name] = np.fromiter(values, np.float64)
            found.flags.writeable = False
        return found

    def _seats(self, job: str) -> list[tuple[Mapping[str, Column], int]]:
        """Of each node of a job its columns, and the job's index in job columns."""
        found = self._seated.get(job)
        if found is None:
            views = [self.nodes[name] for name in self.jobs.get(job, ())]
            found = self._seated[job] = [
                (view.frame.columns, view.inventory.keys[Entity.JOB].index(job)) for view in views
            ]
        return found

    @cached_property
    def _seated(self) -> dict[str, list[tuple[Mapping[str, Column], int]]]:
        return {}

    @cached_property
    def _job_columns(self) -> dict[tuple[str, str], Column]:
        """The same of jobs."""
        return {}

    @cached_property
    def _columns(self) -> dict[str, Column]:
        """Cache: history and screen read the same quantities of each tick."""
        return {}


class Severity(StrEnum):
    """The urgency of an incident."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation behind an incident."""

    text: str
    """A phrase with its numbers and units."""
    node: str | None = None
    quantity: str | None = None
    value: float | None = None
    limit: float | None = None

    @property
    def located(self) -> str:
        """The text, after its node if it does not name it."""
        is_named = self.node is None or self.node in self.text
        return self.text if is_named else f"{self.node}: {self.text}"


@dataclass(frozen=True, slots=True)
class Incident:
    """A problem, its location and its start."""

    id: str
    kind: str
    severity: Severity
    summary: str
    """One sentence of at most 120 characters."""
    opened_at: Time
    closed_at: Time | None = None
    job: str | None = None
    node: str | None = None
    component: str | None = None
    """`efa:rdmap16s27`, `device:3`, `core:17`, `runtime:4711`, `link:trn-003`, or None."""
    evidence: tuple[Evidence, ...] = ()
    detected_at: Time | None = None
    """When it was first reported: later than `opened_at` by the time to detection."""
    returns: int = 0
    """Number of recurrences."""
    subjects: tuple[tuple[Any, str | None], ...] = ()
    """The subjects of its rule for which it holds, each with its node: by them, it is recovered
    after a restart.
    """

    @property
    def open(self) -> bool:
        return self.closed_at is None

    def cleaned(self) -> "Incident":
        """The incident of another program: text that is fit for a screen."""
        job, node, component = (
            None if text is None else clean(text) for text in (self.job, self.node, self.component)
        )
        return replace(
            self,
            id=clean(self.id),
            kind=clean(self.kind, 64),
            summary=clean(self.summary, 120),
            job=job,
            node=node,
            component=component,
            evidence=tuple(
                replace(item, text=clean(item.text), node=item.node and clean(item.node))
                for item in self.evidence
            ),
        )

    @property
    def detection(self) -> list[str]:
        """Time to detection, and recurrences."""
        delay = 0.0 if self.detected_at is None else self.detected_at - self.opened_at
        found = [f"detected after {units.span(delay)}"] if delay >= 1 else []
        if self.returns:
            found.append(f"recurred {self.returns} time{'s' * (self.returns > 1)}")
        return found


@dataclass(frozen=True, slots=True)
class RuleCoverage:
    """Whether a rule has enough data for an incident to open."""

    kind: str
    since: Time | None = None
    """From when on; an estimate while it does not; None if that is unknown."""
    steps: int = 0
    """Steps that it still needs."""
    results: int = 0
    """Probe results of a link that it still needs."""
    missing: tuple[str, ...] = ()
    """Quantities without values, of which it needs one."""

    def judges(self, now: float) -> bool:
        return self.since is not None and self.since <= now and not (self.steps or self.results)


@dataclass(frozen=True, slots=True)
class Coverage:
    """From when on incidents can have been found: without any before that, nothing is known."""

    watching: Time | None = None
    """Time of the first data; None before it."""
    since: Time | None = None
    """From when on there was enough data for all rules with input, but for those that compare with
    a longer past; an estimate if that is later than now; None if it is unknown.
    """
    rules: tuple[RuleCoverage, ...] = ()
    """Empty if other programs evaluate the rules and do not report it."""

    def judges(self, now: float) -> bool:
        return not self.rules or (self.since is not None and self.since <= now)


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One tick of everything."""

    generation: int
    time: float
    cluster: Cluster
    incidents: tuple[Incident, ...] = ()
    """Open ones first, worst first; then the closed ones, newest first."""
    ended: bool = False
    """The recording has ended: this is its last view."""
    lag: float = 0.0
    """Seconds by which this tick was late; grows if the machine is too slow."""
    coverage: Coverage = Coverage()

    @property
    def judged_from(self) -> float | None:
        """From when on rules have had enough data; None before that, or if it is unknown."""
        since = self.coverage.since
        return since if since is not None and since <= self.time else None

    @property
    def open_incidents(self) -> tuple[Incident, ...]:
        return tuple(incident for incident in self.incidents if incident.open)
