import dataclasses
import json
import math
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from tests.builders import GIB, make_node, make_view, node_name, view_of
from trntop.catalog import (
    EFA_DEVICE_COUNTERS,
    EFA_PORT_COUNTERS,
    EFA_SOURCE,
    NEURON_MONITOR,
    NEURON_SYSFS,
    Page,
)
from trntop.core.errors import UsageError
from trntop.core.model import Cluster, NodeView, Runtime, State, View
from trntop.exporters.metrics.compat import COMPAT, compat_of
from trntop.exporters.metrics.exposition import Format
from trntop.exporters.metrics.pages import Exposition

INSTANCE = {
    "instance_name", "instance_id", "instance_type", "availability_zone", "region", "subnet_id",
    "ultraserver_id",
}  # fmt: skip
PROCESS = INSTANCE | {"runtime_tag"}
CORE = PROCESS | {"neuroncore"}
PUBLISHED = {
    "neuroncore_utilization_ratio": ("gauge", CORE),
    "neuroncore_memory_usage_constants": ("gauge", CORE | {"memory_location"}),
    "neuroncore_memory_usage_model_code": ("gauge", CORE | {"memory_location"}),
    "neuroncore_memory_usage_model_shared_scratchpad": ("gauge", CORE | {"memory_location"}),
    "neuroncore_memory_usage_runtime_memory": ("gauge", CORE | {"memory_location"}),
    "neuroncore_memory_usage_tensors": ("gauge", CORE | {"memory_location"}),
    "neuron_runtime_memory_used_bytes": ("gauge", PROCESS | {"memory_location"}),
    "neuron_runtime_vcpu_usage_ratio": ("gauge", PROCESS | {"usage_type"}),
    "execution_latency_seconds": ("gauge", PROCESS | {"percentile"}),
    "execution_status_total": ("counter", INSTANCE | {"status_type"}),
    "execution_errors_total": ("counter", INSTANCE | {"error_type"}),
    "hardware_ecc_events_total": ("counter", INSTANCE | {"event_type", "neuron_device_index"}),
    "system_vcpu_count": ("gauge", INSTANCE),
    "system_vcpu_usage_ratio": ("gauge", INSTANCE | {"usage_type"}),
    "system_memory_total_bytes": ("gauge", INSTANCE),
    "system_memory_used_bytes": ("gauge", INSTANCE),
    "system_swap_total_bytes": ("gauge", INSTANCE),
    "system_swap_used_bytes": ("gauge", INSTANCE),
    "instance_info": ("gauge", INSTANCE),
    "neuron_hardware_info": (
        "gauge",
        INSTANCE
        | {"neuron_device_count", "neuroncore_per_device_count", "neuron_device_memory_size"},
    ),
}
"""What neuron-monitor-prometheus.py publishes: name → kind, labels. Of those of a process, the two
counters have its tag there and not here."""

BOARD: Sequence[tuple[str, dict[str, float]]] = (
    ("count(instance_info)", {"{}": 2}),
    ("sum (system_vcpu_count)", {"{}": 384}),
    ("avg(sum by (instance_id) (system_vcpu_usage_ratio))", {"{}": 0.75}),
    ("avg(system_memory_used_bytes / system_memory_total_bytes)", {"{}": 300.5 / 2048}),
    ("avg(system_memory_used_bytes)", {"{}": 300.5 * GIB}),
    ("count(neuroncore_utilization_ratio > 0)", {"{}": 6}),
    ("avg(neuroncore_utilization_ratio)", {"{}": 0.4375}),
    ('sum(rate(execution_status_total{status_type="completed"}[1m]))', {"{}": 2}),
    ('sum(rate(execution_status_total{status_type!="completed"}[1m]))', {"{}": 10}),
    (
        "avg by (percentile) (execution_latency_seconds)",
        {
            f'{{percentile="{percentile}"}}': 0.004 + 0.0005 * index
            for index, percentile in enumerate(("p0", "p1", "p25", "p50", "p75", "p99", "p100"))
        },
    ),
    (
        "avg by (neuroncore) (neuroncore_utilization_ratio)",
        {f'{{neuroncore="{core}"}}': value for core, value in enumerate((0.5, 0.25, 0, 1))},
    ),
    (
        "avg by (usage_type) (neuron_runtime_vcpu_usage_ratio)",
        {'{usage_type="user"}': 0.25, '{usage_type="system"}': 0.125},
    ),
    (
        "avg by (memory_location) "
        "(sum by (instance_id, memory_location) (neuron_runtime_memory_used_bytes))",
        {'{memory_location="host"}': 4 * GIB, '{memory_location="neuron_device"}': 40 * GIB},
    ),
    (
        "avg by (usage_type) (system_vcpu_usage_ratio)",
        {'{usage_type="user"}': 0.25, '{usage_type="system"}': 0.5},
    ),
)
"""The expressions of AWS's neuron-monitor-grafana.json, and what they give on `board_view`."""


