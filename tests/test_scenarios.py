"""The analyzer on the simulator's scenarios, against their truth. All input is simulated."""

import pytest

from trntop.collectors.simulator import Simulation, Truth, parse, simulate, truth
from trntop.model import Incident, Severity
from trntop.monitor import Monitor, play
from trntop.settings import Settings

START = 1.76e9


def run(text: str) -> tuple[Simulation, tuple[Incident, ...]]:
    simulation = parse(text)
    *_, view = play(simulate(simulation, START), Monitor(Settings()))
    return simulation, view.incidents


def the_truth(simulation: Simulation, kind: str) -> Truth:
    return next(one for one in truth(simulation, START) if one.kind == kind)


@pytest.mark.parametrize("seed", [7, 8, 9])
def test_a_degraded_card_is_found_named_and_cleared(seed: int) -> None:
    simulation, incidents = run(f"sim:efa-degraded?nodes=4&minutes=8&seed={seed}")
    real = the_truth(simulation, "efa_degraded")
    (incident,) = incidents
    assert incident.kind == "comm_bound"
    assert incident.job == simulation.job
    assert (incident.node, incident.component) == (real.node, real.component)
    assert 0 <= incident.opened_at - real.onset <= 30
    assert incident.closed_at is not None
    assert 0 <= incident.closed_at - real.end <= 45


def test_healthy_raises_nothing_in_30_minutes() -> None:
    assert run("sim:healthy?nodes=2&minutes=30")[1] == ()


@pytest.mark.parametrize(
    ("scenario", "kind", "severity"),
    [
        ("silent-node", "node_silent", Severity.CRITICAL),
        ("memory-filling", "memory_pressure", Severity.WARNING),
        ("ecc", "ecc_uncorrected", Severity.CRITICAL),
        ("execution-errors", "execution_errors", Severity.CRITICAL),
    ],
)
def test_each_rule_finds_its_scenario(scenario: str, kind: str, severity: Severity) -> None:
    simulation, incidents = run(f"sim:{scenario}?nodes=3&minutes=8&type=trn1.32xlarge")
    real = the_truth(simulation, kind)
    (incident,) = incidents
    assert (incident.kind, incident.severity) == (kind, severity)
    assert incident.node == real.node
    assert real.component in (None, incident.component)
    assert incident.opened_at >= real.onset


def test_a_slow_node_is_the_one_that_waits_least() -> None:
    simulation, incidents = run("sim:slow-node?nodes=4&minutes=8&type=trn1.32xlarge")
    assert {incident.node for incident in incidents} == {the_truth(simulation, "straggler").node}


def test_summaries_are_one_short_sentence() -> None:
    _, incidents = run("sim:demo?nodes=4&minutes=13&type=trn1.32xlarge")
    assert len({incident.kind for incident in incidents}) >= 3
    for incident in incidents:
        assert len(incident.summary) <= 120
        assert incident.evidence
