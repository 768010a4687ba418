import numpy as np
import pytest

from trntop.core.model import Column
from trntop.pipeline.estimate import CEILING, FLOOR, CommEstimate


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
    estimate = CommEstimate()
    for second in range(120):
        # The first minute is to be forgotten; in the second, bursts of half the line rate.
        tick = columns([90.0, 90.0] if second < 60 else [50.0 * (second % 2), 10.0])
        estimate.update(float(second), tick)
    assert tick[FLOOR] == pytest.approx([0.3], abs=0.02)
    assert tick[CEILING] == pytest.approx([0.4])


def test_nothing_before_there_is_something_to_average() -> None:
    estimate = CommEstimate()
    for second in range(10):
        tick = columns([10.0])
        estimate.update(float(second), tick)
        assert FLOOR not in tick


def test_what_is_not_known_has_no_bound() -> None:
    estimate = CommEstimate()
    for second in range(30):
        tick = columns([10.0, np.nan], busy=None)
        estimate.update(float(second), tick)
    assert tick[FLOOR] == pytest.approx([0.1])
    assert CEILING not in tick


def test_a_gap_leaves_nothing_to_average() -> None:
    estimate = CommEstimate()
    for second in (*range(30), 600):
        tick = columns([10.0])
        estimate.update(float(second), tick)
    assert FLOOR not in tick
