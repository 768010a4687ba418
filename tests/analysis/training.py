"""A synchronous training job by hand: what its nodes report, second by second. All is made up.

All ranks compute, then wait for the slowest of them, then exchange.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

import msgspec
import numpy as np

from tests.reports import (
    host_reading,
    monitor_reading,
    report,
    runtime,
    stage_reading,
    step_reading,
)
from trntop.analysis import Analyzer
from trntop.analysis.rule_inputs import rule_inputs
from trntop.analysis.rulebook import RULEBOOK
from trntop.catalog import Entity, Provenance
from trntop.core.model import (
    Cluster,
    Column,
    Frame,
    Incident,
    Inventory,
    Key,
    NodeView,
    Phase,
    Reading,
    Runtime,
    Stage,
    View,
)
from trntop.core.settings import Analysis, Settings
from trntop.session.monitor import Monitor, play

EXPOSED = 0.05
"""Part of a usual step that is exchange and that no rank can hide."""
COMM = 0.15
"""The same of all exchange."""
CALM = {"user": 10.0, "system": 2.0, "idle": 88.0, "io_wait": 0.0}
"""Percent of the processors' time while a job works."""


KINDS = ("comm_bound", "straggler", "hang", "recompile", "checkpoint_stall")
"""The kinds that follow from a job's steps and cores."""


@dataclass(frozen=True)
class Pause:
    """A time without steps, from the end of the step that is under way at `begin`."""

    begin: float
    seconds: float
    utilization: float = 0.0
    """Percent, of the cores of all nodes."""
    of: Mapping[int, float] = field(default_factory=dict)
    """The same of single nodes."""
    completed: int = 0
    """Executions a second, per node."""
    vcpu: Mapping[str, float] = field(default_factory=lambda: CALM)
    stage: str = ""
    """What the processes themselves report of it."""
    compilers: int = 0
    written: float = 0.0
    """Bytes per second, per node."""
    gone: bool = False
    """Its processes are gone."""
    resumes: int | None = None
    """The step that it goes on with, if not the next."""
    behind: int | None = None
    """A node that does not come to report the last step."""


SPINS = 100.0


@dataclass(frozen=True)
class Slow:
    """A part of the job that takes longer for its work."""

    node: int
    share: float
    begin: float = 0.0
    end: float = 1e9
    rank: int | None = None
    """Of the node; None: all of them."""

    def lasts(self, t: float) -> bool:
        return self.begin <= t < self.end


@dataclass(frozen=True)
class Dip:
    """Cores that are used less than they were."""

    node: int
    cores: tuple[int, ...]
    factor: float
    begin: float = 0.0
    end: float = 1e9

    def lasts(self, t: float) -> bool:
        return self.begin <= t < self.end


@dataclass(frozen=True, slots=True)
class Record:
    """One step of one rank."""

    time: float
    node: int
    rank: int
    step: int
    seconds: float
    compute: float
    exposed: float
    comm: float


