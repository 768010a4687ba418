"""How the jobs get on: whether they step, and what keeps them from it.

The nodes that work on one job are a crew. It gets on while its step number grows or, where no
training process reports steps, while executions complete. What it is busy with during a pause
is told by the process's own word, by the compiler's processes, by what the cores, the disks and
the processors do, and by the pauses it has made before.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from trntop.analysis.axis import Axis, PartAxis, Places, carried
from trntop.analysis.ewma import Ewma
from trntop.analysis.tick import Tick
from trntop.catalog import Entity, Provenance
from trntop.core import units
from trntop.core.model import Column, Stage


@dataclass(frozen=True, slots=True)
class ProgressTuning:
    """When a job pauses, and what its pause is taken for."""

    busy: float = 0.5
    """Utilization above which the cores of a paused node spin in a collective."""
    paused_steps: float = 1.5
    paused_seconds: float = 3.0
    """A crew pauses when a step takes more than so many usual ones and so many seconds."""
    idle_without_steps: float = 6.0
    """Seconds without an execution after which a crew that reports no steps pauses."""
    long_execution: float = 0.6
    """Share of a usual step that a single execution may take."""
    warm_up_steps: int = 3
    """Steps after a start, a restart or a long pause in which a crew warms up."""
    long_pause: float = 60.0
    """Seconds; after a shorter one, its first step alone is unusual."""
    warm_up_seconds: float = 10.0
    """The same, where no steps are reported."""
    under_way: float = 20.0
    """Seconds of progress after which a run is under way: what it compiles now was not expected."""
    io_wait: float = 0.04
    writing: float = 100e6
    """Rise of io wait, and bytes per second to disks, that tell of a checkpoint."""
    host_busy: float = 0.15
    """Rise of the processors' share in use that tells of a compilation."""
    baseline_interval: float = 5.0
    """Seconds between two looks at what is usual on the hosts of a crew while it works."""
    baseline_weight: float = 0.1
    """Of such a look."""
    evict_after: float = 600.0
    """Seconds after which a crew that nothing is known of is forgotten."""
    rate_weight: float = 0.1
    """Of the newest report in the mean rate of a node's executions."""
    rate_half_life: float = 20.0
    min_rate_age: float = 30.0
    """Seconds for which nodes are watched before they are taken to work together."""
    match_interval: float = 10.0
    """Seconds between two looks at who works with whom."""
    same_rate: float = 0.08
    """Share by which their executions per second may differ."""
    step_times: int = 16
    """Steps of which the usual one is the median."""
    kept_pauses: int = 16
    min_pause: float = 10.0
    """Seconds of a pause after which what comes to explain it is not what it began with."""


TUNING = ProgressTuning()
_CALM = ("node_vcpu_io_wait_ratio", "host", "writing")


_NOBODY: Places = np.empty(0, np.int64)


class JobPhase(StrEnum):
    """What a crew is busy with."""

    WORKING = "working"
    WARMING_UP = "warming up"
    COMPILING = "compiling"
    CHECKPOINTING = "saving a checkpoint"
    EVALUATING = "evaluating"
    BUSY_NO_PROGRESS = "spinning"
    """Cores are busy, and nothing gets on."""
    RESTING = "resting"
    """Cores are idle, and nothing tells why."""
    OVER = "over"
    """Its processes are gone."""
    UNKNOWN = "unknown"


_EXPLAINED = (JobPhase.COMPILING, JobPhase.CHECKPOINTING, JobPhase.EVALUATING)
"""What keeps a crew from its steps for a reason."""
_STAGES = {
    Stage.COMPILING: JobPhase.COMPILING,
    Stage.CHECKPOINTING: JobPhase.CHECKPOINTING,
    Stage.EVALUATING: JobPhase.EVALUATING,
    Stage.WARMING_UP: JobPhase.WARMING_UP,
}


