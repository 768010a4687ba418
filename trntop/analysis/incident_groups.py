"""One cause, one incident.

A detection is one rule that holds for one subject. Detections form groups, each of which is one
incident: a cause inhibits its consequences, which become its evidence; the same on many nodes is
one; one that returns soon is the same as before.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from trntop.analysis.detector import Verdict
from trntop.analysis.rule import Rule
from trntop.analysis.sentence import NO_CULPRIT, compose
from trntop.core.model import Evidence, Incident, Severity


@dataclass(frozen=True, slots=True)
class GroupTuning:
    """When detections belong together."""

    linger: float = 60.0
    """Seconds for which a consequence may outlast its cause."""
    trail: float = 15.0
    """Seconds after the end of a cause in which a consequence may still begin."""
    together: float = 60.0
    """Seconds within which the same on several nodes begins."""
    min_nodes: int = 3
    """Nodes from which a detection may be common to all."""
    max_evidence: int = 12
    kept_closed: int = 1000
    onset_bucket: float = 300.0
    """Seconds of onsets that share an id: two programs that watch the same nodes see the same onset
    a tick apart, and an incident that returns within as many seconds is the same by default.
    """


TUNING = GroupTuning()


@dataclass(slots=True, eq=False)
class Detection:
    """One rule that holds for one subject."""

    rule: Rule
    key: Hashable
    since: float
    verdict: Verdict
    """At its worst moment."""
    worst: float = 0.0
    """The signal's value then."""
    group: "IncidentGroup | None" = None
    closed: float | None = None


@dataclass(slots=True, eq=False)
class IncidentGroup:
    """One cause with its consequences: one incident."""

    id: str
    rule: Rule
    detected: float
    members: list[Detection]
    """The cause: one detection, or the same for several subjects."""
    consequences: list[Detection] = field(default_factory=list)
    severity: Severity = Severity.INFO
    closed: float | None = None
    returns: int = 0
    job: str | None = None
    node: str | None = None
    component: str | None = None
    summary: str = ""
    evidence: tuple[Evidence, ...] = ()
    shown: Incident | None = None
    common: bool = False
    """Whether it is common to many nodes."""

    @property
    def since(self) -> float:
        return min(detection.since for detection in self.members)

    @property
    def open(self) -> bool:
        return self.closed is None

    def incident(self) -> Incident:
        """As others see it; a closed one remains the same object."""
        if self.shown is None or self.shown.closed_at != self.closed or self.open:
            self.shown = Incident(
                self.id, self.rule.kind, self.severity, self.summary, self.since, self.closed,
                self.job, self.node, self.component, self.evidence, self.detected, self.returns,
                tuple(
                    (member.key, member.verdict.node)
                    for member in self.members
                    if member.closed == self.closed
                ),
            )  # fmt: skip
        return self.shown


