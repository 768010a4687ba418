"""Findings become incidents: one cause, one incident."""

import time as clock
from collections.abc import Iterable, Mapping
from random import Random

import pytest

from trntop.analysis.detector import Verdict
from trntop.analysis.incident_groups import TUNING, Detection, IncidentGroups
from trntop.analysis.rulebook import RULEBOOK
from trntop.core.model import Evidence, Incident, Severity

RULES = {rule.kind: rule for rule in RULEBOOK}
REOPEN = 300.0


class Story:
    """What is found and what passes, in order of time."""

    def __init__(self, crowd: Mapping[str | None, int] | None = None) -> None:
        self.crowd = crowd or {"a": 4, "b": 4, None: 8}
        self.groups = IncidentGroups(REOPEN, 0.5)
        self.now = 0.0

    def find(
        self, now: float, kind: str, node: str | None = None, *, job: str | None = "a",
        component: str | None = None, since: float | None = None,
        severity: Severity | None = None,
    ) -> Detection:  # fmt: skip
        finding = self.found(
            kind, node, job=job, component=component, severity=severity,
            since=now if since is None else since,
        )  # fmt: skip
        self.open(now, finding)
        return finding

    def found(
        self, kind: str, node: str | None = None, *, job: str | None = "a",
        component: str | None = None, since: float = 0.0, severity: Severity | None = None,
    ) -> Detection:  # fmt: skip
        key = (node, component) if component else node or job
        subject = component or node or ""
        what = "communication" if kind == "comm_bound" else subject
        fields = {"node": node, "job": job, "where": subject, "efa_device": subject, "what": what}
        summary = RULES[kind].summary
        fields = {name: text or "" for name, text in fields.items() if f"{{{name}}}" in summary}
        evidence = (Evidence(f"{kind} of {subject}", node),)
        verdict = Verdict(fields, job, node, component, severity, evidence)
        return Detection(RULES[kind], key, since, verdict)

    def open(self, now: float, *findings: Detection) -> None:
        self.settle(now)
        self.groups.open(findings, now, self.crowd)

    def close(self, now: float, *findings: Detection) -> None:
        self.settle(now)
        for finding in findings:
            self.groups.close(finding, now)

    def settle(self, now: float) -> None:
        """Lets time pass, tick by tick."""
        while self.now < now:
            self.now = min(now, self.now + 1.0)
            self.groups.settle(self.now)

    @property
    def incidents(self) -> tuple[Incident, ...]:
        return self.groups.incidents()

    @property
    def kinds(self) -> list[str]:
        return [incident.kind for incident in self.incidents]


def texts(incident: Incident) -> str:
    return "\n".join(evidence.text for evidence in incident.evidence)


def test_a_finding_is_an_incident() -> None:
    story = Story()
    found = story.find(10, "straggler", "n1", since=4)
    (incident,) = story.incidents
    assert (incident.kind, incident.job, incident.node) == ("straggler", "a", "n1")
    assert (incident.opened_at, incident.detected_at) == (4, 10)
    assert incident.severity is Severity.WARNING
    assert incident.open
    story.close(50, found)
    (incident,) = story.incidents
    assert incident.closed_at == 50


# One cause.


def test_what_follows_is_evidence() -> None:
    story = Story()
    story.find(10, "straggler", "n1")
    story.find(25, "comm_bound")
    (incident,) = story.incidents
    assert incident.kind == "straggler"
    assert "communication " in texts(incident)


def test_what_opened_before_its_cause_was_found_is_withdrawn() -> None:
    story = Story()
    story.find(20, "comm_bound", since=15)
    assert story.kinds == ["comm_bound"]
    story.find(22, "straggler", "n1", since=10)
    assert story.kinds == ["straggler"]
    assert "communication " in texts(story.incidents[0])


def test_what_opens_in_the_same_tick_as_its_cause() -> None:
    story = Story()
    comm, slow = story.found("comm_bound"), story.found("straggler", "n1")
    story.open(10, comm, slow)
    assert story.kinds == ["straggler"]


def test_what_began_long_before_is_no_consequence() -> None:
    story = Story()
    story.find(20, "comm_bound", since=15)
    story.find(400, "straggler", "n1", since=390)
    assert sorted(story.kinds) == ["comm_bound", "straggler"]


