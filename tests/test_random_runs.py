from collections import Counter
from functools import cache

from benchmarks.random_runs import LOTS, random_run
from trntop.collectors.simulator import Simulation, parse, truth
from trntop.collectors.simulator.effects import TRAITS
from trntop.collectors.simulator.scenarios import SCENARIOS


@cache
def drawn() -> list[Simulation]:
    return [random_run(seed) for seed in range(640)]


def kinds(simulation: Simulation) -> list[str]:
    return [one.kind for one in truth(simulation, 0.0)]


def test_every_kind_is_drawn_alike() -> None:
    first = Counter((kinds(one) or ["healthy"])[0] for one in drawn())
    assert set(first) == set(LOTS) == {"healthy", *(trait.kind for trait in TRAITS.values())}
    assert min(first.values()) > 20
    assert max(first.values()) < 65


def test_every_scenario_and_way_is_drawn() -> None:
    ways = {
        (phase.effect, phase.variant or TRAITS[phase.effect].variants[0])
        for one in drawn()
        for phase in one.play.phases
    }
    assert ways == {(effect, way) for effect, trait in TRAITS.items() for way in trait.variants}


def test_two_faults_are_of_two_kinds_and_come_one_after_the_other() -> None:
    twice = [one for one in drawn() if len(one.play.phases) > 1]
    assert 40 < len(twice) < 160
    for one in twice:
        first, second = one.play.phases
        assert first.effect is not second.effect
        assert second.begin >= first.end + 40.0 - 0.1


def test_what_is_drawn_can_be_written_out_and_played_again() -> None:
    for one in drawn():
        assert parse(str(one)) == one
        assert 4 <= one.nodes <= 16
        assert one.minutes is not None and 6 <= one.minutes <= 10
        assert one.nodes // (one.jobs * one.stages) >= 2
        assert set(one.scenario.split("+")) <= set(SCENARIOS)


def test_faults_come_after_a_baseline_and_before_the_end() -> None:
    for one in drawn():
        for real in truth(one, 0.0):
            assert real.kind == "version_skew" or real.onset >= 110.0
            assert real.onset < real.end <= one.length
