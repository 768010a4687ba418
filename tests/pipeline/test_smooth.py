import numpy as np
import pytest

from trntop.core.model import Column
from trntop.pipeline.smooth import Smoother

PROMETHEUS = "node_tensor_engine_busy_mean_ratio"


def run(values: list[float | None]) -> dict[str, Column]:
    smoother = Smoother()
    columns: dict[str, Column] = {}
    for second, value in enumerate(values):
        columns = {} if value is None else {PROMETHEUS: np.array([value])}
        smoother.update(float(second), columns)
    return columns


def test_a_mean_of_the_window() -> None:
    assert run([0.9] * 60 + [0.0, 0.4] * 10)[PROMETHEUS] == pytest.approx([0.2])


def test_what_is_absent_stays_absent_and_leaves_the_mean_alone() -> None:
    assert run([0.5, None]) == {}
    assert run([0.5, None, 0.1])[PROMETHEUS] == pytest.approx([0.3])


def test_one_device_that_is_absent_leaves_the_others_alone() -> None:
    name = "device_hbm_bandwidth_ratio"
    smoother = Smoother()
    for second, column in enumerate(([0.2, 0.4], [0.4, np.nan], [0.6, 0.8])):
        columns: dict[str, Column] = {name: np.array(column)}
        smoother.update(float(second), columns)
        assert np.isnan(columns[name][1]) == (second == 1)
    assert columns[name] == pytest.approx([0.4, 0.6])


def test_another_number_of_devices_begins_anew() -> None:
    name = "device_hbm_bandwidth_ratio"
    smoother = Smoother()
    for second, column in enumerate(([0.2], [0.4, 0.6])):
        columns: dict[str, Column] = {name: np.array(column)}
        smoother.update(float(second), columns)
    assert columns[name] == pytest.approx([0.4, 0.6])
