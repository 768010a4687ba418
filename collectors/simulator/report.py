"""The frame of a neuron-monitor report: AWS's user guide, with the fields of public captures.

`neuron_monitor.py` and its helpers fill the slots in this order.
"""

from typing import Any

from trntop.catalog import (
    CPU_MODES,
    ECC_EVENTS,
    EXECUTION_ERRORS,
    EXECUTION_STATUSES,
    MEMORY_CATEGORIES,
)

from .fleet import Fleet
from .template import slot

PERIOD = "%.9f"
HOST_PARTS = ("application_memory", "constants", "dma_buffers", "tensors")

_HARDWARE = {
    "Inferentia2": ("inferentia2", "v3", "v2"),
    "Trainium1": ("trainium", "v2", "v2"),
    "Trainium2": ("trainium2", "v4", "v3d"),
    "Trainium3": ("trainium3", "", "v4d"),
}
"""neuron_device_type, neuron_device_version and neuroncore_version by chip.

No report of a Trainium3 is public: its names follow the others, its version is left empty.
"""


def report(fleet: Fleet, runtimes: int) -> Any:
    """A report with so many runtimes; parts that change slowly are slots for encoded JSON."""
    device_type, device_version, core_version = _HARDWARE[fleet.chip.name]
    return {
        # Not a field of neuron-monitor: it marks a report that was extracted from a recording.
        "simulated": True,
        "neuron_runtime_data": [_runtime(fleet, runtime) for runtime in range(runtimes)],
        "system_data": slot("%s"),
        "instance_info": slot("%s"),
        "neuron_hardware_info": {
            "neuron_device_type": device_type,
            "neuron_device_version": device_version,
            "neuroncore_version": core_version,
            "neuron_device_count": fleet.devices,
            "neuron_device_memory_size": fleet.chip.hbm_bytes,
            "neuroncore_per_device_count": fleet.cores_per_device,
            "logical_neuroncore_config": fleet.lnc,
            "error": "",
        },
    }


def _runtime(fleet: Fleet, runtime: int) -> Any:
    return {
        "pid": slot(),
        "address": "",
        "neuron_runtime_tag": slot("%s"),
        "error": "",
        "report": {
            "execution_stats": {
                "period": slot(PERIOD),
                "error_summary": dict.fromkeys(EXECUTION_ERRORS, 0) | {"hardware": slot()},
                "execution_summary": dict.fromkeys(EXECUTION_STATUSES, 0)
                | {"completed": slot(), "completed_with_err": slot()},
                "latency_stats": {"total_latency": slot("%s"), "device_latency": slot("%s")},
                "error": "",
            },
            "memory_used": {
                "period": slot(PERIOD),
                "neuron_runtime_used_bytes": slot("%s"),
                "loaded_models": slot("%s"),
                "error": "",
            },
            "neuron_runtime_vcpu_usage": {
                "period": slot(PERIOD),
                "vcpu_usage": {"user": slot("%.2f"), "system": slot("%.2f")},
                "error": "",
            },
            "neuroncore_counters": {
                "period": slot(PERIOD),
                "neuroncores_in_use": {
                    str(core): _core(core, fleet.lnc, owned=core in fleet.owned(runtime))
                    for core in range(fleet.cores)
                },
                "error": "",
            },
        },
    }


def _core(core: int, lnc: int, *, owned: bool) -> Any:
    busy = slot("%.2f") if owned else 0
    entry: dict[str, Any] = {"neuroncore_utilization": busy, "flops": slot() if owned else 0}
    if lnc > 1:
        # The physical cores behind a logical one.
        entry["v3d"] = {
            f"nc_v3.{core * lnc + part}": {"neuroncore_utilization": busy} for part in range(lnc)
        }
    return entry


def used_bytes(fleet: Fleet, runtime: int) -> Any:
    """`neuron_runtime_used_bytes` of one runtime."""
    owned = fleet.owned(runtime)
    return {
        "host": slot(),
        "neuron_device": slot(),
        "usage_breakdown": {
            "host": dict.fromkeys(HOST_PARTS, slot()),
            "neuroncore_memory_usage": {
                str(core): dict.fromkeys(MEMORY_CATEGORIES, slot() if core in owned else 0)
                for core in range(fleet.cores)
            },
        },
    }


def system(fleet: Fleet) -> Any:
    """`system_data`."""
    return {
        "neuron_hw_counters": {"period": slot(PERIOD), "neuron_devices": slot("%s"), "error": ""},
        "vcpu_usage": {
            "period": slot(PERIOD),
            "average_usage": dict.fromkeys(CPU_MODES, slot("%.2f")),
            "usage_data": slot("%s"),
            "context_switch_count": slot(),
            "error": "",
        },
        **first_system(fleet),
    }


def first_system(fleet: Fleet) -> Any:
    """`system_data` of a node's first report."""
    return {
        "memory_info": {
            "period": slot(PERIOD),
            "memory_total_bytes": fleet.host_bytes,
            "memory_used_bytes": slot(),
            "swap_total_bytes": 0,
            "swap_used_bytes": 0,
            "error": "",
        }
    }


def devices(fleet: Fleet, lost: int | None) -> Any:
    """`neuron_devices`: the error counters of the devices, without a lost one."""
    return [
        {"neuron_device_index": device, **dict.fromkeys(ECC_EVENTS, slot())}
        for device in range(fleet.devices)
        if device != lost
    ]
