import itertools
from typing import Any

import pytest

from tests.collectors.simulator.playing import Event, notes, play


def counters(host: Any) -> list[int]:
    parts = (host["network"]["eth0"], host["disk"], host["lustre"]["fsx-OST0000"])
    return [value for part in parts for value in part.values()]


def test_cpu_and_memory_are_those_of_neuron_monitor() -> None:
    events = play("sim:healthy?nodes=1", begin=5.0, end=31.0)
    monitor = {int(e.second): e.data for e in events if e.source == "neuron-monitor"}
    hosts = [event for event in events if event.source == "host"]
    assert len(hosts) == 3
    for event in hosts:
        system, host = monitor[int(event.second)]["system_data"], event.data
        idle = system["vcpu_usage"]["average_usage"]["idle"]
        assert host["cpu"]["busy"] == pytest.approx(1.0 - idle / 100.0, abs=1e-4)
        assert host["cpu"]["count"] == 192
        assert host["cpu"]["load1"] == pytest.approx(192 * host["cpu"]["busy"], rel=0.1)
        memory = host["memory"]
        used = system["memory_info"]["memory_used_bytes"]
        assert memory["total"] - memory["available"] == used
        assert host["compilers"] == []


def test_counters_grow() -> None:
    hosts = [e.data for e in play("sim:healthy?nodes=1&type=trn1.2xlarge", "host", end=100.0)]
    for first, other in itertools.pairwise(hosts):
        assert all(b > a for a, b in zip(counters(first), counters(other), strict=True))


def test_a_checkpoint_is_written_to_lustre() -> None:
    events = play("sim:healthy?nodes=1&type=trn1.2xlarge&minutes=5")
    hosts = [event for event in events if event.source == "host"]
    (saving,) = [e.second for e in notes(events) if e.data["stage"] == "checkpointing"]

    def written(first: Event, other: Event) -> int:
        old, new = (
            event.data["lustre"]["fsx-OST0000"]["written_bytes"] for event in (first, other)
        )
        return int(new - old)

    for first, other in itertools.pairwise(hosts):
        if first.second <= saving and saving + 4.0 <= other.second:
            assert written(first, other) == pytest.approx(3 * 3.1e9, rel=0.1)
        elif other.second < saving or first.second > saving + 4.0:
            assert written(first, other) < 1e6
