"""What the nodes of a job do: steps, pauses and faults, as cumulative curves over time.

A step on a node is a gap on the host, compute (some of the collectives overlap it), a wait for the
slowest node, and the exposed rest of the collectives. A core counts as utilized while it executes,
and it executes while it waits in a collective. Times are seconds of the stream; arrays `[node]` are
along the nodes of the job.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from trntop.core.model import Column

CHANNELS = (
    "busy",  # seconds in which cores execute
    "work",  # the same at full speed of the tensor engines
    "executions",  # completed by each core
    "wire",  # bytes sent over EFA
    "cpu", "io_wait",  # seconds of all vCPUs
    "disk", "lustre", "reads", "net",  # bytes: written to disk and Lustre, read, sent by eth0
)  # fmt: skip
_PLACE = {name: index for index, name in enumerate(CHANNELS)}
BUSY, WAITING, COLLECTIVE = 0.985, 0.995, 0.97
"""Utilization while cores compute, wait in a collective and move data in it."""
GAP = 0.012
"""Share of a step between its executions, on the host."""
SAVING: dict[str, dict[str, float]] = {
    "disk": {"disk": 1.4e9, "io_wait": 0.07, "cpu": 0.03},
    "lustre": {"lustre": 0.9e9, "io_wait": 0.02, "cpu": 0.04},
    "s3": {"net": 0.5e9, "cpu": 0.09},
}
"""Kind of checkpoint → what a node does per second."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong on some nodes of the cluster, from `begin` to `end`."""

    what: str
    begin: float
    end: float
    nodes: tuple[int, ...] = ()
    """All, if none is named."""
    depth: float = 0.0
    way: str = ""
    part: int = 0
    """The device or EFA device."""

    def active(self, time: float) -> bool:
        """Whether it shows at a time; an intermittent one does so for 10 s of each 30."""
        if not self.begin <= time < self.end:
            return False
        return self.way != "intermittent" or (time - self.begin) % 30.0 < 10.0


@dataclass(frozen=True, slots=True)
class Pauses:
    """Pauses that a job makes again and again."""

    every: float = np.inf
    seconds: float = 0.0
    kind: str = "lustre"
    """A key of SAVING, or `async` for one that continues in the background."""
    reported: bool = False
    alone: bool = False
    """Whether only the first node saves."""
    spin: bool = False
    """Whether the others wait in a collective, not on their hosts."""


@dataclass(slots=True)
class Job:
    """A training job and how it behaves."""

    nodes: tuple[int, ...]
    compute: Column
    """Seconds of compute in a step."""
    stage: npt.NDArray[np.int64]
    name: str = "pretrain"
    begin: float = 0.0
    end: float = np.inf
    first_step: int = 1000
    micro: int = 8
    """Executions of a core in a step: microbatches."""
    comm: float = 0.06
    """Exposed collectives, as a share of the longest compute."""
    hidden: float = 0.05
    step_bytes: float = 6e9
    """Sent by each node in a step."""
    noise: float = 0.004
    wander: float = 0.0
    """Standard deviation of the load of a node, which changes slowly from step to step."""
    fusion: bool = False
    """One execution contains the whole step with its collectives."""
    bubble_busy: float = WAITING
    """Utilization in the bubbles of a pipeline."""
    checkpoints: Pauses = Pauses()
    evaluations: Pauses = Pauses()
    epochs: Pauses = Pauses()
    """The end of an epoch: data loaders start again, and cores are idle."""
    hiccups: float = 0.0
    """Per hour: one node is late by 0.5 to 10 s in one step."""
    loader: float = 0.0
    """Seconds in which the data loaders warm up: first steps are slower."""
    recompile: tuple[float, float] = (np.inf, 0.0)
    """When a graph is compiled once, and for how long; the process reports it."""
    startup: float = 0.0
    """Seconds in which processes load a checkpoint before the first step."""
    declared: bool = False
    """Whether ranks report their pipeline stage."""
    telemetry: str = "ranks"
    """`ranks`, `rank0`, `log` or `none`."""
    ranks: int = 1
    """On each node that reports."""
    log_every: int = 1
    lossy: float = 0.0
    """Share of records that are lost."""

    @property
    def piped(self) -> bool:
        return len(np.unique(self.stage)) > 1


@dataclass(frozen=True, slots=True)
class Step:
    """One finished step."""

    number: int
    begin: float
    end: float
    compute: Column
    exposed: Column
    hidden: float


