"""Jobs that spend too much of their step time in communication."""

import statistics
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from trntop.analysis.detector import Signal, Verdict
from trntop.analysis.sentence import NO_CULPRIT
from trntop.catalog import COLLECTIVES, Entity
from trntop.core import units
from trntop.core.model import Column, Evidence, Severity
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.axis import Axis, Indices, PartAxis
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
_COMM, _EXPOSED = "job_comm_share_ratio", "job_exposed_comm_share_ratio"
_REDUCTION = "job_reduction_share_ratio"
_FLOOR = "node_comm_share_floor_ratio"
_RATIOS = {
    "comm_share": (_COMM, "communication", "comm share", "of step time"),
    "exposed_share": (_EXPOSED, "exposed communication", "exposed comm share", "of step time"),
    "comm_compute": (
        "job_comm_compute_ratio", "communication", "comm time", "of compute time",
    ),
}  # fmt: skip
"""By the setting `comm_ratio`: the quantity, and its names in sentences."""
_KINDS = {f"job_{kind}_share_ratio": title for kind, title in COLLECTIVES.items()}


_JUDGED = 3


class CommBound:
    """The share of step time in which collectives ran, per job: the chosen ratio, the exposed share
    and the all-reduce share, each with a limit.

    Its mean over the nodes and over the steps of `analysis.window`, three at least, must exceed
    the limit for `analysis.hold` seconds, and so must the lower median and the newest two of these
    steps. Where every node is 1.5 times above the limit, two steps and 6 s are enough.

    Of nodes whose job reports no shares, the estimated floor of the comm share is judged: its mean
    over the nodes, each a mean of 60 s.
    """

    inputs = frozenset((*(ratio[0] for ratio in _RATIOS.values()), _REDUCTION, *_KINDS, _FLOOR))

    def __init__(self, settings: Settings, period: float) -> None:
        self._settings = settings
        self._judged = (_RATIOS[settings.comm_ratio][0], _EXPOSED, _REDUCTION)
        self._limits = (
            settings.comm_share, settings.exposed_comm_share, settings.comm_share_all_reduce,
        )  # fmt: skip
        self._axis: PartAxis | None = None
        self._jobs = Axis()
        self._job: Indices = np.empty(0, np.int64)
        """Place of the job of each part of a job on a node."""
        self._steps: dict[str, _Steps] = {}
        self._job_steps: Column = np.empty(0)
        """The newest step of each part when the shares were last read."""
        self._shares: list[tuple[Column, Column]] = []
        """Mean and least of each judged quantity, `[job]`."""
        self._subjects = Axis()
        """The jobs, and None for the nodes without one."""
        self._floors: dict[Hashable, float] = {}
        """The floor of each job that reports no shares, where it is judged."""

    def signal(self, tick: Tick) -> Signal:
        """The largest of the shares as multiples of their limits, so that 1 is the limit."""
        axis = tick.parts(Entity.JOB)
        if axis is not self._axis:
            self._follow(axis)
        job_steps = tick.column("job_step")
        # Shares come with their steps; where steps have no numbers, every tick may bring one.
        if not np.array_equal(job_steps, self._job_steps):
            self._shares = [self._of_jobs(column) for column in tick.columns(self._judged)]
            self._job_steps = job_steps
        awake = np.bincount(self._job, ~tick.quiet[axis.owner], len(self._jobs))
        excess = np.full(len(self._jobs), np.nan)
        for index, job in enumerate(map(str, self._jobs.keys)):
            run = tick.runs.by_job.get(job)
            if not awake[index] or run is None or not run.usual:
                continue
            steps = self._steps.setdefault(job, _Steps())
            means = [float(mean[index]) for mean, _ in self._shares]
            least = [float(least[index]) for _, least in self._shares]
            steps.update(tick.time, run.step, means, least)
            steps.drop(tick.time - max(self._settings.window, TUNING.least_steps * run.usual))
            excess[index] = steps.excess(tick.time, self._limits)
        return self._with_floors(tick, excess)

    def _with_floors(self, tick: Tick, excess: Column) -> Signal:
        """Adds the floors of jobs without shares; a floor says nothing of exposed communication."""
        jobs, runs = self._jobs, tick.runs.by_job
        keys = (*jobs.keys, *(job for job in runs if job not in jobs.index_of))
        if keys != self._subjects.keys:
            self._subjects = Axis(keys)
        values = np.append(excess, np.full(len(keys) - len(excess), np.nan))
        without = {
            job: run for job, run in runs.items() if len(run.indices) and not self._has_shares(job)
        }
        self._floors = {job: floor for job, floor in self._floors.items() if job in without}
        if without and self._judged[0] != _EXPOSED:
            takes_part = tick.runs.nodes.cooperates & ~tick.quiet
            floors = np.where(takes_part, tick.column(_FLOOR), np.nan)
            limit = max(self._settings.comm_share, TUNING.least_limit)
            for job, run in without.items():
                known = floors[run.indices][~np.isnan(floors[run.indices])]
                if len(known):
                    floor = self._floors[job] = float(known.mean())
                    values[self._subjects.index_of[job]] = floor / limit
        return Signal(self._subjects, values, 1.0, self._settings.clear_ratio, TUNING.far)

    def _has_shares(self, job: str | None) -> bool:
        steps = self._steps.get(job or "")
        return steps is not None and steps.known

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
            self._steps = {job: step for job, step in self._steps.items() if job in jobs.index_of}
        self._job = np.array([self._jobs.index_of[name] for name in names], np.int64)
        self._axis, self._job_steps = axis, np.full(1, np.nan)

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        if key in self._floors:
            return self._floor_verdict(key, tick)
        settings, job = self._settings, str(key)
        index = self._jobs.index_of[job]
        steps = self._steps[job]
        means = steps.means()
        nodes = int((self._job == index).sum())
        _, what, name, whole = _RATIOS[settings.comm_ratio]
        critical = means[1] > self._limits[1]
        worst = 0
        if means[2] > self._limits[2] and not (critical or means[0] > self._limits[0]):
            worst, what, whole = 2, "all-reduce", "of step time"
        texts = (
            f"{name} {_percent(means[0], self._limits[0])} {whole}, "
            f"mean of {settings.window:g} s over {nodes} node{'s' * (nodes != 1)}",
            f"exposed comm share {_percent(means[1], self._limits[1])}",
            f"all-reduce share {_percent(means[2], self._limits[2])}",
        )
        known = dict(zip(self._judged, zip(texts, means, self._limits, strict=True), strict=True))
        evidence = [
            Evidence(f"{text}; limit {100 * limit:.1f} %", None, quantity, value, limit)
            for quantity, (text, value, limit) in known.items()
            if value == value and limit < 1.0
        ]
        exposed = f", {_percent(means[1], self._limits[1])} exposed"
        before, share = steps.before[worst], means[worst]
        kinds = self._kinds(index, tick)
        evidence += [
            Evidence(f"{title} {units.percent(value)} of step time", None, quantity, value)
            for quantity, title, value in kinds
        ]
        limit = self._limits[worst]
        shown = f"takes {_percent(share, limit)}"
        if before < share:
            shown = f"rose from {units.percent(before).removesuffix(' %')} to {shown[6:]}"
        note = f" (limit {100 * limit:.1f} %)" if _is_near(share, limit) else ""
        kind = f", {units.percent(kinds[0][2])} {kinds[0][1]}" if kinds and not worst else ""
        return Verdict(
            fields={
                "job": job,
                "what": what,
                "share": f"{shown} {whole}{note}",
                "kind": kind,
                "exposed": exposed if critical and what == "communication" else "",
                "culprit": self._culprit(index, tick),
            },
            severity=Severity.CRITICAL if critical else Severity.WARNING,
            job=job,
            evidence=tuple(evidence),
            since=steps.since,
        )

    def _floor_verdict(self, key: Hashable, tick: Tick) -> Verdict:
        run = tick.runs.by_job[cast(str | None, key)]
        floor, limit = self._floors[key], self._settings.comm_share
        size = len(run.indices)
        nodes = f"{size} node{'s' * (size != 1)}"
        note = f" (limit {100 * limit:.1f} %)" if _is_near(floor, limit) else ""
        text = (
            f"EFA bytes ÷ line rate of the busiest device: {_percent(floor, limit)}, "
            f"mean of 60 s over {nodes}; limit {100 * limit:.1f} %"
        )
        return Verdict(
            fields={
                "job": run.job or nodes,
                "what": "communication",
                "share": f"takes at least {_percent(floor, limit)} of the time{note}",
                "kind": "",
                "exposed": "",
                "culprit": "",
            },
            job=run.job,
            evidence=(Evidence(text, None, _FLOOR, floor, limit),),
        )

    def _kinds(self, job: int, tick: Tick) -> list[tuple[str, str, float]]:
        """Quantity, name and share of each kind of collective now, the largest first."""
        found = []
        for column, (quantity, title) in zip(
            tick.columns(tuple(_KINDS)), _KINDS.items(), strict=True
        ):
            values = column[(self._job == job) & (column > 0)]
            if len(values):
                found.append((quantity, title, float(values.mean())))
        return sorted(found, key=lambda kind: -kind[2])

    def _culprit(self, job: int, tick: Tick) -> str:
        """The node for which the others wait: it waits least."""
        shares = np.where(self._job == job, tick.column(_COMM), np.nan)
        if np.isnan(shares).all() or not np.nanmin(shares) < TUNING.waits_least * np.nanmean(
            shares
        ):
            return NO_CULPRIT
        node = tick.nodes.keys[tick.parts(Entity.JOB).owner[np.nanargmin(shares)]]
        return f"; {node} waits least"

    def reset(self) -> None:
        self._steps.clear()
        self._floors.clear()


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a job."""

    time: float
    means: list[float]
    """Of the nodes: the chosen ratio, the exposed share and the all-reduce share."""
    least: list[float]
    """Of the node that has least."""


class _Steps:
    """The shares of a job's newest steps."""

    def __init__(self) -> None:
        self._rows: deque[Step] = deque(maxlen=TUNING.most_steps)
        self._number = float("nan")
        self.since: float | None = None
        """When the steps above a limit began."""
        self.before = _means([])
        """Mean shares of the steps before those."""
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

    @property
    def known(self) -> bool:
        """Whether any share is reported."""
        return any(mean == mean for row in reversed(self._rows) for mean in row.means)

    def drop(self, before: float) -> None:
        """Drops what is older, but for the least number of steps."""
        while len(self._rows) > TUNING.least_steps and self._rows[0].time <= before:
            self._rows.popleft()

    def means(self) -> list[float]:
        """Mean shares since the onset; NaN where none is known."""
        return _means([row for row in self._rows if self.since is None or row.time >= self.since])

    def excess(self, now: float, limits: Sequence[float]) -> float:
        """The largest share as a multiple of its limit, above 1 once it has lasted; NaN before
        there are steps enough.

        A few slow steps raise the mean of many, so their median and the newest two must be above
        the limit as well.
        """
        excess, far, everywhere = float("nan"), False, False
        for index, limit in enumerate(limits):
            limit = max(limit, TUNING.least_limit)
            values = [row.means[index] for row in self._rows]
            known = [value for value in values if value == value]
            if known and len(values) >= TUNING.least_steps:
                least = min(_mean(known), statistics.median_low(known), *known[-2:]) / limit
                excess = least if excess != excess else max(excess, least)
            everywhere |= min(row.least[index] for row in list(self._rows)[-2:]) > limit
            far |= self._is_far(index, TUNING.far * limit)
        if not far and not excess > 1.0:
            self._above = self.since = None
            return excess
        if self._above is None:
            self._above = now
            self._find_onset(limits)
        if far:
            return float(np.fmax(excess, TUNING.far))
        newest = self._rows[-1]
        waited_for = newest.least[0] < TUNING.waits_least * newest.means[0]
        longer = TUNING.waiting if waited_for else 0.0 if everywhere else TUNING.cause
        lasts = now - self._above >= longer
        return min(excess, 0.99 * TUNING.far) if lasts else 1.0

    def _is_far(self, index: int, limit: float) -> bool:
        """Whether the newest steps of all nodes, two and some seconds, are far above a limit."""
        for row in reversed(self._rows):
            if not row.least[index] > limit:
                return False
            if self._rows[-1].time - row.time >= TUNING.far_seconds:
                return True
        return False

    def _find_onset(self, limits: Sequence[float]) -> None:
        rows = list(self._rows)
        while rows and any(
            value > limit for value, limit in zip(rows[-1].means, limits, strict=True)
        ):
            self.since = rows.pop().time
        if rows:
            self.before = _means(rows)


def _percent(share: float, limit: float) -> str:
    """Near its limit with a decimal."""
    return f"{100 * share:.{int(_is_near(share, limit))}f} %"


def _is_near(share: float, limit: float) -> bool:
    return abs(share - limit) < TUNING.near


def _means(rows: Sequence[Step]) -> list[float]:
    return [_mean([row.means[index] for row in rows]) for index in range(_JUDGED)]


def _mean(values: list[float]) -> float:
    known = [value for value in values if value == value]
    return sum(known) / len(known) if known else float("nan")
