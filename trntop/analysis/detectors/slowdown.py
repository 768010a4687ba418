"""Jobs whose steps take longer than they used to, whatever the cause."""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from trntop.analysis.detector import Signal, Verdict
from trntop.core import units
from trntop.core.model import Column, Evidence, Stage
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.axis import Axis
from trntop.pipeline.phase import Run, median
from trntop.pipeline.runs import Runs
from trntop.pipeline.statistics import deviation
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class SlowdownTuning:
    """What a job's past is, and how far from it is another time.

    Tuned on the tuning seeds of `benchmarks.hardening`.
    """

    recent: float = 25.0
    """Seconds of the newest steps that are compared with those before."""
    recent_steps: int = 4
    counted: float = 8.0
    counted_ticks: float = 6.0
    """Seconds and ticks over which steps are counted where their times are not reported, as in a
    log: a step is seen up to a tick late.
    """
    past: float = 600.0
    """Seconds of the past before those."""
    past_steps: int = 8
    past_seconds: float = 60.0
    """The past must have so many steps and seconds at least."""
    noise: float = 6.0
    """Standard deviations of a step that the newest ones must be above the past."""
    most: float = 0.25
    """Share of the newest steps that may be as quick as before."""
    accepted: float = 1800.0
    """Seconds after which the new step time is the usual one."""


TUNING = SlowdownTuning()
_SHARE = "job_comm_share_ratio"
_PAUSES = Stage.COMPILING, Stage.WARMING_UP, Stage.CHECKPOINTING, Stage.EVALUATING


class Slowdown:
    """The median time of a job's newest steps, against the median of its past."""

    inputs = Runs.inputs | {_SHARE}

    def __init__(self, settings: Settings, period: float) -> None:
        self._limit = settings.slowdown
        self._counted = max(TUNING.counted, TUNING.counted_ticks * period)
        self.reset()

    def reset(self) -> None:
        self._axis = Axis()
        self._jobs: dict[str, _Steps] = {}

    def signal(self, tick: Tick) -> Signal:
        runs = {job: run for job, run in tick.runs.by_job.items() if job is not None}
        if tuple(runs) != self._axis.keys:
            self._axis = Axis(tuple(runs))
            self._jobs = {job: self._jobs.get(job) or _Steps() for job in runs}
        values = np.full(len(runs), np.nan)
        for place, (job, run) in enumerate(runs.items()):
            steps = self._jobs[job]
            if run.stage in _PAUSES or run.step != run.step:
                steps.counted = None
                continue
            if run.step != steps.newest:
                steps.append(run, tick, self._counted)
                steps.value = steps.excess(tick.time, self._limit)
            values[place] = steps.value
        return Signal(self._axis, values, 1.0, 0.5)

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        steps, job = self._jobs[str(key)], str(key)
        before, now = steps.before, steps.now
        evidence = [
            Evidence(
                f"a step takes {units.seconds(now[0])}, before {units.seconds(before[0])}",
                None, "job_step_seconds", now[0], before[0],
            )
        ]  # fmt: skip
        if now[1] == now[1] and before[1] == before[1]:
            text = f"communication {units.percent(now[1])} of the step, before "
            text += units.percent(before[1])
            evidence.append(Evidence(text, None, _SHARE, now[1], before[1]))
        return Verdict(
            fields={
                "job": job,
                "slower": units.percent(now[0] / before[0] - 1.0),
                "now": units.seconds(now[0]),
                "before": units.seconds(before[0]),
            },
            job=job,
            evidence=tuple(evidence),
            since=steps.since,
        )


@dataclass(slots=True)
class _Steps:
    """The newest steps of a job: time, seconds and comm share of each."""

    rows: deque[tuple[float, float, float]] = field(default_factory=deque)
    newest: float = float("nan")
    counted: tuple[float, float] | None = None
    """Time and step from which steps are counted; None in a pause."""
    value: float = float("nan")
    before: tuple[float, float] = (float("nan"), float("nan"))
    """Median seconds and comm share of its past."""
    now: tuple[float, float] = (float("nan"), float("nan"))
    since: float | None = None
    """When the slow steps began; None while there are none."""

    def append(self, run: Run, tick: Tick, counted: float) -> None:
        """Takes the newest step of a job; `counted` seconds of steps without a reported time."""
        if run.step < self.newest:  # it has started again
            self.rows.clear()
            self.since = self.counted = None
        self.newest = run.step
        if (seconds := median(tick.column("job_step_seconds")[run.reports])) is None:
            begin, first = self.counted = self.counted or (tick.time, run.step)
            if tick.time - begin < counted:
                return
            seconds = (tick.time - begin) / (run.step - first)
            self.counted = tick.time, run.step
        share = median(tick.column(_SHARE)[run.reports])
        self.rows.append((tick.time, seconds, np.nan if share is None else share))
        while self.rows[0][0] < min(tick.time, self.since or tick.time) - TUNING.past:
            self.rows.popleft()

    def excess(self, now: float, limit: float) -> float:
        """The slowdown as a multiple of the limit; NaN before there is a past."""
        if len(self.rows) < TUNING.recent_steps:
            return float("nan")
        begin = min(now - TUNING.recent, self.rows[-TUNING.recent_steps][0])
        past_end = begin if self.since is None else min(self.since, begin)
        recent = np.array([row for row in self.rows if row[0] >= begin])
        past = np.array([row for row in self.rows if row[0] < past_end])
        if len(past) < TUNING.past_steps or past_end - past[0, 0] < TUNING.past_seconds:
            return float("nan")
        usual = float(np.median(past[:, 1]))
        spread = deviation(past[:, 1])
        bar = max(limit * usual, TUNING.noise * spread / len(recent) ** 0.5)
        low, middle = np.quantile(recent[:, 1], (TUNING.most, 0.5)) - usual
        slow = float(min(2.0 * low, middle))
        if slow > bar and self.since is None:
            self.since = float(recent[recent[:, 1] > usual + bar][0, 0])
        if self.since is not None and (slow < 0.5 * bar or now - self.since > TUNING.accepted):
            self.since = None
            self.rows = deque(row for row in self.rows if row[0] >= begin)
            return 0.0
        self.before, self.now = _medians(past), _medians(recent)
        return float(slow / bar)


def _medians(rows: Column) -> tuple[float, float]:
    shares = rows[:, 2][~np.isnan(rows[:, 2])]
    return float(np.median(rows[:, 1])), float(np.median(shares)) if len(shares) else np.nan
