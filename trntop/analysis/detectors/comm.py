"""Jobs that spend too much of their step time in communication."""

import statistics
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from trntop.analysis.detector import Signal, Verdict
from trntop.analysis.sentence import NO_CULPRIT
from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import Column, Evidence, Severity
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.axis import Axis, PartAxis, Places
from trntop.pipeline.statistics import group_mean
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class CommTuning:
    """What comm_bound needs besides the limits and the window of the settings."""

    least_limit: float = 1e-9
    """A limit of 0 flags any communication at all."""
    cause: float = 5.0
    """Seconds longer for which the mean must exceed the limit where not all nodes do."""
    waits_least: float = 0.6
    """Share of the mean below which the least share shows that the others wait for its node."""
    waiting: float = 90.0
    """Seconds longer in that case: the slow node itself is named first."""
    far: float = 1.5
    """Times the limit from which the newest steps of all nodes are enough."""
    far_seconds: float = 6.0
    """Seconds that those steps take, at least."""
    least_steps: int = 3
    """Steps in a mean at least: a single one may be an outlier."""
    most_steps: int = 600
    near: float = 0.02
    """Distance from its limit within which a share has a decimal."""


TUNING = CommTuning()
_SHARES = ("job_comm_share_ratio", "job_exposed_comm_share_ratio")