@dataclass
class Job:
    """A job; `readings` has what its nodes report."""

    nodes: int = 4
    ranks: int = 1
    """Per node."""
    step: float = 2.0
    """Seconds that a rank computes."""
    name: str = "job"
    prefix: str = "n"
    """Of its nodes' names."""
    noise: float = 0.01
    seed: int = 1
    devices: int = 2
    """Per node, of two cores each."""
    slow: tuple[Slow, ...] = ()
    dips: tuple[Dip, ...] = ()
    flops: tuple[Dip, ...] | None = None
    """Cores that do less, however busy they are; None: no FLOP/s are reported."""
    pauses: tuple[Pause, ...] = ()
    ratios: Mapping[int, float] = field(default_factory=dict)
    """What a node computes beyond the others by design, as a share."""
    report_stages: bool = False
    """Whether records report the pipeline's stage: that of a node is its index among `ratios`."""
    reporting: int | None = None
    """Nodes that report steps; None: all."""
    every: int = 1
    """Only each so many steps are reported."""
    monitors: bool = True
    host: bool = False
    first: int = 1
    """Number of the first step."""

    def names(self) -> list[str]:
        return [f"{self.prefix}{node}" for node in range(self.nodes)]

    def readings(self, seconds: int, begin: float = 0.0) -> list[Reading]:
        """What is received from `begin` to `seconds`, in order."""
        records = self._records(float(seconds))
        readings = [
            step_reading(
                record.time, node=self.names()[record.node], job=self.name, rank=record.rank,
                step=record.step, seconds=record.seconds, compute=record.compute,
                exposed=record.exposed, comm=record.comm, **self._stage(record.node),
            )
            for record in records
        ]  # fmt: skip
        readings += self._notes()
        readings += self._monitors(seconds) if self.monitors else []
        readings = [reading for reading in readings if begin <= reading.time <= seconds]
        return sorted(readings, key=lambda reading: reading.time)

    def _records(self, seconds: float) -> list["Record"]:
        """All steps; notes what the job does when."""
        random = Random(self.seed)
        pauses = sorted(self.pauses, key=lambda pause: pause.begin)
        self._doing: list[tuple[float, Pause | None]] = [(0.0, None)]
        time, number, records = 0.0, self.first, []
        reporting = self.nodes if self.reporting is None else self.reporting
        while time <= seconds:
            if pauses and pauses[0].begin <= time:
                pause = pauses.pop(0)
                self._doing += [(time, pause), (time + pause.seconds, None)]
                time += pause.seconds
                number = number if pause.resumes is None else pause.resumes
                continue
            computes = [
                (node, node * self.ranks + rank, self._compute(node, rank, time, random))
                for node in range(self.nodes)
                for rank in range(self.ranks)
            ]
            whole = max(compute for _, _, compute in computes) + EXPOSED * self.step
            time += whole
            late = pauses[0].behind if pauses and pauses[0].begin <= time else None
            if number % self.every == 0:
                records += [
                    Record(time, node, rank, number, whole, compute, whole - compute,
                           whole - compute + (COMM - EXPOSED) * self.step)
                    for node, rank, compute in computes
                    if node < reporting and node != late
                ]  # fmt: skip
            number += 1
        return records

    def _notes(self) -> Iterable[Reading]:
        for (time, pause), (end, _) in pairwise(self._doing):
            for node, name in enumerate(self.names()):
                if pause is not None and pause.stage:
                    rank = node * self.ranks
                    yield stage_reading(time, pause.stage, node=name, job=self.name, rank=rank)
                    yield stage_reading(end, "training", node=name, job=self.name, rank=rank)

    def _stage(self, node: int) -> dict[str, float]:
        if not self.report_stages:
            return {}
        levels = sorted({self.ratios.get(index, 0.0) for index in range(self.nodes)})
        return {"pipeline_stage": float(levels.index(self.ratios.get(node, 0.0)))}

    def _compute(self, node: int, rank: int, time: float, random: Random) -> float:
        seconds = self.step * (1.0 + self.ratios.get(node, 0.0)) * random.gauss(1.0, self.noise)
        for delay in self.slow:
            if delay.node == node and delay.rank in (None, rank) and delay.lasts(time):
                seconds *= 1.0 + delay.share
        return max(seconds, 0.01)

    def _at(self, t: float) -> tuple[float, Pause | None]:
        """What the job does, and since when."""
        return self._doing[bisect_right(self._doing, t, key=lambda entry: entry[0]) - 1]

    def _monitors(self, seconds: int) -> Iterable[Reading]:
        random = Random(self.seed + 1)
        written = 0.0
        for t in range(seconds + 1):
            pause = self._at(t)[1]
            written += 0.0 if pause is None else pause.written
            vcpu = dict(CALM if pause is None else pause.vcpu)
            for node, name in enumerate(self.names()):
                use = self._use(node, t, pause, random)
                completed = 10 if pause is None else pause.completed
                own = [] if use is None else [
                    runtime(utilization=dict(enumerate(use)), completed=completed)
                ]  # fmt: skip
                payload = report(*own, devices=self.devices, vcpu=vcpu)
                yield monitor_reading(payload, float(t), name)
                if self.host and t % 10 == 0:
                    count = 0 if pause is None else pause.compilers
                    yield host_reading(
                        float(t), name, disk={"written_bytes": written}, processes={"count": 9},
                        compilers=[{"since": float(t)}] * count,
                    )  # fmt: skip

    def _use(self, node: int, t: float, pause: Pause | None, random: Random) -> list[float] | None:
        """Utilization of a node's cores in percent, None without a process."""
        cores = 2 * self.devices
        if pause is not None:
            return None if pause.gone else [pause.of.get(node, pause.utilization)] * cores
        # Without telemetry a slow node shows in what neuron-monitor counts.
        silent = self.reporting is not None
        share = sum(
            delay.share for delay in self.slow if silent and delay.node == node and delay.lasts(t)
        )
        level = 90.0 / (1.0 + share) * random.gauss(1.0, self.noise)
        use = [min(100.0, level * random.gauss(1.0, 0.005)) for _ in range(cores)]
        for dip in self.dips:
            if dip.node == node and dip.lasts(t):
                use = [
                    value * dip.factor if core in dip.cores else value
                    for core, value in enumerate(use)
                ]
        return use

    def clusters(self, seconds: int, begin: float = 0.0) -> Iterator[Cluster]:
        """The same as `readings`, decoded and laid out: a tick each second, at a tenth of the
        cost. What was reported counts for 15 s, as it does when it is read.
        """
        records = deque(record for record in self._records(float(seconds)))
        random = Random(self.seed + 1)
        newest: list[dict[int, Record]] = [{} for _ in range(self.nodes)]
        homes = [self._inventory(node, set()) for node in range(self.nodes)]
        for t in range(seconds + 1):
            while records and records[0].time <= t:
                record = records.popleft()
                if record.time >= begin:
                    newest[record.node][record.rank] = record
            since, pause = self._at(t)
            views = {}
            for node, name in enumerate(self.names()):
                columns = self._columns(node, t, pause, random)
                latest = newest[node]
                if latest and len(homes[node].of(Entity.RANK)) != len(latest):
                    homes[node] = self._inventory(node, set(latest))
                columns |= self._reported(node, t, latest)
                phase = None
                if pause is not None and pause.stage and since >= begin:
                    phase = Phase(Stage(pause.stage), since, "job says so", Provenance.REPORTED)
                    stages = {self.name: (phase.stage, since)}
                    if homes[node].stages != stages:
                        homes[node] = replace(homes[node], stages=stages)
                views[name] = NodeView(homes[node], Frame(name, t, columns, (), phase=phase))
            if t >= begin:
                yield Cluster(float(t), dict(sorted(views.items())))

    def _inventory(self, node: int, ranks: set[int]) -> Inventory:
        cores = 2 * self.devices
        keys: dict[Entity, tuple[Key, ...]] = {
            Entity.DEVICE: tuple(range(self.devices)), Entity.CORE: tuple(range(cores)),
        }  # fmt: skip
        if ranks:
            names = sorted(f"{self.name}/{rank}" for rank in ranks)
            keys |= {Entity.JOB: (self.name,), Entity.RANK: tuple(names)}
        return Inventory(
            self.names()[node], keys=keys, core_device=np.arange(cores, dtype=np.int64) // 2,
            runtimes=(Runtime(100, "", cores=tuple(range(cores))),),
        )  # fmt: skip

    def _columns(
        self, node: int, t: float, pause: Pause | None, random: Random
    ) -> dict[str, Column]:
        """What neuron-monitor and the host report."""
        if not self.monitors:
            return {}
        use = self._use(node, t, pause, random)
        vcpu = CALM if pause is None else pause.vcpu
        values = {f"node_vcpu_{mode}_ratio": share / 100.0 for mode, share in vcpu.items()}
        values["node_runtimes"] = float(use is not None)
        columns = {}
        if use is None:
            use = [0.0] * (2 * self.devices)
        else:
            values["node_executions_completed_per_second"] = (
                10.0 if pause is None else float(pause.completed)
            )
            values["node_neuroncore_flops_per_second"] = sum(use) * 1e9
            values["node_efa_tx_bytes_per_second"] = 1e9 if pause is None else 0.0
        for name, value in (("mean", sum(use) / len(use)), ("min", min(use)), ("max", max(use))):
            values[f"node_neuroncore_utilization_{name}_ratio"] = value / 100.0
        if self.host:
            values["node_compilers"] = float(0 if pause is None else pause.compilers)
            written = 0.0 if pause is None else pause.written
            values["node_disk_written_bytes_per_second"] = written
        columns = {name: np.array([value]) for name, value in values.items()}
        columns["neuroncore_utilization_ratio"] = np.array(use) / 100.0
        if self.flops is not None:
            flops = columns["neuroncore_flops_per_second"] = np.full(len(use), 1e12)
            for dip in self.flops:
                if dip.node == node and dip.lasts(t):
                    flops[list(dip.cores)] *= dip.factor
        return columns

    def _reported(self, node: int, t: float, records: dict[int, "Record"]) -> dict[str, Column]:
        """What the ranks of a node reported last."""
        reports = {
            rank: record for rank, record in records.items()
            if t - record.time <= max(15.0, 3.0 * record.seconds + 0.5)
        }  # fmt: skip
        if not reports:
            return {}
        ranks = sorted(records, key=lambda rank: f"{self.name}/{rank}")
        columns: dict[str, Column] = {}
        for name, what in (
            ("step", "step"), ("step_seconds", "seconds"), ("compute_seconds", "compute"),
            ("comm_seconds", "comm"), ("exposed_comm_seconds", "exposed"),
        ):  # fmt: skip
            values = {rank: float(getattr(record, what)) for rank, record in reports.items()}
            columns[f"rank_{name}"] = np.array([values.get(rank, np.nan) for rank in ranks])
            known = values.values()
            whole = max(known) if name == "step" else sum(known) / len(known)
            columns[f"job_{name}"] = np.array([whole])
        for name in ("comm", "exposed_comm"):
            columns[f"job_{name}_share_ratio"] = (
                columns[f"job_{name}_seconds"] / columns["job_step_seconds"]
            )
        if stage := self._stage(node):
            columns["rank_pipeline_stage"] = np.full(len(ranks), stage["pipeline_stage"])
        return columns