@dataclass(slots=True)
class JobProgress:
    """The nodes of one job, and how it gets on."""

    job: str | None
    """None: nodes that report no steps."""
    places: Places = field(default_factory=lambda: np.empty(0, np.int64))
    """Of its nodes on the tick's axis."""
    phase: JobPhase = JobPhase.UNKNOWN
    why: str = ""
    """What tells so."""
    moved: float | None = None
    """When it last got on."""
    paused: float = 0.0
    """Seconds since then beyond a usual step; 0 while it works."""
    usual: float = 0.0
    """Seconds of a usual step; 0 where none is known."""
    began: float | None = None
    """Since when it gets on, restarts aside."""
    heard: float = 0.0
    executed: float = float("-inf")
    """When an execution last ended on any of its nodes."""
    turned: float | None = None
    """When a pause became something else than it began as."""
    pauses: deque[tuple[float, float]] = field(
        default_factory=lambda: deque(maxlen=TUNING.kept_pauses)
    )
    """When each of its pauses began, and the seconds it lasted."""
    longest_spin: float = 0.0
    """Seconds of the longest pause that it came out of with its cores spinning."""
    step: float = float("nan")
    shown: float = float("nan")
    """The newest step that any rank showed in the tick before."""
    steps: int = 0
    """Steps since it began, restarted or paused."""
    _paces: deque[float] = field(default_factory=lambda: deque(maxlen=TUNING.step_times))
    calm: dict[str, float] = field(default_factory=dict)
    """What is usual on its hosts while it works."""
    learnt: float = float("-inf")
    """When that was looked at last."""

    @property
    def quiet(self) -> bool:
        """Whether what it does explains that values are unusual."""
        return self.phase is not JobPhase.WORKING

    @property
    def longest_pause(self) -> float:
        """Seconds of the longest pause it has come out of."""
        return max((seconds for _, seconds in self.pauses), default=0.0)

    @property
    def usual_pause(self) -> float | None:
        """Median seconds of its pauses, None while it has made fewer than two."""
        if len(self.pauses) < 2:
            return None
        return float(np.median([seconds for _, seconds in self.pauses]))

    def due(self, time: float) -> bool:
        """Whether its pauses come regularly, and one is due at `time`."""
        begins = [begin for begin, _ in self.pauses]
        if len(begins) < 2:
            return False
        every = np.diff(begins)
        usual = float(np.median(every))
        regular = bool((np.abs(every - usual) < 0.25 * usual).all())
        return regular and abs(time - begins[-1] - usual) < 0.25 * usual