class IncidentGroups:
    """All incidents.

    Args:
        reopen: seconds within which an incident that returns is the same.
        together: share of the nodes of a job that make it one incident of the job.
    """

    def __init__(self, reopen: float, together: float) -> None:
        self._reopen = reopen
        self._together = together
        self._open: list[IncidentGroup] = []
        self._closed: deque[IncidentGroup] = deque(maxlen=TUNING.kept_closed)
        self._sizes: Mapping[str | None, int] = {}
        self._outlasted: list[IncidentGroup] = []
        """Closed groups with an open consequence."""

    def incidents(self) -> tuple[Incident, ...]:
        """Open ones first, worst first; then the closed ones, newest first."""
        current = sorted(self._open, key=lambda group: (-group.severity.rank, group.since))
        return tuple(group.incident() for group in (*current, *reversed(self._closed)))

    def recover(self, incident: Incident, members: list[Detection]) -> None:
        """Adds an incident of an earlier run, as it was described then; closed ones may return.

        Args:
            incident: the incident.
            members: its subjects, of one rule; some may be open already.
        """
        known = next((member.group for member in members if member.group is not None), None)
        if known is not None:
            known.id, known.detected = incident.id, incident.detected_at or incident.opened_at
            known.returns += incident.returns
            known.members[0].since = min(known.since, incident.opened_at)
            for detection in members:
                if detection.group is None:
                    detection.group = known
                    known.members.append(detection)
            return
        group = IncidentGroup(
            incident.id, members[0].rule, incident.detected_at or incident.opened_at, members,
            severity=incident.severity, closed=incident.closed_at, returns=incident.returns,
            job=incident.job, node=incident.node, component=incident.component,
            summary=incident.summary, evidence=incident.evidence,
            common=len({member.verdict.node for member in members}) >= TUNING.min_nodes,
        )  # fmt: skip
        for detection in members:
            detection.group, detection.closed = group, group.closed
        if group.open:
            self._open.append(group)
        else:
            self._closed.append(group)

    def open(self, found: Iterable[Detection], now: float, sizes: Mapping[str | None, int]) -> None:
        """Adds detections that have just opened.

        Args:
            found: of all rules, in this tick.
            now: time of the stream.
            sizes: nodes of each job; under None, of all.
        """
        self._sizes = sizes
        # Causes first, as they inhibit their consequences in the same tick.
        for detection in sorted(found, key=lambda new: len(new.rule.inhibited_by)):
            self._index(detection, now)

    def close(self, detection: Detection, time: float) -> None:
        """Closes a detection, and with the last of its members a group."""
        detection.closed = time
        group = detection.group
        if group is None or detection not in group.members:
            return
        if group.open and all(member.closed is not None for member in group.members):
            group.closed = max(member.closed or time for member in group.members)
            self._open.remove(group)
            self._closed.append(group)
            if any(effect.closed is None for effect in group.consequences):
                self._outlasted.append(group)

    def settle(self, now: float) -> None:
        """A consequence that outlasts its cause for long becomes an incident of its own."""
        for group in tuple(self._outlasted):
            if group.closed is not None and now - group.closed < TUNING.linger:
                continue
            self._outlasted.remove(group)
            if group.closed is None:
                continue  # it has returned
            orphans = [effect for effect in group.consequences if effect.closed is None]
            group.consequences = [
                effect for effect in group.consequences if effect.closed is not None
            ]
            for detection in orphans:
                detection.group = None
                detection.since = max(detection.since, group.closed)
                self._index(detection, now)

    def describe(self, group: IncidentGroup) -> None:
        """Updates the description of a group from its detections.

        A culprit once named remains until another one is named: while a fault fades, its trace
        fades first. The severity only rises.
        """
        lasting = [member for member in group.members if member.closed is None]
        lasting = lasting or group.members[-1:]
        group.common = group.common or self._is_common(group.rule, group.members)
        worst = [member.verdict.severity or group.rule.severity for member in lasting]
        group.severity = max([group.severity, *worst], key=lambda severity: severity.rank)
        if group.common:
            self._describe_many(group)
        else:
            self._describe_one(group, lasting)
        most = TUNING.max_evidence
        own = [item for detection in lasting for item in detection.verdict.evidence][:most]
        found = [_as_evidence(detection) for detection in group.consequences[:most]]
        group.shown = None
        group.evidence = tuple(dict.fromkeys([*own, *found]))

    def _index(self, detection: Detection, now: float) -> None:
        if (group := self._cause(detection, now)) is not None:
            _attach(detection, group)
        elif (group := self._returning(detection, now)) is not None:
            self._closed.remove(group)
            self._open.append(group)
            group.closed, group.returns = None, group.returns + 1
            detection.since = min(detection.since, group.since)
            group.members = [member for member in group.members if member.key != detection.key]
            group.members.append(detection)
            detection.group = group
        elif (group := self._similar(detection)) is not None:
            group.members.append(detection)
            detection.group = group
        else:
            group = self._new(detection, now)
        self._gather(group)
        self.describe(group)
        for other in tuple(self._open):
            if other is not group and all(_inhibits(group, member) for member in other.members):
                self._withdraw(other, group)

    def _new(self, detection: Detection, now: float) -> IncidentGroup:
        onset = detection.since // TUNING.onset_bucket * TUNING.onset_bucket
        name = f"{detection.rule.kind}:{_key_text(detection.key)}:{onset:.0f}"
        taken = {group.id for group in (*self._open, *self._closed)}
        group = IncidentGroup(_free(name, taken), detection.rule, now, [detection])
        detection.group = group
        self._open.append(group)
        return group

    def _returning(self, detection: Detection, now: float) -> IncidentGroup | None:
        """The group that this detection was recently a member of."""
        for group in reversed(self._closed):
            if group.rule is not detection.rule or group.closed is None:
                continue
            same = any(member.key == detection.key for member in group.members)
            if same and group.closed <= now and detection.since - group.closed <= self._reopen:
                return group
        return None

    def _cause(self, detection: Detection, now: float) -> IncidentGroup | None:
        """The group that inhibits this detection."""
        lately = (
            group for group in reversed(self._closed)
            if group.closed is not None and 0.0 <= now - group.closed < TUNING.linger
            and detection.since - group.closed <= TUNING.trail
        )  # fmt: skip
        for group in (*self._open, *lately):
            if _inhibits(group, detection):
                return group
        return None

    def _similar(self, detection: Detection) -> IncidentGroup | None:
        """An open group of the same kind on the same node, or one that is common to many."""
        for group in self._open:
            if group.rule is not detection.rule:
                continue
            near = abs(group.members[-1].since - detection.since) <= TUNING.together
            same_node = detection.verdict.node is not None and group.node == detection.verdict.node
            similar = group.common and detection.verdict.job in (group.job, None)
            if near and (same_node or similar):
                return group
        return None

    def _gather(self, group: IncidentGroup) -> None:
        """Merges the groups of many nodes that show the same at once."""
        if not group.rule.many:
            return
        job = group.members[0].verdict.job
        similar = [
            other for other in self._open
            if other is not group
            and other.rule is group.rule
            and other.members[0].verdict.job == job
            and abs(other.since - group.since) <= TUNING.together
        ]  # fmt: skip
        members = [*group.members, *(member for other in similar for member in other.members)]
        if similar and self._is_common(group.rule, members):
            first = min((group, *similar), key=lambda candidate: (candidate.detected, candidate.id))
            group.id, group.detected = first.id, first.detected
            for other in similar:
                self._open.remove(other)
                for detection in other.members:
                    detection.group = group
                    group.members.append(detection)
                for detection in other.consequences:
                    _attach(detection, group)
            group.node, group.component, group.common = None, None, True

    def _is_common(self, rule: Rule, members: list[Detection]) -> bool:
        if not rule.many:
            return False
        nodes = {member.verdict.node for member in members if member.verdict.node is not None}
        size = self._sizes.get(members[0].verdict.job) or self._sizes.get(None, 0)
        share = self._together if rule.many_share is None else rule.many_share
        return len(nodes) >= max(TUNING.min_nodes, share * size)

    def _withdraw(self, group: IncidentGroup, cause: IncidentGroup) -> None:
        """Makes a group the consequence of another."""
        self._open.remove(group)
        for detection in (*group.members, *group.consequences):
            _attach(detection, cause)
        self.describe(cause)

    def _describe_one(self, group: IncidentGroup, lasting: list[Detection]) -> None:
        worst = max(lasting, key=lambda part: (part.verdict.severity or group.rule.severity).rank)
        newest = worst.verdict
        if not newest.fields or (newest.node is None and group.node is not None):
            return
        parts = {member.verdict.component for member in group.members} - {None}
        group.job = newest.job or group.job
        if len(parts) > 1:
            group.node, group.component = newest.node, None
        elif newest.node == group.node:
            group.component = newest.component or group.component or next(iter(parts), None)
        else:
            group.node, group.component = newest.node, newest.component
        fields = dict(newest.fields)
        for name in ("what", "efa_device", "device", "component"):
            if len(parts) > 1 and name in fields:
                fields[name] += f" and {len(parts) - 1} more"
        group.summary = compose(group.rule.summary, fields, group.since, _names(newest))

    def _describe_many(self, group: IncidentGroup) -> None:
        worst = group.members[-1].verdict.fields
        if not worst:
            return
        nodes = {member.verdict.node for member in group.members if member.verdict.node is not None}
        jobs = {member.verdict.job for member in group.members}
        group.job = jobs.pop() if len(jobs) == 1 else None
        group.node = group.component = None
        size = self._sizes.get(group.job) or self._sizes.get(None, len(nodes))
        where = f" of {group.job}" if group.job else ""
        count = f"all {size}" if len(nodes) >= size else f"{len(nodes)} of {size}"
        fields = {**worst, "nodes": f"{count} nodes{where}"}
        group.summary = compose(group.rule.many, fields, group.since)


