import numpy as np
import pytest

from tests.reports import monitor_reading, report, runtime
from trntop.core.model import NeffProfile, NodeView, Reading
from trntop.core.settings import Settings
from trntop.session.monitor import Monitor

GIB = 1 << 30
GOLDEN = NeffProfile("model.neff", "u", 3.995 * GIB, 2.702 * GIB, 0.05482)
"""A public profile of one of Trainium1's two cores: the profiler itself prints 31.99 %."""


def view(*readings: Reading, profiles: tuple[NeffProfile, ...] = (GOLDEN,)) -> NodeView:
    monitor = Monitor(Settings(), profiles=profiles)
    for reading in readings:
        monitor.feed(reading)
    return monitor.tick(readings[-1].time).cluster.nodes["n"]


def golden_runtime(**values: int) -> dict[str, object]:
    """100 executions in 100 times the profile's time, on core 0."""
    return runtime(
        utilization={0: 99.0, 1: 0.0}, memory={0: GIB}, period=5.482, completed=100, **values
    )


def test_the_golden_value() -> None:
    columns = view(monitor_reading(report(golden_runtime()), 1.0)).frame.columns
    assert columns["neuroncore_hbm_bandwidth_ratio"] == pytest.approx([0.3199, 0.0], abs=5e-5)
    assert columns["device_hbm_bandwidth_ratio"] == pytest.approx([0.3199 / 2], abs=5e-5)
    assert columns["runtime_hbm_read_bytes_per_second"] == pytest.approx([3.995 * GIB / 0.05482])
    assert columns["runtime_hbm_write_bytes_per_second"] == pytest.approx([2.702 * GIB / 0.05482])
    assert columns["node_hbm_bytes_per_second"] == pytest.approx([6.697 * GIB / 0.05482])
    assert columns["node_hbm_bandwidth_ratio"] == pytest.approx([0.16], abs=5e-5)


def test_a_process_on_two_cores_spreads_its_executions() -> None:
    payload = report(runtime(memory={0: GIB, 1: GIB}, period=5.482, completed=200))
    columns = view(monitor_reading(payload, 1.0)).frame.columns
    assert columns["neuroncore_hbm_bandwidth_ratio"] == pytest.approx([0.3199] * 2, abs=5e-5)


def test_without_a_profile_it_is_absent_and_says_what_helps() -> None:
    frame = view(monitor_reading(report(golden_runtime()), 1.0), profiles=()).frame
    assert "node_hbm_bytes_per_second" not in frame.columns
    why = frame.why_absent("neuroncore_hbm_bandwidth_ratio")
    assert why == "no profile of model.neff: trntop profile add FILE"


def test_one_process_without_a_profile_leaves_the_sums_absent() -> None:
    other = runtime(pid=101, utilization={1: 50.0}, memory={1: GIB})
    other["report"]["memory_used"]["loaded_models"] = [{"name": "other.neff", "uuid": "v"}]
    frame = view(monitor_reading(report(golden_runtime(), other), 1.0)).frame
    shares = frame.columns["neuroncore_hbm_bandwidth_ratio"]
    assert shares[0] == pytest.approx(0.3199, abs=5e-5)
    assert np.isnan(shares[1])
    for name in ("device_hbm_bytes_per_second", "node_hbm_bytes_per_second"):
        assert name not in frame.columns
    assert frame.why_absent("node_hbm_bandwidth_ratio").startswith("no profile of other.neff")


def test_several_programs_of_one_process_cannot_be_told_apart() -> None:
    busy = golden_runtime()
    models = busy["report"]["memory_used"]["loaded_models"]  # type: ignore[index]
    models.append({"name": "b.neff", "uuid": "v", "is_running": True})
    frame = view(monitor_reading(report(busy), 1.0)).frame
    assert "node_hbm_bytes_per_second" not in frame.columns
    assert "runs 2 programs" in frame.why_absent("node_hbm_bandwidth_ratio")
    # One that is loaded but does not run is no matter.
    models[1]["is_running"] = False
    frame = view(monitor_reading(report(busy), 1.0)).frame
    assert frame.columns["neuroncore_hbm_bandwidth_ratio"][0] == pytest.approx(0.3199, abs=5e-5)


def test_a_stale_report_has_no_bandwidth() -> None:
    monitor = Monitor(Settings(), profiles=(GOLDEN,))
    monitor.feed(monitor_reading(report(golden_runtime()), 1.0))
    frame = monitor.tick(60.0).cluster.nodes["n"].frame
    assert not any("hbm" in name for name in frame.columns)
    assert frame.why_absent("node_hbm_bytes_per_second") == ("neuron-monitor reports no executions")
