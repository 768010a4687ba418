from typing import Any

import pytest

from tests.collectors.simulator.playing import START, Event, play
from trntop.catalog import CORE_STATUSES, MEMORY_CATEGORIES, SYSFS_ECC
from trntop.collectors.simulator.neuron_sysfs import MEMORY_NODES


def both(spec: str, end: float) -> tuple[list[Event], list[Event]]:
    """The events of neuron-monitor and of sysfs, of one node."""
    events = play(spec, end=end)
    return (
        [event for event in events if event.source == "neuron-monitor"],
        [event for event in events if event.source == "neuron-sysfs"],
    )


def cores(payload: Any) -> list[Any]:
    """All physical cores, in order."""
    return [core for device in payload["devices"].values() for core in device["cores"].values()]


def test_a_tree_has_every_part() -> None:
    payload = play("sim:healthy?nodes=1", "neuron-sysfs", end=1.0)[0].data
    assert (payload["driver"], payload["period"]) == ("2.30.2.0", 10)
    assert list(payload["devices"]) == [str(device) for device in range(16)]
    device = payload["devices"]["0"]
    serial = device["info"].pop("serial_number")
    assert len(serial) == 16 and int(serial, 16)
    assert device["info"] == {
        "device_name": "Trainium2",
        "instance_type": "Trn2",
        "arch_type": "NDv3",
        "connected_devices": "12, 3, 4, 1",
        "core_count": "8",
    }
    assert device["unhealthy_components"] == ""
    assert int(device["healthcheck_heartbeat"]) >= START
    assert set(device["hardware"]) == set(SYSFS_ECC)
    assert list(device["cores"]) == [str(core) for core in range(8)]
    for core in cores(payload):
        assert set(core["device_mem"]) == {"total", *MEMORY_NODES}
        total = core["device_mem"].pop("total")
        assert total == sum(core["device_mem"].values())
        assert set(core["status"]) == set(CORE_STATUSES)
        assert core["other_info"]["inference_count"] == core["status"]["success"] > 0
        assert core["other_info"]["model_load_count"] == 1


@pytest.mark.parametrize(
    ("instance_type", "names"),
    [("trn1.2xlarge", ("Trainium1", "Trn1")), ("inf2.48xlarge", ("Inferentia2", "Inf2"))],
)
def test_older_chips_do_not_check_themselves(instance_type: str, names: tuple[str, str]) -> None:
    payload = play(f"sim:healthy?nodes=1&type={instance_type}", "neuron-sysfs", end=1.0)[0].data
    device = payload["devices"]["0"]
    assert (device["info"]["device_name"], device["info"]["instance_type"]) == names
    assert "healthcheck_heartbeat" not in device


def test_ultraservers_number_their_nodes() -> None:
    events = play("sim:healthy?nodes=5&type=trn2u.48xlarge", "neuron-sysfs", end=1.0)
    assert {e.node: e.data["class"]["node_id_4"] for e in events} == {
        "trn-000": "0", "trn-001": "1", "trn-002": "2", "trn-003": "3", "trn-004": "0",
    }  # fmt: skip


def test_physical_cores_share_the_memory_of_their_logical_core() -> None:
    for spec in ("sim:healthy?nodes=1", "sim:healthy?nodes=1&type=trn1.32xlarge&runtimes=3"):
        monitor, sysfs = both(spec, end=11.0)
        for report, other in ((monitor[0], sysfs[0]), (monitor[10], sysfs[1])):
            usages = [
                runtime["report"]["memory_used"]["neuron_runtime_used_bytes"]["usage_breakdown"]
                for runtime in report.data["neuron_runtime_data"]
            ]
            physical = cores(other.data)
            logical = usages[0]["neuroncore_memory_usage"]
            lnc = len(physical) // len(logical)
            for name in logical:
                behind = physical[lnc * int(name) : lnc * int(name) + lnc]
                for category in MEMORY_CATEGORIES:
                    assert sum(core["device_mem"][category] for core in behind) == sum(
                        usage["neuroncore_memory_usage"][name][category] for usage in usages
                    )


def test_counters_are_those_of_neuron_monitor() -> None:
    monitor, sysfs = both("sim:healthy?nodes=1", end=31.0)
    first, last = cores(sysfs[0].data), cores(sysfs[3].data)
    reports = [event.data["neuron_runtime_data"][0]["report"] for event in monitor[1:31]]
    executions = sum(
        report["execution_stats"]["execution_summary"]["completed"] for report in reports
    )
    assert executions == 64 * (last[5]["status"]["success"] - first[5]["status"]["success"])
    for logical in (0, 63):
        counters = [report["neuroncore_counters"] for report in reports]
        used = [(c["neuroncores_in_use"][str(logical)], c["period"]) for c in counters]
        flops = sum(core["flops"] * period for core, period in used)
        for part in (0, 1):
            old, new = (end[2 * logical + part]["other_info"] for end in (first, last))
            name = f"nc_v3.{2 * logical + part}"
            busy = sum(core["v3d"][name]["neuroncore_utilization"] * p for core, p in used)
            change = {key: new[key] - old[key] for key in new}
            assert change["nc_time_in_use"] == pytest.approx(busy / 100 * 1e6, rel=1e-4)
            assert change["flop_count"] == pytest.approx(flops / 2, rel=1e-6)


def test_power_has_one_value_a_minute() -> None:
    texts: dict[str, set[str]] = {}
    for event in play("sim:hang?nodes=1&type=trn1.2xlarge&minutes=5", "neuron-sysfs"):
        text = event.data["devices"]["0"]["power"]
        state, minute, *percents = text.split(",")
        assert state == "POWER_STATUS_VALID"
        assert int(minute) == START + event.second // 60 * 60
        low, high, mean = map(float, percents)
        assert 5.0 < low <= mean <= high < 100.0
        texts.setdefault(minute, set()).add(text)
    assert len(texts) == 5
    assert all(len(values) == 1 for values in texts.values())
    means = [float(values.pop().split(",")[-1]) for values in texts.values()]
    assert means[4] < 0.7 * means[1]


@pytest.mark.parametrize("scenario", ["healthy", "hang", "execution-errors"])
def test_counters_never_go_back(scenario: str) -> None:
    before: list[float] = []
    for event in play(f"sim:{scenario}?nodes=1&type=trn1.2xlarge&minutes=4", "neuron-sysfs"):
        now = [
            count
            for core in cores(event.data)
            for count in (*core["status"].values(), *core["other_info"].values())
        ]
        assert all(b >= a for a, b in zip(before, now, strict=bool(before)))
        before = now
