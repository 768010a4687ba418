"""What is no incident: jobs, stages, noise, pauses, clocks that are off, what gets lost."""

import itertools
import statistics

import pytest

from tests.collectors.simulator.playing import START, Event, notes, play, scripted, steps
from trntop.collectors.simulator import parse, simulate

SMALL = "type=trn1.2xlarge"


def test_jobs_share_the_nodes() -> None:
    records = steps(play(f"sim:healthy?nodes=7&jobs=3&{SMALL}", "steps", end=90.0))
    nodes: dict[str, set[str]] = {}
    intervals: dict[str, list[float]] = {}
    for event in records:
        nodes.setdefault(event.data["job"], set()).add(event.node)
        intervals.setdefault(event.data["job"], []).append(event.data["step_seconds"])
        assert event.data["rank"] < 3
    assert {job: len(members) for job, members in nodes.items()} == {
        "pretrain-13b": 3, "pretrain-13b-2": 2, "pretrain-13b-3": 2,
    }  # fmt: skip
    assert len(set.union(*nodes.values())) == 7
    means = [statistics.mean(values) for values in intervals.values()]
    assert all(abs(a - b) > 0.1 for a, b in itertools.combinations(means, 2))


def test_a_fault_of_one_job_leaves_the_other_alone() -> None:
    spec = f"sim:hang?nodes=6&jobs=2&{SMALL}"
    (truth,) = scripted(spec)
    late = steps(play(spec, "steps", begin=135.0, end=295.0))
    assert {event.data["job"] for event in late} == {"pretrain-13b", "pretrain-13b-2"} - {truth.job}


def test_programs_of_jobs_differ_and_are_profiled() -> None:
    uuids: dict[str, set[str]] = {"neuron-monitor": set(), "profiles": set()}
    for event in play(f"sim:healthy?nodes=4&jobs=2&{SMALL}", end=3.0):
        if event.source == "neuron-monitor":
            report = event.data["neuron_runtime_data"][0]["report"]
            uuids[event.source].add(report["memory_used"]["loaded_models"][0]["uuid"])
        elif event.source == "profiles":
            uuids[event.source].add(event.data["profiles"][0]["uuid"])
    assert len(uuids["profiles"]) == 2
    assert uuids["neuron-monitor"] == uuids["profiles"]


@pytest.mark.parametrize("report_stage", [0, 1])
def test_pipeline_stages_compute_unevenly(report_stage: int) -> None:
    spec = f"sim:healthy?nodes=8&stages=4&report_stage={report_stage}&{SMALL}"
    records = steps(play(spec, "steps", end=90.0))
    compute: dict[str, list[float]] = {}
    for event in records:
        assert event.data.get("pipeline_stage") == (
            int(event.node[-1]) // 2 if report_stage else None
        )
        compute.setdefault(event.node, []).append(event.data["compute_seconds"])
    means = [statistics.mean(compute[node]) for node in sorted(compute)]
    for stage in range(4):
        assert means[2 * stage] == pytest.approx(means[2 * stage + 1], rel=0.01)
    assert 0.89 < min(means) / max(means) < 0.99


def test_a_straggler_holds_up_its_pipeline() -> None:
    for seed in range(6):
        spec = f"sim:slow-node?nodes=8&stages=4&{SMALL}&depth=0.1&seed={seed}"
        records = steps(play(spec, "steps", begin=60.0, end=180.0))
        early, late = (
            statistics.median(
                [e.data["step_seconds"] for e in records if (e.second > 130.0) == after]
            )
            for after in (False, True)
        )
        assert late / early == pytest.approx(1.092, abs=0.015)


def test_noise_scatters_compute() -> None:
    def scatter(noise: float) -> float:
        spec = f"sim:healthy?nodes=2&{SMALL}&noise={noise}"
        records = steps(play(spec, "steps", end=240.0))
        return statistics.stdev(e.data["compute_seconds"] for e in records if e.node == "trn-001")

    calm, usual, wild = map(scatter, (0.0, 1.0, 3.0))
    assert calm < 1e-5
    assert wild / usual == pytest.approx(3.0, rel=0.35)


def test_blips_are_short() -> None:
    records = steps(play(f"sim:healthy?nodes=2&{SMALL}&blips=20&checkpoints=9999", end=900.0))
    slow = [e.data["step_seconds"] > 4.7 for e in records if e.node == "trn-000"]
    assert 10 < sum(slow) < 50
    longest = max(len(list(run)) for is_slow, run in itertools.groupby(slow) if is_slow)
    assert longest <= 3
    assert scripted("sim:healthy?blips=20") == ()


