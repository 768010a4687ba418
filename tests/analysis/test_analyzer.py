"""The first rules on small hand-made streams; the simulator's scenarios have their own test."""

from collections.abc import Iterable

import msgspec
import pytest

from tests.reports import (
    efa_payload,
    efa_reading,
    monitor_reading,
    report,
    runtime,
    step_reading,
)
from trntop.analysis.rulebook import RULEBOOK, condition
from trntop.model import Incident, Reading, Severity, View
from trntop.monitor import Monitor, play
from trntop.settings import Analysis, Settings


def views(readings: Iterable[Reading], **analysis: object) -> list[View]:
    settings = Settings(analysis=msgspec.structs.replace(Analysis(), **analysis))
    return list(play(sorted(readings, key=lambda one: one.time), Monitor(settings)))


def incidents(readings: Iterable[Reading], **analysis: object) -> tuple[Incident, ...]:
    return views(readings, **analysis)[-1].incidents


def steps(
    start: int, end: int, comm: float, exposed: float, nodes: int = 4, **waits: float
) -> list[Reading]:
    return [
        step_reading(
            float(t), node=f"n{node}", rank=node, step=t // 4,
            comm=waits.get(f"n{node}", comm), exposed=min(exposed, waits.get(f"n{node}", comm)),
        )
        for t in range(start, end, 4)
        for node in range(nodes)
    ]  # fmt: skip


def test_comm_bound_opens_names_and_closes() -> None:
    stream = steps(0, 60, 0.6, 0.2) + steps(60, 160, 1.4, 0.6) + steps(160, 260, 0.6, 0.2)
    # One card of n2 sends 3 % of its packets again while the job is slow.
    for node in range(4):
        for t in range(260):
            bad = node == 2 and 60 <= t < 160
            sent = t * 1e6
            resent = 0.03 * (t - 60) * 1e6 if bad else 10.0
            port = {"tx_bytes": sent * 1000, "tx_pkts": sent, "retrans_pkts": resent}
            well = port | {"retrans_pkts": 10.0}
            stream.append(efa_reading(efa_payload(sick=port, well=well), float(t), f"n{node}"))
    (incident,) = incidents(stream)
    assert incident.kind == "comm_bound"
    assert incident.severity is Severity.WARNING
    assert (incident.job, incident.node, incident.component) == ("job", "n2", "efa:sick")
    assert 60 <= incident.opened_at <= 90
    assert incident.closed_at is not None
    assert 160 <= incident.closed_at <= 200
    assert "comm is 35 % of job's step" in incident.summary
    assert len(incident.summary) <= 120


def test_exposed_communication_is_critical() -> None:
    (incident,) = incidents(steps(0, 100, 1.4, 1.2))
    assert incident.severity is Severity.CRITICAL
    assert incident.open
    assert incident.node is None
    assert "no node stands out" in incident.summary


def test_the_straggler_waits_least() -> None:
    (incident,) = incidents(steps(0, 100, 1.6, 0.9, n3=0.3))
    assert incident.node == "n3"
    assert incident.component is None


def test_below_the_limit_is_calm_and_thresholds_are_settings() -> None:
    calm = steps(0, 100, 0.9, 0.2)
    assert incidents(calm) == ()
    assert [one.kind for one in incidents(calm, comm_share=0.2)] == ["comm_bound"]
    assert incidents(steps(0, 100, 1.4, 0.2), disabled=("comm_bound",)) == ()


def test_one_slow_step_is_no_incident() -> None:
    stream = steps(0, 60, 0.6, 0.2) + steps(60, 64, 1.6, 0.2) + steps(64, 120, 0.6, 0.2)
    assert incidents(stream) == ()


def test_node_silent() -> None:
    stream = [monitor_reading(report(runtime()), float(t), "a") for t in range(60)]
    stream += [monitor_reading(report(runtime()), float(t), "b") for t in range(60) if t % 50 < 10]
    ticks = views(stream)
    (incident,) = ticks[-1].incidents
    assert (incident.kind, incident.node) == ("node_silent", "b")
    assert incident.severity is Severity.CRITICAL
    assert 24 <= incident.opened_at <= 26
    assert incident.closed_at == pytest.approx(50, abs=1.5)
    assert any("neuron-monitor" in item.text for item in incident.evidence)