def test_another_job_is_not_touched() -> None:
    story = Story()
    story.find(10, "straggler", "n1")
    story.find(20, "comm_bound", job="b")
    assert sorted(story.kinds) == ["comm_bound", "straggler"]


def test_a_cause_on_another_node_reaches_nodes_only_where_it_stops_the_job() -> None:
    story = Story()
    story.find(10, "efa_degraded", "n1", component="efa:x")
    story.find(20, "straggler", "n2")
    assert sorted(story.kinds) == ["efa_degraded", "straggler"]
    story.find(30, "straggler", "n1")
    assert sorted(story.kinds) == ["efa_degraded", "straggler"]


def test_a_chain_of_causes_is_one_incident() -> None:
    story = Story()
    story.find(10, "comm_bound")
    story.find(20, "straggler", "n1", since=8)
    story.find(30, "efa_degraded", "n1", component="efa:x", since=7)
    assert story.kinds == ["efa_degraded"]
    named = texts(story.incidents[0])
    assert "communication " in named
    assert "slower than its peers" in named


@pytest.mark.parametrize("after", [1.0, TUNING.trail - 1.0])
def test_what_sets_in_soon_after_its_cause_closed(after: float) -> None:
    story = Story()
    cause = story.find(10, "straggler", "n1")
    story.close(50, cause)
    story.find(50 + after, "comm_bound")
    assert story.kinds == ["straggler"]


def test_what_sets_in_long_after_its_cause_closed() -> None:
    story = Story()
    cause = story.find(10, "straggler", "n1")
    story.close(50, cause)
    story.find(50 + TUNING.trail + 1, "comm_bound")
    assert sorted(story.kinds) == ["comm_bound", "straggler"]


def test_what_ends_with_its_cause_was_never_an_incident() -> None:
    story = Story()
    cause = story.find(10, "straggler", "n1")
    effect = story.find(20, "comm_bound")
    story.close(50, cause)
    story.close(50 + TUNING.linger - 5, effect)
    story.settle(500)
    assert story.kinds == ["straggler"]
    assert not story.incidents[0].open


def test_what_outlasts_its_cause_becomes_an_incident_of_its_own() -> None:
    story = Story()
    cause = story.find(10, "straggler", "n1")
    effect = story.find(20, "comm_bound")
    story.close(50, cause)
    story.settle(50 + 2 * TUNING.linger)
    assert story.kinds == ["comm_bound", "straggler"]
    own, past = story.incidents
    assert own.open
    assert not past.open
    assert own.opened_at >= 50
    story.close(400, effect)
    assert [incident.open for incident in story.incidents] == [False, False]


def test_what_outlasts_one_cause_passes_to_another() -> None:
    story = Story()
    cause = story.find(10, "straggler", "n1")
    story.find(20, "comm_bound")
    story.find(45, "straggler", "n2")
    story.close(50, cause)
    story.settle(50 + 3 * TUNING.linger)
    assert story.kinds == ["straggler", "straggler"]


def test_what_returns_follows_from_a_cause_all_the_same() -> None:
    story = Story()
    effect = story.find(10, "comm_bound")
    story.close(40, effect)
    story.find(200, "straggler", "n1")
    story.find(210, "comm_bound")
    assert [incident.kind for incident in story.incidents if incident.open] == ["straggler"]


# Many nodes.


def degrade(
    story: Story, times: Iterable[float], job: str = "a", first: int = 0
) -> list[Detection]:
    return [
        story.find(time, "efa_degraded", f"n{first + node}", job=job, component="efa:x")
        for node, time in enumerate(times)
    ]


def test_all_nodes_of_a_job_are_one_incident() -> None:
    story = Story()
    degrade(story, [10, 11, 13, 20])
    (incident,) = story.incidents
    assert (incident.node, incident.component, incident.job) == (None, None, "a")
    assert incident.opened_at == 10
    assert incident.detected_at == 10
    assert incident.summary.startswith("all 4 nodes of a: EFA devices degraded")


