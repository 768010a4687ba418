import csv
import statistics
import time
from typing import Any

import pytest

from tests.collectors.simulator.playing import play
from trntop.collectors.simulator import parse, simulate

CLOCK = 1.4e9
STATES = ("mm_active", "wl_active", "idle")

Counts = dict[tuple[str, str], dict[str, int]]


def counts(payload: Any) -> Counts:
    """Cycles of each core, added up over its row groups."""
    cores: Counts = {}
    for device, engines in payload["devices"].items():
        for core, text in engines.items():
            rows = list(csv.DictReader(text.splitlines()))
            assert [row["xrow_grp"] for row in rows] == ["0", "1", "2", "3"]
            cores[device, core] = {name: sum(int(row[name]) for row in rows) for name in STATES}
    return cores


@pytest.mark.parametrize(
    ("instance_type", "devices", "cores"),
    [("trn2.48xlarge", 16, 8), ("trn1.32xlarge", 16, 2), ("inf2.xlarge", 1, 2)],
)
def test_every_physical_core_is_listed(instance_type: str, devices: int, cores: int) -> None:
    (event,) = play(f"sim:healthy?nodes=1&type={instance_type}", "tensor-engine", end=1.0)
    assert list(event.data) == ["devices"]
    assert list(event.data["devices"]) == [str(device) for device in range(devices)]
    assert len(counts(event.data)) == devices * cores


def test_cycles_never_go_back_and_are_those_of_the_time() -> None:
    events = play("sim:slow-node?nodes=2&type=trn1.32xlarge", "tensor-engine", 115.0, 135.0)
    before: dict[str, tuple[float, Counts]] = {}
    for event in events:
        now = counts(event.data)
        if event.node in before:
            second, old = before[event.node]
            for core, cycles in now.items():
                change = [cycles[state] - old[core][state] for state in STATES]
                assert min(change) >= 0
                seconds = sum(change) / CLOCK / 4
                assert seconds == pytest.approx(event.second - second, abs=1e-5)
        before[event.node] = event.second, now
    assert len(before) == 2


def busy(spec: str, begin: float, end: float) -> float:
    """Share of time that the engines worked."""
    first, *_, last = (counts(event.data) for event in play(spec, "tensor-engine", begin, end))
    spent = [sum(last[core][state] - first[core][state] for core in first) for state in STATES]
    return 1.0 - spent[2] / sum(spent)


def test_tensor_engines_are_half_busy_while_cores_are_fully_utilized() -> None:
    """A core that waits in a collective counts as utilized, its tensor engine does not."""
    spec = "sim:healthy?nodes=1&type=trn1.2xlarge"
    assert busy(spec, 0.0, 60.0) == pytest.approx(0.55 * 3.95 / 4.28, abs=0.02)


def test_a_hang_idles_the_tensor_engines() -> None:
    assert busy("sim:hang?nodes=1&type=trn1.2xlarge", 130.0, 290.0) == 0.0


def test_multiplications_are_the_flops_of_neuron_monitor() -> None:
    spec = "sim:healthy?nodes=1&type=trn2.48xlarge"
    flops = [
        sum(
            core["flops"] * group["period"]
            for group in [event.data["neuron_runtime_data"][0]["report"]["neuroncore_counters"]]
            for core in group["neuroncores_in_use"].values()
        )
        for event in play(spec, "neuron-monitor", 1.0, 20.0)
    ]
    cycles = [
        sum(core["mm_active"] for core in counts(event.data).values()) / 4
        for event in play(spec, "tensor-engine", end=20.0)
    ]
    rate = 667e12 / 8 / CLOCK
    assert (cycles[-1] - cycles[0]) * rate == pytest.approx(sum(flops), rel=1e-6)


def test_writing_it_costs_little() -> None:
    """At most half a millisecond for the 128 cores of a node, each second."""
    readings = simulate(parse("sim:healthy?nodes=4&minutes=0.2"), 0.0)
    costs = []
    begin = time.process_time()
    for reading in readings:
        if reading.source == "tensor-engine":
            costs.append(time.process_time() - begin)
        begin = time.process_time()
    assert statistics.median(costs) < 0.5e-3
