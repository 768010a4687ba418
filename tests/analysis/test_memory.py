"""Memory that fills up, on small hand-made streams."""

import json
from collections.abc import Callable

import pytest

from tests.analysis.harness import Detection, detections
from tests.reports import monitor_reading, report, runtime
from trntop.analysis.detectors.memory import MemoryPressure
from trntop.core.model import Reading
from trntop.core.settings import Analysis

HBM = 32 << 30


def filled(shares: Callable[[int], list[float]], seconds: int = 200) -> list[Detection]:
    """A node of two devices with one core each, of which so much is used at each second."""

    def reading(t: int) -> Reading:
        used = {core: int(share * HBM) for core, share in enumerate(shares(t))}
        loads = dict.fromkeys(used, 50.0)
        payload = report(runtime(utilization=loads, memory=used), devices=2, per_device=1)
        return monitor_reading(payload, float(t))

    return detections(MemoryPressure(Analysis(), 1.0), map(reading, range(seconds)))


def test_the_fullest_device_is_named() -> None:
    (found,) = filled(lambda t: [0.5, 0.97 if 20 <= t < 60 else 0.5])
    assert found.key == ("n", "hbm")
    assert found.verdict.component == "device:1"
    assert found.begin == pytest.approx(20, abs=2)
    assert found.end == pytest.approx(60, abs=2)
    assert found.verdict.fields["what"] == "HBM of device 1"
    assert found.verdict.fields["how"] == "is 97 % used"


def test_devices_that_fill_up_equally_are_one_detection() -> None:
    (found,) = filled(lambda t: [0.97, 0.96] if t > 20 else [0.5, 0.5])
    assert found.verdict.component is None
    assert found.verdict.fields["what"] == "HBM of device 0 and 1 more"


def test_steady_growth_is_reported_before_it_is_full() -> None:
    (found,) = filled(lambda t: [0.5, min(0.999, 0.6 + 0.001 * t)], 390)
    # At 0.9 the rest takes 100 s; half a minute of growth must be seen.
    assert 330 <= found.begin <= 337
    assert found.verdict.component == "device:1"
    assert found.verdict.fields["how"].startswith("is 93 % used, full in 1 min")


@pytest.mark.parametrize(
    "share",
    [
        lambda t: 0.92 + 0.004 * (t % 7 - 3) / 3,  # noise
        lambda t: min(0.93, 0.01 * t),  # a model is loaded
        lambda t: min(0.93, 0.90 + 0.00005 * t),  # full in half an hour
        lambda t: 0.93 - 0.0001 * t,
    ],
)  # fmt: skip
def test_what_does_not_fill_up(share: Callable[[int], float]) -> None:
    assert filled(lambda t: [0.5, share(t)], 300) == []


def host_reading(t: int, available: float) -> Reading:
    payload = {"period": 10, "memory": {"available": available}}
    return Reading("n", "host", float(t), json.dumps(payload).encode())


def test_host_memory() -> None:
    total = 512 << 30
    system = {"memory_info": {"period": 1.0, "memory_total_bytes": total, "error": ""}}
    stream = [
        monitor_reading(report(runtime(), system_data=system), float(t)) for t in range(200)
    ]  # fmt: skip
    stream += [host_reading(t, (0.02 if 50 <= t < 100 else 0.3) * total) for t in range(0, 200, 10)]
    (found,) = detections(MemoryPressure(Analysis(), 1.0), stream)
    assert found.key == ("n", "host")
    assert found.verdict.component is None
    assert found.verdict.fields["how"] == "is nearly full, 10.2 GiB available"
    assert found.begin == pytest.approx(50, abs=2)
    assert found.end == pytest.approx(100, abs=2)
