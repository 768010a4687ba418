"""Incidents of several judges of one cluster, as one judge of all its nodes would group them.

Each judge sees some nodes of a job. All of them see that the job has stalled or communicates too
long, but only the one with the faulty node sees why. The result follows from the incidents alone,
so it is the same after a restart, and for two programs that read the same judges.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from trntop.analysis.incident_groups import TUNING
from trntop.analysis.rule import Rule, Scope
from trntop.core import units
from trntop.core.model import Evidence, Incident

INTERVAL = 10.0
"""Seconds after which incidents that have not changed are joined again: consequences may outlast
their cause.
"""


@dataclass(slots=True)
class _Group:
    """Incidents that are one."""

    rule: Rule
    members: list[Incident] = field(default_factory=list)
    judges: set[int] = field(default_factory=set)
    consequences: list[Incident] = field(default_factory=list)

    @property
    def since(self) -> float:
        return min(one.opened_at for one in self.members)

    @property
    def closed(self) -> float | None:
        ends = [one.closed_at for one in self.members]
        return None if None in ends else max(end for end in ends if end is not None)

    def incident(self) -> Incident:
        """The one that names a node, else the first, with what the others add."""
        first = min(self.members, key=lambda one: (one.detected_at or one.opened_at, one.id))
        lead = min(self.members, key=lambda one: (one.node is None, one.opened_at, one.id))
        others = [one for one in self.members if one is not lead]
        if not others and not self.consequences:
            return lead
        summary = lead.summary
        if others and not _is_of_job(self.rule):
            summary += f"; the same at {len(others)} more aggregator{'s' * (len(others) > 1)}"
        evidence = (*lead.evidence, *map(_as_evidence, (*others, *self.consequences)))
        return replace(
            lead,
            id=first.id,
            severity=max((one.severity for one in self.members), key=lambda one: one.rank),
            summary=summary,
            opened_at=self.since,
            closed_at=self.closed,
            detected_at=first.detected_at,
            returns=max(one.returns for one in self.members),
            evidence=tuple(dict.fromkeys(evidence))[: TUNING.max_evidence],
        )


_Causes = dict[tuple[str, str | None, str | None], list[_Group]]
"""Groups that are no consequences, by their kind and job, and by their kind and node."""


class AcrossJudges:
    """Joins the incidents of several judges.

    Args:
        rules: the rules in force.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = {rule.kind: rule for rule in rules}
        self._parts: tuple[tuple[Incident, ...], ...] = ()
        self._time = 0.0
        self._joined: list[Incident] = []

    def joined(self, parts: Sequence[Sequence[Incident]], now: float) -> list[Incident]:
        """The incidents of all judges, each cause once and with its consequences.

        Args:
            parts: the incidents of each judge.
            now: the time.
        """
        known = tuple(tuple(part) for part in parts if part)
        if len(known) < 2:
            return [incident for part in known for incident in part]
        if known != self._parts or not 0 <= now - self._time < INTERVAL:
            self._parts, self._time = known, now
            self._joined = self._join(known, now)
        return self._joined

    def _join(self, parts: Sequence[Sequence[Incident]], now: float) -> list[Incident]:
        unknown: list[Incident] = []
        groups = self._groups(parts, unknown)
        causes: _Causes = {}
        kept: list[_Group] = []
        # Causes first: a consequence of a consequence is that of the cause.
        for group in sorted(groups, key=lambda one: (len(one.rule.inhibited_by), one.since)):
            if (cause := _cause(group, causes, now)) is not None:
                cause.consequences += group.members
                continue
            kept.append(group)
            kind = group.rule.kind
            jobs = {(kind, one.job, None) for one in group.members if one.job is not None}
            nodes = {(kind, None, one.node) for one in group.members if one.node is not None}
            for key in jobs | nodes:
                causes.setdefault(key, []).append(group)
        return [*unknown, *(group.incident() for group in kept)]

    def _groups(self, parts: Sequence[Sequence[Incident]], unknown: list[Incident]) -> list[_Group]:
        """The incidents, the same ones of several judges together; `unknown` gets the others."""
        groups: list[_Group] = []
        similar: dict[tuple[str, str | None], list[_Group]] = {}
        for judge, part in enumerate(parts):
            for incident in part:
                if (rule := self._rules.get(incident.kind)) is None:
                    unknown.append(incident)
                    continue
                known = similar.setdefault((incident.kind, incident.job), [])
                group = next((one for one in known if _is_same(one, incident, judge)), None)
                if group is None:
                    group = _Group(rule)
                    groups.append(group)
                    known.append(group)
                group.members.append(incident)
                group.judges.add(judge)
        return groups


def _is_of_job(rule: Rule) -> bool:
    """Whether incidents of a rule are about a whole job, not about nodes."""
    return rule.ends_with_job and not rule.many


def _is_same(group: _Group, incident: Incident, judge: int) -> bool:
    """Whether another judge sees a group of the same kind and job as this incident."""
    if any(one.id == incident.id for one in group.members):
        return True
    if judge in group.judges:
        return False
    if _is_of_job(group.rule):
        end = math.inf if group.closed is None else group.closed
        over = math.inf if incident.closed_at is None else incident.closed_at
        return incident.job is not None and incident.opened_at <= end and group.since <= over
    # The same on many nodes at once.
    many = incident.node is None and group.members[0].node is None
    return many and abs(group.since - incident.opened_at) <= TUNING.together


def _cause(group: _Group, causes: _Causes, now: float) -> _Group | None:
    """The group that inhibits this one and that another judge sees."""
    for kind, scope in group.rule.inhibited_by.items():
        for member in group.members:
            places = [(None, member.node), *([(member.job, None)] if scope.job else [])]
            for cause in (one for place in places for one in causes.get((kind, *place), ())):
                if len(cause.judges | group.judges) > 1 and _inhibits(cause, group, scope, now):
                    return cause
    return None


def _inhibits(cause: _Group, group: _Group, scope: Scope, now: float) -> bool:
    """As within one judge, see `incident_groups`."""
    if group.since < cause.since - scope.before:
        return False
    if (end := cause.closed) is None:
        return True
    over = now if group.closed is None else group.closed
    return group.since <= end + TUNING.trail and over - end < TUNING.linger


def _as_evidence(incident: Incident) -> Evidence:
    since = f", since {units.clock(incident.opened_at, utc=True)} UTC"
    text = incident.summary if ", since " in incident.summary else f"{incident.summary}{since}"
    return Evidence(text, incident.node)
