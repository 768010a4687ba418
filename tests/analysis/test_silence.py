"""Silent nodes on small hand-made streams."""

from tests.analysis.harness import Detection, detections
from tests.reports import monitor_reading, report, runtime, step_reading
from trntop.analysis.detectors.silence import NodeSilent
from trntop.catalog import FLEET
from trntop.core.model import Reading
from trntop.core.settings import Analysis

REPORTS = [monitor_reading(report(runtime()), float(t), "a") for t in range(201)]
"""A healthy node."""


def silent(*readings: Reading) -> list[Detection]:
    return detections(NodeSilent(Analysis(), 1.0), readings)


def test_a_node_that_falls_silent_and_comes_back() -> None:
    gone = [monitor_reading(report(runtime()), float(t), "b") for t in range(200) if t % 150 < 50]
    (found,) = silent(*REPORTS[:200], *gone)
    assert found.key == "b"
    assert 64 <= found.begin <= 66
    assert 150 <= found.end <= 152
    assert found.verdict.node == "b"
    assert found.verdict.since == 49.0
    assert found.verdict.fields == {"node": "b", "last": "neuron-monitor"}
    assert found.verdict.evidence[0].text == "neuron-monitor: last seen 00:00:49 UTC"


def test_whoever_spoke_last_is_named_first() -> None:
    steps = [step_reading(float(t), node="b", step=t) for t in range(30)]
    monitor = [monitor_reading(report(runtime()), float(t), "b") for t in range(20)]
    (found,) = silent(*REPORTS[:100], *steps, *monitor)
    assert found.verdict.fields["last"] == "steps"
    assert [evidence.text.partition(":")[0] for evidence in found.verdict.evidence] == [
        "steps",
        "neuron-monitor",
    ]


def test_a_training_loop_alone_is_never_silent() -> None:
    loop = [step_reading(float(t), node="b", step=t) for t in range(10)]
    assert silent(*REPORTS, *loop) == []
    (found,) = silent(*REPORTS, *loop, monitor_reading(report(runtime()), 5.0, "b"))
    assert found.key == "b"


def test_a_slow_source_is_not_silent_between_its_readings() -> None:
    assert (
        silent(*(monitor_reading(report(runtime(period=60.0)), 60.0 * t) for t in range(10))) == []
    )


def test_a_node_with_one_live_source_is_not_silent() -> None:
    steps = [step_reading(float(t), node="a", step=t) for t in range(20)]
    assert silent(*REPORTS[:100], *steps) == []


def test_no_node_is_silent_when_the_recording_ends() -> None:
    assert silent(*REPORTS[:20]) == []


def test_facts_of_a_list_are_no_sign_of_life_but_may_be_the_reason() -> None:
    spoke = [monitor_reading(report(runtime()), float(t), "b") for t in range(20)]
    lists = [
        Reading("b", FLEET, float(t), b'{"facts": {"instance_state": "stopped"}, "period": 30}')
        for t in range(0, 200, 30)
    ]
    (found,) = silent(*REPORTS[:200], *spoke, *lists)
    assert found.verdict.since == 19.0
    assert found.verdict.fields["last"] == "neuron-monitor"
    assert "EC2 reports: stopped" in found.verdict.evidence[0].text