def board_view() -> View:
    """Two nodes of two devices with two cores, one process on each."""
    return make_view(
        facts={"ultraserver_id": "u-1"},
        columns={
            "neuroncore_utilization_ratio": [0.5, 0.25, 0.0, 1.0],
            "runtime_vcpu_user_ratio": [0.25],
            "runtime_vcpu_system_ratio": [0.125],
        },
    )


def body(view: View, names: Iterable[str] = COMPAT, page_format: Format = Format.TEXT) -> str:
    page = Exposition(usage=dict, compat=compat_of(names))
    return page.render(view).body(Page.METRICS, page_format).decode()


def samples(cluster: Cluster, name: str) -> dict[str, list[Sample]]:
    """Name on the page → its samples."""
    found: dict[str, list[Sample]] = {}
    for family, lines in COMPAT[name](cluster):
        text = family.header(Format.TEXT) + "".join(lines)
        found[family.name] = [sample for family_ in parse_text(text) for sample in family_.samples]
    return found


def node_samples(node: NodeView, name: str = "neuron-monitor") -> dict[str, list[Sample]]:
    return samples(view_of(node).cluster, name)


def values(found: Iterable[Sample], label: str) -> dict[str, float]:
    return {sample.labels.get(label, ""): sample.value for sample in found}


def with_runtimes(node: NodeView, *runtimes: Runtime) -> NodeView:
    inventory = dataclasses.replace(node.inventory, runtimes=runtimes)
    return dataclasses.replace(node, inventory=inventory)


def test_off_by_default_and_named_one_by_one() -> None:
    view = board_view()
    plain = body(view, ())
    assert not any(f"\n{name}{{" in plain for name in PUBLISHED)
    assert "node_amazonefa" not in plain
    neuron, efa = body(view, ["neuron-monitor"]), body(view, ["amazonefa"])
    assert "\nneuroncore_utilization_ratio{" in neuron
    assert "node_amazonefa" not in neuron
    assert "node_amazonefa_tx_bytes{" in efa
    assert "\nneuroncore_utilization_ratio{" not in efa
    assert len(compat_of(["amazonefa", "neuron-monitor", "amazonefa"])) == 2
    with pytest.raises(UsageError, match="dcgm: not an exporter; known are neuron-monitor, amaz"):
        compat_of(["dcgm"])


def test_names_kinds_and_labels_are_those_of_the_script() -> None:
    cluster = board_view().cluster
    blocks = list(COMPAT["neuron-monitor"](cluster))
    assert {family.name: str(family.kind) for family, _ in blocks} == {
        name: kind for name, (kind, _) in PUBLISHED.items()
    }
    for name, found in samples(cluster, "neuron-monitor").items():
        assert {frozenset(sample.labels) for sample in found} == {frozenset(PUBLISHED[name][1])}


def test_the_scales_are_those_of_the_script() -> None:
    found = node_samples(make_node(1, devices=1, columns={"runtime_vcpu_user_ratio": [0.0365]}))
    assert values(found["neuroncore_utilization_ratio"], "neuroncore") == {"0": 0.91, "1": 0.92}
    assert found["system_memory_used_bytes"][0].value == 301 * GIB
    assert values(found["system_vcpu_usage_ratio"], "usage_type") == {"user": 0.25, "system": 0.5}
    assert values(found["execution_latency_seconds"], "percentile")["p99"] == pytest.approx(0.0065)
    assert values(found["execution_status_total"], "status_type")["completed"] == 12_001
    assert values(found["neuron_runtime_vcpu_usage_ratio"], "usage_type") == {"user": 0.0365}
    assert found["neuroncore_memory_usage_tensors"][0].labels["memory_location"] == "None"
    info = found["neuron_hardware_info"][0].labels
    assert info["neuron_device_count"] == "1"
    assert info["neuroncore_per_device_count"] == "2"
    assert info["neuron_device_memory_size"] == str(96 * GIB)


