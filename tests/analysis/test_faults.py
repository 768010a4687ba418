"""Clocks that are set and numbers that are damaged, through the whole path."""

import dataclasses
import json
import time
from functools import cache

import pytest

from tests.reports import encode, monitor_reading, report, runtime, step_reading
from trntop.analysis.rule_inputs import rule_inputs
from trntop.core.model import Reading, View
from trntop.core.settings import Settings
from trntop.session.clock import SteadyClock
from trntop.session.monitor import Monitor, play

HOUR = 3600.0
NODES = "abcde"


def views(stream: list[Reading]) -> list[View]:
    return list(play(stream, Monitor(Settings(), wanted=rule_inputs())))


def found(view: View) -> list[tuple[str, str | None, str | None]]:
    return sorted((incident.kind, incident.node, incident.component) for incident in view.incidents)


@cache
def one_falls_silent() -> list[Reading]:
    return [
        monitor_reading(report(runtime()), 1000.0 + t, node)
        for t in range(120)
        for node in NODES
        if node != "c" or not 30 <= t < 80
    ]


def moved(reading: Reading, seconds: float) -> Reading:
    return dataclasses.replace(reading, time=reading.time + seconds)


@cache
def undisturbed() -> View:
    return views(one_falls_silent())[-1]


@pytest.mark.parametrize("seconds", [HOUR, -60.0])
def test_fault_21_a_clock_that_is_set_changes_no_incident(seconds: float) -> None:
    plain = one_falls_silent()
    leapt = [
        moved(reading, seconds) if reading.node == "b" and reading.time >= 1050 else reading
        for reading in plain
    ]
    (expected,), (incident,) = undisturbed().incidents, views(leapt)[-1].incidents
    assert (incident.kind, incident.node) == (expected.kind, expected.node) == ("node_silent", "c")
    assert incident.opened_at == pytest.approx(expected.opened_at, abs=1.0)
    assert incident.closed_at == pytest.approx(expected.closed_at, abs=1.0)


@pytest.mark.parametrize(("nodes", "seconds"), [(NODES, -HOUR), ("b", HOUR), ("b", -HOUR)])
def test_no_reading_is_ever_of_the_future(nodes: str, seconds: float) -> None:
    stream = [
        moved(reading, seconds) if reading.node in nodes and reading.time >= 1050 else reading
        for reading in one_falls_silent()
    ]
    for view in views(stream):
        for node in view.cluster.nodes.values():
            assert not node.frame.last_seen > view.time


def test_fault_21_live_time_is_that_of_the_steady_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteadyClock()
    before = clock.now()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - HOUR)
    assert before <= clock.now() < before + 60


DAMAGED = [1e308, -40.0, float("nan"), float("inf")]


@cache
def waiting_for_more(damage: float | None = None) -> View:
    made = []
    for t in range(0, 160, 4):
        for rank, node in enumerate("abcd"):
            comm = 1.6 if t >= 100 else 0.6
            reading = step_reading(float(t), node=node, rank=rank, step=t // 4, comm=comm)
            if damage is not None and t == 60:
                record = json.loads(reading.data)
                record |= dict.fromkeys(("comm_seconds", "exposed_comm_seconds"), damage)
                reading = dataclasses.replace(reading, data=encode(record))
            made.append(reading)
    return views(made)[-1]


@pytest.mark.parametrize("number", DAMAGED)
def test_fault_33_damaged_step_times_spoil_no_window(number: float) -> None:
    plain, damaged = waiting_for_more(), waiting_for_more(number)
    assert found(damaged) == found(plain)
    for incident, other in zip(plain.incidents, damaged.incidents, strict=True):
        assert other.opened_at == pytest.approx(incident.opened_at, abs=2.0)


@pytest.mark.parametrize("number", DAMAGED)
def test_a_damaged_utilization_is_no_incident(number: float) -> None:
    stream = []
    for t in range(100):
        for node in "abcd":
            own = runtime(utilization={0: 90.0, 1: 90.0})
            if node == "b" and 50 <= t < 53:
                cores = own["report"]["neuroncore_counters"]["neuroncores_in_use"]
                cores["0"] |= {"neuroncore_utilization": number, "flops": number}
            stream.append(monitor_reading(report(own), float(t), node))
    view = views(stream)[-1]
    assert found(view) == []
    node_view = view.cluster.nodes["b"]
    assert node_view.frame.value("node_neuroncore_utilization_mean_ratio") == pytest.approx(0.9)
