import pytest

from trntop.collectors.simulator import SCENARIOS, Simulation, parse
from trntop.errors import UsageError


def test_defaults() -> None:
    assert parse("sim:healthy") == parse("sim:") == parse("healthy") == Simulation()
    assert Simulation().instance_type == "trn2.48xlarge"
    assert Simulation().minutes is None


def test_every_parameter() -> None:
    text = "sim:hang?nodes=3&seed=11&type=trn1.32xlarge&minutes=2.5&runtimes=4&job=my+run%2F7"
    assert parse(text) == Simulation("hang", 3, 11, "trn1.32xlarge", 2.5, 4, "my run/7")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_is_known_and_explained(scenario: str) -> None:
    assert parse(f"sim:{scenario}").scenario == scenario
    assert SCENARIOS[scenario].summary


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sim:efa-degarded", ["'efa-degarded'", "did you mean 'efa-degraded'?", "healthy", "demo"]),
        ("sim:zzzz", ["unknown scenario 'zzzz'", "known: healthy"]),
        ("sim:hang?node=3", ["unknown parameter 'node'", "did you mean 'nodes'?", "runtimes"]),
        ("sim:hang?type=trn2.49xlarge", ["'trn2.49xlarge'", "did you mean 'trn2.48xlarge'?"]),
        ("sim:hang?nodes=0", ["nodes=0", "1 to 2000"]),
        ("sim:hang?nodes=2001", ["nodes=2001", "1 to 2000"]),
        ("sim:hang?nodes=many", ["nodes=many", "whole number"]),
        ("sim:hang?nodes", ["nodes=", "whole number"]),
        ("sim:hang?nodes=٣", ["whole number"]),
        ("sim:hang?nodes=3&nodes=4", ["'nodes'", "twice"]),
        ("sim:hang?seed=-1", ["seed=-1", "whole number"]),
        ("sim:hang?seed=9999999999999999999", ["seed=", "out of range"]),
        ("sim:hang?minutes=0", ["minutes=0", "out of range"]),
        ("sim:hang?minutes=1441", ["minutes=1441", "1440"]),
        ("sim:hang?minutes=nan", ["minutes=nan", "no number"]),
        ("sim:hang?runtimes=65", ["runtimes=65", "1 to 64"]),
        ("sim:hang?job=", ["job=''"]),
        ("sim:hang?job=a%1b[31m", ["job=", "printable"]),
        ("sim:efa-degraded?type=trn1.2xlarge", ["needs EFA cards", "trn1.2xlarge"]),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
