"""AWS's way to a page of metrics: neuron-monitor's reports through json and prometheus_client.

Sets what neuron-monitor-prometheus.py sets, by its names; written from their description.
`python -m benchmarks.aws_way NEURON_MONITOR --listen HOST:PORT`
"""

import json
import subprocess
import sys
from typing import Any

from prometheus_client import Counter, Gauge, start_http_server

INSTANCE = (
    "instance_name", "instance_id", "instance_type", "availability_zone", "region", "subnet_id",
)  # fmt: skip
MEMORY = ("constants", "model_code", "model_shared_scratchpad", "runtime_memory", "tensors")


def main() -> None:
    monitor, _, listen = sys.argv[1:]
    host, _, port = listen.rpartition(":")
    start_http_server(int(port), host)
    gauges: dict[str, Any] = {}
    process = subprocess.Popen([monitor], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            _publish(gauges, json.loads(line))
    finally:
        process.kill()


def _publish(gauges: dict[str, Any], report: dict[str, Any]) -> None:
    info = report["instance_info"]
    labels = {name: info.get(name) or info.get(f"instance_{name}") or "" for name in INSTANCE}

    def put(name: str, value: float, kind: Any = Gauge, **own: str) -> None:
        metric = gauges.get(name)
        if metric is None:
            metric = gauges[name] = kind(name, name, [*INSTANCE, *own])
        series = metric.labels(**labels, **own)
        if kind is Counter:
            series.inc(value)
        else:
            series.set(value)

    for runtime in report["neuron_runtime_data"]:
        tag = runtime["neuron_runtime_tag"]
        groups = runtime["report"]
        for core, values in groups["neuroncore_counters"]["neuroncores_in_use"].items():
            share = values["neuroncore_utilization"] / 100
            put("neuroncore_utilization_ratio", share, neuroncore=core, runtime_tag=tag)
        used = groups["memory_used"]["neuron_runtime_used_bytes"]
        for side in ("host", "neuron_device"):
            put("neuron_runtime_memory_used_bytes", used[side], memory_location=side,
                runtime_tag=tag)  # fmt: skip
        for core, parts in used["usage_breakdown"]["neuroncore_memory_usage"].items():
            for name in MEMORY:
                put(f"neuroncore_memory_usage_{name}", parts[name], neuroncore=core,
                    memory_location="None", runtime_tag=tag)  # fmt: skip
        stats = groups["execution_stats"]
        for kind, count in stats["error_summary"].items():
            put("execution_errors", count, Counter, error_type=kind, runtime_tag=tag)
        for kind, count in stats["execution_summary"].items():
            put("execution_status", count, Counter, status_type=kind, runtime_tag=tag)
        for percentile, value in (stats["latency_stats"]["total_latency"] or {}).items():
            put("execution_latency_seconds", value, percentile=percentile, runtime_tag=tag)
        for kind, value in groups["neuron_runtime_vcpu_usage"]["vcpu_usage"].items():
            put("neuron_runtime_vcpu_usage_ratio", value / 100, usage_type=kind, runtime_tag=tag)
    system = report["system_data"]
    for device in system["neuron_hw_counters"]["neuron_devices"]:
        index = str(device["neuron_device_index"])
        for name, count in device.items():
            if name != "neuron_device_index":
                put("hardware_ecc_events", count, Counter, event_type=name,
                    neuron_device_index=index)  # fmt: skip
    for name, size in system["memory_info"].items():
        if name.endswith("_bytes"):
            put(f"system_{name}", size)
    usage = system["vcpu_usage"]["average_usage"]
    put("system_vcpu_usage_ratio", (usage["user"] + usage["nice"]) / 100, usage_type="user")
    kernel = sum(usage[mode] for mode in ("system", "io_wait", "irq", "soft_irq"))
    put("system_vcpu_usage_ratio", kernel / 100, usage_type="system")
    put("system_vcpu_count", len(system["vcpu_usage"]["usage_data"]))


main()