class Progress:
    """All crews, tick by tick."""

    inputs = frozenset(
        (
            "job_step",
            "job_step_seconds",
            "node_compilers",
            "node_disk_written_bytes_per_second",
            "node_executions_completed_per_second",
            "node_lustre_written_bytes_per_second",
            "node_neuroncore_flops_per_second",
            "node_neuroncore_utilization_mean_ratio",
            "node_runtimes",
            "node_vcpu_io_wait_ratio",
            "node_vcpu_system_ratio",
            "node_vcpu_user_ratio",
        )
    )

    def __init__(self) -> None:
        self.crews: dict[str | None, JobProgress] = {}
        self.job_of: dict[str, str] = {}
        """Node → the job that reported steps from it last, or that it is taken to belong to."""
        self.active: Column = np.empty(0)
        """When each node last computed, along the tick's nodes; NaN before."""
        self.last_rate: Column = np.empty(0)
        """Executions per second that it reported then."""
        self.usual_rate: Column = np.empty(0)
        """The same as a mean over the reports before."""
        self.steps: Column = np.empty(0)
        """The newest step that each node has reported."""
        self.over: set[str] = set()
        """Jobs that have ended in this tick."""
        self._reports: dict[str, Places] = {}
        """Job → the places of its parts on the tick's axis."""
        self._reporting: frozenset[str] = frozenset()
        """Nodes that report steps."""
        self._rates = Ewma(TUNING.rate_half_life)
        """Executions per second of each node."""
        self._likely: dict[str, str] = {}
        """Nodes that report none → the job that they were alike at the last look."""
        self._stand = -1
        self._announcing: list[int] = []
        """Places of nodes whose training processes ever announced a stage."""
        self._look = float("-inf")
        self._nodes = Axis()
        self._jobs: PartAxis | None = None

    def clear(self) -> None:
        """Forgets everything: the stream's clock was set back."""
        self.__init__()  # type: ignore[misc]

    def update(self, tick: Tick) -> None:
        """Takes one tick, and marks the nodes of crews that are quiet in it."""
        self._follow(tick)
        self.over.clear()
        if tick.stand != self._stand:
            self._stand = tick.stand
            self._announcing = [
                place for place, view in enumerate(tick.views) if view.inventory.stages
            ]
        seen = _Seen(tick, self._announcing)
        self._note_activity(tick, seen)
        steps = tick.column("job_step")
        known = ~np.isnan(steps)
        self.steps[tick.parts(Entity.JOB).owner[known]] = steps[known]
        self._rates.push(tick.time, tick.nodes, seen.rates)
        self._adopt(tick)
        for crew in self.crews.values():
            self._advance(crew, tick, seen)
            if crew.quiet:
                tick.quiet[crew.places] = True
        tick.job_of = self.job_of
        tick.progress = self

    def _note_activity(self, tick: Tick, seen: "_Seen") -> None:
        works, rates = seen.works, seen.rates
        self.active[works] = tick.time
        self.last_rate[works] = rates[works]
        usual = np.where(np.isnan(self.usual_rate), rates, self.usual_rate)
        self.usual_rate = np.where(works, usual + TUNING.rate_weight * (rates - usual), usual)

    def progress_of(self, node: str) -> JobProgress | None:
        """The crew that a node belongs to."""
        return self.crews.get(self.job_of.get(node))

    def _follow(self, tick: Tick) -> None:
        """Who belongs to whom: looked at anew when a node or a job comes or goes."""
        jobs = tick.parts(Entity.JOB)
        if jobs is self._jobs and tick.nodes is self._nodes:
            return
        if tick.nodes is not self._nodes:
            self.active = carried(self.active, self._nodes, tick.nodes)
            self.last_rate = carried(self.last_rate, self._nodes, tick.nodes)
            self.usual_rate = carried(self.usual_rate, self._nodes, tick.nodes)
            self.steps = carried(self.steps, self._nodes, tick.nodes)
        self._jobs, self._nodes = jobs, tick.nodes
        reporting: dict[str, str] = {}
        reports: dict[str, list[int]] = {}
        place = 0
        for node, names in zip(tick.nodes.keys, jobs.parts, strict=True):
            for name in names:
                reports.setdefault(str(name), []).append(place)
                place += 1
            if names:
                reporting[str(node)] = str(names[0])
        self._reports = {job: np.array(places, np.int64) for job, places in reports.items()}
        # Who was taken to work for a job whose reporters have gone over to another is free again.
        left = {job for node, job in self.job_of.items() if reporting.get(node, job) != job}
        left -= reports.keys()
        known = {
            node: job
            for node, job in self.job_of.items()
            if node in tick.nodes.place and job not in left
        }
        self.job_of = known | reporting
        self._reporting = frozenset(reporting)
        self._enlist(tick)

    def _enlist(self, tick: Tick) -> None:
        """Makes up the crews anew."""
        members: dict[str | None, list[int]] = {}
        for place, node in enumerate(tick.nodes.keys):
            members.setdefault(self.job_of.get(str(node)), []).append(place)
        for job in self.crews.keys() | members.keys():
            crew = self.crews.setdefault(job, JobProgress(job))
            crew.places = np.array(members.get(job, ()), np.int64)
        self.crews = {
            job: crew
            for job, crew in self.crews.items()
            if len(crew.places) or tick.time - crew.heard < TUNING.evict_after
        }

    def _adopt(self, tick: Tick) -> None:
        """Often some ranks alone report. Who executes as often as they do works with them.

        All nodes of a synchronous job execute the same programs in the same time.
        """
        rates = self._rates.mean
        if tick.time < self._look or self._rates.age.max(initial=0.0) < TUNING.min_rate_age:
            return
        self._look = tick.time + TUNING.match_interval
        alone = [node for node in map(str, tick.nodes.keys) if node not in self.job_of]
        usual = {
            job: _median(rates[[tick.nodes.place[node] for node in self._reporting_for(job)]])
            for job in set(self.job_of.values())
        }
        found = {}
        for node in alone:
            rate = float(rates[tick.nodes.place[node]])
            alike = [
                job
                for job, own in usual.items()
                if own and abs(rate / own - 1.0) < TUNING.same_rate
            ]
            if len(alike) == 1:
                found[node] = alike[0]
        # Twice in a row: two jobs may be alike for a moment.
        sure = {node: job for node, job in found.items() if self._likely.get(node) == job}
        self._likely = found
        if sure:
            self.job_of = self.job_of | sure
            self._enlist(tick)

    def _reporting_for(self, job: str) -> list[str]:
        return [node for node in self._reporting if self.job_of.get(node) == job]

    def _advance(self, crew: JobProgress, tick: Tick, seen: "_Seen") -> None:
        now, places = tick.time, crew.places
        if not len(places):
            crew.phase, crew.why, crew.paused = JobPhase.UNKNOWN, "", 0.0
            return
        if seen.executes[places].any():
            crew.executed = now
        moved = self._moved_on(crew, tick, seen)
        if moved:
            self._end_pause(crew, crew.phase, now)
            crew.steps += 1
            crew.heard = crew.moved = now
            crew.turned = None
            if crew.began is None:
                crew.began = now
            crew.paused = 0.0
        if crew.moved is None:
            crew.phase, crew.why = _before_the_first(crew, tick, seen)
            return
        silence = now - crew.moved
        reports = not np.isnan(crew.step)
        grace = (
            max(TUNING.paused_steps * crew.usual, crew.usual + TUNING.paused_seconds)
            if reports
            else TUNING.idle_without_steps
        )
        announced = _announced(crew, tick, seen)
        if silence <= grace and announced is None:
            warm = crew.steps > TUNING.warm_up_steps if reports else self._warm(crew, now)
            crew.phase = JobPhase.WORKING if warm else JobPhase.WARMING_UP
            crew.why = f"step {units.count(crew.step)}" if reports else "executions complete"
            if warm and seen.works[places].any():
                seen.calm(crew, now)
            return
        self._note_pause(crew, announced or _reason(crew, tick, seen), now)
        if crew.phase is JobPhase.OVER:
            crew.paused = 0.0
            # The step stays: its last record is heard for a while yet.
            crew.began, crew.moved, crew.steps = None, None, 0
            crew.pauses.clear()
            if crew.job is not None:
                self.over.add(crew.job)

    def _end_pause(self, crew: JobProgress, phase: JobPhase, now: float) -> None:
        """Keeps what a pause has taken; the steps after it warm up."""
        if crew.paused > 0:
            if phase is JobPhase.BUSY_NO_PROGRESS:
                crew.longest_spin = max(crew.longest_spin, crew.paused)
            crew.pauses.append((now - crew.paused, crew.paused))
            crew.steps = 0 if crew.paused > TUNING.long_pause else TUNING.warm_up_steps - 1

    def _note_pause(self, crew: JobProgress, found: tuple[JobPhase, str], now: float) -> None:
        """Since when it does what it does: a pause may begin as one thing and end as another."""
        assert crew.moved is not None
        begin, before = crew.moved + crew.usual, crew.phase
        phase, why = found
        if before in _EXPLAINED and phase is JobPhase.RESTING:
            phase, why = before, crew.why  # cores still idle: what explained it goes on
        if phase is JobPhase.EVALUATING:
            if crew.executed >= now and crew.paused > TUNING.paused_seconds:
                self._end_pause(crew, before, now)  # its next step has begun
            # It works. A pause may yet come, and begins with the last execution.
            crew.turned = max(begin, crew.executed)
        elif phase is not before and (
            before in (JobPhase.COMPILING, JobPhase.CHECKPOINTING)
            or (
                phase in _EXPLAINED
                and before is not JobPhase.WORKING
                and crew.paused > TUNING.min_pause
            )
        ):
            crew.turned = now
        crew.phase, crew.why = phase, why
        crew.paused = max(0.0, now - (begin if crew.turned is None else crew.turned))

    def _warm(self, crew: JobProgress, now: float) -> bool:
        since = crew.pauses[-1][0] + crew.pauses[-1][1] if crew.pauses else crew.began
        return since is not None and now - since >= TUNING.warm_up_seconds

    def _moved_on(self, crew: JobProgress, tick: Tick, seen: "_Seen") -> bool:
        """Whether it got on since the tick before."""
        if crew.job is None:
            return bool(seen.works[crew.places].any())
        steps = tick.column("job_step")
        mine = self._reports.get(crew.job, _NOBODY)
        newest = _most(steps[mine])
        if newest is None:
            # Its telemetry is silent: then it has stopped, or only its word is missing.
            return bool(np.isnan(crew.step)) and bool(seen.works[crew.places].any())
        crew.heard = tick.time
        before, crew.shown = crew.shown, newest
        if newest <= before:
            return False  # lower: the rank that was ahead fell silent, or the job began again
        if newest <= crew.step:
            crew.steps, crew.began = 0, tick.time  # restarted from a checkpoint
        if (seconds := _median(tick.column("job_step_seconds")[mine])) is not None:
            apart = tick.time - crew.moved if crew.moved is not None else 0.0
            # A log may tell of each tenth step only.
            pace = seconds if np.isnan(crew.step) else max(seconds, min(apart, 20 * seconds))
            crew._paces.append(pace)
            crew.usual = float(np.median(crew._paces))
        crew.step = newest
        return True