def test_fault_57_two_hundred_nodes_in_one_tick() -> None:
    story = Story({"a": 200, None: 200})
    findings = [
        story.found("efa_degraded", f"n{node:03d}", component="efa:x", since=10)
        for node in range(200)
    ]
    begin = clock.process_time()
    story.open(12, *findings)
    assert clock.process_time() - begin < 1.0
    (incident,) = story.incidents
    assert incident.summary.startswith("all 200 nodes of a")
    assert len(incident.evidence) <= 50
    story.close(100, *findings)
    assert [incident.closed_at for incident in story.incidents] == [100]


def test_two_hundred_nodes_one_after_the_other() -> None:
    story = Story({"a": 200, None: 200})
    random = Random(1)
    findings = degrade(story, sorted(random.uniform(10, 40) for _ in range(200)))
    (incident,) = story.incidents
    assert incident.opened_at == pytest.approx(10, abs=1)
    assert len({finding.group for finding in findings}) == 1


def test_jobs_are_kept_apart() -> None:
    story = Story()
    degrade(story, [10, 11, 12], "a")
    degrade(story, [13, 14, 15], "b", first=4)
    assert sorted((incident.job or "", incident.node) for incident in story.incidents) == [
        ("a", None),
        ("b", None),
    ]
    assert all(incident.summary.startswith("3 of 4 nodes of ") for incident in story.incidents)


def test_few_nodes_are_incidents_of_their_own() -> None:
    story = Story({"a": 20, None: 20})
    degrade(story, [10, 11, 12, 13])
    assert len(story.incidents) == 4
    assert {incident.node for incident in story.incidents} == {"n0", "n1", "n2", "n3"}


def test_the_next_node_joins_the_common_incident() -> None:
    story = Story({"a": 6, None: 6})
    degrade(story, [10, 11, 12])
    (before,) = story.incidents
    story.find(40, "efa_degraded", "n4", component="efa:y")
    (incident,) = story.incidents
    assert incident.id == before.id
    assert "4 of 6 nodes" in incident.summary


def test_a_node_much_later_is_another_matter() -> None:
    story = Story({"a": 6, None: 6})
    degrade(story, [10, 11, 12])
    story.find(12 + TUNING.together + 100, "efa_degraded", "n4", component="efa:y")
    assert len(story.incidents) == 2


def test_a_common_incident_closes_with_its_last_member() -> None:
    story = Story()
    findings = degrade(story, [10, 11, 12, 13])
    story.close(50, *findings[:3])
    assert story.incidents[0].open
    story.close(70, findings[3])
    (incident,) = story.incidents
    assert incident.closed_at == 70


def test_what_followed_from_one_follows_from_all() -> None:
    story = Story()
    story.find(9, "efa_degraded", "n0", component="efa:x")
    story.find(11, "straggler", "n0")
    story.find(11, "comm_bound")
    for node, time in enumerate((12, 13, 14), 1):
        story.find(time, "efa_degraded", f"n{node}", component="efa:x")
    (incident,) = story.incidents
    assert incident.kind == "efa_degraded"
    assert "communication " in texts(incident)


def test_a_common_cause_explains_what_opened_before_it() -> None:
    story = Story()
    for node in range(3):
        story.find(10 + node, "straggler", f"n{node}")
    assert [incident.node for incident in story.incidents] == [None]
    for node in range(3):
        story.find(15 + node, "efa_degraded", f"n{node}", component="efa:x", since=9)
    assert story.kinds == ["efa_degraded"]


def test_an_incident_shown_once_stays_known_by_its_id() -> None:
    """Who was paged for the first of many finds it again among the open ones."""
    story = Story()
    story.find(10, "efa_degraded", "n0", component="efa:x")
    (first,) = story.incidents
    degrade(story, [11, 12, 13], first=1)
    (common,) = story.incidents
    assert common.id == first.id


# Several parts of one node.


def test_several_parts_of_a_node_are_one_incident() -> None:
    story = Story({"a": 200, None: 200})
    findings = [
        story.find(10 + device, "efa_degraded", "n1", component=f"efa:{device}")
        for device in range(3)
    ]
    (incident,) = story.incidents
    assert (incident.node, incident.component) == ("n1", None)
    assert "efa:0 and 2 more" in incident.summary
    story.close(60, *findings[1:])
    assert story.incidents[0].open
    story.close(70, findings[0])
    assert story.incidents[0].closed_at == 70


