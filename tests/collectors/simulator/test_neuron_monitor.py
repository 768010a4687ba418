from typing import Any

import pytest

from tests.collectors.simulator.playing import play
from trntop.catalog import (
    CPU_MODES,
    ECC_EVENTS,
    EXECUTION_ERRORS,
    EXECUTION_STATUSES,
    LATENCY_PERCENTILES,
    MEMORY_CATEGORIES,
)
from trntop.collectors.simulator import parse, simulate
from trntop.sources.neuron_monitor import decode


def reports(spec: str, end: float = 4.0) -> list[Any]:
    return [event.data for event in play(spec, "neuron-monitor", end=end)]


def test_a_report_has_every_group_and_field() -> None:
    report = reports("sim:healthy?nodes=1")[2]
    assert list(report) == [
        "simulated",
        "neuron_runtime_data",
        "system_data",
        "instance_info",
        "neuron_hardware_info",
    ]
    (runtime,) = report["neuron_runtime_data"]
    assert list(runtime) == ["pid", "address", "neuron_runtime_tag", "error", "report"]
    assert runtime["neuron_runtime_tag"] == str(runtime["pid"])
    groups = runtime["report"]
    assert set(groups) == {
        "execution_stats",
        "memory_used",
        "neuron_runtime_vcpu_usage",
        "neuroncore_counters",
    }
    for group in (*groups.values(), *report["system_data"].values()):
        assert group["period"] == pytest.approx(1.0, abs=0.01)
        assert group["error"] == ""
    execution = groups["execution_stats"]
    assert set(execution["error_summary"]) == set(EXECUTION_ERRORS)
    assert set(execution["execution_summary"]) == set(EXECUTION_STATUSES)
    for latency in execution["latency_stats"].values():
        assert tuple(latency) == LATENCY_PERCENTILES
        assert list(latency.values()) == sorted(latency.values())
    used = groups["memory_used"]["neuron_runtime_used_bytes"]
    breakdown = used["usage_breakdown"]
    assert sum(breakdown["host"].values()) == used["host"]
    cores = breakdown["neuroncore_memory_usage"]
    assert list(cores) == [str(core) for core in range(64)]
    assert all(tuple(core) == MEMORY_CATEGORIES for core in cores.values())
    assert sum(sum(core.values()) for core in cores.values()) == used["neuron_device"]
    (model,) = groups["memory_used"]["loaded_models"]
    assert set(model) == {"name", "uuid", "model_id", "is_running", "subgraphs"}
    assert set(model["subgraphs"]["sg_00"]) == {
        "memory_used_bytes",
        "neuroncore_index",
        "neuron_device_index",
    }
    counters = groups["neuroncore_counters"]["neuroncores_in_use"]
    assert list(counters) == [str(core) for core in range(64)]
    assert list(counters["1"]["v3d"]) == ["nc_v3.2", "nc_v3.3"]
    for core in counters.values():
        physical = [part["neuroncore_utilization"] for part in core["v3d"].values()]
        assert core["neuroncore_utilization"] == max(physical)
        assert core["flops"] > 1e13
    system = report["system_data"]
    devices = system["neuron_hw_counters"]["neuron_devices"]
    assert [device["neuron_device_index"] for device in devices] == list(range(16))
    assert all(set(device) == {"neuron_device_index", *ECC_EVENTS} for device in devices)
    vcpu = system["vcpu_usage"]
    assert len(vcpu["usage_data"]) == 192
    for usage in (vcpu["average_usage"], *vcpu["usage_data"].values()):
        assert tuple(usage) == CPU_MODES
        assert sum(usage.values()) == pytest.approx(100.0, abs=0.05)
        assert min(usage.values()) >= 0.0
    assert vcpu["context_switch_count"] > 0
    memory = system["memory_info"]
    assert 0 < memory["memory_used_bytes"] < memory["memory_total_bytes"] == 2048 << 30
    assert report["instance_info"]["instance_name"] == "trn-000"
    assert report["instance_info"]["instance_type"] == "trn2.48xlarge"
    assert report["neuron_hardware_info"] == {
        "neuron_device_type": "trainium2",
        "neuron_device_version": "v4",
        "neuroncore_version": "v3d",
        "neuron_device_count": 16,
        "neuron_device_memory_size": 103079215104,
        "neuroncore_per_device_count": 4,
        "logical_neuroncore_config": 2,
        "error": "",
    }