class _Seen:
    """What a tick tells of what nodes are busy with; columns are fetched when asked for."""

    def __init__(self, tick: Tick, announcing: list[int]) -> None:
        self._tick = tick
        self.noting = frozenset(
            place
            for place in announcing
            if (phase := tick.views[place].frame.phase) and phase.provenance is Provenance.REPORTED
        )
        """Places of nodes whose training processes announce their stages."""
        works = tick.column("node_executions_completed_per_second")
        self.rates = works
        """Executions per second, `[node]`."""
        unknown = np.isnan(works)
        if unknown.any():
            works = np.where(unknown, tick.column("node_neuroncore_flops_per_second"), works)
            unknown = np.isnan(works)
        self.executes: npt.NDArray[np.bool_] = works > 0
        """Nodes on which executions end, `[node]`."""
        if unknown.any():
            busy = self.column("node_neuroncore_utilization_mean_ratio") > TUNING.busy
            works = np.where(unknown, busy, works)
        self.works: npt.NDArray[np.bool_] = works > 0
        """The same; where that is unknown, those whose cores are busy."""

    def column(self, name: str) -> Column:
        """A quantity of the nodes, or one of those made of several, `[node]`."""
        column = self._tick.column
        if name == "host":
            return column("node_vcpu_user_ratio") + column("node_vcpu_system_ratio")
        if name == "writing":
            disk, lustre = (
                f"node_{where}_written_bytes_per_second" for where in ("disk", "lustre")
            )
            return np.fmax(column(disk), column(lustre))
        return column(name)

    def most(self, name: str, crew: JobProgress) -> float:
        """The most that any node of a crew has; 0 where it is unknown."""
        return _most(self.column(name)[crew.places]) or 0.0

    def calm(self, crew: JobProgress, now: float) -> None:
        """Learns what is usual on the hosts of a crew that works."""
        if now - crew.learnt < TUNING.baseline_interval:
            return
        crew.learnt = now
        for name in _CALM:
            known = _most(self.column(name)[crew.places])
            if known is not None:
                usual = crew.calm.setdefault(name, known)
                crew.calm[name] = usual + TUNING.baseline_weight * (known - usual)

    def rise(self, name: str, crew: JobProgress) -> float:
        """By how much the most of a crew's hosts is above what is usual; 0 where unknown."""
        now = _most(self.column(name)[crew.places])
        return 0.0 if now is None else now - crew.calm.get(name, now)


