import numpy as np
import pytest

from trntop.core.model import Column
from trntop.pipeline.smooth import CEILING, FLOOR, Smoother

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


def test_another_number_of_devices_starts_over() -> None:
    name = "device_hbm_bandwidth_ratio"
    smoother = Smoother()
    for second, column in enumerate(([0.2], [0.4, 0.6])):
        columns: dict[str, Column] = {name: np.array(column)}
        smoother.update(float(second), columns)
    assert columns[name] == pytest.approx([0.4, 0.6])


def columns(tx: list[float], busy: float | None = 0.9, engine: float = 0.5) -> dict[str, Column]:
    result: dict[str, Column] = {
        "efa_tx_bytes_per_second": np.array(tx),
        "efa_rx_bytes_per_second": np.array(tx) / 2,
        "efa_link_bytes_per_second": np.full(len(tx), 100.0),
    }
    if busy is not None:
        result["node_neuroncore_utilization_mean_ratio"] = np.array([busy])
        result["node_tensor_engine_busy_mean_ratio"] = np.array([engine])
    return result


def test_means_of_a_window() -> None:
    smoother = Smoother()
    for second in range(120):
        # The first minute is to be forgotten; in the second, bursts of half the line rate.
        tick = columns([90.0, 90.0] if second < 60 else [50.0 * (second % 2), 10.0])
        smoother.add_bounds(float(second), tick)
    assert tick[FLOOR] == pytest.approx([0.3], abs=0.02)
    assert tick[CEILING] == pytest.approx([0.4])


def test_nothing_before_there_is_something_to_average() -> None:
    smoother = Smoother()
    for second in range(10):
        tick = columns([10.0])
        smoother.add_bounds(float(second), tick)
        assert FLOOR not in tick


def test_what_is_not_known_has_no_bound() -> None:
    smoother = Smoother()
    for second in range(30):
        tick = columns([10.0, np.nan], busy=None)
        smoother.add_bounds(float(second), tick)
    assert tick[FLOOR] == pytest.approx([0.1])
    assert CEILING not in tick


def test_a_gap_leaves_nothing_to_average() -> None:
    smoother = Smoother()
    for second in (*range(30), 600):
        tick = columns([10.0])
        smoother.add_bounds(float(second), tick)
    assert FLOOR not in tick


def test_bounds_that_exclude_nothing_are_absent() -> None:
    """A job that hangs: nothing on the wire, and all cores wait."""
    smoother = Smoother()
    for second in range(30):
        tick = columns([0.0], busy=1.0, engine=0.0)
        smoother.add_bounds(float(second), tick)
    assert FLOOR not in tick
    assert CEILING not in tick