def test_checkpoints_have_the_specified_duration_and_interval() -> None:
    events = notes(play(f"sim:healthy?nodes=1&{SMALL}&checkpoints=60&saving=12", end=400.0))
    since = [event.data["since"] - START for event in events]
    assert [end - begin for begin, end in zip(since[::2], since[1::2], strict=True)] == (
        pytest.approx([12.0] * (len(since) // 2))
    )
    assert all(60.0 <= b - a < 66.0 for a, b in itertools.pairwise(since[::2]))


def test_an_evaluation_is_announced_and_makes_no_steps() -> None:
    events = play(f"sim:healthy?nodes=1&{SMALL}&evaluations=100&checkpoints=9999", end=300.0)
    stages = [(e.data["stage"], e.second) for e in notes(events)]
    assert [stage for stage, _ in stages[:2]] == ["evaluating", "training"]
    (_, begin), (_, end) = stages[:2]
    assert 12.0 <= end - begin <= 30.0
    assert not [e for e in steps(events) if begin < e.second < end]
    busy = [
        e.data["neuron_runtime_data"][0]["report"]
        for e in events
        if e.source == "neuron-monitor" and begin + 1.0 < e.second < end
    ]
    for report in busy:
        assert report["execution_stats"]["execution_summary"]["completed"] > 0
        for core in report["neuroncore_counters"]["neuroncores_in_use"].values():
            assert core["neuroncore_utilization"] > 80.0


def test_a_job_warms_up() -> None:
    events = play(f"sim:healthy?nodes=1&{SMALL}&warmup=40", end=200.0)
    (compiling, _), (training, since) = [(e.data["stage"], e.second) for e in notes(events)][:2]
    assert (compiling, training) == ("compiling", "training")
    assert since == pytest.approx(24.0, abs=0.1)
    records = [event.data for event in steps(events) if event.data["rank"] == 0]
    assert [record["step"] for record in records[:3]] == [1, 2, 3]
    assert records[2]["compute_seconds"] > 1.1 * records[-1]["compute_seconds"]


def test_clocks_are_off_and_arrival_is_not() -> None:
    straight = list(simulate(parse(f"sim:ecc?nodes=8&{SMALL}&minutes=3"), START))
    skewed = list(simulate(parse(f"sim:ecc?nodes=8&{SMALL}&minutes=3&skew=100"), START))
    offsets: dict[str, set[float]] = {}
    for reading, other in zip(straight, skewed, strict=True):
        assert (reading.node, reading.source) == (other.node, other.source)
        offsets.setdefault(reading.node, set()).add(round(other.time - reading.time, 3))
        if reading.source in ("efa", "neuron-monitor", "tensor-engine"):
            assert reading.data == other.data
    assert all(len(values) == 1 for values in offsets.values())
    ahead = {node: values.pop() for node, values in offsets.items()}
    assert ahead["trn-000"] == 0.0
    assert any(ahead.values())
    assert all(-100.0 <= value <= 100.0 for value in ahead.values())


def test_payloads_carry_the_time_of_their_nodes_clock() -> None:
    for reading in play("sim:healthy?nodes=8&type=trn1.2xlarge&skew=100&seed=3", "steps", end=60):
        assert 0.0 < reading.second - (reading.data["time"] - START) < 0.05


def test_a_share_of_the_readings_is_lost() -> None:
    def count(spec: str) -> int:
        return len(play(spec, end=120.0))

    whole = count(f"sim:healthy?nodes=3&{SMALL}")
    assert count(f"sim:healthy?nodes=3&{SMALL}&missing=0.1") / whole == pytest.approx(0.9, abs=0.03)


def test_some_nodes_report_later() -> None:
    first: dict[str, Event] = {}
    sources: dict[str, set[str]] = {}
    for event in play("sim:healthy?nodes=5&type=trn1.32xlarge&late=2", end=100.0):
        first.setdefault(event.node, event)
        if event.second < first[event.node].second + 1.0:
            sources.setdefault(event.node, set()).add(event.source)
    late = {node for node, event in first.items() if event.second > 1.0}
    assert len(late) == 2 and "trn-000" not in late
    assert all(15.0 <= first[node].second <= 91.0 for node in late)
    assert all({"neuron-ls", "neuron-sysfs", "host"} <= reported for reported in sources.values())


def test_a_reloaded_driver_counts_from_nothing() -> None:
    events = play("sim:healthy?nodes=3&type=trn1.32xlarge&resets=2&minutes=5", "efa")
    back = [
        (event.node, other.second)
        for event, other in zip(events, events[3:], strict=False)
        if event.node == other.node
        and sum(device["port"]["tx_bytes"] for device in other.data["devices"].values())
        < sum(device["port"]["tx_bytes"] for device in event.data["devices"].values())
    ]
    assert len(back) == 2
