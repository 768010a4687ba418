"""What a training run is doing: one state machine, for the run of a node and for that of a job.

A run makes progress while its step number grows or, where no training process reports steps,
while executions complete. In a pause, what the process announced comes first; then compilers,
writes, host CPUs and cores, and the pauses that the run has made before.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from trntop.catalog import Entity, Provenance
from trntop.core import units
from trntop.core.model import Column, Inventory, Phase, Stage
from trntop.pipeline.axis import Indices
from trntop.pipeline.statistics import median


@dataclass(frozen=True, slots=True)
class PhaseTuning:
    """When a run pauses, and how a pause is explained.

    Tuned on the tuning seeds of `benchmarks.detection`.
    """

    busy: float = 0.5
    """Utilization above which the cores of a paused node wait in a collective."""
    paused_steps: float = 1.5
    paused_seconds: float = 3.0
    """A run pauses when a step takes more than so many usual ones and so many seconds."""
    step_slack: float = 1.0
    """Seconds after which a step is late: from then on the times of reports are read."""
    idle_without_steps: float = 6.0
    """Seconds without an execution after which a run that reports no steps pauses."""
    long_execution: float = 0.6
    """Share of a usual step that a single execution may take."""
    warm_up_steps: int = 3
    """Steps of warm-up after a start, a restart or a long pause."""
    long_pause: float = 60.0
    """Seconds; after a shorter pause only the first step is unusual."""
    warm_up_seconds: float = 10.0
    """Warm-up of a run that reports no steps."""
    io_wait: float = 0.04
    writing: float = 100e6
    writing_factor: float = 3.0
    """Rise of I/O wait, and bytes/s to disks or the network (S3, EFS), that indicate a checkpoint;
    bytes/s also as a multiple of the usual ones.
    """
    host_busy: float = 0.15
    """Rise of host CPU use that indicates a compilation."""
    host_idle: float = 0.03
    """Rise of host CPU use up to which the hosts of a paused run do nothing either."""
    baseline_interval: float = 5.0
    """Seconds between two updates of what is usual on the hosts while the run trains."""
    baseline_weight: float = 0.1
    step_times: int = 16
    """Steps of which the usual step time is the median."""
    kept_pauses: int = 16
    evidence: float = 15.0
    """Seconds for which evidence of a compilation or checkpoint counts: hosts report at intervals.
    """
    max_silence: float = 300.0
    """Seconds without an execution after which an announced evaluation or warm-up explains nothing.
    """
    min_pause: float = 10.0
    """Seconds of a pause after which a new explanation starts a new pause."""
    regular: float = 0.25
    """Share by which the intervals of regular pauses may differ."""
    timeout: float = 30.0
    timeout_steps: float = 4.0
    """Seconds and usual steps without a step before a run is shown as stalled."""
    idle: float = 10.0
    """Seconds without an execution before a run that reports no steps is shown as idle."""
    min_traffic: float = 1e6
    """EFA bytes/s that show that a node without a known job works with others: nodes that serve
    requests do not, and are as busy as their requests.
    """
    max_announcement: float = 7200.0
    """Seconds after which an announced stage no longer counts: its process may have died."""


TUNING = PhaseTuning()

_WRITTEN = tuple(f"node_{where}_written_bytes_per_second" for where in ("disk", "lustre", "nfs"))
INPUTS = frozenset(
    (
        *_WRITTEN,
        "job_step",
        "job_step_seconds",
        "node_compilers",
        "node_executions_completed_per_second",
        "node_network_tx_bytes_per_second",
        "node_neuroncore_flops_per_second",
        "node_neuroncore_utilization_mean_ratio",
        "node_neuroncore_utilization_min_ratio",
        "node_runtimes",
        "node_vcpu_io_wait_ratio",
        "node_vcpu_system_ratio",
        "node_vcpu_user_ratio",
    )
)

_HOST_WORK = (Stage.COMPILING, Stage.CHECKPOINTING)
_EXECUTING = (Stage.EVALUATING, Stage.WARMING_UP)
"""Stages that a process may announce and that explain why no step ends."""
_UNDER_WAY = (Stage.TRAINING, Stage.CHECKPOINTING, Stage.EVALUATING)
"""A run that saves or evaluates in between does not start over."""
_WRITES = {
    "writing": "heavy writes to disk",
    "node_network_tx_bytes_per_second": "heavy uploads",
}
_BASELINES = ("io_wait", "host", *_WRITES)
_ABSENT = np.array([np.nan])
_NODE = np.zeros(1, np.int64)


class Observation:
    """What the nodes of one tick report; columns are read when they are needed.

    Args:
        time: of the tick. column: quantity → values, `[node]`, or along the parts of jobs.
        announced: indices of nodes → the stage that a training process there announced. reported:
        index of a node → when neuron-monitor last reported on it; by default at each tick.
    """

    def __init__(
        self,
        time: float,
        column: Callable[[str], Column],
        announced: Mapping[int, Stage],
        reported: Callable[[int], float | None] = lambda index: None,
    ) -> None:
        self.time = time
        self.column = column
        self._announced = announced
        self._reported = reported
        self.rates = works = column("node_executions_completed_per_second")
        unknown = np.isnan(works)
        if unknown.any():
            works = np.where(unknown, column("node_neuroncore_flops_per_second"), works)
            unknown = np.isnan(works)
        self.executes: npt.NDArray[np.bool_] = works > 0
        """Nodes on which executions complete."""
        if unknown.any():
            busy = column("node_neuroncore_utilization_mean_ratio") > TUNING.busy
            works = np.where(unknown, busy, works)
        self.works: npt.NDArray[np.bool_] = works > 0
        """The same; where that is unknown, nodes whose cores are busy."""

    def most(self, what: str, indices: Indices) -> float | None:
        """The largest value on some nodes of a quantity, or of one of `_BASELINES`."""
        column = self.column
        if what == "host":
            values = column("node_vcpu_user_ratio") + column("node_vcpu_system_ratio")
        elif what == "writing":
            values = np.fmax.reduce([column(name) for name in _WRITTEN])
        else:
            values = column("node_vcpu_io_wait_ratio" if what == "io_wait" else what)
        return largest(values[indices])

    def executed(self, indices: Indices) -> float | None:
        """When any of some nodes last reported an execution, if they report any now."""
        active = indices[self.executes[indices]].tolist()
        return max((self._reported(index) or self.time for index in active), default=None)

    def announced(self, indices: Indices) -> Stage | None:
        for index in self._announced.keys() & indices.tolist() if self._announced else ():
            if (stage := self._announced[index]) in (*_HOST_WORK, *_EXECUTING):
                return stage
        return None


@dataclass(slots=True)
class Run:
    """The run of one job: its nodes and what it is doing."""

    job: str | None
    """None: nodes that report no steps."""
    indices: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    """Its nodes on the tick's axis."""
    reports: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    """Its parts on the tick's axis of jobs."""
    cooperates: bool = True
    """Whether its nodes work together: those that serve requests do not."""
    stage: Stage | None = None
    """STALLED: cores are busy without progress; IDLE: cores are idle without an explanation."""
    why: str = ""
    announced: bool = False
    """Whether a training process reported the stage."""
    first_step: float | None = None
    """Seconds of step 0 or 1, with what compiles in it; None if the run began before."""
    ended: bool = False
    """Whether its processes have ended in this tick."""
    moved: float | None = None
    """Time of the newest progress."""
    paused: float = 0.0
    """Seconds since then beyond a usual step; 0 while it trains."""
    usual: float = 0.0
    """Seconds of a usual step; 0 while unknown."""
    began: float | None = None
    """Since when it makes progress, except for restarts."""
    seen: float = 0.0
    """Time of the newest report."""
    executed: float = float("-inf")
    """When an execution last completed on any of its nodes."""
    all_busy: bool = False
    """Whether in this pause every core of all its nodes is busy."""
    hosts_idle: bool = False
    """Whether in this pause its hosts have no more to do than in training."""
    pauses: deque[tuple[float, float]] = field(
        default_factory=lambda: deque(maxlen=TUNING.kept_pauses)
    )
    """Begin and seconds of each pause that did not end with busy cores."""
    longest_spin: float = 0.0
    """Seconds of the longest pause that ended with busy cores; without step numbers, of the longest
    time between two executions.
    """
    step: float = float("nan")
    newest: float = float("nan")
    """The newest step that any rank reported in the tick before."""
    steps: int = 0
    """Steps since it began, restarted or paused."""
    baseline: dict[str, float] = field(default_factory=dict)
    """What is usual on its hosts while it trains."""
    _spent: dict[Stage | None, float] = field(default_factory=dict)
    """Seconds that this pause has spent in each stage."""
    _pause_begin: float = 0.0
    _updated: float = 0.0
    _evidence_time: float = float("-inf")
    """When a compilation or checkpoint was last evident."""
    _baseline_time: float = float("-inf")
    _step_times: deque[float] = field(default_factory=lambda: deque(maxlen=TUNING.step_times))
    _warm: bool = False
    """Whether its warm-up is over: a short pause does not change that."""
    _first: bool | None = None
    """Whether it made progress when it was first observed; None before."""
    _shown: Stage | None = None
    _since: float | None = None
    _under_way: float | None = None

    @property
    def quiet(self) -> bool:
        """Whether its stage explains unusual values."""
        return self.stage is not Stage.TRAINING

    @property
    def longest_pause(self) -> float:
        return max((seconds for _, seconds in self.pauses), default=0.0)

    @property
    def usual_pause(self) -> float | None:
        """Median seconds of its pauses, None before there are two."""
        if len(self.pauses) < 2:
            return None
        return median([seconds for _, seconds in self.pauses])

    def update(self, seen: Observation) -> None:
        now, first = seen.time, self._first is None
        self._first, self.ended = bool(self._first), False
        if not len(self.indices):
            self.stage, self.why, self.paused = None, "", 0.0
            return
        on_time = self.moved is None or now - self.moved <= self.usual + TUNING.step_slack
        if self.job is None or on_time:
            if seen.executes[self.indices].any():
                self.executed = now
        elif (executed := seen.executed(self.indices)) is not None:
            self.executed = max(self.executed, executed)
        if self._progresses(seen):
            if self.stage is Stage.TRAINING and self.moved is not None and np.isnan(self.step):
                # Several reports of a long step may lack an execution.
                self.longest_spin = max(self.longest_spin, now - self.moved)
            self._end_pause(now)
            self.steps += 1
            self.seen = self.moved = now
            self._spent.clear()
            if self.began is None:
                self.began = now
                self._first = first
                self._warm = first if np.isnan(self.step) else self.step > TUNING.warm_up_steps
            self.paused = 0.0
        announced = self._announced(seen)
        self.announced = announced is not None
        elapsed, self._updated = now - self._updated, now
        if self.moved is None:
            compiling = announced is None and bool(seen.most("node_compilers", self.indices))
            self.stage = Stage.COMPILING if compiling else announced
            self.why = "compilers run" if compiling else "reported by the job" * self.announced
            return
        reports = not np.isnan(self.step)
        grace = (
            max(TUNING.paused_steps * self.usual, self.usual + TUNING.paused_seconds)
            if reports
            else TUNING.idle_without_steps
        )
        if now - self.moved <= grace and announced is None:
            warm = self.steps > TUNING.warm_up_steps if reports else self._is_warm(now)
            self.stage = Stage.TRAINING if warm else Stage.WARMING_UP
            self._warm |= warm
            self.why = f"step {units.count(self.step)}" if reports else "executions complete"
            if warm and seen.works[self.indices].any():
                self._learn_baseline(seen)
            return
        if announced is None and _ended(seen, self.indices):
            # The step stays: its last record is still reported for a while.
            self.stage, self.why, self.paused = None, "", 0.0
            self.began, self.moved, self.steps, self._warm = None, None, 0, False
            self.pauses.clear()
            self.ended = True
            return
        stage, why = (announced, "reported by the job") if announced else self._explain(seen)
        self._note_pause(stage, why, now, elapsed)

    def phase(self, now: float) -> Phase | None:
        """What the screen shows: a short pause is still training."""
        stage, why, since = self.stage, self.why, None
        if stage in (Stage.STALLED, Stage.IDLE) and self.moved is not None:
            silence, reports = now - self.moved, not np.isnan(self.step)
            timeout = max(TUNING.timeout, TUNING.timeout_steps * self.usual)
            if stage is Stage.IDLE and not reports:
                timeout = TUNING.idle
            if silence <= timeout:
                stage, why = Stage.TRAINING, f"step {units.count(self.step)}" * reports or why
            else:
                since = self.moved
                if reports:
                    stage, why = Stage.STALLED, f"no step for {units.span(silence)}"
        elif stage is Stage.WARMING_UP and self._warm:
            stage = Stage.TRAINING
        if stage is Stage.TRAINING and np.isnan(self.step) and not self.cooperates:
            stage = Stage.EXECUTING
        if stage is None:
            self._shown = None
            return None
        if stage is not self._shown:
            # At the first look, it may have been so for long.
            entered = None if self._shown is None and self._first else now
            if self._shown not in _UNDER_WAY:
                self._under_way = entered
            self._since = self._under_way if stage is Stage.TRAINING else entered
            self._shown = stage
        provenance = Provenance.REPORTED if self.announced else Provenance.DERIVED
        return Phase(stage, self._since if since is None else since, why, provenance)

    def _progresses(self, seen: Observation) -> bool:
        """Whether it has made progress since the tick before."""
        works = bool(seen.works[self.indices].any())
        if self.job is None:
            return works
        newest = largest(seen.column("job_step")[self.reports])
        if newest is None:
            # Its telemetry is silent: either it has stopped, or only the reports are missing.
            return bool(np.isnan(self.step)) and works
        self.seen = seen.time
        before, self.newest = self.newest, newest
        starts = newest <= 1.0 and (self.first_step is None or newest < self.step)
        if newest <= before and not starts:
            return False  # lower: the rank that was ahead is silent, or the job started over
        seconds = median(seen.column("job_step_seconds")[self.reports])
        if starts and seconds == seconds:
            self.first_step = seconds
        if newest <= before:
            return False
        if newest <= self.step:
            self.steps, self.began, self._warm = 0, seen.time, False  # from a checkpoint
        apart = seen.time - self.moved if self.moved is not None else 0.0
        if np.isnan(self.step):
            apart = 0.0
        elif seconds == seconds:
            # A log may have each tenth step only.
            apart = max(seconds, min(apart, 20 * seconds))
        if (known := apart or seconds) > 0:
            self._step_times.append(known)
            self.usual = median(self._step_times)
        self.step = newest
        return True

    def _end_pause(self, now: float) -> None:
        """Keeps the length of a pause; the steps after it warm up."""
        if self.paused > (TUNING.paused_seconds if self.stage is Stage.EVALUATING else 0.0):
            if self.stage is Stage.STALLED:
                self.longest_spin = max(self.longest_spin, self.paused)
            else:
                self.pauses.append((self._pause_begin, now - self._pause_begin))
            long = now - self._pause_begin > TUNING.long_pause
            self.steps = 0 if long else TUNING.warm_up_steps - 1
            self._warm &= not long

    def _announced(self, seen: Observation) -> Stage | None:
        """The stage that its processes announced, while it may explain a pause."""
        stage = seen.announced(self.indices)
        active = self.executed if self.moved is None else max(self.executed, self.moved)
        silent = self.moved is not None and seen.time - active > TUNING.max_silence
        return None if stage in _EXECUTING and silent else stage

    def _note_pause(self, stage: Stage | None, why: str, now: float, elapsed: float) -> None:
        """How long it has paused: each stage of a pause counts its own time."""
        assert self.moved is not None
        begin, before, spent = self.moved + self.usual, self.stage, self._spent
        if stage in _HOST_WORK:
            self._evidence_time = now
        elif (
            stage is Stage.IDLE
            and before in _HOST_WORK
            and now - self._evidence_time <= TUNING.evidence
        ):
            stage, why = before, self.why
        if stage is Stage.EVALUATING:
            if before is not stage and self.executed > now - self.paused:
                self._end_pause(now)  # its next step has begun
            # It works. A pause may yet come, and begins with the last execution.
            self._pause_begin = max(begin, self.executed)
            spent.clear()
            spent[stage] = now - self._pause_begin
        elif not spent:
            self._pause_begin = begin
            spent[stage] = now - begin
        elif stage in spent:
            spent[stage] += elapsed
        elif before in _HOST_WORK or (stage in _HOST_WORK and self.paused > TUNING.min_pause):
            spent[stage] = 0.0
        else:
            spent[stage] = spent.get(before, 0.0) + elapsed
        self.stage, self.why = stage, why
        self.paused = max(0.0, spent[stage])

    def _is_warm(self, now: float) -> bool:
        since = self.pauses[-1][0] + self.pauses[-1][1] if self.pauses else self.began
        return since is not None and now - since >= TUNING.warm_up_seconds

    def _is_due(self, time: float) -> bool:
        """Whether its pauses are regular, and one is due at `time`."""
        begins = [begin for begin, _ in self.pauses]
        if len(begins) < 2:
            return False
        intervals = np.diff(begins)
        usual = median(intervals)
        regular = bool((np.abs(intervals - usual) < TUNING.regular * usual).all())
        return regular and abs(time - begins[-1] - usual) < TUNING.regular * usual

    def _learn_baseline(self, seen: Observation) -> None:
        if seen.time - self._baseline_time < TUNING.baseline_interval:
            return
        self._baseline_time = seen.time
        for name in _BASELINES:
            value = seen.most(name, self.indices)
            if value is not None:
                usual = self.baseline.setdefault(name, value)
                self.baseline[name] = usual + TUNING.baseline_weight * (value - usual)

    def _rise(self, name: str, seen: Observation) -> float:
        """How far the largest value of its hosts is above the usual one; 0 where unknown."""
        value = seen.most(name, self.indices)
        return 0.0 if value is None else value - self.baseline.get(name, value)

    def _explain(self, seen: Observation) -> tuple[Stage | None, str]:
        """Why it pauses, where the job does not report it."""
        indices = self.indices
        utilization = seen.column("node_neuroncore_utilization_mean_ratio")[indices]
        known = utilization[~np.isnan(utilization)]
        if not len(known):
            return None, "no data from its cores"
        # One execution may be as long as a good part of a step.
        if self.job is not None and seen.time - self.executed <= max(
            TUNING.idle_without_steps, TUNING.long_execution * self.usual
        ):
            return Stage.EVALUATING, "executions continue without steps"
        busy = float((known > TUNING.busy).mean())
        lowest = seen.column("node_neuroncore_utilization_min_ratio")[indices]
        self.all_busy = (
            busy == 1 and len(known) == len(indices) and not (lowest < TUNING.busy).any()
        )
        if seen.most("node_compilers", indices):
            return Stage.COMPILING, "compilers run"
        for name, why in _WRITES.items():
            usual = TUNING.writing_factor * self.baseline.get(name, 0.0)
            if (seen.most(name, indices) or 0.0) > max(TUNING.writing, usual):
                return Stage.CHECKPOINTING, why
        if busy >= TUNING.busy or (len(known) > 2 and busy > 1 / 3):
            which = "all cores" if busy == 1 else f"cores of {units.percent(busy)} of nodes"
            return Stage.STALLED, f"{which} are busy"
        if self._rise("io_wait", seen) > TUNING.io_wait:
            return Stage.CHECKPOINTING, "host CPUs wait for disks"
        rise = self._rise("host", seen)
        self.hosts_idle = "host" in self.baseline and rise < TUNING.host_idle
        if rise > TUNING.host_busy:
            return Stage.COMPILING, "host CPUs are busy, cores are idle"
        if self._is_due(self._pause_begin if self._spent else seen.time - self.paused):
            return Stage.CHECKPOINTING, "cores are idle at the time of its usual pause"
        return Stage.IDLE, "cores are idle"