def test_the_first_report_is_the_trap() -> None:
    first, second = reports("sim:healthy?nodes=1&type=trn1.2xlarge")[:2]
    groups = first["neuron_runtime_data"][0]["report"]
    assert all(0 < group["period"] < 0.001 for group in groups.values())
    execution = groups["execution_stats"]
    assert not any(execution["execution_summary"].values())
    assert execution["latency_stats"] == {"total_latency": None, "device_latency": None}
    for core in groups["neuroncore_counters"]["neuroncores_in_use"].values():
        assert core == {"neuroncore_utilization": 0, "flops": 0}
    assert list(first["system_data"]) == ["memory_info"]
    assert set(second["system_data"]) == {"neuron_hw_counters", "vcpu_usage", "memory_info"}


def test_every_runtime_reports_every_core() -> None:
    report = reports("sim:healthy?nodes=1&type=trn1.32xlarge&runtimes=5")[2]
    runtimes = report["neuron_runtime_data"]
    assert len({runtime["pid"] for runtime in runtimes}) == 5
    busy = []
    for runtime in runtimes:
        cores = runtime["report"]["neuroncore_counters"]["neuroncores_in_use"]
        memory = runtime["report"]["memory_used"]["neuron_runtime_used_bytes"]
        usage = memory["usage_breakdown"]["neuroncore_memory_usage"]
        assert list(cores) == list(usage) == [str(core) for core in range(32)]
        mine = {name for name, core in cores.items() if core["neuroncore_utilization"]}
        assert mine == {name for name, core in usage.items() if any(core.values())}
        assert all(cores[name]["flops"] == 0 for name in cores.keys() - mine)
        busy += sorted(mine, key=int)
    assert busy == [str(core) for core in range(32)]


def test_a_steady_node_is_busy_and_its_memory_stays() -> None:
    utilizations, shares, models = [], [], set()
    for report in reports("sim:healthy?nodes=1&type=inf2.48xlarge", end=60.0)[1:]:
        groups = report["neuron_runtime_data"][0]["report"]
        cores = groups["neuroncore_counters"]["neuroncores_in_use"].values()
        utilizations += [core["neuroncore_utilization"] for core in cores]
        used = groups["memory_used"]["neuron_runtime_used_bytes"]["neuron_device"]
        shares.append(used / (12 * 34359738368))
        models.add(groups["memory_used"]["loaded_models"][0]["uuid"])
    assert 96.5 < sum(utilizations) / len(utilizations) < 99.5
    assert max(utilizations) <= 100.0
    assert 0.69 < min(shares) < max(shares) < 0.71
    assert len(set(shares)) > 5
    assert len(models) == 1


def test_executions_are_changes_of_the_period() -> None:
    """16 executions of each core in a step of about 4.3 seconds."""
    counts = [
        report["neuron_runtime_data"][0]["report"]["execution_stats"]["execution_summary"][
            "completed"
        ]
        for report in reports("sim:healthy?nodes=1&type=trn1.32xlarge", end=60.0)
    ]
    assert sum(counts) / 59 / 32 == pytest.approx(16 / 4.3, rel=0.03)


@pytest.mark.parametrize("runtimes", [1, 4])
def test_the_decoder_has_no_complaint(runtimes: int) -> None:
    spec = f"sim:healthy?nodes=1&type=trn1.32xlarge&runtimes={runtimes}&minutes=0.2"
    samples = [
        decode(reading.data)
        for reading in simulate(parse(spec), 0.0)
        if reading.source == "neuron-monitor"
    ]
    assert not any(sample.problems for sample in samples)
    assert "neuroncore_utilization_ratio" in samples[0].absent
    assert (samples[3].columns["neuroncore_utilization_ratio"] > 0.9).all()
