"""Runs the rulebook over clusters and keeps the incidents."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trntop.analysis.coverage import CoverageTracker
from trntop.analysis.debouncer import Debouncer, value_of
from trntop.analysis.detector import Detector, Signal, Verdict
from trntop.analysis.incident_groups import Detection, IncidentGroup, IncidentGroups
from trntop.analysis.outliers import Outliers
from trntop.analysis.rule import Rule
from trntop.analysis.rulebook import rules
from trntop.core.custom_rule import CustomRule
from trntop.core.model import Cluster, Coverage, Incident, Phase
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.runs import Runs
from trntop.pipeline.tick import Axes, Tick

NEARLY = 0.9
"""Share of its worst value at which a condition is described again."""
HELD = 1.0 + 1e-6
"""Times the limit up to which a value only keeps its incident open."""


SLACK = 0.25
"""Seconds by which a rule may run early: ticks jitter."""
RECOVERY = 120.0
"""Seconds within which rules find again what an earlier run has found, if it still holds."""


@dataclass(slots=True)
class _Running:
    """A rule at work."""

    rule: Rule
    detector: Detector
    hold: Debouncer
    open: dict[Hashable, Detection] = field(default_factory=dict)
    due: float = -math.inf
    """When it runs next."""
    signal: Signal | None = None
    """The newest signal, by which open conditions were described."""


class JobPhases:
    """What jobs are doing, without rules: for nodes that are judged elsewhere."""

    def __init__(self) -> None:
        self._axes = Axes()
        self._runs = Runs()

    def tick(self, cluster: Cluster) -> Mapping[str, Phase]:
        """Takes one tick; job → its phase."""
        self._runs.update(self._axes.tick(cluster))
        return self._runs.phases(cluster.time)

    @property
    def first_steps(self) -> Mapping[str, float]:
        """Job → seconds of its first step, where that was seen."""
        return self._runs.first_steps()

    @property
    def job_of(self) -> Mapping[str, str]:
        """Node → its job, as of the newest tick."""
        return self._runs.job_of


class Analyzer:
    """Incidents over time. Where time goes back, all rules start over.

    Args:
        settings: thresholds and windows.
        period: seconds between ticks.
        custom: rules of the settings.
    """

    def __init__(
        self, settings: Settings, period: float = 1.0, custom: Sequence[CustomRule] = ()
    ) -> None:
        self._running = [
            _Running(
                rule,
                rule.detector(settings, period),
                Debouncer(settings.hold if rule.hold is None else rule.hold, rule.clear_hold),
            )
            for rule in rules(settings, custom)
        ]
        self._coverage = CoverageTracker(
            ((running.rule, running.detector) for running in self._running), settings
        )
        self._axes = Axes()
        self._runs = Runs()
        self._groups = IncidentGroups(settings.reopen, settings.together)
        self._outliers = Outliers()
        self._reopen = settings.reopen
        self._time: float | None = None
        self._recovered: tuple[float, Sequence[Incident]] | None = None

    def recover(self, incidents: Sequence[Incident], time: float) -> None:
        """Continues an earlier run: its open incidents are open until rules find that they are
        over, and its newest closed ones may return.

        Args:
            incidents: of the earlier run.
            time: its end. Ticks before that are of its past.
        """
        self._recovered = time, incidents

    def tick(self, cluster: Cluster) -> tuple[Incident, ...]:
        """Takes one tick; all incidents, open ones first, worst first."""
        now = cluster.time
        if self._time is not None and now < self._time:
            self._restart(self._time)
        self._time = now
        tick = self._axes.tick(cluster)
        self._runs.update(tick)
        ended = {run.job for run in self._runs.by_job.values() if run.ended} - {None}
        if ended:
            self._end(ended, now)
        fresh: list[Detection] = []
        for number, running in enumerate(self._running):
            if now >= running.due - SLACK:
                fresh += self._step(running, tick)
                self._pace(running, number, now)
        if fresh:
            self._groups.open(fresh, now, self._sizes(tick))
            for detection in fresh:
                self._coverage.opened(detection.rule.kind, now)
        self._coverage.update(tick)
        if self._recovered is not None and now >= self._recovered[0]:
            for incident in self._recovered[1]:
                self._recover(incident, now)
            self._recovered = None
        self._groups.settle(now)
        return self._groups.incidents()

    @property
    def coverage(self) -> Coverage:
        """From when on each rule had enough data."""
        return self._coverage.coverage

    @property
    def phases(self) -> Mapping[str, Phase]:
        """Job → what its run is doing, as of the newest tick."""
        return {} if self._time is None else self._runs.phases(self._time)

    @property
    def first_steps(self) -> Mapping[str, float]:
        """Job → seconds of its first step, where that was seen."""
        return self._runs.first_steps()

    @property
    def job_of(self) -> Mapping[str, str]:
        """Node → its job, as of the newest tick."""
        return self._runs.job_of

    @staticmethod
    def _pace(running: _Running, number: int, now: float) -> None:
        """Sets when a rule runs next: not all of one interval in the same tick, but neighbors,
        which read the same.
        """
        interval = running.rule.interval
        early = number // 2 % interval if running.due == -math.inf and interval else 0.0
        running.due = now + interval - early

    def _restart(self, now: float) -> None:
        """The stream's clock was set back: what is open ends where the old time ended."""
        self._runs.clear()
        self._coverage.reset()
        for running in self._running:
            running.detector.reset()
            running.due = -math.inf
            for key in running.hold.reset():
                self._groups.close(running.open.pop(key), now)

    def _end(self, jobs: set[str | None], now: float) -> None:
        """Jobs have ended, and with them what was wrong with how they got on."""
        for running in self._running:
            if running.rule.ends_with_job:
                for key, detection in list(running.open.items()):
                    if detection.verdict.job in jobs:
                        running.hold.drop(key)
                        self._groups.close(running.open.pop(key), now)

    def _recover(self, incident: Incident, now: float) -> None:
        running = next((entry for entry in self._running if entry.rule.kind == incident.kind), None)
        closed = incident.closed_at
        if running is None or (closed is not None and now - closed > self._reopen):
            return
        members = []
        for key, node in incident.subjects:
            detection = running.open.get(key)
            if detection is None or closed is not None:
                verdict = Verdict(
                    {}, incident.job, node, incident.component, incident.severity, incident.evidence
                )
                detection = Detection(running.rule, key, incident.opened_at, verdict)
            if closed is None and key not in running.open:
                running.open[key] = detection
                running.hold.recover(key, incident.opened_at, now, now + RECOVERY)
            members.append(detection)
        if members:
            self._groups.recover(incident, members)

    def _step(self, running: _Running, tick: Tick) -> list[Detection]:
        signal = running.detector.signal(tick)
        fresh = []
        for change in running.hold.step(tick.time, signal):
            if change.opened:
                verdict = self._verdict(running, change.key, tick)
                since = change.time if verdict.since is None else verdict.since
                detection = Detection(running.rule, change.key, since, verdict)
                running.open[change.key] = detection
                fresh.append(detection)
            else:
                self._groups.close(running.open.pop(change.key), change.time)
        self._renew(running, signal, tick)
        return fresh

    def _renew(self, running: _Running, signal: Signal, tick: Tick) -> None:
        """Describes conditions at their worst."""
        if signal is running.signal:
            return  # of an earlier tick
        running.signal = signal
        worse: dict[str, IncidentGroup] = {}  # many detections may be of one group
        for key, detection in running.open.items():
            value = value_of(signal, key)
            if detection.group is None or not value > max(
                HELD * signal.limit, NEARLY * detection.worst
            ):
                continue
            detection.worst = max(value, detection.worst)
            detection.verdict = self._verdict(running, key, tick)
            worse[detection.group.id] = detection.group
        for group in worse.values():
            self._groups.describe(group)

    def _verdict(self, running: _Running, key: Hashable, tick: Tick) -> Verdict:
        verdict = running.detector.verdict(key, tick)
        more = self._outliers.evidence(tick, verdict)
        return replace(verdict, evidence=(*verdict.evidence, *more)) if more else verdict

    def _sizes(self, tick: Tick) -> dict[str | None, int]:
        sizes: dict[str | None, int] = {
            run.job: len(run.indices) for run in self._runs.by_job.values()
        }
        sizes[None] = len(tick.nodes)
        return sizes
