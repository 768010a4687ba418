"""Incidents of an earlier run: known again by their ids, closed where they are over."""

import pytest

from tests.corpus import CALM, SCENARIOS, SMALL, START, played
from trntop.analysis.incident_groups import TUNING
from trntop.analysis.rule_inputs import rule_inputs
from trntop.collectors.simulator import parse, simulate
from trntop.core.model import Incident, Reading, View
from trntop.core.settings import Settings
from trntop.session.monitor import Monitor, play

pytestmark = pytest.mark.xdist_group("corpus")

KINDS = ("efa-degraded", "comm-bound", "execution-errors")
"""Of a component, of a job, and of a process that has a pid."""


def readings(name: str) -> list[Reading]:
    simulation = parse(f"sim:{name}?{SCENARIOS[name]}&{SMALL}")
    return list(simulate(simulation, START, CALM))


def restarted(name: str, seconds: float = 15.0) -> tuple[Incident, list[View]]:
    """The incident shortly after it was detected, and the views of a monitor started then."""
    (whole,) = played(name).last.incidents
    assert whole.detected_at is not None
    (before,) = next(
        view.incidents
        for view in played(name).views
        if view.incidents and view.time >= whole.detected_at + seconds
    )
    cut = next(view.time for view in played(name).views if before in view.incidents)
    monitor = Monitor(Settings(), wanted=rule_inputs())
    monitor.recover([before], cut)
    later = [reading for reading in readings(name) if reading.time > cut]
    return before, list(play(later, monitor))


@pytest.mark.parametrize("name", KINDS)
def test_a_restart_goes_on_with_the_same_incident(name: str) -> None:
    before, views = restarted(name)
    # Nothing else opens, and what is open does not close in between: no one is paged twice.
    assert {incident.id for view in views for incident in view.incidents} == {before.id}
    states = [view.incidents[0].open for view in views]
    assert states[0]
    assert states == sorted(states, reverse=True)
    (last,) = views[-1].incidents
    (whole,) = played(name).last.incidents
    assert last.closed_at is not None
    assert whole.closed_at is not None
    assert abs(last.closed_at - whole.closed_at) <= 15
    assert (last.opened_at, last.detected_at, last.returns) == (
        before.opened_at, before.detected_at, 0,
    )  # fmt: skip
    assert (last.node, last.component, last.job) == (before.node, before.component, before.job)
    assert last.summary
    assert last.evidence


def test_what_returns_after_a_restart_is_the_same() -> None:
    (whole,) = played("efa-degraded").last.incidents
    assert whole.closed_at is not None
    first = readings("efa-degraded")
    monitor = Monitor(Settings(), wanted=rule_inputs(), sparse=CALM)
    # As if it had been open and closed just before.
    early = Incident(
        "earlier", whole.kind, whole.severity, whole.summary, START - 90, START - 60,
        whole.job, whole.node, whole.component, subjects=whole.subjects,
    )  # fmt: skip
    monitor.recover([early], START)
    *_, last = play([reading for reading in first if reading.time < whole.opened_at + 60], monitor)
    (incident,) = last.incidents
    assert (incident.id, incident.returns, incident.open) == ("earlier", 1, True)


def test_an_incident_found_again_in_the_past_keeps_its_id() -> None:
    """A restarted program may replay what its agents have kept."""
    (whole,) = played("efa-degraded").last.incidents
    assert whole.detected_at is not None
    before = Incident(
        "kept", whole.kind, whole.severity, whole.summary, whole.opened_at - 1, None,
        whole.job, whole.node, whole.component, whole.evidence, whole.detected_at + 3,
        subjects=whole.subjects,
    )  # fmt: skip
    monitor = Monitor(Settings(), wanted=rule_inputs(), sparse=CALM)
    monitor.recover([before], whole.detected_at + 10)
    past = [
        reading for reading in readings("efa-degraded") if reading.time < whole.detected_at + 20
    ]
    *_, last = play(past, monitor)
    (incident,) = last.incidents
    assert (incident.id, incident.opened_at) == ("kept", before.opened_at)
    assert incident.detected_at == before.detected_at


def test_incidents_of_rules_that_are_gone_are_not_recovered() -> None:
    (whole,) = played("efa-degraded").last.incidents
    monitor = Monitor(Settings(), wanted=rule_inputs())
    gone = Incident("a", "no_rule", whole.severity, "", START, subjects=(("x", None),))
    monitor.recover([gone], START)
    *_, last = play(readings("efa-degraded")[:40], monitor)
    assert last.incidents == ()


@pytest.mark.parametrize("name", KINDS[:2])
def test_two_programs_give_the_same_id(name: str) -> None:
    """Their ticks are half a second apart."""
    simulation = parse(f"sim:{name}?{SCENARIOS[name]}&{SMALL}")
    (whole,) = played(name).last.incidents
    assert whole.detected_at is not None
    until = [
        reading for reading in simulate(simulation, START) if reading.time < whole.detected_at + 5
    ]
    *_, last = play(until, Monitor(Settings(), wanted=rule_inputs()), tick_at=START + 0.5)
    assert [incident.id for incident in last.incidents] == [whole.id]
    onset = whole.opened_at // TUNING.onset_bucket * TUNING.onset_bucket
    assert whole.id.endswith(f":{onset:.0f}")