@dataclass(slots=True)
class Track:
    """What the nodes of a job did."""

    job: Job
    times: list[Column] = field(default_factory=list)
    sums: list[npt.NDArray[np.float64]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    notes: list[tuple[float, str]] = field(default_factory=list)
    """Stages that the process reports."""
    compiles: list[tuple[float, float]] = field(default_factory=list)
    latencies: list[tuple[float, Column]] = field(default_factory=list)
    """Since when an execution takes how long on each node."""
    behind: list[tuple[float, float, dict[str, float]]] = field(default_factory=list)
    """Begin, end and rates of what goes on in the background."""
    died: Column = field(default_factory=lambda: np.empty(0))
    """When the process of each node ends."""
    lost: set[tuple[int, int]] = field(default_factory=set)
    """Step and index of records that are lost."""

    def until(self, end: Column | float, **rates: Column | float) -> None:
        """All nodes do the same kind of thing, each until its own end."""
        before, total = self.times[-1], self.sums[-1].copy()
        after = np.maximum(before, end)
        for name, per_second in rates.items():
            total[:, _PLACE[name]] += (after - before) * per_second
        self.times.append(after)
        self.sums.append(total)

    def curve(self, index: int, at: Column) -> npt.NDArray[np.float64]:
        """The sums of a node at some times, `[time, channel]`."""
        times = np.array([row[index] for row in self.times])
        sums = np.array([row[index] for row in self.sums])
        found = np.stack([np.interp(at, times, sums[:, c]) for c in range(len(CHANNELS))], axis=1)
        for begin, end, rates in self.behind:
            for name, per_second in rates.items():
                found[:, _PLACE[name]] += per_second * np.clip(at - begin, 0.0, end - begin)
        return found


def run(job: Job, faults: Sequence[Fault], length: float, rng: np.random.Generator) -> Track:
    """What a job does until it ends."""
    return _Loop(job, faults, min(length, job.end), rng).run()


class _Loop:
    """The training loop of a job."""

    def __init__(
        self, job: Job, faults: Sequence[Fault], end: float, rng: np.random.Generator
    ) -> None:
        self._job, self._end, self._rng = job, end, rng
        self._faults = [f for f in faults if not f.nodes or set(f.nodes) & set(job.nodes)]
        self._size = len(job.nodes)
        self._load = np.zeros(self._size)
        self._number = job.first_step
        self._stalled: set[Fault] = set()
        start = np.full(self._size, job.begin)
        self._track = Track(job, [start], [np.zeros((self._size, len(CHANNELS)))])
        self._track.died = np.full(self._size, end)
        self._save_at = job.begin + job.checkpoints.every * rng.uniform(0.3, 1.0)
        self._epoch_at = job.begin + job.epochs.every * rng.uniform(0.4, 1.0)
        self._evaluate_at = job.begin + job.evaluations.every * rng.uniform(0.4, 1.0)
        self._compile_at = job.recompile[0]

    def run(self) -> Track:
        track, job, time = self._track, self._job, self._job.begin
        if job.startup:
            time += job.startup
            track.until(time, reads=6e8, cpu=0.1)
        while time < self._end:
            if stop := self._active("hang", time):
                time = self._hang(stop, time)
                continue
            time = self._step(time)
            if saving := self._active("endless-save", time):
                track.until(saving.end, net=1e6, cpu=0.01)
                time = saving.end
            elif time >= self._save_at:
                time = self._save(time)
            elif time >= self._evaluate_at:
                time = self._evaluate(time)
            elif time >= self._epoch_at:
                self._epoch_at = time + job.epochs.every
                time += job.epochs.seconds * self._rng.uniform(0.7, 1.3)
                track.until(time, cpu=0.1)
            elif time >= self._compile_at:
                time = self._compile(time)
        return track

    def _active(self, what: str, time: float) -> Fault | None:
        return next((f for f in self._faults if f.what == what and f.active(time)), None)

    def _mask(self, fault: Fault) -> npt.NDArray[np.bool_]:
        nodes = np.array(self._job.nodes)
        return np.isin(nodes, fault.nodes) if fault.nodes else np.ones(self._size, bool)

    def _compute(self, begin: float) -> tuple[Column, Column]:
        """Seconds of compute of each node in a step, and the share of the usual operations per
        second that it does in them: a slow node does the same work in more time, a loaded one does
        more work.
        """
        job, rng = self._job, self._rng
        self._load = 0.95 * self._load + np.sqrt(1 - 0.95**2) * rng.normal(0, 1, self._size)
        factor = 1.0 + job.noise * rng.normal(0, 1, self._size) + job.wander * self._load
        factor = np.maximum(factor, 0.8)
        slower = np.ones(self._size)
        for fault in self._faults:
            if fault.what in ("slow", "slow-device") and fault.active(begin):
                slower[self._mask(fault)] *= 1.0 + fault.depth
            if fault.what == "lighter" and fault.active(begin):
                factor *= 1.0 - fault.depth
        if job.loader:
            age = max(begin - job.begin - job.startup, 0.0) / job.loader
            slower *= 1.0 + 0.6 * np.exp(-3.0 * age) * rng.uniform(0.5, 1.5, self._size)
        return job.compute * factor * slower, 1.0 / slower

    def _delays(self, begin: float, compute: Column) -> Column:
        """Seconds by which the hosts of nodes begin late."""
        late = np.zeros(self._size)
        if self._rng.random() < self._job.hiccups * float(compute.max()) / 3600.0:
            late[self._rng.integers(self._size)] = np.exp(
                self._rng.uniform(np.log(0.5), np.log(10))
            )
        if (stall := self._active("loader-stall", begin)) and stall not in self._stalled:
            self._stalled.add(stall)
            late[self._mask(stall)] = stall.end - stall.begin
        return late

    def _step(self, begin: float) -> float:
        job, track = self._job, self._track
        compute, work = self._compute(begin)
        late = self._delays(begin, compute)
        longest = float(compute.max())
        slowest = float((compute + late).max())
        if job.piped:
            stages = [compute[job.stage == stage].max() for stage in np.unique(job.stage)]
            slowest += (sum(stages) - longest) / job.micro  # the bubbles
        comm = job.comm * float(job.compute.max()) * float(self._rng.normal(1.0, 0.03))
        for fault in self._faults:
            if fault.what == "efa" and fault.active(begin):
                comm /= 1.0 - fault.depth
            if fault.what == "slow-comm" and fault.active(begin):
                comm *= 1.0 + fault.depth
        gap = GAP * longest
        share = job.hidden / (job.hidden + job.comm)
        exposed_bytes, hidden_bytes = job.step_bytes * (1 - share), job.step_bytes * share
        executions = (1 if job.fusion else job.micro) / compute
        track.until(begin + gap + late, cpu=0.04)
        track.until(
            begin + gap + late + compute,
            busy=BUSY, work=work, executions=executions, wire=hidden_bytes / compute, cpu=0.02,
        )  # fmt: skip
        track.until(begin + gap + slowest, busy=job.bubble_busy if job.piped else WAITING)
        end = begin + gap + slowest + comm
        track.until(end, busy=COLLECTIVE, wire=exposed_bytes / comm)
        waits = np.array([compute[job.stage == s].max() for s in job.stage]) - compute
        if not job.piped:
            waits = slowest - compute - late
        latency = np.full(self._size, end - begin - gap) if job.fusion else compute / job.micro
        hidden = job.hidden * float(job.compute.max())
        track.latencies.append((begin, latency))
        track.steps.append(Step(self._number, begin, end, compute, comm + waits, hidden))
        self._number += 1
        return end

    def _save(self, time: float) -> float:
        """A checkpoint: nodes end at slightly different times and wait for each other idle."""
        pauses, track = self._job.checkpoints, self._track
        self._save_at = time + pauses.every
        seconds = pauses.seconds * self._rng.uniform(0.85, 1.15)
        rates = SAVING["s3" if pauses.kind == "async" else pauses.kind]
        if pauses.kind == "async":
            pause = self._rng.uniform(0.8, 3.0)
            track.until(time + pause, cpu=0.15)
            track.behind.append((time + pause, time + pause + seconds, rates))
            return float(time + pause)
        end, own = time + seconds, seconds * self._rng.uniform(0.8, 1.0, self._size)
        if pauses.alone:
            own[:], own[0] = 0.1, seconds
        track.until(time + own, **rates)
        track.until(end, busy=WAITING * pauses.spin)
        self._note(pauses, time, end, "checkpointing")
        return float(end)

    def _evaluate(self, time: float) -> float:
        """Each node evaluates its share on its own; the last one is waited for idle."""
        pauses, track = self._job.evaluations, self._track
        self._evaluate_at = time + pauses.every
        own = pauses.seconds * self._rng.uniform(0.7, 1.0, self._size)
        end = time + pauses.seconds
        rate = 3.0 * self._job.micro / self._job.compute
        track.latencies.append((time, 1.0 / rate))
        track.until(time + own, busy=0.9, work=0.35, executions=rate, cpu=0.03)
        track.until(end)
        self._note(pauses, time, end, "evaluating")
        return end

    def _compile(self, time: float) -> float:
        end = time + self._job.recompile[1]
        self._compile_at = np.inf
        self._track.until(end, cpu=0.3)
        self._track.compiles.append((time, end))
        self._note(Pauses(reported=True), time, end, "compiling")
        return end

    def _note(self, pauses: Pauses, begin: float, end: float, stage: str) -> None:
        if pauses.reported:
            self._track.notes += [(begin, stage), (end, "training")]

    def _hang(self, fault: Fault, begin: float) -> float:
        """The others wait in a collective that the culprit does not reach."""
        track, compute = self._track, self._compute(begin)[0]
        mine, end = self._mask(fault), np.full(self._size, min(fault.end, self._end))
        if fault.way == "killed":
            # A watchdog ends the processes, one after the other.
            order = self._rng.permutation(self._size)
            end = np.minimum(end, begin + 75.0 + 4.0 * order)
            track.died = np.minimum(end, self._end)
        if fault.way == "lost":
            innocent = self._rng.choice(np.flatnonzero(~mine))
            track.lost.add((self._number - 1, int(innocent)))
        reached = np.where(mine, 0.4, 1.0) * compute
        rate = self._job.micro / compute
        track.until(begin + reached, busy=BUSY, work=1.0, executions=rate)
        idle = mine & (fault.way == "host")
        track.until(end, busy=np.where(idle, 0.0, 0.999), cpu=0.01)
        return self._end if fault.way == "killed" else min(fault.end, self._end)
