"""Jobs without progress: they hang, compile in the middle of a run, or a checkpoint stalls."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from trntop.analysis.axis import Axis
from trntop.analysis.detector import Signal, Verdict
from trntop.analysis.progress import TUNING as PROGRESS
from trntop.analysis.progress import JobPhase, JobProgress, Progress
from trntop.analysis.sentence import NOBODY
from trntop.analysis.tick import Tick
from trntop.catalog import NEURON_MONITOR
from trntop.core import units
from trntop.core.model import Column, Evidence, NodeView
from trntop.core.settings import Analysis as Settings


@dataclass(frozen=True, slots=True)
class StallTuning:
    """How long a job may pause before it has stalled."""

    idle_limit: float = 60.0
    """Seconds for which idle cores that nothing explains may be a pause of the job's own."""
    under_way_without_steps: float = 60.0
    """Seconds of progress after which a run that reports no steps is under way."""
    pause_factor: float = 3.0
    """Times its usual pauses, and times its usual steps, that a stop must last to be one."""
    min_checkpoint: float = 20.0
    """Seconds; a checkpoint that took less has not stalled, whatever is usual."""
    min_lead: float = 0.7
    """Seconds, beyond the uncertainty, by which the offending node must have stopped first."""
    max_share: float = 1 / 3
    """Share of a job's nodes up to which the ones that differ are named."""


TUNING = StallTuning()


class _Stalls:
    """One value per crew: how long it has not got on, as a multiple of what may be."""

    inputs = Progress.inputs

    def __init__(self, settings: Settings, period: float) -> None:
        self._settings = settings
        self._crews = Axis()

    def signal(self, tick: Tick) -> Signal:
        """Above 1 where a crew has stopped for too long; 0 where it gets on."""
        crews = tick.progress.crews
        if tuple(crews) != self._crews.keys:
            self._crews = Axis(tuple(crews))
        values: Column = np.array([self._excess(crew, tick) for crew in crews.values()], np.float64)
        return Signal(self._crews, values, 1.0, 0.999)

    def _excess(self, crew: JobProgress, tick: Tick) -> float:
        if crew.phase is JobPhase.UNKNOWN:
            return float("nan")
        limit = self._limit(crew)
        if limit is None or crew.paused <= 0 or not self._under_way(crew):
            return 0.0
        return crew.paused / limit

    def _limit(self, crew: JobProgress) -> float | None:
        """Seconds that it may stop for what it is doing; None: for ever."""
        raise NotImplementedError

    def _under_way(self, crew: JobProgress) -> bool:
        if crew.began is None or crew.moved is None:
            return False
        return crew.moved - crew.began >= (
            PROGRESS.under_way if crew.job else TUNING.under_way_without_steps
        )

    def reset(self) -> None:
        pass

    def _verdict(
        self, key: Hashable, tick: Tick, *, node: str | None = None, guilty: str = "",
        evidence: Iterable[Evidence] = (),
    ) -> Verdict:  # fmt: skip
        crew = tick.progress.crews[key]  # type: ignore[index]
        nodes = len(crew.places)
        where = crew.job or f"{nodes} node{'s' * (nodes != 1)}"
        stopped = Evidence(
            f"no progress for {units.span(tick.time - (crew.moved or tick.time))}, "
            f"a usual step takes {units.seconds(crew.usual)}; {crew.why}",
            quantity="job_step" if crew.job else "node_executions_completed_per_second",
        )
        usual = crew.usual_pause
        before = "" if usual is None else f", usually {units.span(usual)}"
        return Verdict(
            says={
                "job": where,
                "why": crew.why,
                "guilty": guilty,
                "paused": units.span(crew.paused),
                "usual": before,
                "step": "" if crew.step != crew.step else f" at step {units.count(crew.step)}",
            },
            job=crew.job,
            node=node,
            evidence=(stopped, *evidence),
            since=tick.time - crew.paused,
        )


