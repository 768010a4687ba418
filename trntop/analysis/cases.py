"""One cause, one incident.

A finding is what one rule says of one subject. Findings become cases: those that follow from
another one are its evidence, those that many nodes share are one, and one that returns soon is
the same as before. A case is what the outside sees as an incident.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from trntop.analysis.detector import Verdict
from trntop.analysis.rule import Rule
from trntop.analysis.sentence import NO_CULPRIT, compose
from trntop.core.model import Evidence, Incident, Severity

LINGER = 60.0
"""Seconds for which what follows from a cause may outlast it."""
TRAIL = 15.0
"""Seconds after the end of a cause in which something may still set in because of it."""
TOGETHER = 60.0
"""Seconds within which findings set in that belong together."""
LEAST_TOGETHER = 3
"""Nodes from which a finding may be common to all."""
MAX_EVIDENCE = 12
KEPT_CLOSED = 1000
"""Closed cases that are remembered."""


@dataclass(slots=True, eq=False)
class Detection:
    """One rule's word on one subject, while it lasts."""

    rule: Rule
    key: Hashable
    since: float
    verdict: Verdict
    """What was said of it when it was at its worst."""
    worst: float = 0.0
    """The signal's value then."""
    case: "IncidentGroup | None" = None
    closed: float | None = None


@dataclass(slots=True, eq=False)
class IncidentGroup:
    """One cause, and all that was found of it."""

    id: str
    rule: Rule
    detected: float
    members: list[Detection]
    """What the case is about: one, or the same of several subjects."""
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
    """Whether it stands for many nodes."""

    @property
    def since(self) -> float:
        """When the first of it set in."""
        return min(finding.since for finding in self.members)

    @property
    def open(self) -> bool:
        """Whether it still lasts."""
        return self.closed is None

    def incident(self) -> Incident:
        """As the outside sees it; once it is closed that stays the same object."""
        if self.shown is None or self.shown.closed_at != self.closed or self.open:
            self.shown = self._incident()
        return self.shown

    def _incident(self) -> Incident:
        return Incident(
            id=self.id,
            kind=self.rule.kind,
            severity=self.severity,
            summary=self.summary,
            opened_at=self.since,
            closed_at=self.closed,
            job=self.job,
            node=self.node,
            component=self.component,
            evidence=self.evidence,
            detected_at=self.detected,
            returns=self.returns,
        )


