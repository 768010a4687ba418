import pytest

from trntop.collectors.simulator import SCENARIOS, Simulation, parse, spec
from trntop.core.errors import UsageError


def test_defaults() -> None:
    assert parse("sim:healthy") == parse("sim:") == parse("healthy") == Simulation()
    assert Simulation().instance_type == "trn2.48xlarge"
    assert Simulation().minutes is None


def test_every_parameter() -> None:
    text = "sim:hang?nodes=3&seed=11&type=trn1.32xlarge&minutes=2.5&runtimes=4&job=my+run%2F7"
    assert parse(text) == Simulation("hang", 3, 11, "trn1.32xlarge", 2.5, 4, "my run/7")
    text = (
        "sim:slow-node?onset=140&duration=200&depth=0.2&ramp=30&noise=2&jobs=2&stages=4&report_stage=1"
        "&checkpoints=120&saving=8.5&evaluations=200&warmup=60&blips=3&skew=30&missing=0.02&late=1"
        "&resets=2&probes=1"
    )
    assert parse(text) == Simulation(
        "slow-node", onset=(140,), duration=(200,), depth=(0.2,), ramp=(30,), noise=2, jobs=2,
        stages=4, report_stage=1, checkpoints=120, saving=8.5, evaluations=200, warmup=60, blips=3,
        skew=30, missing=0.02, late=1, resets=2, probes=1,
    )  # fmt: skip


def test_every_parameter_is_explained() -> None:
    for name in spec.PARAMETERS:
        assert spec.__doc__ is not None and f" {name}=" in spec.__doc__


@pytest.mark.parametrize(
    "text",
    [
        "sim:healthy",
        "sim:hang?nodes=3&seed=9007199254740993&job=my%20run/7",
        "sim:slow-node+ecc?onset=140,300&duration=100,2&depth=0.2,0&way=,sram&noise=1.5",
    ],
)
def test_a_simulation_can_be_written_out(text: str) -> None:
    assert str(parse(text)) == text


def test_joined_scenarios_have_one_value_for_all_or_one_each() -> None:
    slow, ecc = parse("sim:slow-node+ecc?onset=140,300&depth=0.2,0&way=,sram").play.phases
    assert (slow.effect, slow.begin, slow.end, slow.depth) == ("slow-node", 140, 320, 0.2)
    assert (ecc.effect, ecc.begin, ecc.end, ecc.variant) == ("ecc", 300, 302, "sram")
    slow, ecc = parse("sim:slow-node+ecc?onset=90&duration=10").play.phases
    assert (slow.begin, slow.end) == (ecc.begin, ecc.end) == (90, 100)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_is_known_and_explained(scenario: str) -> None:
    assert parse(f"sim:{scenario}").scenario == scenario
    assert SCENARIOS[scenario].summary


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sim:efa-degarded", ["unknown scenario efa-degarded; did you mean efa-degraded?"]),
        ("sim:zzzz", ["unknown scenario zzzz", "known: healthy"]),
        ("sim:hang?node=3", ["unknown parameter node; did you mean nodes?"]),
        ("sim:hang?type=trn2.49xlarge", ["trn2.49xlarge", "did you mean trn2.48xlarge?"]),
        ("sim:hang?nodes=0", ["nodes=0 is not valid: expected int >= 1"]),
        ("sim:hang?nodes=2001", ["nodes=2001", "<= 2000"]),
        ("sim:hang?nodes=many", ["nodes=many", "expected int"]),
        ("sim:hang?nodes", ["nodes=", "expected int"]),
        ("sim:hang?nodes=٣", ["expected int"]),
        ("sim:hang?nodes=3&nodes=4", ["'nodes'", "twice"]),
        ("sim:hang?seed=-1", ["seed=-1", ">= 0"]),
        ("sim:hang?seed=9999999999999999999", ["seed=", "<="]),
        ("sim:hang?minutes=0", ["minutes=0", "> 0"]),
        ("sim:hang?minutes=1441", ["minutes=1441", "1440"]),
        ("sim:hang?minutes=nan", ["minutes=nan", "> 0"]),
        ("sim:hang?runtimes=65", ["runtimes=65", "at most 64"]),
        ("sim:hang?job=", ["job= is not valid"]),
        ("sim:hang?job=a%1b[31m", ["job=", "printable"]),
        ("sim:efa-degraded?type=trn1.2xlarge", ["needs EFA devices", "trn1.2xlarge"]),
        ("sim:hang+slow-nod", ["unknown scenario slow-nod; did you mean slow-node?"]),
        ("sim:hang+demo", ["'demo'", "cannot be joined"]),
        ("sim:hang?depth=0.2", ["'hang'", "no depth"]),
        ("sim:healthy?onset=20", ["'healthy'", "takes no onset"]),
        ("sim:efa-degraded?depth=0.99", ["depth=0.99", "up to 0.95", "throughput"]),
        ("sim:hang?way=hots", ["unknown way of hang hots; did you mean host?"]),
        ("sim:slow-node?depth=0.1,0.2", ["2 values of depth for 1 scenarios"]),
        ("sim:slow-node?depth=a", ["depth=a", "expected float"]),
        ("sim:hang?duration=0", ["duration=0", ">= 1"]),
        ("sim:hang?missing=1", ["missing=1", "<= 0.9"]),
        ("sim:hang?jobs=3&nodes=2", ["jobs=3", "at most 2"]),
        ("sim:hang?stages=3&nodes=4&jobs=2", ["stages=3", "at most 2"]),
        ("sim:hang?report_stage=2", ["report_stage=2", "<= 1"]),
    ],
)
def test_errors_are_one_line(text: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
