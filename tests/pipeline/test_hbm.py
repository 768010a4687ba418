from dataclasses import replace

import numpy as np
import pytest

from tests.reports import monitor_reading, report, runtime
from trntop.catalog import Provenance
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


def test_a_core_that_only_holds_memory_moves_nothing() -> None:
    loaded = runtime(
        utilization={0: 99.0, 1: 0.0}, memory={0: GIB, 1: GIB}, period=5.482, completed=100
    )
    columns = view(monitor_reading(report(loaded), 1.0)).frame.columns
    assert columns["neuroncore_hbm_bandwidth_ratio"] == pytest.approx([0.3199, 0.0], abs=5e-5)


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        (replace(GOLDEN, seconds=0.1), "18.1 executions/s of 100 ms need 1.8 cores, not 1"),
        (
            replace(GOLDEN, seconds=None, hbm_read_bytes=40 * GIB),
            "18.1 executions/s move 202 % of the peak HBM bandwidth",
        ),
    ],
)
def test_a_profile_that_cannot_be_of_this_program_gives_nothing(
    profile: NeffProfile, why: str
) -> None:
    frame = view(monitor_reading(report(golden_runtime()), 1.0), profiles=(profile,)).frame
    assert not any("hbm_bytes" in name for name in frame.columns)
    assert frame.why_absent("node_hbm_bandwidth_ratio") == (
        f"profile of model.neff does not fit: {why}"
    )


def test_executions_that_began_before_the_period_do_not_refute_a_profile() -> None:
    """Two of 54.82 ms on one core, counted in 100 ms."""
    payload = report(
        runtime(utilization={0: 99.0, 1: 0.0}, memory={0: GIB}, period=0.1, completed=2)
    )
    frame = view(monitor_reading(payload, 1.0)).frame
    assert frame.columns["node_hbm_bytes_per_second"] == pytest.approx([20 * 6.697 * GIB])


def test_executions_without_a_list_of_programs_are_the_reason() -> None:
    busy = golden_runtime()
    busy["report"]["memory_used"]["loaded_models"] = []  # type: ignore[index]
    frame = view(monitor_reading(report(busy), 1.0)).frame
    assert frame.why_absent("node_hbm_bandwidth_ratio") == "process 100 lists no loaded program"


def test_without_a_profile_there_is_a_floor_below_the_derived_value() -> None:
    """Weights of 2.5 GiB, of which the profiled execution reads 3.995 GiB with the rest."""
    busy = golden_runtime()
    used = busy["report"]["memory_used"]["neuron_runtime_used_bytes"]  # type: ignore[index]
    used["usage_breakdown"]["neuroncore_memory_usage"]["0"] |= {
        "constants": 2 * GIB, "tensors": GIB // 2,
    }  # fmt: skip
    reading = monitor_reading(report(busy), 1.0)
    floor = view(reading, profiles=()).frame.columns["neuroncore_hbm_floor_bytes_per_second"]
    assert floor == pytest.approx([2.5 * GIB / 0.05482, 0.0])
    frame = view(reading).frame
    assert frame.columns["neuroncore_hbm_bytes_per_second"][0] > floor[0]


def test_weights_that_cannot_be_read_so_often_give_no_floor() -> None:
    busy = runtime(utilization={0: 99.0, 1: 0.0}, memory={0: 30 * GIB}, completed=100)
    frame = view(monitor_reading(report(busy), 1.0), profiles=()).frame
    assert "device_hbm_bandwidth_floor_ratio" not in frame.columns


def test_without_a_profile_it_is_absent_with_a_remedy() -> None:
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


def test_several_programs_of_one_process_cannot_be_distinguished() -> None:
    busy = golden_runtime()
    models = busy["report"]["memory_used"]["loaded_models"]  # type: ignore[index]
    models.append({"name": "b.neff", "uuid": "v", "is_running": True})
    frame = view(monitor_reading(report(busy), 1.0)).frame
    assert "node_hbm_bytes_per_second" not in frame.columns
    assert "runs 2 programs" in frame.why_absent("node_hbm_bandwidth_ratio")
    # Of several, the only one seen running is assumed to have been executed each time.
    models[1]["is_running"] = False
    guessed = view(monitor_reading(report(busy), 1.0))
    shares = guessed.frame.columns["neuroncore_hbm_bandwidth_ratio"]
    assert shares[0] == pytest.approx(0.3199, abs=5e-5)
    assert guessed.inventory.provenance("node_hbm_bandwidth_ratio") is Provenance.ESTIMATED
    assert guessed.inventory.provenance("node_neuroncores_busy") is Provenance.DERIVED


def test_the_bandwidth_of_the_only_loaded_program_is_derived() -> None:
    inventory = view(monitor_reading(report(golden_runtime()), 1.0)).inventory
    assert inventory.provenance("node_hbm_bandwidth_ratio") is Provenance.DERIVED


def test_a_stale_report_has_no_bandwidth() -> None:
    monitor = Monitor(Settings(), profiles=(GOLDEN,))
    monitor.feed(monitor_reading(report(golden_runtime()), 1.0))
    frame = monitor.tick(60.0).cluster.nodes["n"].frame
    assert not any("hbm" in name for name in frame.columns)
    assert frame.why_absent("node_hbm_bytes_per_second") == ("neuron-monitor reports no executions")