def test_a_training_loop_alone_is_never_silent() -> None:
    loop = [step_reading(float(t), node="b", step=t) for t in range(10)]
    beat = [monitor_reading(report(runtime()), float(t), "a") for t in range(601)]
    assert incidents([*beat, *loop]) == ()
    both = [*loop, monitor_reading(report(runtime()), 5.0, "b")]
    assert [one.node for one in incidents([*beat, *both])] == ["b"]


def test_memory_pressure_names_the_fullest_device() -> None:
    full = int(0.97 * (32 << 30))

    def reading(t: int) -> Reading:
        memory = {0: 0, 1: 0, 2: full if 20 <= t < 60 else 0, 3: 0}
        payload = report(
            runtime(utilization=dict.fromkeys(range(4), 9.0), memory=memory), devices=2
        )
        return monitor_reading(payload, float(t))

    (incident,) = incidents(map(reading, range(100)))
    assert (incident.kind, incident.component) == ("memory_pressure", "device:1")
    assert incident.opened_at == pytest.approx(20, abs=1)
    assert incident.closed_at == pytest.approx(60, abs=1)


def test_execution_errors() -> None:
    stream = [
        monitor_reading(report(runtime(), runtime(101, timed_out=2 if t == 30 else 0)), float(t))
        for t in range(100)
    ]
    (incident,) = incidents(stream)
    assert (incident.kind, incident.node, incident.component) == (
        "execution_errors",
        "n",
        "runtime:101",
    )
    assert "timed out" in incident.summary
    assert not incident.open


def test_uncorrected_ecc_counts_only_what_is_new() -> None:
    since_boot = [
        monitor_reading(report(runtime(), devices=2, ecc={0: 7}), float(t)) for t in range(50)
    ]
    assert incidents(since_boot) == ()
    new = [
        monitor_reading(report(runtime(), devices=2, ecc={0: 7, 1: int(t >= 20)}), float(t))
        for t in range(50)
    ]
    (incident,) = incidents(new)
    assert (incident.kind, incident.component) == ("ecc_uncorrected", "device:1")
    assert incident.open
    assert incident.severity is Severity.CRITICAL


def test_a_device_missing_from_one_report_is_no_new_error() -> None:
    def reading(t: int) -> Reading:
        payload = report(runtime(), devices=2, ecc={0: 7, 1: 3})
        if t == 20:
            del payload["system_data"]["neuron_hw_counters"]["neuron_devices"][1]
        return monitor_reading(payload, float(t))

    assert incidents(map(reading, range(50))) == ()


def test_a_slow_source_is_not_silent_between_its_readings() -> None:
    stream = [monitor_reading(report(runtime(period=60.0)), 60.0 * t) for t in range(10)]
    assert incidents(stream) == ()


def test_an_incident_ends_where_the_clock_is_set_back() -> None:
    stream = [
        *steps(1000, 1100, 1.4, 0.2),
        *[one for t in range(100, 140, 4) for one in steps(t, t + 4, 0.6, 0.2)],
    ]
    *_, view = play(stream, Monitor(Settings()))
    (incident,) = view.incidents
    assert incident.closed_at is not None
    assert incident.opened_at < incident.closed_at <= 1100


def test_the_window_is_seconds_at_any_period() -> None:
    for period in (1.0, 5.0):
        monitor = Monitor(Settings(), period)
        *_, view = play(steps(0, 60, 0.6, 0.2) + steps(60, 120, 1.6, 0.2), monitor)
        (incident,) = view.incidents
        assert 60 < incident.opened_at <= 80


def test_a_stream_whose_clock_is_set_back() -> None:
    stream = [monitor_reading(report(runtime()), 10_000.0 + t) for t in range(20)]
    stream += [monitor_reading(report(runtime()), 5_000.0 + t) for t in range(20)]
    result = list(play(stream, Monitor(Settings())))
    assert result[-1].incidents == ()
    assert result[-1].time == 5_019.0


def test_every_rule_says_its_condition() -> None:
    for rule in RULEBOOK:
        assert condition(rule, Analysis())
        assert rule.advice.endswith((".", "?"))
