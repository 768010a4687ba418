"""Processes that hold cores and do nothing, on small hand-made streams."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.analysis.harness import Detection, detections
from tests.reports import efa_reading, monitor_reading, report, runtime, step_reading
from trntop.analysis.detectors.idle import IdleAllocation
from trntop.core.model import Reading
from trntop.core.settings import Analysis

GIB = 1 << 30


def idle(readings: Iterable[Reading], limit: float = 60.0, efa: bool = True) -> list[Detection]:
    """On a node that exchanges data with others, unless it has no EFA device."""
    stream = list(readings)
    for t in range(0, 40 * efa, 5):
        device = {"port": {"tx_bytes": 1_000_000_000 * t, "rx_bytes": 0}}
        stream.append(efa_reading({"devices": {"rdmap16s27": device}}, float(t), "n"))
    return detections(IdleAllocation(Analysis(idle=limit), 1.0), stream)


def process(busy: bool, pid: int = 100, cores: tuple[int, ...] = (0, 1)) -> dict[str, Any]:
    """It holds 2 GiB on each of its cores, whatever it does."""
    return runtime(
        pid,
        utilization={core: 90.0 if busy and core in cores else 0.0 for core in range(4)},
        memory=dict.fromkeys(cores, 2 * GIB),
        completed=10 * busy,
    )


def alone(busy: Callable[[int], bool], seconds: int = 200) -> list[Reading]:
    return [
        monitor_reading(report(process(busy(t)), devices=2), float(t)) for t in range(seconds)
    ]  # fmt: skip


def host(t: int, **groups: Any) -> Reading:
    return Reading("n", "host", float(t), json.dumps({"period": 10, **groups}).encode())


def test_the_only_process_of_a_node() -> None:
    (found,) = idle(alone(lambda t: not 40 <= t < 150))
    assert found.key == "n"
    assert 101 <= found.begin <= 103 + 1
    assert 150 <= found.end <= 152 + 1
    assert found.verdict.since == pytest.approx(41, abs=1)
    assert found.verdict.component == "runtime:100"
    assert found.verdict.fields["who"] == "process 100 holds 4.00 GiB of HBM and 2 cores"


def test_a_process_that_serves_requests_may_wait_for_them() -> None:
    served = alone(lambda t: t < 40)
    assert idle(served, efa=False) == []
    assert idle(served, efa=False, limit=9.0)[0].verdict.component == "runtime:100"


def test_one_of_several_is_named() -> None:
    stream = [
        monitor_reading(
            report(process(True), process(t < 40, 101, (2, 3)), devices=2), float(t)
        )
        for t in range(150)
    ]  # fmt: skip
    (found,) = idle(stream)
    assert found.verdict.component == "runtime:101"
    assert found.verdict.since == pytest.approx(41, abs=1)


def test_several_that_idle_are_one_matter() -> None:
    stream = [
        monitor_reading(
            report(process(t < 40), process(t < 40, 101, (2, 3)), devices=2), float(t)
        )
        for t in range(150)
    ]  # fmt: skip
    (found,) = idle(stream)
    assert found.verdict.component is None
    assert found.verdict.fields["who"].startswith("2 of 2 processes hold")
    assert len(found.verdict.evidence) == 2


def test_a_process_in_a_collective_or_without_memory_is_not_idle() -> None:
    spinning = runtime(utilization={0: 100.0, 1: 100.0}, completed=0)
    empty = runtime(utilization={0: 0.0, 1: 0.0}, memory={0: 0, 1: 0}, completed=0)
    for content in (spinning, empty):
        assert idle(monitor_reading(report(content), float(t)) for t in range(150)) == []
    assert idle(monitor_reading(report(), float(t)) for t in range(150)) == []


def test_short_pauses_do_not_add_up() -> None:
    assert idle(alone(lambda t: t % 50 == 0)) == []


def test_a_process_that_left_is_over_with() -> None:
    stream = alone(lambda t: False, 100)
    stream += [monitor_reading(report(devices=2), float(t)) for t in range(100, 130)]
    (found,) = idle(stream)
    assert 100 <= found.end <= 103 + 1


@pytest.mark.parametrize(
    "excuse",
    [
        lambda t: host(t, compilers=[{"since": 1.0}], processes={"count": 9}),
        lambda t: host(t, cpu={"busy": 0.9}),
        lambda t: host(t, disk={"read_bytes": 2e9 * t}),
        lambda t: step_reading(float(t), step=t),
    ],
)
def test_what_explains_idle_cores(excuse: Callable[[int], Reading]) -> None:
    assert idle([*alone(lambda t: False), *map(excuse, range(0, 200, 5))]) == []


def test_without_data_the_state_is_unknown() -> None:
    stream = [reading for reading in alone(lambda t: False, 120) if not 30 <= reading.time < 70]
    (found,) = idle(stream, limit=90.0)
    assert found.verdict.since == pytest.approx(1, abs=1)


def paused(pauses: Callable[[int], bool], stage: str = "checkpointing") -> list[Reading]:
    """A second node that steps each 2 s, and reports so when it pauses."""
    result = []
    for t in range(0, 200, 2):
        if not pauses(t):
            result.append(step_reading(float(t), node="m", step=t // 2, seconds=2.0))
        note = {"job": "job", "rank": 0, "stage": stage if pauses(t) else "training", "since": t}
        result.append(Reading("m", "steps", t + 0.5, json.dumps(note | {"time": t}).encode()))
        result.append(monitor_reading(report(runtime(completed=int(not pauses(t)))), float(t), "m"))
    return result


def test_a_job_that_saves_explains_it() -> None:
    def saves(t: int) -> bool:
        return t >= 60

    steps = [step_reading(float(t), step=t // 2, seconds=2.0) for t in range(0, 60, 2)]
    assert idle([*alone(lambda t: not saves(t)), *steps, *paused(saves)]) == []


def test_a_job_that_saves_does_not_explain_what_was_before() -> None:
    (found,) = idle([*alone(lambda t: t < 20), *paused(lambda t: 60 <= t < 120)])
    assert found.key == "n"
    assert found.verdict.since == pytest.approx(21, abs=1)
    assert 81 <= found.begin <= 81 + 1