def _before_the_first(crew: JobProgress, tick: Tick, seen: _Seen) -> tuple[JobPhase, str]:
    """What a crew does that has not got on yet."""
    if announced := _announced(crew, tick, seen):
        return announced
    if seen.most("node_compilers", crew):
        return JobPhase.COMPILING, "compilers run"
    return JobPhase.UNKNOWN, ""


def _announced(crew: JobProgress, tick: Tick, seen: _Seen) -> tuple[JobPhase, str] | None:
    """What the training process itself says, on any of its nodes."""
    for place in seen.noting.intersection(crew.places.tolist()) if seen.noting else ():
        phase = tick.views[place].frame.phase
        if phase is not None and (stated := _STAGES.get(phase.stage)) is not None:
            return stated, "reported by the job"
    return None


def _reason(crew: JobProgress, tick: Tick, seen: _Seen) -> tuple[JobPhase, str]:
    """Why a crew pauses that does not say so."""
    places = crew.places
    utilization = tick.column("node_neuroncore_utilization_mean_ratio")[places]
    known = utilization[~np.isnan(utilization)]
    runtimes = tick.column("node_runtimes")[places]
    if not len(known):
        return JobPhase.UNKNOWN, "no data from its cores"
    if (runtimes[~np.isnan(runtimes)] == 0).all() and not np.isnan(runtimes).all():
        return JobPhase.OVER, "its processes have ended"
    # Executions may be as long as a good part of a step.
    if crew.job is not None and tick.time - crew.executed <= max(
        TUNING.idle_without_steps, TUNING.long_execution * crew.usual
    ):
        return JobPhase.EVALUATING, "executions continue without steps"
    busy = float((known > TUNING.busy).mean())
    if seen.most("node_compilers", crew):
        return JobPhase.COMPILING, "compilers run"
    if seen.most("writing", crew) > max(TUNING.writing, 3 * crew.calm.get("writing", 0.0)):
        return JobPhase.CHECKPOINTING, "heavy writes to disk"
    if seen.rise("node_vcpu_io_wait_ratio", crew) > TUNING.io_wait:
        return JobPhase.CHECKPOINTING, "host CPUs wait for disks"
    if busy >= TUNING.busy or (busy > 0 and len(known) > 2 and busy > 1 / 3):
        which = "all its cores" if busy == 1 else f"cores of {units.percent(busy)} of its nodes"
        return JobPhase.BUSY_NO_PROGRESS, f"{which} are busy"
    if seen.rise("host", crew) > TUNING.host_busy:
        return JobPhase.COMPILING, "host CPUs are busy, cores are idle"
    assert crew.moved is not None
    if crew.due(tick.time - crew.paused):
        return JobPhase.CHECKPOINTING, "cores are idle at the time of its usual pause"
    return JobPhase.RESTING, "cores are idle"


def _most(values: Column) -> float | None:
    most = float(np.fmax.reduce(values, initial=-np.inf))
    return None if most == -np.inf else most


def _median(values: Column) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None
