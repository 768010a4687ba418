import itertools

import pytest

from trntop.catalog import EFA_SOURCE, KUBERNETES_NODE, LOG, POD_RESOURCES, STEPS
from trntop.collectors.simulator import parse, simulate
from trntop.collectors.simulator.sources import SIMULATED
from trntop.core.instances import INSTANCE_TYPES
from trntop.core.model import Reading
from trntop.session.monitor import SparseStart
from trntop.sources import LOCAL_SOURCES

CLOCKED = ("steps", "log", "neuron-sysfs")
"""Sources that write clock times into their payloads."""
SMALL = "nodes=3&type=trn1.32xlarge"


def readings(spec: str, count: int = 400, start: float = 0.0) -> list[Reading]:
    return list(itertools.islice(simulate(parse(spec), start), count))


def test_a_seed_determines_everything() -> None:
    spec = f"sim:demo?{SMALL}&seed=3"
    assert readings(spec) == readings(spec)
    assert readings(spec) != readings(f"sim:demo?{SMALL}&seed=4")


def test_the_start_moves_times_only() -> None:
    early, late = readings("sim:healthy?nodes=2"), readings("sim:healthy?nodes=2", start=1e9)
    for reading, other in zip(early, late, strict=True):
        assert other.time == pytest.approx(1e9 + reading.time, abs=1e-5)
        assert (reading.node, reading.source) == (other.node, other.source)
        if reading.source not in CLOCKED:
            assert reading.data == other.data


@pytest.mark.parametrize("scenario", ["demo", "latency-regression", "silent-node"])
def test_time_never_goes_back_and_ends_on_time(scenario: str) -> None:
    times = []
    for reading in simulate(parse(f"sim:{scenario}?{SMALL}&minutes=5.5"), 1000.0):
        assert reading.simulated
        times.append(reading.time)
    assert times == sorted(times)
    assert times[0] >= 1000.0
    assert 1000.0 + 5.5 * 60 - 1.0 < times[-1] < 1000.0 + 5.5 * 60


def test_every_node_reports_once_a_second_at_its_own_offset() -> None:
    offsets: dict[str, list[float]] = {}
    for reading in simulate(parse("sim:healthy?nodes=4&type=trn1.32xlarge&minutes=0.5"), 0.0):
        if reading.source == "efa":
            offsets.setdefault(reading.node, []).append(reading.time % 1.0)
    assert sorted(offsets) == ["trn-000", "trn-001", "trn-002", "trn-003"]
    assert all(len(times) == 30 for times in offsets.values())
    assert all(max(times) - min(times) < 0.01 for times in offsets.values())
    assert len({round(times[0], 2) for times in offsets.values()}) == 4


def test_names_of_a_large_cluster_sort_as_numbers() -> None:
    first = itertools.takewhile(
        lambda reading: reading.time < 1.0,
        simulate(parse("sim:healthy?nodes=1001&type=trn1.2xlarge"), 0.0),
    )
    names = {reading.node for reading in first}
    assert sorted(names)[:2] == ["trn-0000", "trn-0001"]
    assert max(names) == "trn-1000"


@pytest.mark.parametrize("instance_type", INSTANCE_TYPES)
@pytest.mark.parametrize("scenario", ["healthy", "demo"])
def test_any_instance_type_plays(instance_type: str, scenario: str) -> None:
    row = INSTANCE_TYPES[instance_type]
    events = readings(f"sim:{scenario}?nodes=1&type={instance_type}&minutes=0.2", 1000)
    sources = {reading.source for reading in events}
    simulated = {STEPS, LOG, *SIMULATED} - ({EFA_SOURCE} if not row.efa_devices else set())
    assert sources == {*LOCAL_SOURCES} & simulated


def test_what_is_long_comes_in_turns() -> None:
    seconds: dict[tuple[str, str], list[int]] = {}
    for reading in simulate(parse("sim:healthy?nodes=12&type=trn1.2xlarge&minutes=1.2"), 0.0):
        seconds.setdefault((reading.source, reading.node), []).append(int(reading.time))
    assert seconds["neuron-sysfs", "trn-003"] == [0, 3, 13, 23, 33, 43, 53, 63]
    assert seconds["host", "trn-011"] == [0, 1, 11, 21, 31, 41, 51, 61, 71]
    assert seconds["neuron-ls", "trn-000"] == seconds["profiles", "trn-000"] == [0, 60]
    assert seconds["tensor-engine", "trn-003"] == list(range(72))


def test_a_sparse_past_holds_the_same_events_in_fewer_payloads() -> None:
    simulation = parse(f"sim:demo?{SMALL}&minutes=2")
    every = list(simulate(simulation, 0.0))
    sparse = list(simulate(simulation, 0.0, SparseStart(until=100, every=10)))
    assert [reading for reading in sparse if reading.source in ("steps", "log")] == [
        reading for reading in every if reading.source in ("steps", "log")
    ]
    counters = {
        (reading.node, reading.time): reading.data for reading in every if reading.source == "efa"
    }
    polled = [reading for reading in sparse if reading.source == "efa"]
    assert all(counters[reading.node, reading.time] == reading.data for reading in polled)
    assert {int(reading.time) for reading in polled} == {*range(0, 101, 10), *range(101, 120)}
    for source in ("host", "neuron-sysfs"):  # what is polled rarely is not lost between two polls
        times = [
            reading.time
            for reading in sparse
            if (reading.node, reading.source) == ("trn-001", source)
        ]
        assert max(b - a for a, b in itertools.pairwise(times)) < 20.0


def test_kubernetes_alone_is_not_simulated() -> None:
    assert {*LOCAL_SOURCES} - {STEPS, LOG, *SIMULATED} == {KUBERNETES_NODE, POD_RESOURCES}
