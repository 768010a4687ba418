"""All rules at once on small hand-made streams; the simulator's scenarios have their own test."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from string import Formatter
from typing import Any

import msgspec
import pytest

from tests.analysis.training import (
    KINDS,
    SPINS,
    Job,
    Pause,
    Slow,
    analyzed,
    incidents,
    named,
    views,
)
from tests.reports import (
    efa_payload,
    efa_reading,
    host_reading,
    monitor_reading,
    report,
    runtime,
    step_reading,
)
from trntop.analysis.rulebook import RULEBOOK, rules
from trntop.core.errors import SettingsError
from trntop.core.model import Cluster, Incident, Reading, Severity, SourceState, State, Status
from trntop.core.settings import Analysis, Settings
from trntop.session.monitor import Monitor, play

GIB = 1 << 30


def steps(
    start: int, end: int, comm: float, exposed: float, nodes: int = 4, **waits: float
) -> list[Reading]:
    """Steps of 4 s; who waits less than `comm` computes instead."""
    return [
        step_reading(
            float(t), node=f"n{node}", rank=node, step=t // 4,
            comm=waits.get(f"n{node}", comm), exposed=min(exposed, waits.get(f"n{node}", comm)),
        )
        for t in range(start, end, 4)
        for node in range(nodes)
    ]  # fmt: skip


def efa_readings(
    seconds: int, begin: float, end: float, nodes: int = 4, bad: int = 2
) -> list[Reading]:
    """Two EFA devices a node; one of one node retransmits 3 % of its packets for a while."""
    stream = []
    for node in range(nodes):
        retransmitted = 0.0
        for t in range(seconds):
            sent = t * 1e6
            retransmitted += 0.03e6 if node == bad and begin <= t < end else 0.0
            healthy = {"tx_bytes": sent * 1000, "tx_pkts": sent, "retrans_pkts": 10.0}
            faulty = healthy | {"retrans_pkts": 10.0 + retransmitted}
            stream.append(
                efa_reading(efa_payload(faulty=faulty, healthy=healthy), float(t), f"n{node}")
            )
    return stream


def test_an_efa_device_that_slows_its_job_is_one_incident() -> None:
    stream = steps(0, 60, 0.6, 0.2) + steps(60, 160, 1.4, 0.6) + steps(160, 220, 0.6, 0.2)
    (incident,) = incidents(stream + efa_readings(220, 60, 160))
    assert incident.kind == "efa_degraded"
    assert (incident.job, incident.node, incident.component) == ("job", "n2", "efa:faulty")
    assert 55 <= incident.opened_at <= 90
    assert incident.closed_at is not None
    assert 160 <= incident.closed_at <= 200
    assert len(incident.summary) <= 120
    assert any("communication rose" in item.text for item in incident.evidence)


def test_comm_bound_alone() -> None:
    stream = steps(0, 60, 0.6, 0.2) + steps(60, 160, 1.4, 0.6) + steps(160, 260, 0.6, 0.2)
    (incident,) = incidents(stream)
    assert incident.kind == "comm_bound"
    assert incident.severity is Severity.WARNING
    assert (incident.job, incident.node, incident.component) == ("job", None, None)
    assert 60 <= incident.opened_at <= 90
    assert incident.closed_at is not None
    assert 160 <= incident.closed_at <= 200
    assert re.match(r"job: communication rose from 15 to 3\d % of step time", incident.summary)
    assert "no node stands out" in incident.summary


def test_exposed_communication_is_critical() -> None:
    (incident,) = incidents(steps(0, 100, 1.4, 1.2))
    assert incident.severity is Severity.CRITICAL
    assert incident.open
    assert incident.node is None
    assert "no node stands out" in incident.summary


def test_the_straggler_waits_least() -> None:
    stream = steps(0, 100, 0.6, 0.2) + steps(100, 200, 1.6, 0.9, n3=0.3)
    (incident,) = incidents(stream)
    assert (incident.kind, incident.node, incident.component) == ("straggler", "n3", None)


def test_below_the_limit_is_calm_and_thresholds_are_settings() -> None:
    calm = steps(0, 100, 0.9, 0.2)
    assert incidents(calm) == ()
    assert [incident.kind for incident in incidents(calm, comm_share=0.2)] == ["comm_bound"]
    assert incidents(steps(0, 100, 1.4, 0.2), disabled=("comm_bound",)) == ()


def test_one_slow_step_is_no_incident() -> None:
    stream = steps(0, 60, 0.6, 0.2) + steps(60, 64, 1.6, 0.2) + steps(64, 120, 0.6, 0.2)
    assert incidents(stream) == ()


def test_node_silent() -> None:
    stream = [monitor_reading(report(runtime()), float(t), "a") for t in range(60)]
    stream += [monitor_reading(report(runtime()), float(t), "b") for t in range(60) if t % 50 < 10]
    (incident,) = incidents(stream)
    assert (incident.kind, incident.node) == ("node_silent", "b")
    assert incident.severity is Severity.CRITICAL
    # Silent since its last word, not since the limit was passed.
    assert incident.opened_at == pytest.approx(9, abs=1.5)
    assert incident.detected_at is not None
    assert 24 <= incident.detected_at <= 28
    assert incident.closed_at == pytest.approx(50, abs=1.5)
    assert any("neuron-monitor" in item.text for item in incident.evidence)


def test_a_node_of_a_job_that_falls_silent_is_one_incident() -> None:
    """Its job stalls with it."""
    job = Job(pauses=(Pause(60, 300, SPINS),))
    stream = [reading for reading in job.readings(130) if reading.node != "n1" or reading.time < 60]
    (incident,) = incidents(stream)
    assert (incident.kind, incident.node) == ("node_silent", "n1")


def test_a_training_loop_alone_is_never_silent() -> None:
    loop = [step_reading(float(t), node="b", step=t) for t in range(10)]
    keepalive = [monitor_reading(report(runtime()), float(t), "a") for t in range(121)]
    silence = {"disabled": tuple(rule.kind for rule in RULEBOOK if rule.kind != "node_silent")}
    assert incidents([*keepalive, *loop], **silence) == ()
    both = [*loop, monitor_reading(report(runtime()), 5.0, "b")]
    assert [incident.node for incident in incidents([*keepalive, *both], **silence)] == ["b"]


def full(t: int, begin: float, end: float) -> Reading:
    much = int(0.97 * 32 * GIB) if begin <= t < end else 0
    memory = {0: 0, 1: 0, 2: much, 3: 0}
    own = runtime(utilization=dict.fromkeys(range(4), 9.0), memory=memory)
    return monitor_reading(report(own, devices=2), float(t))


def test_memory_pressure_names_the_fullest_device() -> None:
    (incident,) = incidents(full(t, 20, 60) for t in range(100))
    assert (incident.kind, incident.component) == ("memory_pressure", "device:1")
    assert incident.opened_at == pytest.approx(20, abs=6)
    assert incident.closed_at == pytest.approx(60, abs=6)


def test_missing_reports_neither_open_nor_close_memory_pressure() -> None:
    readings = [full(t, 20, 1000) for t in range(160) if not 60 <= t < 110]
    found = incidents(readings, disabled=("node_silent",))
    (incident,) = found
    assert (incident.kind, incident.open, incident.returns) == ("memory_pressure", True, 0)


def test_execution_errors() -> None:
    stream = [
        monitor_reading(report(runtime(), runtime(101, timed_out=2 if t == 30 else 0)), float(t))
        for t in range(100)
    ]
    (incident,) = incidents(stream)
    assert (incident.kind, incident.node) == ("execution_errors", "n")
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
    stream = [monitor_reading(report(runtime(period=60.0)), 60.0 * t) for t in range(6)]
    assert incidents(stream) == ()


def test_an_incident_ends_where_the_clock_is_set_back() -> None:
    stream = [
        *steps(1000, 1100, 1.4, 0.2),
        *[reading for t in range(100, 140, 4) for reading in steps(t, t + 4, 0.6, 0.2)],
    ]
    *_, view = play(stream, Monitor(Settings()))
    (incident,) = view.incidents
    assert incident.closed_at is not None
    assert incident.opened_at < incident.closed_at <= 1100


def test_the_same_again_in_another_time_is_another_incident() -> None:
    stream = [*steps(1000, 1100, 1.4, 0.2), *steps(100, 200, 1.4, 0.2)]
    *_, view = play(stream, Monitor(Settings()))
    assert [incident.kind for incident in view.incidents] == ["comm_bound"] * 2
    assert [incident.open for incident in view.incidents] == [True, False]
    assert all(
        incident.closed_at is None or incident.opened_at < incident.closed_at
        for incident in view.incidents
    )


def test_the_window_is_seconds_at_any_period() -> None:
    for period in (1.0, 5.0):
        found = incidents(steps(0, 60, 0.6, 0.2) + steps(60, 120, 1.6, 0.2), period)
        (incident,) = found
        assert 60 < incident.opened_at <= 80


def test_a_stream_whose_clock_is_set_back() -> None:
    stream = [monitor_reading(report(runtime()), 10_000.0 + t) for t in range(20)]
    stream += [monitor_reading(report(runtime()), 5_000.0 + t) for t in range(20)]
    result = list(play(stream, Monitor(Settings())))
    assert result[-1].incidents == ()
    assert result[-1].time == 5_019.0


def test_nothing_at_all() -> None:
    monitor = Monitor(Settings())
    assert monitor.tick(0.0).incidents == ()
    assert monitor.tick(1.0).incidents == ()
    monitor.status(Status("n", "neuron-monitor", State.DOWN, "not installed"))
    assert monitor.tick(2.0).incidents == ()


# The same for all.


def test_all_nodes_degrade_together() -> None:
    """Forty nodes fall silent within half a minute; ten live on."""
    found = analyzed(flooded(40), (*KINDS, "node_silent"))
    assert [incident.kind for incident in found] == ["node_silent"], named(found)[:10]
    (incident,) = found
    assert (incident.node, incident.component) == (None, None)
    assert len(incident.summary) <= 120


def flooded(nodes: int) -> Iterable[Cluster]:
    """All nodes but ten fall silent, one after the other."""
    for cluster in Job(nodes=nodes + 10, reporting=0).clusters(85):
        views = {}
        for index, (name, view) in enumerate(cluster.nodes.items()):
            last = 40.0 + index % 20 if index < nodes else 1e9
            known_until = min(cluster.time, last)
            source = SourceState("neuron-monitor", State.FRESH, "", known_until, 1.0)
            frame = replace(view.frame, sources=(source,))
            if known_until < cluster.time:
                frame = replace(frame, columns={})
            views[name] = replace(view, frame=frame)
        yield Cluster(cluster.time, views)


# Every kind of incident has its fields.


def of_kind(kind: str) -> tuple[Incident, ...]:
    """What is found in a stream with one fault."""
    only: dict[str, Any] = {
        "disabled": tuple(rule.kind for rule in RULEBOOK if rule.kind != kind), "idle": 30.0,
    }  # fmt: skip
    return incidents(STREAMS[kind](), **only)


def two_processes(t: int) -> Reading:
    busy, idle = (
        runtime(utilization={0: 90.0, 1: 90.0}),
        runtime(101, utilization={2: 0.0, 3: 0.0}, completed=0),
    )
    return monitor_reading(report(busy, idle, devices=2), float(t))


def counted(without: bool, t: int, ecc: int = 0) -> Reading:
    payload = report(runtime(), devices=4, ecc={1: ecc})
    if without:
        del payload["system_data"]["neuron_hw_counters"]["neuron_devices"][3]
        payload["neuron_hardware_info"]["neuron_device_count"] = 3
    return monitor_reading(payload, float(t))


def silent_device(t: int) -> Reading:
    """The EFA device `dead` has no more traffic while its three peers do."""
    efa_readings = {}
    for name in ("a", "b", "c", "dead"):
        sent = min(t, 40) if name == "dead" else t
        efa_readings[name] = {"tx_bytes": sent * 2e9, "rx_bytes": sent * 2e9,
                       "tx_pkts": sent * 1e6, "rx_pkts": sent * 1e6}  # fmt: skip
    return efa_reading(efa_payload(**efa_readings), float(t))


def versions(node: int, t: int) -> Reading:
    devices = {"0": {"cores": {"0": {"device_mem": {"total": 1}}}}}
    payload = {"driver": "2.30.2.0" if node else "2.19.1.0", "period": 10, "devices": devices}
    return Reading(f"n{node}", "neuron-sysfs", float(t), json.dumps(payload).encode())


def skewed() -> list[Reading]:
    return [
        *Job().readings(60),
        *(versions(node, t) for t in range(0, 61, 10) for node in range(4)),
    ]


def probes() -> list[Reading]:
    """Three nodes probe each other; one link becomes three times as slow."""
    names = ("n0", "n1", "n2")
    links = [(client, other) for client in names for other in names if client != other]
    readings = []
    for t in range(0, 240, 20):
        for index, (node, peer) in enumerate(links):
            slow = t >= 140 and (node, peer) == ("n1", "n2")
            seconds = (48e-6 if slow else 16e-6) + index * 1e-7
            result = {
                "tool": "fi_pingpong", "peer": peer, "size_bytes": 64, "statistic": "mean",
                "seconds": seconds, "load": "idle",
            }  # fmt: skip
            readings.append(Reading(node, "probe", t + 3.0 * index, json.dumps(result).encode()))
    return readings


def slower() -> list[Reading]:
    """Steps of 2 s, then of 3 s."""
    times = [2.0 * number for number in range(60)] + [120.0 + 3.0 * number for number in range(40)]
    return [
        step_reading(time, node=f"n{node}", rank=node, step=number, seconds=2.0 + (time >= 123))
        for number, time in enumerate(times)
        for node in range(3)
    ]


STREAMS: dict[str, Any] = {
    "slowdown": slower,
    "comm_bound": lambda: steps(0, 100, 1.4, 1.2),
    "straggler": lambda: Job(slow=(Slow(1, 0.3, 40),)).readings(80),
    "hang": lambda: Job(pauses=(Pause(40, 90, SPINS, of={1: 0.0}),)).readings(90),
    "recompile": lambda: Job(pauses=(Pause(45, 90, compilers=2),), host=True).readings(90),
    "checkpoint_stall": lambda: Job(pauses=(Pause(40, 90, stage="checkpointing"),)).readings(110),
    "efa_degraded": lambda: efa_readings(100, 40, 1000),
    "efa_down": lambda: [silent_device(t) for t in range(100)],
    "latency_regression": probes,
    "node_silent": lambda: [
        reading for reading in Job().readings(60) if reading.node != "n1" or reading.time < 30
    ],
    "device_lost": lambda: [counted(t >= 20, t) for t in range(50)],
    "ecc_uncorrected": lambda: [counted(False, t, int(t >= 20)) for t in range(40)],
    "execution_errors": lambda: [
        monitor_reading(report(runtime(timed_out=int(t == 30))), float(t)) for t in range(40)
    ],
    "memory_pressure": lambda: [full(t, 20, 1000) for t in range(50)],
    "idle_allocation": lambda: [two_processes(t) for t in range(80)],
    "version_skew": skewed,
}


@pytest.mark.parametrize("rule", RULEBOOK, ids=lambda rule: rule.kind)
def test_the_sentence_of_each_kind(rule: Any) -> None:
    found = of_kind(rule.kind)
    assert len(found) == 1, named(found)
    (incident,) = found
    text = incident.summary
    assert 20 < len(text) <= 120
    assert not re.search(r"[{}]|  |; ;|;;|, ,|,,|: :|::$|\(\)| [,;:.)]|\bnan\b|None|\( ", text), (
        text
    )
    assert not text.endswith((":", ";", ",", " "))
    assert incident.evidence
    assert incident.severity.rank >= rule.severity.rank
    assert incident.detected_at is not None
    assert incident.opened_at <= incident.detected_at
    where = incident.job if incident.node is None else incident.node
    assert where is not None
    assert where in text


def test_every_rule_states_its_condition() -> None:
    for rule in RULEBOOK:
        text = rule.stated(Analysis())
        assert text
        assert not re.search(r"[{}]", text)
        assert rule.advice.endswith((".", "?"))


def test_every_setting_of_a_condition_is_one() -> None:
    for rule in RULEBOOK:
        fields = {name for _, name, _, _ in Formatter().parse(rule.condition) if name}
        assert fields <= set(rule.settings), rule.kind
        assert set(rule.settings) <= set(msgspec.structs.asdict(Analysis())), rule.kind


def test_every_cause_is_a_kind() -> None:
    kinds = {rule.kind for rule in RULEBOOK}
    assert len(kinds) == len(RULEBOOK)
    for rule in RULEBOOK:
        assert rule.inhibited_by.keys() <= kinds - {rule.kind}


def test_rules_may_be_left_out() -> None:
    assert len(rules(Analysis())) == len(RULEBOOK)
    left = rules(Analysis(disabled=("straggler", "hang")))
    assert {"straggler", "hang"}.isdisjoint(rule.kind for rule in left)
    with pytest.raises(SettingsError, match="did you mean straggler"):
        rules(Analysis(disabled=("stragler",)))


def test_opened_is_never_after_detected_nor_in_the_future() -> None:
    job = Job(slow=(Slow(2, 0.4, 40, 80),), pauses=(Pause(100, 30, SPINS),))
    for view in views(job.readings(150)):
        for incident in view.incidents:
            assert incident.opened_at <= view.time
            assert incident.detected_at is not None
            assert incident.opened_at <= incident.detected_at <= view.time
            assert (
                incident.closed_at is None or incident.opened_at <= incident.closed_at <= view.time
            )


def test_a_host_alone_finds_nothing() -> None:
    assert incidents(host_reading(10.0 * t, cpu={"busy": 0.9}) for t in range(12)) == ()
