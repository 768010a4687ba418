"""The names of AWS's `neuron-monitor-prometheus.py`.

Source: `/opt/aws/neuron/bin/neuron-monitor-prometheus.py` of aws-neuronx-tools, and its dashboard,
`src/examples/neuron-monitor/neuron-monitor-grafana.json` in
https://github.com/aws-neuron/aws-neuron-sdk. Every series has the labels of the EC2 instance,
those of a process also `runtime_tag`. The differences, because every runtime reports every
core and the script keeps them all:

- a core has one series, with the `runtime_tag` of the process that has memory on it, if there is
  only one; processes with the same tag are combined: the sums of memory and CPU, the longest
  latency
- executions and errors are counted per node, without `runtime_tag`
- ECC events are the driver's counts where they are read: the script adds up neuron-monitor's
  counts, and it is not documented whether those are sums already
- no `…_created` series
"""

import math
from collections.abc import Iterator

import numpy as np

from trntop.catalog import (
    ECC_EVENTS,
    EXECUTION_ERRORS,
    EXECUTION_STATUSES,
    LATENCY_PERCENTILES,
    MEMORY_CATEGORIES,
    Entity,
    Kind,
)
from trntop.core.model import Cluster, Column, Frame, Inventory, NodeView

from ..exposition import Block, Family, labels, number
from .node_labels import LabelPairs, labeled_nodes

Series = tuple[str, str, float]
"""Name, labels in braces, value."""

_INSTANCE = (
    "instance_name",
    "instance_id",
    "instance_type",
    "availability_zone",
    "region",
    "subnet_id",
    "ultraserver_id",
)
_VCPU = {
    "user": ("user", "nice"),
    "system": ("system", "io_wait", "irq", "soft_irq"),
}
"""`usage_type` → neuron-monitor's modes."""
_HOST = {
    "node_vcpus": "system_vcpu_count",
    "node_memory_total_bytes": "system_memory_total_bytes",
    "node_memory_used_bytes": "system_memory_used_bytes",
    "node_swap_total_bytes": "system_swap_total_bytes",
    "node_swap_used_bytes": "system_swap_used_bytes",
}
_MEMORY_LOCATIONS = {
    "host": "runtime_host_memory_used_bytes",
    "neuron_device": "runtime_device_memory_used_bytes",
}
"""`memory_location` → quantity."""

_HELP = {
    "instance_info": "Identity of the EC2 instance; always 1",
    "neuron_hardware_info": "Neuron devices of the instance; always 1",
    "system_vcpu_count": "vCPUs of the node",
    "system_vcpu_usage_ratio": "Share of vCPU time in use",
    "system_memory_total_bytes": "Host memory",
    "system_memory_used_bytes": "Host memory in use",
    "system_swap_total_bytes": "Swap space",
    "system_swap_used_bytes": "Swap space in use",
    "execution_status_total": "Executions by how they ended",
    "execution_errors_total": "Execution errors by kind",
    "execution_latency_seconds": "Execution latency as the runtime sees it, of the last period",
    "neuron_runtime_memory_used_bytes": "Memory used by the Neuron process",
    "neuron_runtime_vcpu_usage_ratio": "Share of vCPU time used by the Neuron process",
    "hardware_ecc_events_total": "Memory errors of the device",
    "neuroncore_utilization_ratio": "Share of the period the core was executing",
    **{
        f"neuroncore_memory_usage_{category}": "Bytes of HBM used for "
        + category.removesuffix("_memory").replace("_", " ")
        for category in MEMORY_CATEGORIES
    },
}
_FAMILIES = tuple(
    Family(name, Kind.COUNTER if name.endswith("_total") else Kind.GAUGE, text)
    for name, text in _HELP.items()
)


def families(cluster: Cluster) -> Iterator[Block]:
    """What the script publishes, for all nodes."""
    lines: dict[str, list[str]] = {family.name: [] for family in _FAMILIES}
    for view, node_labels in labeled_nodes(cluster, _instance):
        for part in (_infos, _host, _executions, _runtimes, _devices, _cores):
            for name, text, value in part(view, node_labels):
                if math.isfinite(value):
                    lines[name].append(f"{name}{text} {number(value)}\n")
    for family in _FAMILIES:
        if lines[family.name]:
            yield family, lines[family.name]


def _instance(inventory: Inventory) -> LabelPairs:
    return tuple((name, inventory.facts.get(name, "")) for name in _INSTANCE)


