from collections import Counter
from functools import cache

from benchmarks.random_runs import DRAWS, random_run
from trntop.collectors.simulator import Simulation, parse, truth
from trntop.collectors.simulator.effects import TRAITS
from trntop.collectors.simulator.scenarios import SCENARIOS


@cache
def drawn() -> list[Simulation]:
    return [random_run(seed) for seed in range(640)]


def kinds(simulation: Simulation) -> list[str]:
    return [fault.kind for fault in truth(simulation, 0.0)]


def test_every_kind_is_drawn_equally_often() -> None:
    first = Counter((kinds(simulation) or ["healthy"])[0] for simulation in drawn())
    assert set(first) == set(DRAWS) == {"healthy", *(trait.kind for trait in TRAITS.values())}
    assert min(first.values()) > 20
    assert max(first.values()) < 65


def test_every_scenario_and_way_is_drawn() -> None:
    ways = {
        (phase.effect, phase.variant or TRAITS[phase.effect].variants[0])
        for simulation in drawn()
        for phase in simulation.play.phases
    }
    assert ways == {(effect, way) for effect, trait in TRAITS.items() for way in trait.variants}


def test_two_faults_are_of_two_kinds_and_come_one_after_the_other() -> None:
    twice = [simulation for simulation in drawn() if len(simulation.play.phases) > 1]
    assert 40 < len(twice) < 160
    for simulation in twice:
        first, second = simulation.play.phases
        assert first.effect is not second.effect
        assert second.begin >= first.end + 40.0 - 0.1


def test_what_is_drawn_can_be_written_out_and_played_again() -> None:
    for simulation in drawn():
        assert parse(str(simulation)) == simulation
        assert 4 <= simulation.nodes <= 16
        assert simulation.minutes is not None and 6 <= simulation.minutes <= 10
        assert simulation.nodes // (simulation.jobs * simulation.stages) >= 2
        assert set(simulation.scenario.split("+")) <= set(SCENARIOS)


def test_faults_come_after_a_baseline_and_before_the_end() -> None:
    for simulation in drawn():
        for real in truth(simulation, 0.0):
            assert real.kind == "version_skew" or real.onset >= 110.0
            assert real.onset < real.end <= simulation.length
