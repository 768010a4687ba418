"""A job that is slower than before. All is made up."""

from collections.abc import Iterator

import pytest

from tests.analysis.harness import Detection, detections
from tests.reports import step_reading
from trntop.analysis.detectors.slowdown import Slowdown
from trntop.core.model import Reading
from trntop.core.settings import Analysis

NODES = 3


def steps(*parts: tuple[float, int], first: int = 100, start: float = 0.0) -> Iterator[Reading]:
    """Steps of so many seconds, so many of them, in turn."""
    time, number = start, first
    for seconds, count in parts:
        for _ in range(count):
            time, number = time + seconds, number + 1
            for node in range(NODES):
                yield step_reading(
                    time, node=f"n{node}", rank=node, step=number, seconds=seconds,
                    comm=0.1 * seconds, exposed=0.05 * seconds,
                )  # fmt: skip


def slow(*readings: Reading) -> list[Detection]:
    return detections(Slowdown(Analysis(), 1.0), readings)


def test_a_job_that_slows_down() -> None:
    (found,) = slow(*steps((2.0, 60), (3.0, 40)))
    assert 120 < found.begin <= 120 + 40
    assert found.verdict.since == pytest.approx(123, abs=2)
    assert found.verdict.fields["slower"] == "50 %"
    texts = [evidence.text for evidence in found.verdict.evidence]
    assert texts[0] == "a step takes 3.00 s, before 2.00 s"
    assert texts[1].startswith("communication 10 % of the step, before 10 %")
    assert found.verdict.node is None


def test_it_closes_when_the_job_is_as_fast_as_before() -> None:
    (found,) = slow(*steps((2.0, 60), (3.0, 40), (2.0, 60)))
    assert 240 < found.end <= 240 + 60


@pytest.mark.parametrize(
    "parts",
    [
        ((2.0, 60), (2.3, 60)),  # less than the limit
        ((2.0, 60), (8.0, 1), (2.0, 30)),  # a single step
        ((2.0, 8), (3.0, 60)),  # too short a past
        ((2.0, 60), (1.0, 60)),  # faster
        tuple((2.0 + 1.5 * (number % 2), 1) for number in range(120)),  # it varies by more
        (*((10.0, 3), (12.5, 1)) * 5, (12.4, 2), (11.4, 1), (12.3, 1), (10.0, 9)),  # at times
    ],
)
def test_what_is_no_slowdown(parts: tuple[tuple[float, int], ...]) -> None:
    assert slow(*steps(*parts)) == []


def test_a_job_that_starts_again_has_another_past() -> None:
    again = steps((3.0, 60), first=110, start=120.0)
    assert slow(*steps((2.0, 60)), *again) == []
