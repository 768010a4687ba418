"""Pages as AWS's neuron-monitor-prometheus.py writes them; every number here is made up."""

import numpy as np
import pytest

from tests.builders import make_view
from trntop.catalog import ECC_EVENTS, LATENCY_PERCENTILES, MEMORY_CATEGORIES, Entity
from trntop.core.errors import DecodeError
from trntop.exporters.metrics.compat import neuron_monitor
from trntop.sources.neuron_page import decode

LABELS = (
    'availability_zone="us-west-2b",instance_id="i-0123456789abcdef0",instance_name="trn-7",'
    'instance_type="trn1.32xlarge",region="us-west-2",subnet_id="subnet-1"'
)
HARDWARE = (
    f'neuron_hardware_info{{{LABELS},neuron_device_count="2",neuroncore_per_device_count="2",'
    'neuron_device_memory_size="34359738368"} 1.0\n'
)


def core(number: int, tag: str, value: float, name: str = "neuroncore_utilization_ratio") -> str:
    where = ',memory_location="None"' if "memory" in name else ""
    return f'{name}{{{LABELS}{where},neuroncore="{number}",runtime_tag="{tag}"}} {value}\n'


def page_of(*lines: str, hardware: str = HARDWARE) -> bytes:
    return (f"# TYPE neuron_hardware_info gauge\n{hardware}" + "".join(lines)).encode()


def test_identity_and_topology() -> None:
    sample = decode(page_of())
    assert sample.keys[Entity.CORE] == (0, 1, 2, 3)
    assert sample.keys[Entity.DEVICE] == (0, 1)
    assert sample.facts["core_device"].tolist() == [0, 0, 1, 1]
    facts = sample.facts["facts"]
    assert facts["instance_id"] == "i-0123456789abcdef0"
    assert facts["availability_zone"] == "us-west-2b"
    assert sample.columns["device_memory_total_bytes"].tolist() == [2**35, 2**35]
    assert sample.period == 5


def test_two_logical_cores_of_one_are_detected_by_their_number() -> None:
    text = HARDWARE.replace("trn1.32xlarge", "trn2.48xlarge").replace(
        'neuroncore_per_device_count="2"', 'neuroncore_per_device_count="4"'
    )
    assert decode(page_of(hardware=text)).facts["lnc"] == 2


def test_cores_without_any_runtime_are_idle() -> None:
    sample = decode(page_of())
    assert sample.columns["neuroncore_utilization_ratio"].tolist() == [0, 0, 0, 0]
    assert sample.columns["neuroncore_memory_used_bytes"].tolist() == [0, 0, 0, 0]
    assert sample.columns["node_runtimes"].tolist() == [0]


def test_a_group_that_a_runtime_does_not_give_is_absent_not_idle() -> None:
    used = (
        f'neuron_runtime_memory_used_bytes{{{LABELS},memory_location="host",runtime_tag="9"}} 5\n'
    )
    sample = decode(page_of(used))
    assert "neuroncore_utilization_ratio" not in sample.columns
    assert "neuroncore_memory_used_bytes" not in sample.columns
    assert sample.columns["runtime_host_memory_used_bytes"].tolist() == [5]
    assert [(runtime.pid, runtime.tag) for runtime in sample.facts["runtimes"]] == [(9, "9")]


def test_every_runtime_reports_every_core() -> None:
    """Utilization is merged by the larger, memory by the sum."""
    lines = []
    for tag, owned in (("100", 0), ("train", 2)):
        for number in range(4):
            mine = number == owned
            lines.append(core(number, tag, 0.8 if mine else 0.0))
            for name in MEMORY_CATEGORIES:
                used = 7.0 if mine else 0.0
                lines.append(core(number, tag, used, f"neuroncore_memory_usage_{name}"))
    sample = decode(page_of(*lines))
    assert sample.columns["neuroncore_utilization_ratio"].tolist() == [0.8, 0, 0.8, 0]
    assert sample.columns["neuroncore_memory_used_bytes"].tolist() == [35, 0, 35, 0]
    assert [(runtime.pid, runtime.cores) for runtime in sample.facts["runtimes"]] == [
        (100, (0,)),
        (-2, (2,)),
    ]


@pytest.mark.parametrize("bad", ["NaN", "+Inf", "-0.5", "1.4e16", "1e308"])
def test_a_damaged_share_is_absent(bad: str) -> None:
    lines = [core(number, "1", 0.5) for number in range(3)]
    lines.append(core(3, "1", 0).replace(" 0\n", f" {bad}\n"))
    values = decode(page_of(*lines)).columns["neuroncore_utilization_ratio"]
    assert values[:3].tolist() == [0.5] * 3
    assert np.isnan(values[3])


def test_a_core_beyond_the_hardware_is_omitted_and_reported() -> None:
    sample = decode(page_of(core(0, "1", 0.5), core(2, "1", 0.1), core(77, "1", 0.9)))
    assert sample.columns["neuroncore_utilization_ratio"].tolist() == [0.5, 0.0, 0.1, 0.0]
    assert sample.problems == ("core 77 is not one of this node's 4",)


def test_without_hardware_info_the_instance_type_and_the_cores_count() -> None:
    lines = [core(number, "1", 0.25) for number in range(32)]
    sample = decode(page_of(*lines, hardware=""))
    assert len(sample.keys[Entity.CORE]) == 32
    assert len(sample.keys[Entity.DEVICE]) == 16


def test_failures_count_once_whether_as_a_status_or_as_an_error() -> None:
    lines = [
        f'execution_status_total{{{LABELS},runtime_tag="1",status_type="{name}"}} {count}\n'
        for name, count in (("completed", 100), ("timed_out", 2), ("completed_with_err", 1))
    ]
    lines.append(f'execution_errors_total{{{LABELS},error_type="numerical",runtime_tag="1"}} 4\n')
    columns = decode(page_of(*lines)).columns
    assert columns["node_executions_completed_total"].tolist() == [100]
    assert columns["node_execution_errors_numerical_total"].tolist() == [4]
    assert columns["node_executions_failed_total"].tolist() == [4]


def test_foreign_text_is_cleaned() -> None:
    hostile = HARDWARE.replace("trn-7", "\x1b]0;PWNED\x07")
    sample = decode(page_of(hardware=hostile))
    assert "\x1b" not in sample.facts["facts"]["instance_name"]


@pytest.mark.parametrize("data", [b"", b"<html>", b"go_goroutines 8\n"])
def test_another_page_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError, match="no page of neuron-monitor"):
        decode(data)


def test_what_trntop_publishes_under_these_names_comes_back() -> None:
    """The page is written by trntop's own exporter, which knows the script's names."""
    view = make_view(1)
    text = "".join("".join(lines) for _, lines in neuron_monitor.families(view.cluster))
    node = next(iter(view.cluster.nodes.values()))
    frame, sample = node.frame, decode(text.encode())
    assert sample.facts["facts"]["instance_type"] == node.inventory.instance_type
    names = [
        "neuroncore_utilization_ratio",
        "node_memory_used_bytes",
        "node_vcpus",
        *(f"neuroncore_memory_{name}_bytes" for name in MEMORY_CATEGORIES),
    ]
    reported = [name for name in names if name in frame.columns]
    assert len(reported) > 2
    for name in reported:
        np.testing.assert_allclose(sample.columns[name], frame.columns[name], equal_nan=True)
    for name in (f"device_{event}_events" for event in ECC_EVENTS):
        assert name in sample.columns
    latencies = [
        f"runtime_total_latency_{percentile}_seconds" for percentile in LATENCY_PERCENTILES
    ]
    assert any(name in sample.columns for name in latencies)