def _attach(detection: Detection, group: IncidentGroup) -> None:
    """Makes a detection evidence of a group, in place of an earlier one of the same subject."""
    group.consequences = [
        effect
        for effect in group.consequences
        if (effect.rule, effect.key) != (detection.rule, detection.key)
    ]
    group.consequences.append(detection)
    detection.group = group


def _inhibits(group: IncidentGroup, detection: Detection) -> bool:
    """Whether a detection is a consequence of a group."""
    scope = detection.rule.inhibited_by.get(group.rule.kind)
    if scope is None or detection.group is group:
        return False
    if detection.since < group.since - scope.before:
        return False
    if group.closed is not None and detection.since > group.closed + TUNING.trail:
        return False
    nodes = {member.verdict.node for member in group.members}
    if detection.verdict.node is not None and detection.verdict.node in nodes:
        return True
    if not scope.job:
        return False
    jobs = {member.verdict.job for member in group.members}
    return detection.verdict.job in jobs


def _as_evidence(detection: Detection) -> Evidence:
    fields = {name: text for name, text in detection.verdict.fields.items() if text != NO_CULPRIT}
    summary = detection.rule.summary
    if "{since}" not in summary:
        summary += ", since {since}"
    text = compose(summary, fields, detection.since, _names(detection.verdict))
    return Evidence(text, detection.verdict.node)


def _names(verdict: Verdict) -> tuple[str, ...]:
    return tuple(name for name in (verdict.node, verdict.job) if name is not None)


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}:{number}"
    return free


def _key_text(key: Hashable) -> str:
    """A subject in an identifier."""
    if isinstance(key, tuple):
        return "/".join(map(_key_text, key))
    return str(key)
