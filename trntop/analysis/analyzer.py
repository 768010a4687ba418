"""Runs the rulebook over clusters and keeps the incidents."""

import dataclasses
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from trntop.analysis.detectors import Detector, Verdict
from trntop.analysis.hold import Hold
from trntop.analysis.rulebook import Rule, rules
from trntop.model import Cluster, Incident, Severity
from trntop.settings import Analysis as Settings

KEPT_CLOSED = 1000
"""Closed incidents that are remembered."""
SUMMARY_LENGTH = 120


@dataclass(slots=True)
class _Running:
    """A rule at work."""

    rule: Rule
    detector: Detector
    hold: Hold
    open: dict[Hashable, Incident] = field(default_factory=dict)


class Analyzer:
    """Incidents over time. Where time goes back, all rules start anew.

    Args:
        settings: thresholds and windows.
        period: seconds between ticks.
    """

    def __init__(self, settings: Settings, period: float = 1.0) -> None:
        self._running = [
            _Running(
                rule,
                rule.detector(settings, period),
                Hold(settings.hold if rule.hold is None else rule.hold, rule.clear_hold),
            )
            for rule in rules(settings)
        ]
        self._closed: deque[Incident] = deque(maxlen=KEPT_CLOSED)
        self._time: float | None = None

    def tick(self, cluster: Cluster) -> tuple[Incident, ...]:
        """Takes one tick; all incidents, open ones first, worst first."""
        now = cluster.time
        if self._time is not None and now < self._time:
            self._restart(self._time)
        self._time = now
        for running in self._running:
            self._step(running, cluster)
        current = [incident for running in self._running for incident in running.open.values()]
        current.sort(key=lambda incident: (-incident.severity.rank, incident.opened_at))
        return (*current, *reversed(self._closed))

    def _restart(self, now: float) -> None:
        """The stream's clock was set back: what is open ends where the old time ended."""
        for running in self._running:
            running.detector.reset()
            for key in running.hold.reset():
                incident = running.open.pop(key)
                self._closed.append(dataclasses.replace(incident, closed_at=now))

    def _step(self, running: _Running, cluster: Cluster) -> None:
        signal = running.detector.signal(cluster)
        changes = running.hold.step(
            cluster.time, signal.keys, signal.values, signal.limit, signal.clear
        )
        for change in changes:
            if change.opened:
                running.open[change.key] = self._open(running, change.key, change.time, cluster)
            else:
                incident = running.open.pop(change.key)
                self._closed.append(dataclasses.replace(incident, closed_at=change.time))
        lasting = dict(zip(signal.keys, (signal.values > signal.limit).tolist(), strict=True))
        for key, incident in running.open.items():
            if lasting.get(str(key)):
                running.open[key] = _updated(incident, running.detector.verdict(key, cluster))

    def _open(self, running: _Running, key: Hashable, time: float, cluster: Cluster) -> Incident:
        verdict = running.detector.verdict(key, cluster)
        return Incident(
            id=f"{running.rule.kind}:{key}:{time:.0f}",
            kind=running.rule.kind,
            severity=verdict.severity,
            summary=_short(verdict.summary),
            opened_at=time,
            job=verdict.job,
            node=verdict.node,
            component=verdict.component,
            evidence=verdict.evidence,
        )


def _updated(incident: Incident, verdict: Verdict) -> Incident:
    """The incident as it stands now.

    A culprit once named stays named until another one is: while a fault fades, its trace does
    so first. The severity only rises.
    """
    named = verdict.node is not None or incident.node is None
    worst: Severity = max(incident.severity, verdict.severity, key=lambda severity: severity.rank)
    if not named:
        return dataclasses.replace(incident, severity=worst)
    return dataclasses.replace(
        incident,
        severity=worst,
        summary=_short(verdict.summary),
        job=verdict.job or incident.job,
        node=verdict.node,
        component=verdict.component or incident.component
        if verdict.node == incident.node
        else verdict.component,
        evidence=verdict.evidence,
    )


def _short(summary: str) -> str:
    return summary if len(summary) <= SUMMARY_LENGTH else summary[: SUMMARY_LENGTH - 1] + "…"
