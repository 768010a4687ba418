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
from trntop.pipeline.phase import Run
from trntop.pipeline.runs import Runs
from trntop.pipeline.statistics import deviation, median
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class SlowdownTuning:
    """Which steps are the baseline of a job, and how far above it the newest ones must be.

    Set on the tuning seeds of `benchmarks.hardening`.
    """

    recent: float = 25.0
    """Seconds of the newest steps, which are compared with the baseline."""
    recent_steps: int = 4
    counting_seconds: float = 8.0
    counting_ticks: float = 6.0
    """Minimum seconds and ticks over which steps are counted if their times are not reported, as in
    a log: a step is seen up to a tick late.
    """
    baseline: float = 600.0
    """Seconds of the baseline, which ends where the newest steps begin."""
    min_baseline_steps: int = 8
    min_baseline_seconds: float = 60.0
    noise: float = 6.0
    """Minimum distance of the newest steps from the baseline, in standard deviations of a step."""
    one_deviation: float = 0.84
    """Share of normal values below their mean and one standard deviation."""
    max_fast_share: float = 0.25
    """Share of the newest steps that may be as fast as before."""
    accept_after: float = 1800.0
    """Seconds after which the new step time becomes the baseline."""


TUNING = SlowdownTuning()
_SHARE = "job_comm_share_ratio"
_PAUSES = Stage.COMPILING, Stage.WARMING_UP, Stage.CHECKPOINTING, Stage.EVALUATING


class Slowdown:
    """The median time of a job's newest steps, compared with the median of its baseline."""

    inputs = Runs.inputs | {_SHARE}

    def __init__(self, settings: Settings, period: float) -> None:
        self._limit = settings.slowdown
        self._min_counting = max(TUNING.counting_seconds, TUNING.counting_ticks * period)
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
        for index, (job, run) in enumerate(runs.items()):
            steps = self._jobs[job]
            if run.stage in _PAUSES or run.step != run.step:
                steps.counted_from = None
                continue
            if run.step != steps.newest:
                steps.append(run, tick, self._min_counting)
                steps.value = steps.excess(tick.time, self._limit)
            values[index] = steps.value
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
    counted_from: tuple[float, float] | None = None
    """Time and step from which steps are counted; None in a pause."""
    value: float = float("nan")
    before: tuple[float, float] = (float("nan"), float("nan"))
    """Median seconds and comm share of the baseline."""
    now: tuple[float, float] = (float("nan"), float("nan"))
    """The same of the newest steps."""
    since: float | None = None
    """When the slow steps began; None while there are none."""

    def append(self, run: Run, tick: Tick, min_counting: float) -> None:
        """Adds the newest step; without reported times, the mean of `min_counting` seconds."""
        if run.step < self.newest:  # the job has restarted
            self.rows.clear()
            self.since = self.counted_from = None
        self.newest = run.step
        seconds = median(tick.column("job_step_seconds")[run.reports])
        if seconds != seconds:
            begin, first = self.counted_from = self.counted_from or (tick.time, run.step)
            if tick.time - begin < min_counting:
                return
            seconds = (tick.time - begin) / (run.step - first)
            self.counted_from = tick.time, run.step
        self.rows.append((tick.time, seconds, median(tick.column(_SHARE)[run.reports])))
        while self.rows[0][0] < min(tick.time, self.since or tick.time) - TUNING.baseline:
            self.rows.popleft()

    def excess(self, now: float, limit: float) -> float:
        """The slowdown as a multiple of the limit; NaN without a baseline."""
        if len(self.rows) < TUNING.recent_steps:
            return float("nan")
        begin = min(now - TUNING.recent, self.rows[-TUNING.recent_steps][0])
        baseline_end = begin if self.since is None else min(self.since, begin)
        recent = np.array([row for row in self.rows if row[0] >= begin])
        baseline = np.array([row for row in self.rows if row[0] < baseline_end])
        if len(baseline) < TUNING.min_baseline_steps:
            return float("nan")
        if baseline_end - baseline[0, 0] < TUNING.min_baseline_seconds:
            return float("nan")
        usual = median(baseline[:, 1])
        # Hidden pauses make few steps longer, and none shorter.
        longer = float(np.quantile(baseline[:, 1], TUNING.one_deviation)) - usual
        spread = max(deviation(baseline[:, 1]), longer)
        threshold = max(limit * usual, TUNING.noise * spread / len(recent) ** 0.5)
        low, middle = np.quantile(recent[:, 1], (TUNING.max_fast_share, 0.5)) - usual
        slow = float(min(2.0 * low, middle))
        if slow > threshold and self.since is None:
            self.since = float(recent[recent[:, 1] > usual + threshold][0, 0])
        if self.since is not None and (
            slow < 0.5 * threshold or now - self.since > TUNING.accept_after
        ):
            self.since = None
            self.rows = deque(row for row in self.rows if row[0] >= begin)
            return 0.0
        self.before, self.now = _medians(baseline), _medians(recent)
        return float(slow / threshold)


def _medians(rows: Column) -> tuple[float, float]:
    return median(rows[:, 1]), median(rows[:, 2])