def test_shares_of_modes_that_were_rounded_apart_stay_at_one() -> None:
    columns = {f"node_vcpu_{mode}_ratio": [0.4] for mode in ("system", "io_wait", "irq")}
    found = node_samples(make_node(columns=columns))
    assert values(found["system_vcpu_usage_ratio"], "usage_type") == {"user": 0.25, "system": 1.0}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_every_expression_of_the_published_board_gives_what_it_should(tmp_path: Path) -> None:
    # Prometheus takes means in the order of a hash map: their last digits change.
    series = []
    for family in parse_text(body(board_view(), ["neuron-monitor"])):
        for sample in family.samples:
            text = ", ".join(f"{key}={json.dumps(text)}" for key, text in sample.labels.items())
            step = 15 if family.type == "counter" else 0
            series.append(
                {
                    "series": f"{sample.name}{{{text}}}",
                    "values": f"{sample.value!r}+{step}x20",
                }
            )
    tests = {
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": series,
                "promql_expr_test": [
                    {
                        "expr": f"round(({expr}) * 1e9) / 1e9",
                        "eval_time": "4m",
                        "exp_samples": [
                            {"labels": labels, "value": math.floor(value * 1e9 + 0.5) / 1e9}
                            for labels, value in expected.items()
                        ],
                    }
                    for expr, expected in BOARD
                ],
            }
        ],
    }
    file = tmp_path / "board.json"
    file.write_text(json.dumps(tests))  # JSON is YAML
    ran = subprocess.run(
        ["promtool", "test", "rules", file], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_efa_devices_have_the_names_of_the_efa_node_exporter() -> None:
    found = node_samples(make_node(efa=2), "amazonefa")
    counters = (EFA_PORT_COUNTERS | EFA_DEVICE_COUNTERS).keys() - {"alloc_mr_err", "get_dma_mr_err"}
    assert found.keys() == {f"node_amazonefa_{name}" for name in (*counters, "info")}
    assert len(counters) == 34
    sent = found["node_amazonefa_tx_bytes"]
    assert [sample.labels for sample in sent] == [
        {"device": "rdmap16s27", "port": "1"},
        {"device": "rdmap32s27", "port": "1"},
    ]
    assert [sample.value for sample in sent] == [1e6, 1e6 + 1]
    assert [(sample.labels, sample.value) for sample in found["node_amazonefa_info"]] == [
        ({"device": "rdmap16s27"}, 1.0),
        ({"device": "rdmap32s27"}, 1.0),
    ]


def test_a_lost_efa_device_and_a_counter_that_the_driver_lacks_are_absent() -> None:
    lost = {f"efa_{name}_total": [5.0, math.nan] for name in EFA_PORT_COUNTERS}
    found = node_samples(make_node(columns={**lost, "efa_retrans_pkts_total": None}), "amazonefa")
    assert values(found["node_amazonefa_info"], "device") == {"rdmap16s27": 1.0}
    assert values(found["node_amazonefa_rx_bytes"], "device") == {"rdmap16s27": 5.0}
    assert "node_amazonefa_retrans_pkts" not in found


@pytest.mark.parametrize(
    ("name", "source", "left"),
    [
        ("neuron-monitor", NEURON_MONITOR, {"instance_info", "hardware_ecc_events_total"}),
        ("amazonefa", EFA_SOURCE, set()),
    ],
)
def test_what_no_longer_reports_is_gone(name: str, source: str, left: set[str]) -> None:
    found = node_samples(make_node(states={source: State.STALE}), name)
    assert found.keys() == left


def test_ecc_events_are_those_of_the_driver_else_those_of_neuron_monitor() -> None:
    columns = {"device_mem_ecc_corrected_events": [7.0], "device_mem_ecc_corrected_total": [9.0]}
    found = node_samples(make_node(devices=1, columns=columns))
    assert values(found["hardware_ecc_events_total"], "event_type")["mem_ecc_corrected"] == 9
    columns = {
        "device_mem_ecc_corrected_events": [7.0],
        "device_mem_ecc_corrected_total": [math.nan],
    }
    found = node_samples(make_node(devices=1, states={NEURON_SYSFS: State.DOWN}, columns=columns))
    assert values(found["hardware_ecc_events_total"], "event_type")["mem_ecc_corrected"] == 7


def test_a_core_belongs_to_the_one_process_that_holds_memory_on_it() -> None:
    node = with_runtimes(
        make_node(devices=1, cores_per_device=4, runtimes=2),
        Runtime(4711, "train", cores=(0, 2)),
        Runtime(4712, "eval", cores=(1, 2)),
    )
    found = node_samples(node)["neuroncore_utilization_ratio"]
    tags = {sample.labels["neuroncore"]: sample.labels.get("runtime_tag") for sample in found}
    assert tags == {"0": "train", "1": "eval", "2": None, "3": None}


def test_processes_of_one_tag_are_one() -> None:
    node = with_runtimes(
        make_node(
            runtimes=3,
            columns={
                "runtime_host_memory_used_bytes": [1.0, 2.0, 4.0],
                "runtime_device_memory_used_bytes": [1.0, math.nan, 4.0],
                "runtime_total_latency_p99_seconds": [0.5, math.nan, 0.25],
                "runtime_total_latency_p50_seconds": [math.nan, math.nan, 0.25],
            },
        ),
        Runtime(4711, "train"),
        Runtime(4712, "train"),
        Runtime(4713, "eval"),
    )
    found = node_samples(node)
    used = {
        (sample.labels["runtime_tag"], sample.labels["memory_location"]): sample.value
        for sample in found["neuron_runtime_memory_used_bytes"]
    }
    # Of one process the HBM is not known, so that of its tag is not either.
    assert used == {("train", "host"): 3, ("eval", "host"): 4, ("eval", "neuron_device"): 4}
    latency = found["execution_latency_seconds"]
    p99 = [sample for sample in latency if sample.labels["percentile"] == "p99"]
    assert values(p99, "runtime_tag") == {"train": 0.5, "eval": 0.25}
    p50 = [sample for sample in latency if sample.labels["percentile"] == "p50"]
    assert values(p50, "runtime_tag") == {"eval": 0.25}


def test_nodes_with_equal_labels_are_distinguished_by_name() -> None:
    cluster = make_view(nodes=3).cluster
    apart = samples(cluster, "neuron-monitor")["system_vcpu_count"]
    assert all("node" not in sample.labels for sample in apart)
    assert len(values(apart, "instance_id")) == 3

    same_tag = make_view(nodes=3, facts={"instance_id": ""}).cluster
    for name in COMPAT:
        for found in samples(same_tag, name).values():
            assert {sample.labels["node"] for sample in found} == {node_name(i) for i in range(3)}


def test_simulated_values_are_marked() -> None:
    for name in COMPAT:
        for found in node_samples(make_node(simulated=True), name).values():
            assert {sample.labels["provenance"] for sample in found} == {"simulated"}


@pytest.mark.parametrize("page_format", list(Format))
def test_both_formats_are_read_with_hostile_tags(page_format: Format) -> None:
    tags = ['"} 1\n# EOF', "back\\slash", "日本語 ☃", ""]
    node = with_runtimes(
        make_node(runtimes=4, devices=2, cores_per_device=2),
        *(Runtime(4711 + index, tag, cores=(index,)) for index, tag in enumerate(tags)),
    )
    text = body(view_of(node, make_node(1)), COMPAT, page_format)
    parse = parse_text if page_format is Format.TEXT else parse_openmetrics
    families_ = set()
    for family in parse(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in families_
            families_.add(key)
    found = {dict(pairs).get("runtime_tag") for name, pairs in families_ if "utilization" in name}
    assert found >= {*tags[:3], None}


def test_they_count_against_the_limit_on_series_and_go_first() -> None:
    page = Exposition(max_series=400, usage=dict, compat=compat_of(COMPAT))
    rendered = page.render(make_view(nodes=2, devices=16, efa=16))
    text = rendered.body(Page.METRICS, Format.TEXT).decode()
    assert "trn_node_devices{" in text
    assert "node_amazonefa_mmap_err{" not in text
    dropped = next(line for line in text.splitlines() if line.startswith("trntop_series_dropped{"))
    assert int(dropped.split()[-1]) > 0