class IncidentGroups:
    """All cases.

    Args:
        reopen: seconds within which a case that returns is the same.
        together: share of the nodes from which one case stands for all.
    """

    def __init__(self, reopen: float, together: float) -> None:
        self._reopen = reopen
        self._together = together
        self._open: list[IncidentGroup] = []
        self._closed: deque[IncidentGroup] = deque(maxlen=KEPT_CLOSED)
        self._crowd: Mapping[str | None, int] = {}
        self._outlasted: list[IncidentGroup] = []
        """Closed cases of which something that followed from them still lasts."""

    def incidents(self) -> tuple[Incident, ...]:
        """Open ones first, worst first; then the closed ones, newest first."""
        current = sorted(self._open, key=lambda case: (-case.severity.rank, case.since))
        return tuple(case.incident() for case in (*current, *reversed(self._closed)))

    def open(self, found: Iterable[Detection], now: float, crowd: Mapping[str | None, int]) -> None:
        """Takes findings that have just opened.

        Args:
            found: of all rules, in this tick.
            now: time of the stream.
            crowd: nodes of each job; under None, of all.
        """
        self._crowd = crowd
        # Causes first: what follows from them in the same tick is no case of its own.
        for finding in sorted(found, key=lambda one: len(one.rule.follows)):
            self._place(finding, now)

    def close(self, finding: Detection, time: float) -> None:
        """Takes a finding that has closed; its case closes with the last of its members."""
        finding.closed = time
        case = finding.case
        if case is None or finding not in case.members:
            return
        if case.open and all(member.closed is not None for member in case.members):
            case.closed = max(member.closed or time for member in case.members)
            self._open.remove(case)
            self._closed.append(case)
            if any(one.closed is None for one in case.consequences):
                self._outlasted.append(case)

    def settle(self, now: float) -> None:
        """What outlasts its cause for long is a case of its own after all."""
        for case in tuple(self._outlasted):
            if case.closed is not None and now - case.closed < LINGER:
                continue
            self._outlasted.remove(case)
            if case.closed is None:
                continue  # it has returned
            orphans = [one for one in case.consequences if one.closed is None]
            case.consequences = [one for one in case.consequences if one.closed is not None]
            for finding in orphans:
                finding.case = None
                finding.since = max(finding.since, case.closed)
                self._place(finding, now)

    def describe(self, case: IncidentGroup) -> None:
        """Words a case anew from what its findings say now.

        A culprit once named stays named until another one is: while a fault fades, its trace
        does so first. The severity only rises.
        """
        lasting = [one for one in case.members if one.closed is None] or case.members[-1:]
        case.common = case.common or self._is_common(case.rule, case.members)
        worst = [one.verdict.severity or case.rule.severity for one in lasting]
        case.severity = max([case.severity, *worst], key=lambda severity: severity.rank)
        if case.common:
            self._describe_many(case)
        else:
            self._describe_one(case, lasting)
        own = [item for finding in lasting for item in finding.verdict.evidence]
        found = [Evidence(_told(one), one.verdict.node) for one in case.consequences]
        case.shown = None
        case.evidence = tuple(dict.fromkeys([*own[:MAX_EVIDENCE], *found[:MAX_EVIDENCE]]))

    def _place(self, finding: Detection, now: float) -> None:
        if (case := self._cause(finding, now)) is not None:
            _attach(finding, case)
        elif (case := self._returning(finding, now)) is not None:
            self._closed.remove(case)
            self._open.append(case)
            case.closed, case.returns = None, case.returns + 1
            finding.since = min(finding.since, case.since)
            case.members = [one for one in case.members if one.key != finding.key]
            case.members.append(finding)
            finding.case = case
        elif (case := self._fellow(finding)) is not None:
            case.members.append(finding)
            finding.case = case
        else:
            case = self._new(finding, now)
        self._gather(case)
        self.describe(case)
        for other in tuple(self._open):
            if other is not case and self._explains(case, other.members):
                self._withdraw(other, case)

    def _new(self, finding: Detection, now: float) -> IncidentGroup:
        name = f"{finding.rule.kind}:{_told_key(finding.key)}:{finding.since:.0f}"
        taken = {case.id for case in (*self._open, *self._closed)}
        case = IncidentGroup(_free(name, taken), finding.rule, now, [finding])
        finding.case = case
        self._open.append(case)
        return case

    def _returning(self, finding: Detection, now: float) -> IncidentGroup | None:
        """The case that this finding was a member of not long ago."""
        for case in reversed(self._closed):
            if case.rule is not finding.rule or case.closed is None:
                continue
            same = any(one.key == finding.key for one in case.members)
            if same and case.closed <= now and finding.since - case.closed <= self._reopen:
                return case
        return None

    def _cause(self, finding: Detection, now: float) -> IncidentGroup | None:
        """The case that this finding follows from."""
        lately = (
            case for case in reversed(self._closed)
            if case.closed is not None and 0.0 <= now - case.closed < LINGER
            and finding.since - case.closed <= TRAIL
        )  # fmt: skip
        for case in (*self._open, *lately):
            if self._explains(case, [finding]):
                return case
        return None

    def _explains(self, case: IncidentGroup, findings: list[Detection]) -> bool:
        """Whether all of these findings follow from a case."""
        return all(_follows(finding, case) for finding in findings)

    def _fellow(self, finding: Detection) -> IncidentGroup | None:
        """An open case of the same kind on the same node, or one that stands for many."""
        for case in self._open:
            if case.rule is not finding.rule:
                continue
            near = abs(case.members[-1].since - finding.since) <= TOGETHER
            same_node = finding.verdict.node is not None and case.node == finding.verdict.node
            alike = case.common and finding.verdict.job in (case.job, None)
            if near and (same_node or alike):
                return case
        return None

    def _gather(self, case: IncidentGroup) -> None:
        """Where many nodes show the same at once, their cases become one."""
        if not case.rule.many:
            return
        job = case.members[0].verdict.job
        alike = [
            other for other in self._open
            if other is not case
            and other.rule is case.rule
            and other.members[0].verdict.job == job
            and abs(other.since - case.since) <= TOGETHER
        ]  # fmt: skip
        members = [*case.members, *(one for other in alike for one in other.members)]
        if alike and self._is_common(case.rule, members):
            first = min((case, *alike), key=lambda one: one.detected)
            case.id, case.detected = first.id, first.detected
            for other in alike:
                self._open.remove(other)
                for finding in other.members:
                    finding.case = case
                    case.members.append(finding)
                for finding in other.consequences:
                    _attach(finding, case)
            case.node, case.component, case.common = None, None, True

    def _is_common(self, rule: Rule, members: list[Detection]) -> bool:
        if not rule.many:
            return False
        nodes = {one.verdict.node for one in members if one.verdict.node is not None}
        size = self._crowd.get(members[0].verdict.job) or self._crowd.get(None, 0)
        return len(nodes) >= max(LEAST_TOGETHER, self._together * size)

    def _withdraw(self, case: IncidentGroup, cause: IncidentGroup) -> None:
        """What was a case of its own is seen to follow from another."""
        self._open.remove(case)
        for finding in (*case.members, *case.consequences):
            _attach(finding, cause)
        self.describe(cause)

    def _describe_one(self, case: IncidentGroup, lasting: list[Detection]) -> None:
        worst = max(lasting, key=lambda one: (one.verdict.severity or case.rule.severity).rank)
        newest = worst.verdict
        if newest.node is None and case.node is not None:
            return
        parts = {one.verdict.component for one in case.members} - {None}
        case.job = newest.job or case.job
        if len(parts) > 1:
            case.node, case.component = newest.node, None
        elif newest.node == case.node:
            case.component = newest.component or case.component or next(iter(parts), None)
        else:
            case.node, case.component = newest.node, newest.component
        says = dict(newest.says)
        for name in ("what", "card", "device", "component"):
            if len(parts) > 1 and name in says:
                says[name] += f" and {len(parts) - 1} more"
        case.summary = compose(case.rule.summary, says, case.since, _names(newest))

    def _describe_many(self, case: IncidentGroup) -> None:
        nodes = {one.verdict.node for one in case.members if one.verdict.node is not None}
        jobs = {one.verdict.job for one in case.members}
        case.job = jobs.pop() if len(jobs) == 1 else None
        case.node = case.component = None
        size = self._crowd.get(case.job) or self._crowd.get(None, len(nodes))
        where = f" of {case.job}" if case.job else ""
        count = f"all {size}" if len(nodes) >= size else f"{len(nodes)} of {size}"
        worst = case.members[-1].verdict.says
        fields = {**worst, "nodes": f"{count} nodes{where}"}
        case.summary = compose(case.rule.many, fields, case.since)


