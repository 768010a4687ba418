"""Jobs without progress: they hang, compile in the middle of a run, or a checkpoint stalls."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

import numpy as np

from trntop.analysis.detector import Signal, Verdict
from trntop.analysis.sentence import NO_CULPRIT
from trntop.catalog import LOG
from trntop.core import units
from trntop.core.model import Column, Evidence, Stage
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.axis import Axis, Indices
from trntop.pipeline.phase import Run
from trntop.pipeline.runs import Runs, newest_report
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class StallTuning:
    """How long a job may pause before it has stalled."""

    max_events: int = 4
    """Lines of training logs that are listed as evidence."""

    spin_limit: float = 8.0
    """Seconds without progress while all cores of all nodes wait in a collective."""
    wait_limit: float = 11.0
    """The same while some cores are idle: the host of a node may be late by up to 10 s."""
    min_reports: float = 1.2
    """Periods of neuron-monitor's reports that such a pause must last: one is of it alone."""
    late_report: float = 2.0
    """Seconds, beyond the period, after which a report is late."""
    quiet_limit: float = 30.0
    quiet_factor: float = 2.0
    """Seconds, and times the longest pause, of idle cores and idle hosts of a job whose usual
    pauses are known.
    """
    idle_limit: float = 60.0
    """Seconds of unexplained idle cores that may be a pause of the job's own."""
    under_way: float = 20.0
    under_way_without_steps: float = 60.0
    """Seconds of progress after which a run is under way: what it compiles now is unexpected."""
    pause_factor: float = 3.0
    """Times its usual pause that a checkpoint must last."""
    longest_factor: float = 2.0
    """The same of its longest pause: the end of an epoch takes longer than a checkpoint."""
    busy_factor: float = 1.5
    """Times its usual step, and its longest pause with busy cores, that such a pause must last."""
    lost_factor: float = 2.0
    """The same, and a period of the reports more, for a run that reports no steps: with a report,
    the only execution of a long step may be lost.
    """
    min_checkpoint: float = 20.0
    """Seconds; a shorter checkpoint has not stalled, whatever is usual."""
    min_lead: float = 0.7
    """Seconds, beyond the uncertainty, by which the offending node must have stopped first."""
    max_share: float = 1 / 3
    """Share of a job's nodes up to which the ones that differ are named."""


TUNING = StallTuning()


class _Stalls:
    """One value per job: its seconds without progress, as a multiple of the limit."""

    inputs = Runs.inputs

    def __init__(self, settings: Settings, period: float) -> None:
        self._settings = settings
        self._jobs = Axis()

    def signal(self, tick: Tick) -> Signal:
        runs = tick.runs.by_job
        if tuple(runs) != self._jobs.keys:
            self._jobs = Axis(tuple(runs))
        values: Column = np.array([self._excess(run, tick) for run in runs.values()], np.float64)
        return Signal(self._jobs, values, 1.0, 0.999)

    def _excess(self, run: Run, tick: Tick) -> float:
        unseen = run.began is None or run.moved is None
        if not run.ended and (run.stage is None or unseen):
            return float("nan")
        if run.paused <= 0 or run.began is None or run.moved is None:
            return 0.0
        if (limit := self._limit(run, tick)) is None:
            return 0.0
        least = TUNING.under_way if run.job else TUNING.under_way_without_steps
        return run.paused / limit if run.moved - run.began >= least else 0.0

    def _limit(self, run: Run, tick: Tick) -> float | None:
        """Seconds that a pause in its stage may last; None: forever."""
        raise NotImplementedError

    def reset(self) -> None:
        pass

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        return self._verdict(key, tick)

    def _verdict(
        self, key: Hashable, tick: Tick, *, node: str | None = None, culprit: str = "",
        evidence: Sequence[Evidence] = (),
    ) -> Verdict:  # fmt: skip
        run = tick.runs.by_job[cast(str | None, key)]
        nodes, usual = len(run.indices), run.usual_pause
        step = f", a usual step takes {units.seconds(run.usual)}" if run.usual else ""
        silent = units.span(tick.time - (run.moved or tick.time))
        stopped = Evidence(
            f"no progress for {silent}{step}; {run.why}",
            quantity="job_step" if run.job else "node_executions_completed_per_second",
        )
        return Verdict(
            fields={
                "job": run.job or f"{nodes} node{'s' * (nodes != 1)}",
                "why": run.why,
                "culprit": culprit,
                "basis": "" if evidence else f" ({run.why})",
                "paused": units.span(run.paused),
                "silent": silent,
                "usual": "" if usual is None else f", usually {units.span(usual)}",
                "step": "" if run.step != run.step else f" at step {units.count(run.step)}",
            },
            job=run.job,
            node=node,
            evidence=(stopped, *evidence),
            since=tick.time - run.paused,
        )


@dataclass(frozen=True, slots=True)
class _Suspects:
    """The nodes of a stalled run that differ from the others."""

    stopped: float | None
    """Time of the run's newest progress: identifies the pause."""
    nodes: tuple[str, ...] = ()
    reason: str = ""