def together(*streams: Iterator[Cluster]) -> Iterator[Cluster]:
    """Several jobs on nodes of their own, as one cluster."""
    for clusters in zip(*streams, strict=True):
        nodes = {name: view for cluster in clusters for name, view in cluster.nodes.items()}
        yield Cluster(clusters[0].time, dict(sorted(nodes.items())))


def analyzed(
    clusters: Iterable[Cluster], kinds: Iterable[str] = KINDS, **analysis: object
) -> tuple[Incident, ...]:
    """The incidents at the end, of some kinds only."""
    others = tuple(rule.kind for rule in RULEBOOK if rule.kind not in kinds)
    analyzer = Analyzer(msgspec.structs.replace(Analysis(), **{"disabled": others, **analysis}))
    found: tuple[Incident, ...] = ()
    for cluster in clusters:
        found = analyzer.tick(cluster)
    return found


def views(readings: Iterable[Reading], period: float = 1.0, **analysis: object) -> list[View]:
    """The views of a stream, sorted by time first."""
    settings = Settings(analysis=msgspec.structs.replace(Analysis(), **analysis))
    stream = sorted(readings, key=lambda reading: reading.time)
    return list(play(stream, Monitor(settings, period, wanted=rule_inputs(settings.rules))))


def incidents(
    readings: Iterable[Reading], period: float = 1.0, **analysis: object
) -> tuple[Incident, ...]:
    """The incidents at the end of a stream."""
    return views(readings, period, **analysis)[-1].incidents


def named(found: Iterable[Incident]) -> list[tuple[str, str | None, str | None]]:
    """Kind, node and component of incidents, for messages of tests that fail."""
    return [(incident.kind, incident.node, incident.component) for incident in found]