def _attach(finding: Detection, case: IncidentGroup) -> None:
    """Makes a finding evidence of a case; the same one of before is told once."""
    case.consequences = [
        one for one in case.consequences if (one.rule, one.key) != (finding.rule, finding.key)
    ]
    case.consequences.append(finding)
    finding.case = case


def _follows(finding: Detection, case: IncidentGroup) -> bool:
    """Whether a finding is a consequence of what a case is about."""
    reach = finding.rule.follows.get(case.rule.kind)
    if reach is None or finding.case is case:
        return False
    if finding.since < case.since - reach.before:
        return False
    if case.closed is not None and finding.since > case.closed + TRAIL:
        return False
    nodes = {one.verdict.node for one in case.members}
    if finding.verdict.node is not None and finding.verdict.node in nodes:
        return True
    if not reach.job:
        return False
    jobs = {one.verdict.job for one in case.members}
    return finding.verdict.job in jobs


def _told(finding: Detection) -> str:
    """A consequence as evidence."""
    says = {name: text for name, text in finding.verdict.says.items() if text != NO_CULPRIT}
    summary = finding.rule.summary
    if "{since}" not in summary:
        summary += ", since {since}"
    return compose(summary, says, finding.since, _names(finding.verdict))


def _names(verdict: Verdict) -> tuple[str, ...]:
    return tuple(name for name in (verdict.node, verdict.job) if name is not None)


def _free(name: str, taken: set[str]) -> str:
    """The name, or with a number where it is taken: by the same in another time."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}:{number}"
    return free


def _told_key(key: Hashable) -> str:
    """A subject in an identifier."""
    if isinstance(key, tuple):
        return "/".join(map(_told_key, key))
    return str(key)
