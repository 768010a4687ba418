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
    hold: float = 10.0
    """Seconds above the limit: detectors of a cause need less."""
    least_steps: int = 3
    """Steps in a mean at least: a single one may be an outlier."""
    most_steps: int = 600


TUNING = CommTuning()
_SHARES = ("job_comm_share_ratio", "job_exposed_comm_share_ratio")


class CommBound:
    """The share of step time in which collectives ran, per job: mean over its nodes and over the
    steps of a window, but of three at least.
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
        shares: list[Column] = []
        awake = np.bincount(self._job, ~tick.quiet[axis.owner], len(self._jobs))
        excess = np.full(len(self._jobs), np.nan)
        for place, job in enumerate(map(str, self._jobs.keys)):
            run = tick.runs.by_job.get(job)
            if not awake[place] or run is None or not run.usual:
                continue
            steps = self._steps.setdefault(job, _Steps())
            if steps.newest != run.step or run.step != run.step:
                share, exposed = shares = shares or [
                    group_mean(column, self._job, len(self._jobs))
                    for column in tick.columns(_SHARES)
                ]
                steps.append(tick.time, float(share[place]), float(exposed[place]), run.step)
                steps.drop(tick.time - max(self._settings.window, TUNING.least_steps * run.usual))
            excess[place] = steps.excess(self._settings)
        return Signal(self._jobs, excess, 1.0, self._settings.clear_ratio)

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
        share, exposed = self._steps[job].means()
        nodes = int((self._job == place).sum())
        critical = exposed > settings.exposed_comm_share
        limits = settings.comm_share, settings.exposed_comm_share
        texts = (
            f"comm share {units.percent(share)} of step time, "
            f"mean of {settings.window:g} s over {nodes} node{'s' * (nodes != 1)}",
            f"exposed comm share {units.percent(exposed)}",
        )
        evidence = [
            Evidence(f"{text}; limit {units.percent(limit)}", None, quantity, value, limit)
            for text, quantity, value, limit in zip(
                texts, _SHARES, (share, exposed), limits, strict=True
            )
            if value == value
        ]
        return Verdict(
            fields={
                "job": job,
                "share": f"{100 * share:.0f} %",
                "exposed": f", exposed {100 * exposed:.0f} %" if critical else "",
                "culprit": NO_CULPRIT,
            },
            severity=Severity.CRITICAL if critical else Severity.WARNING,
            job=job,
            evidence=tuple(evidence),
        )

    def reset(self) -> None:
        self._steps.clear()


class _Steps:
    """The shares of a job's newest steps."""

    def __init__(self) -> None:
        self._rows: deque[tuple[float, float, float]] = deque(maxlen=TUNING.most_steps)
        """Time, comm share, exposed share."""
        self.newest = float("nan")

    def append(self, time: float, share: float, exposed: float, step: float) -> None:
        self.newest = step
        self._rows.append((time, share, exposed))

    def drop(self, before: float) -> None:
        """Drops what is older, but for the least number of steps."""
        while len(self._rows) > TUNING.least_steps and self._rows[0][0] <= before:
            self._rows.popleft()

    def means(self) -> tuple[float, float]:
        """Mean comm share and exposed share; NaN where none is known."""
        return _mean([row[1] for row in self._rows]), _mean([row[2] for row in self._rows])

    def excess(self, settings: Settings) -> float:
        """The larger share as a multiple of its limit; NaN before there are steps enough.

        A few slow steps raise the mean of many, so their median and the newest two must be above
        the limit as well.
        """
        if len(self._rows) < TUNING.least_steps:
            return float("nan")
        excess = float("nan")
        for place, limit in ((1, settings.comm_share), (2, settings.exposed_comm_share)):
            values = [row[place] for row in self._rows if row[place] == row[place]]
            if values:
                least = min(_mean(values), statistics.median_low(values), *values[-2:])
                least /= max(limit, TUNING.least_limit)
                excess = least if excess != excess else max(excess, least)
        return excess


def _mean(values: list[float]) -> float:
    known = [value for value in values if value == value]
    return sum(known) / len(known) if known else float("nan")