class Hang(_Stalls):
    """A job without progress and without an explanation."""

    inputs = Runs.inputs | {"node_neuroncores"}

    def __init__(self, settings: Settings, period: float) -> None:
        super().__init__(settings, period)
        self.reset()

    def reset(self) -> None:
        self._suspects: dict[Hashable, _Suspects] = {}

    def _limit(self, run: Run, tick: Tick) -> float | None:
        hang = self._settings.hang
        if run.stage is Stage.STALLED:
            period = _period(run.indices, tick)
            least = max(
                TUNING.spin_limit if run.all_busy else TUNING.wait_limit,
                TUNING.min_reports * period,
            )
            if _is_silent(run.indices, tick):
                least = hang  # its silence may be the cause
            longest = TUNING.busy_factor * max(run.usual, run.longest_spin)
            if run.step != run.step and run.longest_spin:
                longest = TUNING.lost_factor * run.longest_spin + period
            return max(min(hang, least), longest)
        if run.stage is Stage.IDLE and run.cooperates:
            longest, factor = run.longest_pause, TUNING.pause_factor
            if run.hosts_idle and run.usual_pause is not None:
                return max(TUNING.quiet_limit, TUNING.quiet_factor * longest)
            return max(TUNING.idle_limit, factor * hang, factor * longest)
        return None

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        """Names the node that blocks the others, if one differs from them.

        What happens to the nodes after the job has stalled, such as that they are killed one by
        one, does not change who stopped it.
        """
        run = tick.runs.by_job[cast(str | None, key)]
        suspects = self._suspects.get(key)
        if suspects is None or suspects.stopped != run.moved:
            suspects = self._suspects[key] = _find_suspects(run, tick)
        names, reason = suspects.nodes, suspects.reason
        reasons = reason.replace("is ", "are ", 1) if len(names) > 1 else reason
        culprit = f"; {_listed(names)} {reasons}" if names else NO_CULPRIT
        evidence = [Evidence(f"{name} {reason}", name) for name in names]
        evidence += islice(_log_events(run, tick), TUNING.max_events)
        node = names[0] if len(names) == 1 else None
        return self._verdict(key, tick, node=node, culprit=culprit, evidence=evidence)


class Recompile(_Stalls):
    """A run under way that compiles again."""

    def _limit(self, run: Run, tick: Tick) -> float | None:
        if run.stage is not Stage.COMPILING or (run.job is None and len(run.indices) < 2):
            return None  # a single node without a job is no training run
        return self._settings.compilation


class CheckpointStall(_Stalls):
    """A checkpoint that takes far longer than usual."""

    def _limit(self, run: Run, tick: Tick) -> float | None:
        if run.stage is not Stage.CHECKPOINTING:
            return None
        usual = run.usual_pause
        if usual is None:
            return self._settings.checkpoint
        longest = TUNING.longest_factor * run.longest_pause
        return max(TUNING.min_checkpoint, TUNING.pause_factor * usual, longest)


def _log_events(run: Run, tick: Tick) -> Iterator[Evidence]:
    """Collectives that timed out, and restarts, as the logs of the run's nodes report them."""
    for index in run.indices.tolist():
        view = tick.views[index]
        for source in view.frame.sources:
            if source.name == LOG and ("timed out" in source.reason or "HyperPod" in source.reason):
                yield Evidence(f"training log: {source.reason}", view.name)


def _find_suspects(run: Run, tick: Tick) -> _Suspects:
    """The nodes of a run that have differed from the others since it stopped."""
    indices = run.indices
    none = _Suspects(run.moved)
    if len(indices) < 2 or run.stage is not Stage.STALLED:
        return none
    since = tick.runs.nodes.idle_since[indices]
    settled = 2.0 * max(1.0, _period(indices, tick))
    idle = indices[since <= tick.time - run.paused + settled]
    if len(idle):
        few = len(idle) <= max(1.0, TUNING.max_share * len(indices))
        names = tuple(str(tick.nodes.keys[index]) for index in idle) if few else ()
        return _Suspects(run.moved, names, "is idle")
    stopped, uncertainty = _stopped(indices, tick)
    if (~np.isnan(stopped)).sum() >= 2:
        order = np.argsort(np.where(np.isnan(stopped), np.inf, stopped))
        if stopped[order[1]] - stopped[order[0]] >= TUNING.min_lead + uncertainty:
            name = str(tick.nodes.keys[indices[order[0]]])
            return _Suspects(run.moved, (name,), "likely stopped first")
    return none


def _period(indices: Indices, tick: Tick) -> float:
    """The longest time between two reports of neuron-monitor on some nodes."""
    return max((newest_report(tick.views[index])[1] for index in indices.tolist()), default=0.0)


def _is_silent(indices: Indices, tick: Tick) -> bool:
    """Whether a report of neuron-monitor on any of some nodes is late."""
    reports = (newest_report(tick.views[index]) for index in indices.tolist())
    return any(
        time is not None and tick.time - time > TUNING.late_report + period
        for time, period in reports
    )


def _stopped(indices: Indices, tick: Tick) -> tuple[Column, float]:
    """When each of some nodes executed last, and the uncertainty in seconds.

    The number of executions in its last report shows for how much of its period a node worked.
    """
    nodes = tick.runs.nodes
    last, usual = nodes.last_rate[indices], nodes.usual_rate[indices]
    worked = np.nan_to_num(np.clip(last / usual, 0.0, 1.0))
    reports = [newest_report(tick.views[index]) for index in indices.tolist()]
    late = np.array([tick.time - (time or tick.time) for time, _ in reports])
    periods = np.array([period for _, period in reports])
    # Reports come at a fixed distance from our ticks.
    late = np.where(periods > 0, np.fmod(late, np.maximum(periods, 1.0)), 0.0)
    with np.errstate(divide="ignore"):
        execution = tick.column("node_neuroncores")[indices] / usual
    execution = np.nan_to_num(execution, nan=0.0, posinf=0.0)
    stopped: Column = nodes.active[indices] - late - periods * (1.0 - worked)
    return stopped, 1.5 * float(execution.max(initial=0.0)) + max(0.0, float(periods.max()) - 1.0)


def _listed(names: Sequence[str]) -> str:
    if len(names) <= 2:
        return " and ".join(names)
    return f"{names[0]} and {len(names) - 1} more"
