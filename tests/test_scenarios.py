"""The analyzer on the simulator's scenarios, against their truth. All input is simulated."""

import pytest

from tests.corpus import SCENARIOS, SMALL, START, played
from trntop.analysis.rule_inputs import rule_inputs
from trntop.collectors.simulator import SCENARIOS as ALL
from trntop.collectors.simulator import Simulation, Truth, parse, simulate, truth
from trntop.core.model import Incident
from trntop.core.settings import Settings
from trntop.session.monitor import Monitor, play

pytestmark = pytest.mark.xdist_group("corpus")


def run(text: str) -> tuple[Simulation, tuple[Incident, ...]]:
    simulation = parse(text)
    *_, view = play(simulate(simulation, START), Monitor(Settings(), wanted=rule_inputs()))
    return simulation, view.incidents


def test_every_scenario_has_its_test() -> None:
    assert SCENARIOS.keys() == set(ALL) - {"healthy", "demo"}


@pytest.mark.parametrize("name", SCENARIOS)
def test_one_cause_is_one_incident_and_named(name: str) -> None:
    simulation = played(name).simulation
    (real,) = truth(simulation, START)
    (incident,) = played(name).last.incidents
    assert incident.kind == real.kind
    assert (incident.node, incident.component) == (real.node, real.component)
    assert real.job in (None, incident.job)
    _check_times(incident, real, simulation)
    assert len(incident.summary) <= 120
    assert incident.evidence


def _check_times(incident: Incident, real: Truth, simulation: Simulation) -> None:
    assert incident.detected_at is not None
    assert real.onset - 8 <= incident.opened_at <= incident.detected_at
    assert real.onset <= incident.detected_at <= real.onset + 140
    assert simulation.minutes is not None
    if real.end < START + 60 * simulation.minutes - 60 and real.kind != "ecc_uncorrected":
        assert incident.closed_at is not None
        assert incident.closed_at - real.end <= 60


def test_a_degraded_efa_device_is_named_within_half_a_minute() -> None:
    (real,) = truth(played("efa-degraded").simulation, START)
    (incident,) = played("efa-degraded").last.incidents
    assert incident.detected_at is not None
    assert 0 <= incident.detected_at - real.onset <= 30


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 8])
def test_a_degraded_efa_device_of_a_large_instance_is_named_as_soon(seed: int) -> None:
    simulation, incidents = run(f"sim:efa-degraded?nodes=4&onset=90&minutes=4&seed={seed}")
    (real,) = truth(simulation, START)
    (incident,) = incidents
    assert (incident.node, incident.component) == (real.node, real.component)
    assert incident.detected_at is not None
    assert 0 <= incident.detected_at - real.onset <= 30


def test_healthy_raises_nothing() -> None:
    assert played("healthy").last.incidents == ()


@pytest.mark.slow
def test_healthy_raises_nothing_in_30_minutes() -> None:
    assert run("sim:healthy?nodes=2&minutes=30")[1] == ()


@pytest.mark.slow
def test_a_noisy_cluster_of_two_jobs_raises_nothing() -> None:
    text = (
        f"sim:healthy?nodes=8&minutes=8&{SMALL}&noise=2&jobs=2&stages=2&checkpoints=100&saving=12"
        "&blips=5&missing=0.03&resets=1&evaluations=170&skew=40"
    )
    assert run(text)[1] == ()


@pytest.mark.slow
def test_summaries_are_one_short_sentence() -> None:
    _, incidents = run(f"sim:demo?nodes=4&minutes=13&{SMALL}")
    assert len({incident.kind for incident in incidents}) >= 3
    for incident in incidents:
        assert len(incident.summary) <= 120
        assert incident.evidence