class CommBound:
    """The share of step time in which collectives ran, per job.

    Its mean over the nodes and over the steps of `analysis.window`, three at least, must exceed
    the limit for `analysis.hold` seconds, and so must the lower median and the newest two of these
    steps. Where every node is 1.5 times above the limit, two steps and 6 s are enough.
    """

    inputs = frozenset(_SHARES)

    def __init__(self, settings: Settings, period: float) -> None:
        self._settings = settings
        self._axis: PartAxis | None = None
        self._jobs = Axis()
        self._job: Places = np.empty(0, np.int64)
        """Place of the job of each part of a job on a node."""
        self._steps: dict[str, _Steps] = {}

    def signal(self, tick: Tick) -> Signal:
        """The larger of both shares as multiples of their limits, so that 1 is the limit."""
        axis = tick.parts(Entity.JOB)
        if axis is not self._axis:
            self._follow(axis)
        shares: list[tuple[Column, Column]] = []
        awake = np.bincount(self._job, ~tick.quiet[axis.owner], len(self._jobs))
        excess = np.full(len(self._jobs), np.nan)
        for place, job in enumerate(map(str, self._jobs.keys)):
            run = tick.runs.by_job.get(job)
            if not awake[place] or run is None or not run.usual:
                continue
            steps = self._steps.setdefault(job, _Steps())
            shares = shares or [self._of_jobs(column) for column in tick.columns(_SHARES)]
            means = [float(mean[place]) for mean, _ in shares]
            least = [float(least[place]) for _, least in shares]
            steps.update(tick.time, run.step, means, least)
            steps.drop(tick.time - max(self._settings.window, TUNING.least_steps * run.usual))
            excess[place] = steps.excess(tick.time, self._settings)
        return Signal(self._jobs, excess, 1.0, self._settings.clear_ratio, TUNING.far)

    def _of_jobs(self, values: Column) -> tuple[Column, Column]:
        """Mean and least over the nodes of each job, `[job]`; a single node is no least."""
        size = len(self._jobs)
        least = np.full(size, np.inf)
        np.fmin.at(least, self._job, values)
        several = np.bincount(self._job[~np.isnan(values)], minlength=size) > 1
        return group_mean(values, self._job, size), np.where(several, least, np.nan)

    def _follow(self, axis: PartAxis) -> None:
        names = [str(job) for jobs in axis.parts for job in jobs]
        jobs = Axis(sorted(set(names)))
        if jobs.keys != self._jobs.keys:
            self._jobs = jobs
            self._steps = {job: one for job, one in self._steps.items() if job in jobs.place}
        self._job = np.array([self._jobs.place[name] for name in names], np.int64)
        self._axis = axis

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        settings, job = self._settings, str(key)
        place = self._jobs.place[job]
        steps = self._steps[job]
        share, exposed = steps.means()
        nodes = int((self._job == place).sum())
        critical = exposed > settings.exposed_comm_share
        limits = settings.comm_share, settings.exposed_comm_share
        texts = (
            f"comm share {_percent(share, limits[0])} of step time, "
            f"mean of {settings.window:g} s over {nodes} node{'s' * (nodes != 1)}",
            f"exposed comm share {_percent(exposed, limits[1])}",
        )
        evidence = [
            Evidence(f"{text}; limit {100 * limit:.1f} %", None, quantity, value, limit)
            for text, quantity, value, limit in zip(
                texts, _SHARES, (share, exposed), limits, strict=True
            )
            if value == value
        ]
        return Verdict(
            fields={
                "job": job,
                "share": f"{_percent(share, limits[0])} of step time",
                "before": "" if steps.before is None else f", before {units.percent(steps.before)}",
                "exposed": f", exposed {_percent(exposed, limits[1])}" if critical else "",
                "culprit": self._culprit(place, tick),
            },
            severity=Severity.CRITICAL if critical else Severity.WARNING,
            job=job,
            evidence=tuple(evidence),
            since=steps.since,
        )

    def _culprit(self, job: int, tick: Tick) -> str:
        """The node for which the others wait: it waits least."""
        shares = np.where(self._job == job, tick.column(_SHARES[0]), np.nan)
        if np.isnan(shares).all() or not np.nanmin(shares) < TUNING.waits_least * np.nanmean(
            shares
        ):
            return NO_CULPRIT
        node = tick.nodes.keys[tick.parts(Entity.JOB).owner[np.nanargmin(shares)]]
        return f"; {node} waits least"

    def reset(self) -> None:
        self._steps.clear()


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a job: its comm share and its exposed comm share."""

    time: float
    means: list[float]
    least: list[float]
    """Of the node that has least."""


class _Steps:
    """The shares of a job's newest steps."""

    def __init__(self) -> None:
        self._rows: deque[Step] = deque(maxlen=TUNING.most_steps)
        self._number = float("nan")
        self.since: float | None = None
        """When the steps above a limit began."""
        self.before: float | None = None
        """Mean comm share of the steps before those."""
        self._above: float | None = None
        """Since when the means exceed a limit."""

    def update(self, time: float, number: float, means: list[float], least: list[float]) -> None:
        """Adds a step, or what the last nodes report of the newest one; any tick may bring one
        where steps have no numbers.
        """
        if number == self._number:
            time = self._rows.pop().time
        self._number = number
        self._rows.append(Step(time, means, least))

    def drop(self, before: float) -> None:
        """Drops what is older, but for the least number of steps."""
        while len(self._rows) > TUNING.least_steps and self._rows[0].time <= before:
            self._rows.popleft()

    def means(self) -> tuple[float, float]:
        """Mean comm share and exposed share since the onset; NaN where none is known."""
        rows = [row for row in self._rows if self.since is None or row.time >= self.since]
        return _mean([row.means[0] for row in rows]), _mean([row.means[1] for row in rows])

    def excess(self, now: float, settings: Settings) -> float:
        """The larger share as a multiple of its limit, above 1 once it has lasted; NaN before
        there are steps enough.

        A few slow steps raise the mean of many, so their median and the newest two must be above
        the limit as well.
        """
        excess, far, everywhere = float("nan"), False, False
        for place, limit in enumerate((settings.comm_share, settings.exposed_comm_share)):
            limit = max(limit, TUNING.least_limit)
            values = [row.means[place] for row in self._rows]
            known = [value for value in values if value == value]
            if known and len(values) >= TUNING.least_steps:
                least = min(_mean(known), statistics.median_low(known), *known[-2:]) / limit
                excess = least if excess != excess else max(excess, least)
            everywhere |= min(row.least[place] for row in list(self._rows)[-2:]) > limit
            far |= self._is_far(place, TUNING.far * limit)
        if not far and not excess > 1.0:
            self._above = self.since = self.before = None
            return excess
        if self._above is None:
            self._above = now
            self._find_onset(settings)
        if far:
            return float(np.fmax(excess, TUNING.far))
        newest = self._rows[-1]
        waited_for = newest.least[0] < TUNING.waits_least * newest.means[0]
        longer = TUNING.waiting if waited_for else 0.0 if everywhere else TUNING.cause
        lasts = now - self._above >= longer
        return min(excess, 0.99 * TUNING.far) if lasts else 1.0

    def _is_far(self, place: int, limit: float) -> bool:
        """Whether the newest steps of all nodes, two and some seconds, are far above a limit."""
        for row in reversed(self._rows):
            if not row.least[place] > limit:
                return False
            if self._rows[-1].time - row.time >= TUNING.far_seconds:
                return True
        return False

    def _find_onset(self, settings: Settings) -> None:
        limits = settings.comm_share, settings.exposed_comm_share
        rows = list(self._rows)
        while rows and any(
            value > limit for value, limit in zip(rows[-1].means, limits, strict=True)
        ):
            self.since = rows.pop().time
        before = _mean([row.means[0] for row in rows])
        self.before = before if before == before else None


def _percent(share: float, limit: float) -> str:
    """Near its limit with a decimal."""
    return f"{100 * share:.{int(abs(share - limit) < TUNING.near)}f} %"


def _mean(values: list[float]) -> float:
    known = [value for value in values if value == value]
    return sum(known) / len(known) if known else float("nan")