def _infos(view: NodeView, node_labels: LabelPairs) -> Iterator[Series]:
    if view.inventory.facts.get("instance_type"):
        yield "instance_info", labels(node_labels), 1.0
    inventory, frame = view.inventory, view.frame
    count, devices = frame.value("node_devices"), inventory.of(Entity.DEVICE)
    if count is not None and devices:
        memory = frame.at("device_memory_total_bytes", 0)
        pairs = (
            ("neuron_device_count", number(count)),
            ("neuroncore_per_device_count", len(inventory.of(Entity.CORE)) // len(devices)),
            ("neuron_device_memory_size", "" if memory is None else number(memory)),
        )
        yield "neuron_hardware_info", labels([*pairs, *node_labels]), 1.0


def _host(view: NodeView, node_labels: LabelPairs) -> Iterator[Series]:
    frame = view.frame
    text = labels(node_labels)
    for quantity, name in _HOST.items():
        yield name, text, _of(frame, quantity)
    for usage, modes in _VCPU.items():
        share = sum(_of(frame, f"node_vcpu_{mode}_ratio") for mode in modes)
        if share > 1:
            share = 1.0  # each mode is rounded
        yield "system_vcpu_usage_ratio", labels([("usage_type", usage), *node_labels]), share


def _executions(view: NodeView, node_labels: LabelPairs) -> Iterator[Series]:
    for label, name, outcomes, quantity in (
        ("status_type", "execution_status_total", EXECUTION_STATUSES, "node_executions"),
        ("error_type", "execution_errors_total", EXECUTION_ERRORS, "node_execution_errors"),
    ):
        for outcome in outcomes:
            text = labels([(label, outcome), *node_labels])
            yield name, text, _of(view.frame, f"{quantity}_{outcome}_total")


def _runtimes(view: NodeView, node_labels: LabelPairs) -> Iterator[Series]:
    tags = {runtime.pid: runtime.tag for runtime in view.inventory.runtimes}
    by_tag: dict[str, list[int]] = {}
    """Tag → indices of its processes."""
    for index, pid in enumerate(view.inventory.of(Entity.RUNTIME)):
        by_tag.setdefault(tags.get(int(pid), str(pid)), []).append(index)

    for tag, indices in by_tag.items():
        process_labels: LabelPairs = (("runtime_tag", tag), *node_labels)
        for location, quantity in _MEMORY_LOCATIONS.items():
            text = labels([("memory_location", location), *process_labels])
            used = _at(view.frame, indices, quantity)
            yield "neuron_runtime_memory_used_bytes", text, float(used.sum())
        for usage in _VCPU:
            text = labels([("usage_type", usage), *process_labels])
            used = _at(view.frame, indices, f"runtime_vcpu_{usage}_ratio")
            yield "neuron_runtime_vcpu_usage_ratio", text, float(used.sum())
        for percentile in LATENCY_PERCENTILES:
            text = labels([("percentile", percentile), *process_labels])
            # A process that executed nothing has no latency and does not hide those of others.
            quantity = f"runtime_total_latency_{percentile}_seconds"
            longest = np.fmax.reduce(_at(view.frame, indices, quantity))
            yield "execution_latency_seconds", text, float(longest)


def _at(frame: Frame, indices: list[int], quantity: str) -> Column:
    return np.array([frame.at(quantity, index) for index in indices], np.float64)


def _devices(view: NodeView, node_labels: LabelPairs) -> Iterator[Series]:
    frame = view.frame
    for index, device in enumerate(view.inventory.of(Entity.DEVICE)):
        for event in ECC_EVENTS:
            count = frame.at(f"device_{event}_total", index)
            if count is None:
                count = frame.at(f"device_{event}_events", index)
            if count is not None:
                pairs = (("event_type", event), ("neuron_device_index", str(device)), *node_labels)
                yield "hardware_ecc_events_total", labels(pairs), count


def _cores(view: NodeView, node_labels: LabelPairs) -> Iterator[Series]:
    owners: dict[int, set[str]] = {}
    for runtime in view.inventory.runtimes:
        for core in runtime.cores:
            owners.setdefault(core, set()).add(runtime.tag)

    used: list[str] = []
    kept: list[str] = []
    for key in view.inventory.of(Entity.CORE):
        tags = owners.get(int(key), ())
        tag = "".join(tags) if len(tags) == 1 else ""
        pairs = (("neuroncore", str(key)), ("runtime_tag", tag), *node_labels)
        used.append(labels(pairs))
        # The script's own word: it names the label and never fills it.
        kept.append(labels([("memory_location", "None"), *pairs]))
    for name, quantity, texts in (
        ("neuroncore_utilization_ratio", "neuroncore_utilization_ratio", used),
        *(
            (f"neuroncore_memory_usage_{category}", f"neuroncore_memory_{category}_bytes", kept)
            for category in MEMORY_CATEGORIES
        ),
    ):
        column = view.frame.columns.get(quantity)
        if column is not None:
            for text, value in zip(texts, column.tolist(), strict=True):
                yield name, text, value


def _of(frame: Frame, quantity: str) -> float:
    value = frame.value(quantity)
    return math.nan if value is None else value