class Hang(_Stalls):
    """A job that stands still though nothing explains it."""

    inputs = Progress.inputs | {"node_neuroncores"}

    def _limit(self, crew: JobProgress) -> float | None:
        longest = crew.longest_pause
        match crew.phase:
            case JobPhase.BUSY_NO_PROGRESS:
                return max(
                    self._settings.hang,
                    TUNING.pause_factor / 2 * crew.usual,
                    1.5 * crew.longest_spin,
                )
            case JobPhase.RESTING if crew.job is not None:
                return max(
                    TUNING.idle_limit,
                    TUNING.pause_factor * self._settings.hang,
                    TUNING.pause_factor * longest,
                )
        return None

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        """Names the node that the others wait for, if one differs from them."""
        crew = tick.progress.crews[key]  # type: ignore[index]
        suspects, reason = _suspects(crew, tick)
        names = [str(tick.nodes.keys[place]) for place in suspects]
        reasons = reason.replace("is ", "are ", 1) if len(names) > 1 else reason
        guilty = f"; {_listed(names)} {reasons}" if names else NOBODY
        evidence = [Evidence(f"{name} {reason}", name) for name in names]
        node = names[0] if len(names) == 1 else None
        return self._verdict(key, tick, node=node, guilty=guilty, evidence=evidence)


class Recompile(_Stalls):
    """A run under way that compiles again."""

    def _limit(self, crew: JobProgress) -> float | None:
        if crew.phase is not JobPhase.COMPILING or (crew.job is None and len(crew.places) < 2):
            return None  # one node alone is no run
        return self._settings.compilation

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        return self._verdict(key, tick)


class CheckpointStall(_Stalls):
    """A checkpoint that takes far longer than usual."""

    def _limit(self, crew: JobProgress) -> float | None:
        if crew.phase is not JobPhase.CHECKPOINTING:
            return None
        usual = crew.usual_pause
        if usual is None:
            return self._settings.checkpoint
        return max(TUNING.min_checkpoint, TUNING.pause_factor * usual)

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        return self._verdict(key, tick)


def _suspects(crew: JobProgress, tick: Tick) -> tuple[list[int], str]:
    """The nodes of a crew that differ from the others since it stopped, and in what."""
    places = crew.places
    if len(places) < 2:
        return [], ""
    utilization = tick.column("node_neuroncore_utilization_mean_ratio")[places]
    idle = places[utilization < PROGRESS.busy]
    if (
        0 < len(idle) <= max(1.0, TUNING.max_share * len(places))
        and (utilization >= PROGRESS.busy).any()
    ):
        return idle.tolist(), "is idle"
    behind = _behind(crew, tick)
    if 0 < len(behind) <= max(1.0, TUNING.max_share * len(places)):
        return behind, "is a step behind"
    stopped, unsure = _stopped(crew, tick)
    if (~np.isnan(stopped)).sum() >= 2:
        order = np.argsort(np.where(np.isnan(stopped), np.inf, stopped))
        if stopped[order[1]] - stopped[order[0]] >= TUNING.min_lead + unsure:
            return [int(places[order[0]])], "stopped first"
    return [], ""


def _stopped(crew: JobProgress, tick: Tick) -> tuple[Column, float]:
    """When each node of a crew executed last, and the seconds by which that is unsure.

    The last report with executions tells by how many of them how much of its period was worked.
    """
    progress, places = tick.progress, crew.places
    worked = np.clip(progress.last_rate[places] / progress.usual_rate[places], 0.0, 1.0)
    heard = [_heard(tick.views[place]) for place in places.tolist()]
    late = np.array([tick.time - (time or tick.time) for time, _ in heard])
    periods = np.array([period for _, period in heard])
    # Reports come at a fixed distance from our ticks.
    late = np.where(periods > 0, np.fmod(late, np.maximum(periods, 1.0)), 0.0)
    cores = tick.column("node_neuroncores")[places]
    with np.errstate(divide="ignore"):
        execution = np.nan_to_num(cores / progress.usual_rate[places], nan=0.0, posinf=0.0)
    stopped: Column = progress.active[places] - late - periods * (1.0 - np.nan_to_num(worked))
    unsure = 1.5 * float(execution.max(initial=0.0)) + max(0.0, float(periods.max()) - 1.0)
    return stopped, unsure


def _behind(crew: JobProgress, tick: Tick) -> list[int]:
    """Nodes whose newest step is older than that of the others."""
    steps = tick.progress.steps[crew.places]
    newest = np.fmax.reduce(steps, initial=-np.inf)
    late = crew.places[steps < newest]
    return [int(place) for place in late]


def _heard(view: NodeView) -> tuple[float | None, float]:
    """When neuron-monitor was heard on a node, and the seconds between its reports."""
    for one in view.frame.sources:
        if one.name == NEURON_MONITOR:
            return one.time, one.period or 0.0
    return None, 0.0


def _listed(names: list[str]) -> str:
    if len(names) <= 2:
        return " and ".join(names)
    return f"{names[0]} and {len(names) - 1} more"
