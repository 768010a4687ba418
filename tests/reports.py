"""Small payloads for tests, in the shape of the real ones. All values are made up."""

import json
from typing import Any

from trntop.core.model import Reading

CATEGORIES = ("constants", "model_code", "model_shared_scratchpad", "runtime_memory", "tensors")


def core_memory(total: int) -> dict[str, int]:
    return dict.fromkeys(CATEGORIES, 0) | {"tensors": total}


def runtime(
    pid: int = 100,
    utilization: dict[int, float] | None = None,
    memory: dict[int, int] | None = None,
    period: float = 1.0,
    completed: int = 10,
    latency: float | None = None,
    **failures: int,
) -> dict[str, Any]:
    cores = {0: 50.0, 1: 100.0} if utilization is None else utilization
    used = dict.fromkeys(cores, 1 << 30) if memory is None else memory
    return {
        "pid": pid,
        "neuron_runtime_tag": str(pid),
        "error": "",
        "report": {
            "neuroncore_counters": {
                "period": period,
                "neuroncores_in_use": {
                    str(core): {"neuroncore_utilization": value, "flops": int(value * 1e9)}
                    for core, value in cores.items()
                },
                "error": "",
            },
            "execution_stats": {
                "period": period,
                "error_summary": {"generic": 0, "numerical": 0, "hardware": 0},
                "execution_summary": {"completed": completed, "timed_out": 0, **failures},
                "latency_stats": {
                    "total_latency": {"p50": 0.01, "p99": 0.02},
                    "device_latency": None if latency is None else {"p50": latency},
                },
                "error": "",
            },
            "memory_used": {
                "period": period,
                "neuron_runtime_used_bytes": {
                    "host": 1000,
                    "neuron_device": sum(used.values()),
                    "usage_breakdown": {
                        "host": {"tensors": 0},
                        "neuroncore_memory_usage": {
                            str(core): core_memory(size) for core, size in used.items()
                        },
                    },
                },
                "loaded_models": [{"name": "/home/user/model.neff", "uuid": "u", "is_running": 1}],
                "error": "",
            },
            "neuron_runtime_vcpu_usage": {
                "period": period,
                "vcpu_usage": {"user": 12.5, "system": 1.0},
                "error": "",
            },
        },
    }


def report(
    *runtimes: dict[str, Any],
    devices: int = 1,
    per_device: int = 2,
    ecc: dict[int, int] | None = None,
    vcpu: dict[str, float] | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """A report; `vcpu` is the average usage in percent, by mode."""
    modes = {"vcpu_usage": {"period": 1.0, "average_usage": vcpu, "error": ""}} if vcpu else {}
    return {
        "neuron_runtime_data": list(runtimes),
        "system_data": {
            "neuron_hw_counters": {
                "period": 1.0,
                "neuron_devices": [
                    {
                        "neuron_device_index": device,
                        "mem_ecc_corrected": 0,
                        "mem_ecc_uncorrected": (ecc or {}).get(device, 0),
                        "sram_ecc_corrected": 0,
                        "sram_ecc_uncorrected": 0,
                    }
                    for device in range(devices)
                ],
                "error": "",
            },
            **modes,
        },
        "instance_info": {"instance_type": "trn1.2xlarge", "instance_id": "i-0", "error": ""},
        "neuron_hardware_info": {
            "neuron_device_type": "trainium",
            "neuron_device_count": devices,
            "neuron_device_memory_size": 32 << 30,
            "neuroncore_per_device_count": per_device,
            "error": "",
        },
        **extra,
    }


def encode(payload: Any) -> bytes:
    return json.dumps(payload).encode()


def monitor_reading(payload: Any, time: float, node: str = "n") -> Reading:
    return Reading(node, "neuron-monitor", time, encode(payload))


def efa_payload(rate_gbps: float = 100, **devices: dict[str, float]) -> dict[str, Any]:
    return {
        "driver": "2.17.3g",
        "devices": {
            name: {"pci": "0000:10:1b.0", "numa_node": 0, "rate_gbps": rate_gbps, "port": port}
            for name, port in devices.items()
        },
    }


def efa_reading(payload: Any, time: float, node: str = "n") -> Reading:
    return Reading(node, "efa", time, encode(payload))


def step_reading(
    time: float,
    *,
    node: str = "n",
    job: str = "job",
    rank: int = 0,
    step: int = 1,
    seconds: float = 4.0,
    comm: float = 0.6,
    exposed: float = 0.2,
    compute: float | None = None,
    **extra: object,
) -> Reading:
    """A step; `extra` are more fields of the record, such as `pipeline_stage`."""
    record = {
        "job": job, "rank": rank, "step": step, "step_seconds": seconds,
        "compute_seconds": seconds - exposed if compute is None else compute,
        "comm_seconds": comm, "exposed_comm_seconds": exposed, "tokens": 1000, **extra,
    }  # fmt: skip
    return Reading(node, "steps", time, encode(record))


def stage_reading(
    time: float, stage: str, *, node: str = "n", job: str = "job", rank: int = 0
) -> Reading:
    """What a training process announces."""
    note = {"job": job, "rank": rank, "stage": stage, "since": time}
    return Reading(node, "steps", time, encode(note))


def host_reading(time: float, node: str = "n", period: float = 10.0, **groups: Any) -> Reading:
    return Reading(node, "host", time, encode({"period": period, **groups}))
