"""Rules of the user's own at work: on which parts they hold, and what they report."""

from collections.abc import Iterable

import pytest

from tests.analysis.harness import Detection, detections
from tests.reports import (
    efa_payload,
    efa_reading,
    encode,
    monitor_reading,
    report,
    runtime,
    step_reading,
)
from trntop.analysis.custom import Custom
from trntop.core.custom_rule import CustomRule
from trntop.core.model import Reading
from trntop.core.settings import Analysis, Settings
from trntop.session.monitor import Monitor, play


def found(when: str, readings: Iterable[Reading], **options: float) -> list[Detection]:
    return detections(Custom(CustomRule(name="own", when=when, **options)), readings)  # type: ignore[arg-type]


def host(time: int, busy: float) -> Reading:
    return Reading("n", "host", float(time), encode({"cpu": {"busy": busy}}))


def monitor(time: int, utilization: dict[int, float], used: int = 1 << 30) -> Reading:
    memory = dict.fromkeys(utilization, used)
    payload = report(runtime(4711, utilization, memory), devices=len(utilization) // 2)
    return monitor_reading(payload, float(time))


def test_a_core_below_a_limit_is_named() -> None:
    stream = [
        monitor(t, {0: 90.0, 1: 90.0, 2: 90.0, 3: 20.0 if 10 <= t < 20 else 90.0})
        for t in range(30)
    ]
    (detection,) = found("neuroncore_utilization_ratio < 0.5", stream)
    assert detection.key == ("n", 3)
    assert 10 <= detection.begin <= 11
    assert 20 <= detection.end <= 21
    verdict = detection.verdict
    assert (verdict.node, verdict.component, verdict.job) == ("n", "core:3", None)
    assert verdict.fields["where"] == "n core:3"
    assert verdict.fields["value"] == "20 %"
    assert verdict.fields["limit"] == "50 %"
    (evidence,) = verdict.evidence
    assert evidence.text == "core:3: neuroncore_utilization_ratio is 20 %, limit 50 %"
    assert (evidence.value, evidence.limit) == (pytest.approx(0.2), 0.5)


def test_the_limit_itself_counts_with_an_equals_sign_only() -> None:
    stream = [monitor(t, {0: 50.0, 1: 100.0}) for t in range(10)]
    assert [detection.key for detection in found("neuroncore_utilization_ratio > 1", stream)] == []
    assert [detection.key for detection in found("neuroncore_utilization_ratio >= 1", stream)] == [
        ("n", 1)
    ]
    assert [
        detection.key for detection in found("neuroncore_utilization_ratio < 0.5", stream)
    ] == []
    keys = [detection.key for detection in found("neuroncore_utilization_ratio <= 0.5", stream)]
    assert keys == [("n", 0)]
    assert [detection.key for detection in found("neuroncore_utilization_ratio <= 0", stream)] == []


def test_it_clears_only_well_below_the_limit() -> None:
    values = [*[50.0] * 5, *[92.0] * 5, *[88.0] * 5, *[92.0] * 5, *[80.0] * 5]
    stream = [monitor(t, {0: value, 1: 0.0}) for t, value in enumerate(values)]
    when = "neuroncore_utilization_ratio > 0.9"
    assert len(found(when, stream)) == 1
    assert len(found(when, stream, clear=0.89)) == 2


def test_components_are_named_by_their_kind() -> None:
    devices = {
        "rdmap16s27": {"tx_bytes": 0.0, "tx_pkts": 0.0},
        "rdmap32s27": {"tx_bytes": 5e9, "tx_pkts": 1.0},
    }
    stream = [efa_reading(efa_payload(**devices), float(t)) for t in range(5)]
    stream += [monitor(t, {0: 90.0, 1: 90.0}, 30 << 30) for t in range(5)]
    stream += [step_reading(float(t), job="a/b", rank=3, step=t) for t in range(5)]

    def named(when: str) -> list[tuple[str | None, str | None, str]]:
        return [
            (detection.verdict.component, detection.verdict.job, detection.verdict.fields["value"])
            for detection in found(when, stream)
        ]

    assert named("efa_tx_bytes_total > 1e9") == [("efa:rdmap32s27", "a/b", "4.66 GiB")]
    assert named("device_memory_used_bytes > 40e9") == [("device:0", "a/b", "60.0 GiB")]
    assert named("rank_step_seconds >= 4") == [("rank:a/b/3", "a/b", "4.00 s")]
    assert named("job_step_seconds >= 4") == [(None, "a/b", "4.00 s")]
    assert named("runtime_loaded_models >= 1") == [("runtime:4711", "a/b", "1 models")]
    assert named("node_runtimes >= 1") == [(None, "a/b", "1 runtimes")]


def test_unknown_is_neither_unhealthy_nor_healthy() -> None:
    stream = [monitor(t, {0: 20.0, 1: 90.0}) for t in range(10)]
    # No source reports for a while: three periods later the value is absent, not back.
    stream += [host(t, 0.1) for t in range(10, 30)]
    (detection,) = found("neuroncore_utilization_ratio < 0.5", stream)
    assert detection.end > 28
    assert found("efa_retransmit_ratio >= 0", stream) == []


def test_the_monitor_runs_custom_rules_with_its_own() -> None:
    rules = (
        CustomRule(
            name="lazy", when="neuroncore_utilization_ratio < 0.5", hold=3.0, severity="info"
        ),
        CustomRule(name="off", when="neuroncore_utilization_ratio < 0.5"),
    )
    settings = Settings(analysis=Analysis(disabled=("off",)), rules=rules)
    stream = [monitor(t, {0: 90.0, 1: 20.0 if 10 <= t < 20 else 90.0}) for t in range(60)]
    (incident,) = list(play(stream, Monitor(settings)))[-1].incidents
    assert (incident.kind, incident.severity) == ("lazy", "info")
    assert (incident.node, incident.component) == ("n", "core:1")
    assert incident.summary == (
        "n core:1: neuroncore_utilization_ratio 20 % since 00:00:11 UTC, limit 50 %"
    )
    assert incident.closed_at is not None
