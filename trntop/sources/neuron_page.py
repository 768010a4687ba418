"""The page of AWS's neuron-monitor-prometheus.py, default `http://HOST:8000/metrics`.

Source: `/opt/aws/neuron/bin/neuron-monitor-prometheus.py` of aws-neuronx-tools. Every series has
the labels of the EC2 instance, those of a process also `runtime_tag`. The page is read as the
report of neuron-monitor that it was made of, with these differences:

- without a runtime there are no series of cores, only `neuron_hardware_info`
- executions and errors are counted since the script started, per runtime, and lost with it
- user time includes nice, system time includes waiting and interrupts
- not on the page: FLOP/s, physical cores, device latency, loaded models
- the CloudWatch agent and others publish the same names with shares in percent
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from trntop.catalog import (
    ECC_EVENTS,
    EXECUTION_ERRORS,
    EXECUTION_STATUSES,
    MEMORY_CATEGORIES,
    NEURON_EXPORTER,
)
from trntop.core.errors import DecodeError
from trntop.core.instances import chip_of
from trntop.core.model import Sample
from trntop.sources import neuron_report as report
from trntop.sources.columns import COUNTER, SIZE, Number
from trntop.sources.exporter_page import Page, Series, index_of, indexed, read, within
from trntop.sources.neuron_monitor import (
    MAX_CORES,
    MAX_DEVICES,
    MAX_RUNTIMES,
    failed_executions,
    sample_of,
)
from trntop.sources.source import Role, Source

PERIOD = 5.0
"""Seconds between two polls of the page."""
MIN_HBM = 1 << 30

UTILIZATION = "neuroncore_utilization_ratio"
HARDWARE = "neuron_hardware_info"
_MEMORY = {f"neuroncore_memory_usage_{name}": name for name in MEMORY_CATEGORIES}
_RUNTIME_MEMORY = "neuron_runtime_memory_used_bytes"
_RUNTIME_VCPU = "neuron_runtime_vcpu_usage_ratio"
_LATENCY = "execution_latency_seconds"
_STATUS = "execution_status_total"
_ERRORS = "execution_errors_total"
_ECC = "hardware_ecc_events_total"
_VCPU = "system_vcpu_usage_ratio"
_VCPUS = "system_vcpu_count"
_HOST = tuple(f"system_{what}_{state}_bytes" for what in ("memory", "swap")
              for state in ("total", "used"))  # fmt: skip
_INSTANCE = {
    "instance_name": "instance_name",
    "instance_id": "instance_id",
    "instance_type": "instance_type",
    "availability_zone": "instance_availability_zone",
    "region": "instance_region",
    "subnet_id": "subnet_id",
    "ultraserver_id": "ultraserver_id",
}
"""Label → its name in a report."""
FAMILIES = frozenset(
    (UTILIZATION, HARDWARE, *_MEMORY, _RUNTIME_MEMORY, _RUNTIME_VCPU, _LATENCY, _STATUS, _ERRORS,
     _ECC, _VCPU, _VCPUS, *_HOST)
)  # fmt: skip


def decode(data: bytes) -> Sample:
    """One page.

    Raises:
        DecodeError: nothing of neuron-monitor is on it.
    """
    page = read(data, FAMILIES)
    if not page.families:
        raise DecodeError("no page of neuron-monitor-prometheus.py")
    first = next(iter(page.families.values()))[0].labels
    hardware = page.of(HARDWARE)[0].labels if page.of(HARDWARE) else {}
    runtimes = _runtimes(page)
    sample = sample_of(
        report.Report(
            neuron_runtime_data=runtimes if runtimes or hardware else None,
            simulated=first.get("provenance") == "simulated",  # as trntop's own pages state
            system_data=_system(page),
            instance_info={name: first.get(label) for label, name in _INSTANCE.items()},
            neuron_hardware_info=_hardware(hardware, first.get("instance_type", "")),
        ),
        page.problems,
    )
    sample.period = PERIOD
    _count_executions(page, sample)
    for series in page.of(_VCPUS)[:1]:
        sample.columns["node_vcpus"] = within(np.array([series.value]), SIZE)
    return sample


def _hardware(labels: dict[str, str], instance_type: str) -> report.HardwareInfo:
    per_device = index_of(labels, "neuroncore_per_device_count", MAX_CORES + 1)
    chip = chip_of(instance_type, "")
    size = labels.get("neuron_device_memory_size", "")
    hbm = float(size) if size.isascii() and size.isdigit() and len(size) < 17 else 0.0
    return report.HardwareInfo(
        neuron_device_count=index_of(labels, "neuron_device_count", MAX_DEVICES + 1),
        neuroncore_per_device_count=per_device,
        neuron_device_memory_size=hbm if MIN_HBM <= hbm <= SIZE.limit else None,
        logical_neuroncore_config=min(chip.cores // per_device, 2)
        if chip is not None and per_device and chip.cores % per_device == 0
        else None,
    )


def _runtimes(page: Page) -> list[report.RuntimeProcess]:
    """The processes, in the order of the page; a group without series could not be read."""
    families = (_RUNTIME_MEMORY, _RUNTIME_VCPU, _LATENCY, UTILIZATION)
    tags = list(dict.fromkeys(
        tag for name in families for row in page.of(name)
        if (tag := row.labels.get("runtime_tag"))
    ))[:MAX_RUNTIMES]  # fmt: skip
    pids = [int(tag) if tag.isascii() and tag.isdigit() and len(tag) < 10 else None for tag in tags]
    if len(set(pids)) < len(pids):  # 7 and 007
        pids = [None] * len(tags)
    of_tag = {name: _by(page.of(name), "runtime_tag") for name in (*families, *_MEMORY)}
    runtimes = []
    for tag, pid in zip(tags, pids, strict=True):
        own = {name: by_tag.get(tag, []) for name, by_tag in of_tag.items()}
        cores = {
            str(core): report.Core(neuroncore_utilization=100 * row.value)
            for core, row in indexed(own[UTILIZATION], "neuroncore", MAX_CORES)
        }
        latencies: dict[str, Number] = {
            row.labels.get("percentile", ""): row.value for row in own[_LATENCY]
        }
        modes = _modes(own[_RUNTIME_VCPU])
        groups = report.RuntimeReport(
            neuroncore_counters=report.Counters(neuroncores_in_use=cores) if cores else None,
            execution_stats=report.Execution(
                latency_stats=report.LatencyStats(total_latency=latencies)
            ),
            memory_used=_memory(own),
            neuron_runtime_vcpu_usage=report.RuntimeVcpu(vcpu_usage=modes),
        )
        runtimes.append(report.RuntimeProcess(pid=pid, neuron_runtime_tag=tag, report=groups))
    return runtimes


def _memory(own: dict[str, list[Series]]) -> report.Memory:
    used = {row.labels.get("memory_location", ""): row.value for row in own[_RUNTIME_MEMORY]}
    cores: dict[str, dict[str, float]] = {}
    for name, category in _MEMORY.items():
        for core, row in indexed(own[name], "neuroncore", MAX_CORES):
            cores.setdefault(str(core), {})[category] = row.value
    breakdown = {"neuroncore_memory_usage": cores}
    return report.Memory(
        neuron_runtime_used_bytes=report.UsedBytes(
            host=used.get("host"),
            neuron_device=used.get("neuron_device"),
            usage_breakdown=msgspec.Raw(msgspec.json.encode(breakdown) if cores else b""),
        )
    )


def _system(page: Page) -> report.System:
    events: dict[int, dict[str, float]] = {}
    for event, series in _by(page.of(_ECC), "event_type").items():
        for device, row in indexed(series, "neuron_device_index", MAX_DEVICES):
            if event in ECC_EVENTS:
                events.setdefault(device, {})[event] = row.value
    devices = [report.DeviceCounters(device, **counts) for device, counts in sorted(events.items())]
    modes = _modes(page.of(_VCPU))
    host: dict[str, Any] = {
        name.removeprefix("system_"): page.of(name)[0].value for name in _HOST if page.of(name)
    }
    return report.System(
        neuron_hw_counters=report.Hardware(neuron_devices=devices) if devices else None,
        vcpu_usage=report.Vcpu(average_usage=modes),
        memory_info=report.HostMemory(**host),
    )


def _count_executions(page: Page, sample: Sample) -> None:
    counts: dict[str, float] = {}
    for family, label, outcomes, quantity in (
        (_STATUS, "status_type", EXECUTION_STATUSES, "node_executions"),
        (_ERRORS, "error_type", EXECUTION_ERRORS, "node_execution_errors"),
    ):
        by = _by(page.of(family), label)
        for name in outcomes:
            if name in by:
                counts[name] = count = sum(row.value for row in by[name])
                sample.columns[f"{quantity}_{name}_total"] = within(np.array([count]), COUNTER)
    if (failed := failed_executions(counts)) is not None:
        sample.columns["node_executions_failed_total"] = within(np.array([failed]), COUNTER)


def _modes(series: Iterable[Series]) -> dict[str, Number]:
    """Percent of CPU time by mode."""
    return {row.labels.get("usage_type", ""): 100 * row.value for row in series}


def _by(series: Iterable[Series], label: str) -> dict[str, list[Series]]:
    """Series by the value of a label."""
    groups: dict[str, list[Series]] = {}
    for row in series:
        groups.setdefault(row.labels.get(label, ""), []).append(row)
    return groups


SOURCE = Source(
    name=NEURON_EXPORTER,
    decode=decode,
    role=Role.PAGE,
    gives="the metrics of a node that AWS's neuron-monitor-prometheus.py publishes: utilization "
    "and HBM use per NeuronCore, executions, latency, errors, ECC",
    origin="its page, `http://HOST:8000/metrics`, polled each 5 s (docs/nodes.md)",
    needs="the script, or its DaemonSet, on a node without an agent of trntop",
    without="these values, unless an agent, ssh or CloudWatch reports them; FLOP/s, tensor engines "
    "and HBM bandwidth are not on the page",
)