class NodePhase:
    """The phase of one node's run over time, from the node's own columns."""

    def __init__(self) -> None:
        self._run = Run(None, _NODE, cooperates=False)
        self._begun = 0.0
        """When the newest step began, at the latest."""
        self._time: float | None = None

    def update(
        self, now: float, columns: Mapping[str, Column], inventory: Inventory
    ) -> Phase | None:
        """The phase at `now`; None when no source reports any sign of a run."""
        run = self._run
        jobs = inventory.of(Entity.JOB)
        run.job, run.reports = (str(jobs[0]) if jobs else run.job), np.arange(len(jobs))
        sent = largest(columns.get("node_efa_tx_bytes_per_second", _ABSENT)) or 0.0
        run.cooperates |= bool(jobs) or sent > TUNING.min_traffic
        newest = largest(columns.get("job_step", _ABSENT))
        if newest is not None and newest != run.newest:
            # Reported at a tick, it ended after the tick before: a stage announced then counts.
            before = now if self._time is None else self._time
            self._begun = before - (largest(columns.get("job_step_seconds", _ABSENT)) or 0.0)
        self._time = now
        announced = self._announced(now, columns, inventory)
        absent = {"job_step": np.full(len(jobs), np.nan)}
        absent["job_step_seconds"] = absent["job_step"]
        if inventory.compilation is not None:
            absent["node_compilers"] = np.array([float(inventory.compilation.processes)])
        run.update(
            Observation(
                now,
                lambda name: columns.get(name, absent.get(name, _ABSENT)),
                {0: announced[1]} if announced else {},
            )
        )
        phase = run.phase(now)
        if phase is None:
            return self._without_progress(columns, inventory)
        if announced and run.announced:
            return Phase(phase.stage, announced[2], f"reported by {announced[0]}", phase.provenance)
        if phase.stage is Stage.COMPILING and inventory.compilation is not None:
            return Phase(phase.stage, inventory.compilation.since, _compiling(columns, inventory))
        return phase

    def _without_progress(
        self, columns: Mapping[str, Column], inventory: Inventory
    ) -> Phase | None:
        utilization = largest(columns.get("node_neuroncore_utilization_mean_ratio", _ABSENT))
        if utilization is None:
            return None
        if utilization:
            stage = Stage.TRAINING if self._run.cooperates else Stage.EXECUTING
            return Phase(stage, None, f"cores {units.percent(utilization)} utilized")
        count = len(inventory.of(Entity.RUNTIME))
        return Phase(Stage.IDLE, None, f"{count} Neuron process{'es' * (count != 1)}, no core busy")

    def _announced(
        self, now: float, columns: Mapping[str, Column], inventory: Inventory
    ) -> tuple[str, Stage, float] | None:
        """Job, stage and begin of what a process announced since its newest step."""
        if "node_runtimes" in columns and not inventory.runtimes:
            return None
        for job, (stage, since) in inventory.stages.items():
            current = since >= self._begun and now - since <= TUNING.max_announcement
            if stage in (*_HOST_WORK, *_EXECUTING) and current:
                return job, stage, since
        return None


def _compiling(columns: Mapping[str, Column], inventory: Inventory) -> str:
    assert inventory.compilation is not None
    count = inventory.compilation.processes
    text = f"{count} compiler{'s' * (count != 1)}"
    modules = largest(columns.get("node_compile_cache_modules", _ABSENT))
    if modules is not None:
        return f"{text}, {modules:.0f} modules in the cache"
    cache = inventory.facts.get("compile_cache")
    return f"{text}, cache at {cache}" if cache else text


def _ended(seen: Observation, indices: Indices) -> bool:
    """Whether no process is left, on nodes whose cores are monitored."""
    runtimes = seen.column("node_runtimes")[indices]
    runtimes = runtimes[~np.isnan(runtimes)]
    utilization = seen.column("node_neuroncore_utilization_mean_ratio")[indices]
    return bool(len(runtimes)) and not runtimes.any() and not np.isnan(utilization).all()


def largest(values: Column) -> float | None:
    most = float(np.fmax.reduce(values, initial=-np.inf))
    return None if most == -np.inf else most
