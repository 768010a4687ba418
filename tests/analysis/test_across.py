"""Incidents of several judges of one job become one, with its culprit."""

import dataclasses

import pytest

from tests.builders import NOON
from trntop.analysis.across import AcrossJudges
from trntop.analysis.rulebook import rules
from trntop.core.model import Evidence, Incident, Severity
from trntop.core.settings import Settings

JOB = "pretrain"
NOW = NOON + 100.0


def incident(
    kind: str, node: str | None = None, since: float = 0.0, closed: float | None = None,
    *, job: str | None = JOB, detected: float = 10.0, name: str = "",
) -> Incident:  # fmt: skip
    """Times are seconds since noon."""
    return Incident(
        name or f"{kind}:{node or job}:{since:g}", kind, Severity.WARNING,
        f"{node or job}: {kind}", NOON + since, None if closed is None else NOON + closed,
        job, node, evidence=(Evidence(f"evidence of {kind}", node),),
        detected_at=NOON + since + detected,
    )  # fmt: skip


def joined(*parts: list[Incident], now: float = NOW) -> list[Incident]:
    return AcrossJudges(rules(Settings().analysis)).joined(parts, now)


def test_one_judge_is_right() -> None:
    found = [incident("comm_bound"), incident("straggler", "a")]
    assert joined(found, []) == found


@pytest.mark.parametrize("effect", ["comm_bound", "slowdown"])
def test_a_cause_inhibits_what_others_see_of_it(effect: str) -> None:
    cause, seen = incident("straggler", "a"), incident(effect, since=5.0)
    (found,) = joined([seen], [cause], [dataclasses.replace(seen, id="other")])
    assert (found.id, found.node, found.summary) == (cause.id, "a", cause.summary)
    assert found.evidence[0] == cause.evidence[0]
    assert [item.text for item in found.evidence[1:]] == [
        f"{JOB}: {effect}, since 12:00:05 UTC"
    ]  # of both, once


@pytest.mark.parametrize(
    ("cause", "seen"),
    [
        (incident("straggler", "a", job="other"), incident("comm_bound")),
        (incident("straggler", "a", job=None), incident("comm_bound", job=None)),
        (incident("straggler", "a", since=60.0), incident("comm_bound", since=-5.0)),
        (incident("straggler", "a", closed=20.0), incident("comm_bound", since=36.0)),
        # It outlasts its cause.
        (incident("straggler", "a", closed=20.0), incident("comm_bound")),
        # Another node.
        (incident("efa_degraded", "a"), incident("straggler", "b")),
    ],
)
def test_what_has_another_cause_stays(cause: Incident, seen: Incident) -> None:
    assert {incident.id for incident in joined([cause], [seen])} == {cause.id, seen.id}


def test_a_consequence_that_fades_with_its_cause_is_one_until_it_lasts() -> None:
    parts = [incident("straggler", "a", closed=20.0)], [incident("comm_bound", since=5.0)]
    across = AcrossJudges(rules(Settings().analysis))
    assert [incident.kind for incident in across.joined(parts, NOON + 60.0)] == ["straggler"]
    assert len(across.joined(parts, NOON + 90.0)) == 2


def test_a_job_stalls_once_and_the_culprit_is_named() -> None:
    first = incident("hang", since=1.0, detected=8.0)
    named = incident("hang", "a", since=2.0, detected=12.0)
    (found,) = joined([first], [named], [incident("hang", since=3.0)])
    # The id is that of the first report: no one is paged twice when the culprit is found.
    assert (found.id, found.node, found.opened_at) == (first.id, "a", NOON + 1.0)
    assert found.detected_at == first.detected_at
    assert len(joined([first], [incident("hang", since=3.0, job="other")])) == 2
    ended = incident("hang", closed=30.0)
    assert len(joined([ended], [incident("hang", since=40.0)])) == 2


def test_it_is_over_when_all_see_that() -> None:
    over, lasting = incident("hang", closed=50.0), incident("hang", since=2.0)
    (found,) = joined([over], [lasting])
    assert found.open
    (found,) = joined([over], [dataclasses.replace(lasting, closed_at=NOON + 60.0)])
    assert found.closed_at == NOON + 60.0


def test_the_same_on_many_nodes_is_one() -> None:
    parts = [incident("node_silent", since=since, name=f"{since}") for since in (0.0, 3.0, 5.0)]
    (found,) = joined(*([part] for part in parts))
    assert found.summary == f"{JOB}: node_silent; the same at 2 more aggregators"
    # Of single nodes, each is one.
    assert len(joined([incident("efa_degraded", "a")], [incident("efa_degraded", "b")])) == 2


def test_the_same_id_is_there_once() -> None:
    hang = incident("hang", job=None)
    assert len(joined([hang], [dataclasses.replace(hang, opened_at=NOON + 90.0)])) == 1


def test_custom_and_unknown_kinds_stay() -> None:
    parts = [incident("mine")], [incident("mine", name="other")]
    assert len(joined(*parts)) == 2
