import numpy as np
import pytest

from trntop.model import Column
from trntop.smooth import SMOOTHED, Smoother

ENGINE = SMOOTHED[0]


def run(values: list[float | None]) -> dict[str, Column]:
    smoother = Smoother()
    columns: dict[str, Column] = {}
    for second, value in enumerate(values):
        columns = {} if value is None else {ENGINE: np.array([value])}
        smoother.update(float(second), columns)
    return columns


def test_a_mean_of_the_window() -> None:
    assert run([0.9] * 60 + [0.0, 0.4] * 10)[ENGINE] == pytest.approx([0.2])


def test_what_is_absent_stays_absent_and_leaves_the_mean_alone() -> None:
    assert run([0.5, None]) == {}
    assert run([0.5, None, 0.1])[ENGINE] == pytest.approx([0.3])