def test_one_part_alone_is_named() -> None:
    story = Story()
    story.find(10, "efa_degraded", "n1", component="efa:0")
    assert story.incidents[0].component == "efa:0"


# Again.


def test_a_case_that_returns_is_the_same() -> None:
    story = Story()
    first = story.find(10, "straggler", "n1")
    (before,) = story.incidents
    story.close(50, first)
    second = story.find(50 + REOPEN - 10, "straggler", "n1")
    (incident,) = story.incidents
    assert incident.open
    assert (incident.id, incident.opened_at, incident.returns) == (before.id, 10, 1)
    assert incident.detected_at == before.detected_at
    story.close(400, second)
    assert story.incidents[0].closed_at == 400
    story.find(450, "straggler", "n1")
    assert story.incidents[0].returns == 2


def test_after_long_it_is_another() -> None:
    story = Story()
    story.close(50, story.find(10, "straggler", "n1"))
    story.find(50 + REOPEN + 10, "straggler", "n1")
    first, second = story.incidents
    assert first.id != second.id
    assert second.returns == first.returns == 0


def test_another_node_does_not_return() -> None:
    story = Story()
    story.close(50, story.find(10, "straggler", "n1"))
    story.find(60, "straggler", "n2")
    assert len(story.incidents) == 2


def test_where_the_clock_is_set_back_nothing_returns() -> None:
    story = Story()
    story.close(5050, story.find(5010, "straggler", "n1"))
    story.find(100, "straggler", "n1")
    assert len({incident.id for incident in story.incidents}) == 2
    assert all(
        incident.closed_at is None or incident.closed_at >= incident.opened_at
        for incident in story.incidents
    )


def test_ids_are_unique() -> None:
    story = Story()
    random = Random(4)
    kinds = ["efa_degraded", "straggler", "comm_bound", "hang", "node_silent", "memory_pressure"]
    open_detections: list[Detection] = []
    for t in range(1, 2000, 3):
        if open_detections and random.random() < 0.5:
            story.close(t, open_detections.pop(random.randrange(len(open_detections))))
        else:
            kind = random.choice(kinds)
            node = None if kind in ("comm_bound", "hang") else f"n{random.randrange(5)}"
            job = random.choice("ab")
            finding = story.found(kind, node, job=job, since=t - random.randrange(20))
            if all(
                finding.key != kept.key or finding.rule is not kept.rule for kept in open_detections
            ):
                open_detections.append(finding)
                story.open(t, finding)
        incidents = story.incidents
        assert len({incident.id for incident in incidents}) == len(incidents)
        assert all(len(incident.summary) <= 120 for incident in incidents)
        assert all(
            incident.open or incident.closed_at >= incident.opened_at for incident in incidents
        )
        for finding in open_detections:  # nothing that lasts is lost
            assert finding.group is not None
    for finding in open_detections:
        story.close(2001, finding)
    assert not any(incident.open for incident in story.incidents)


def test_the_severity_only_rises() -> None:
    story = Story()
    finding = story.find(10, "comm_bound")
    case = finding.group
    assert case is not None
    ids = []
    for severity in (Severity.WARNING, Severity.CRITICAL, Severity.WARNING, Severity.INFO):
        finding.verdict = Verdict({}, "a", severity=severity)
        story.groups.describe(case)
        ids.append(story.incidents[0].severity)
    assert ids == [Severity.WARNING, *[Severity.CRITICAL] * 3]


def test_open_ones_first_and_the_worst_of_them() -> None:
    story = Story()
    story.close(8, story.find(1, "memory_pressure", "n3"))
    story.find(10, "memory_pressure", "n1")
    story.find(20, "node_silent", "n2", job="b")
    assert [(incident.kind, incident.open) for incident in story.incidents] == [
        ("node_silent", True), ("memory_pressure", True), ("memory_pressure", False),
    ]  # fmt: skip


def test_a_culprit_once_named_stays_named() -> None:
    story = Story()
    finding = story.find(10, "hang", "n1")
    assert finding.group is not None
    finding.verdict = Verdict({"job": "a"}, "a")
    story.groups.describe(finding.group)
    assert story.incidents[0].node == "n1"
    finding.verdict = Verdict({"job": "a"}, "a", "n2")
    story.groups.describe(finding.group)
    assert story.incidents[0].node == "n2"
