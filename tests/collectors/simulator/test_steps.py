from collections import Counter

import pytest

from tests.collectors.simulator.playing import START, notes, play, steps
from trntop.collectors.simulator import parse, simulate
from trntop.sources.steps import decode

FIELDS = {
    "job",
    "rank",
    "step",
    "step_seconds",
    "compute_seconds",
    "comm_seconds",
    "overlap_seconds",
    "exposed_comm_seconds",
    "reduction_seconds",
    "collectives",
    "tokens",
    "loss",
    "mfu",
    "time",
}


def test_one_record_of_each_rank_at_the_end_of_each_step() -> None:
    events = steps(play("sim:healthy?nodes=2&type=trn1.32xlarge&job=run-7", "steps", end=20.0))
    assert all(set(event.data) == FIELDS for event in events)
    assert {event.data["job"] for event in events} == {"run-7"}
    for event in events:
        assert event.node == f"trn-{event.data['rank'] // 16:03d}"
        assert 0.0 < event.second - (event.data["time"] - START) < 0.05
        assert event.data["mfu"] == pytest.approx(0.4, abs=0.02)
    records = Counter(event.data["step"] for event in events)
    assert set(records.values()) == {32}
    assert sorted(records) == list(range(min(records), min(records) + len(records)))
    assert len(records) == 4
    assert {event.data["tokens"] for event in events} == {32 * 16384}


def test_the_parts_of_a_step_add_up() -> None:
    for event in steps(play("sim:slow-node?nodes=3&type=trn1.32xlarge&minutes=5", "steps")):
        step = event.data
        work = step["compute_seconds"] + step["exposed_comm_seconds"]
        pause = step["step_seconds"] - work
        assert pause == pytest.approx(0.0, abs=1e-5) or pause == pytest.approx(3.0, abs=1e-5)
        hidden = step["comm_seconds"] - step["exposed_comm_seconds"]
        assert 0.0 < hidden < step["compute_seconds"]
        assert step["overlap_seconds"] == pytest.approx(hidden, abs=2e-6)
        assert step["exposed_comm_seconds"] > 0.0
        kinds = step["collectives"]
        assert sum(kind["seconds"] for kind in kinds.values()) == pytest.approx(
            step["comm_seconds"], abs=2e-6
        )
        assert step["reduction_seconds"] == kinds["reduce_scatter"]["seconds"]


def test_all_nodes_end_a_step_together() -> None:
    ends: dict[int, list[float]] = {}
    for event in steps(play("sim:healthy?nodes=4&type=trn1.2xlarge", "steps", end=60.0)):
        ends.setdefault(event.data["step"], []).append(event.second)
    assert all(max(times) - min(times) < 0.05 for times in ends.values())


def test_a_healthy_run_stays_healthy_for_half_an_hour() -> None:
    events = steps(play("sim:healthy?nodes=2&type=trn1.2xlarge&minutes=30", "steps"))
    shares = [(e.second, e.data["comm_seconds"] / e.data["step_seconds"]) for e in events]
    lengths = [event.data["step_seconds"] for event in events]
    for index, (now, _) in enumerate(shares):
        window = [share for second, share in shares[: index + 1][-20:] if second > now - 20.0]
        assert sum(window) / len(window) < 0.22
    assert sum(share for _, share in shares) / len(shares) == pytest.approx(0.17, abs=0.01)
    checkpoints = sum(length > 6.0 for length in lengths) / 2
    assert 6 <= checkpoints <= 8
    assert max(lengths) < 8.0
    assert events[-1].data["loss"] < events[0].data["loss"]


def test_the_first_rank_of_each_node_announces_checkpoints() -> None:
    events = play("sim:healthy?nodes=2&type=trn1.32xlarge&minutes=5", "steps")
    stages: dict[tuple[str, int], list[tuple[str, float]]] = {}
    for event in notes(events):
        assert event.data["time"] == event.data["since"]
        assert 0.0 < event.second - (event.data["time"] - START) < 0.05
        owner = (event.node, event.data["rank"])
        stages.setdefault(owner, []).append((event.data["stage"], event.data["since"]))
    assert set(stages) == {("trn-000", 0), ("trn-001", 16)}
    for announced in stages.values():
        assert {stage for stage, _ in announced[::2]} == {"checkpointing"}
        assert {stage for stage, _ in announced[1::2]} == {"training"}
        for (_, begin), (_, end) in zip(announced[::2], announced[1::2], strict=True):
            assert end - begin == pytest.approx(3.0, abs=1e-4)


def test_the_decoder_has_no_complaint() -> None:
    readings = simulate(parse("sim:healthy?nodes=1&type=trn1.2xlarge"), 0.0)
    sample = decode(next(reading.data for reading in readings if reading.source == "steps"))
    assert not sample.problems
    assert sample.part == "pretrain-13b/0"
    assert {"job_comm_seconds", "job_exposed_comm_seconds"} <= set(sample.columns)
