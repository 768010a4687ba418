"""Lost devices and memory errors on small hand-made streams."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.analysis.harness import Detection, detections
from tests.reports import monitor_reading, report, runtime
from trntop.analysis.detectors.devices import DeviceLost, EccUncorrected
from trntop.core.model import Reading
from trntop.core.settings import Analysis

DEVICES = 4


def payload(
    without: Iterable[int] = (), count: int = DEVICES, ecc: dict[int, int] | None = None
) -> dict[str, Any]:
    """A report of a node with four devices, of which some are not listed."""
    result = report(runtime(), devices=DEVICES, ecc=ecc)
    listed = result["system_data"]["neuron_hw_counters"]["neuron_devices"]
    result["system_data"]["neuron_hw_counters"]["neuron_devices"] = [
        device for device in listed if device["neuron_device_index"] not in set(without)
    ]
    result["neuron_hardware_info"]["neuron_device_count"] = count
    return result


def sysfs_reading(
    t: float, devices: dict[int, dict[str, int]], lost: Iterable[int] = (), period: float = 10.0
) -> Reading:
    tree: dict[str, Any] = {
        str(index): {"hardware": hardware, "cores": {"0": {"device_mem": {"total": 1}}}}
        for index, hardware in devices.items()
    }
    tree |= {str(index): {"cores": {"0": {}}, "lost": "No such device"} for index in lost}
    data = {"driver": "2.30.2.0", "period": period, "devices": tree}
    return Reading("n", "neuron-sysfs", t, json.dumps(data).encode())


def lost(readings: Iterable[Reading]) -> list[Detection]:
    return detections(DeviceLost(Analysis(), 1.0), readings)


def erred(readings: Iterable[Reading]) -> list[Detection]:
    return detections(EccUncorrected(Analysis(), 1.0), readings)


def monitored(at: Callable[[int], dict[str, Any]], seconds: int = 60) -> list[Reading]:
    return [monitor_reading(at(t), float(t)) for t in range(seconds)]


@pytest.mark.parametrize("count", [DEVICES, DEVICES - 1])
def test_a_device_that_neuron_monitor_lists_no_more(count: int) -> None:
    def at(t: int) -> dict[str, Any]:
        return payload({3}, count) if 20 <= t < 40 else payload()

    (found,) = lost(monitored(at))
    assert found.key == ("n", 3)
    assert found.verdict.component == "device:3"
    assert found.verdict.since == pytest.approx(21, abs=1)
    assert 21 <= found.begin <= 23
    assert 40 <= found.end <= 42
    assert found.verdict.fields == {
        "node": "n", "what": "device 3 is lost", "basis": "neuron-monitor",
    }  # fmt: skip
    left = [
        evidence.text for evidence in found.verdict.evidence if evidence.quantity == "node_devices"
    ]
    assert left == ([] if count == DEVICES else ["3 of 4 devices left"])


def test_one_reading_without_it_is_no_loss() -> None:
    assert lost(monitored(lambda t: payload({2}) if t == 20 else payload())) == []
    slow = [monitor_reading(payload({2}) if t == 20 else payload(), 5.0 * t) for t in range(40)]
    assert lost(slow) == []


def test_lines_that_report_no_loss() -> None:
    def broken(t: int) -> dict[str, Any]:
        result = payload()
        if t >= 20:
            hardware = result["system_data"]["neuron_hw_counters"]
            hardware |= {"error": "cannot read", "neuron_devices": []}
        return result

    def driverless(t: int) -> dict[str, Any]:
        result = payload() if t < 20 else payload(range(DEVICES), 0)
        if t >= 20:
            result["neuron_hardware_info"]["error"] = "no driver"
        return result

    assert lost(monitored(broken)) == []
    assert lost(monitored(driverless)) == []
    assert lost(monitored(lambda t: payload({2}))) == []  # it never was there
    silent = [monitor_reading(payload(), float(t), "n") for t in range(10)]
    assert lost([*silent, *(monitor_reading(payload(), float(t), "m") for t in range(60))]) == []


def test_a_number_of_devices_alone_names_none() -> None:
    def at(t: int) -> dict[str, Any]:
        result = payload()
        result["system_data"] = None
        result["neuron_hardware_info"]["neuron_device_count"] = 2 if 20 <= t < 40 else DEVICES
        return result

    (found,) = lost(monitored(at))
    assert found.verdict.component is None
    assert found.verdict.fields["what"] == "2 devices are lost"
    assert 40 <= found.end <= 42


def test_a_smaller_machine_under_the_same_name_has_lost_nothing() -> None:
    def at(t: int) -> dict[str, Any]:
        result = payload({2, 3}, 2) if t >= 20 else payload()
        result["instance_info"]["instance_id"] = f"i-{t >= 20}"
        return result

    assert lost(monitored(at)) == []


def test_the_driver_reports_a_lost_device() -> None:
    healthy = {device: {"mem_ecc_uncorrected": 0} for device in range(3)}
    stream = [sysfs_reading(float(t), healthy) for t in range(0, 60, 10)]
    gone = {0: healthy[0], 1: healthy[1]}
    stream += [sysfs_reading(float(t), gone, {2}) for t in range(60, 100, 10)]
    (found,) = lost(stream)
    assert found.key == ("n", 2)
    assert 60 <= found.begin <= 61
    assert found.verdict.fields["basis"] == "neuron-sysfs: No such device"


def test_the_only_device_is_lost() -> None:
    stream = [sysfs_reading(float(t), {0: {"mem_ecc_uncorrected": 0}}) for t in range(0, 60, 10)]
    stream += [sysfs_reading(float(t), {}, {0}) for t in range(60, 100, 10)]
    (found,) = lost(stream)
    assert found.verdict.component == "device:0"


def test_a_device_that_sysfs_lists_no_more() -> None:
    healthy = {device: {"mem_ecc_uncorrected": 0} for device in range(3)}
    stream = [sysfs_reading(float(t), healthy) for t in range(0, 60, 10)]
    stream += [sysfs_reading(float(t), {0: {}, 1: healthy[1]}) for t in range(60, 100, 10)]
    found = lost(stream)
    assert sorted(detection.verdict.component or "" for detection in found) == [
        "device:0",
        "device:2",
    ]
    assert all(70 <= detection.begin <= 71 for detection in found)


def test_uncorrected_errors_count_only_what_is_new() -> None:
    assert erred(monitored(lambda t: payload(ecc={0: 7}))) == []
    (found,) = erred(monitored(lambda t: payload(ecc={0: 7, 1: 2 * (t >= 20)})))
    assert found.key == ("n", 1)
    assert found.verdict.component == "device:1"
    assert 20 <= found.begin <= 21
    assert found.verdict.fields["count"] == "2 uncorrected memory errors"
    assert found.verdict.evidence[0].text == "HBM errors uncorrected: 2 in all"


def test_errors_add_up_while_they_come() -> None:
    first, second = erred(monitored(lambda t: payload(ecc={1: (t >= 20) + (t >= 40)})))
    assert first.verdict.fields["count"] == "1 uncorrected memory error"
    assert second.verdict.fields["count"] == "2 uncorrected memory errors"
    assert second.verdict.since == first.verdict.since


def test_a_device_missing_from_one_report_is_no_new_error() -> None:
    assert erred(monitored(lambda t: payload({1} if t == 20 else (), ecc={0: 7, 1: 3}))) == []


def test_a_reset_count_is_what_it_shows() -> None:
    assert erred(monitored(lambda t: payload(ecc={1: 7 if t < 20 else 0}))) == []
    (found,) = erred(monitored(lambda t: payload(ecc={1: 7 if t < 20 else 2})))
    assert found.verdict.fields["count"] == "2 uncorrected memory errors"


def test_one_error_that_both_sources_count_is_one() -> None:
    stream = monitored(lambda t: payload(ecc={1: int(t >= 25)}))
    stream += [
        sysfs_reading(float(t), {device: {"mem_ecc_uncorrected": int(device == 1 and t >= 30)}
                                 for device in range(DEVICES)})
        for t in range(0, 60, 10)
    ]  # fmt: skip
    *_, newest = erred(stream)
    assert newest.verdict.fields["count"] == "1 uncorrected memory error"


def test_a_count_that_cannot_be_read_for_once_is_no_new_error() -> None:
    stream = [
        sysfs_reading(float(t), {0: {"mem_ecc_uncorrected": 0} if t == 30 else
                                 {"mem_ecc_uncorrected": 0, "sram_ecc_uncorrected": 7}})
        for t in range(0, 90, 10)
    ]  # fmt: skip
    assert erred(stream) == []


def test_the_kernel_s_words_on_the_device() -> None:
    line = "neuron: NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id=1 nc-id=0"
    log = {"period": 10, "lines": [{"text": line}], "counts": {"neuron": 1}}
    stream = monitored(lambda t: payload(ecc={1: int(t >= 25), 2: int(t >= 25)}))
    stream.append(Reading("n", "kernel-log", 24.0, json.dumps(log).encode()))
    texts = {
        detection.key[1]: [each.text for each in detection.verdict.evidence]
        for detection in erred(stream)
    }  # type: ignore[index]
    assert f"kernel log: {line}" in texts[1]
    assert f"kernel log: {line}" not in texts[2]
