"""The compiled programs of a job, in neuron-monitor and profiles."""

import hashlib
from typing import Any

from . import report
from .fleet import Fleet
from .memory import SHARES
from .template import dumps


def neff(program: int) -> str:
    """File name of a program."""
    return f"train_step_{program}.neff"


def uuid(seed: int, job: int, program: int) -> str:
    """Of a program of a job, the same on all of its nodes."""
    return hashlib.sha256(f"{seed}/{job}/{program}".encode()).hexdigest()[:32]


def loaded_models(fleet: Fleet, seed: int, job: int, program: int) -> list[str]:
    """`loaded_models` of each runtime: the job's program, the same on all of its nodes."""
    core_bytes = fleet.chip.hbm_bytes / fleet.cores_per_device
    device = {
        name: int(core_bytes * SHARES[name])
        for name in ("constants", "model_code", "runtime_memory")
    } | {"tensors": 0}
    host = dict(zip(report.HOST_PARTS, (20_480, 0, 524_288, 0), strict=True))
    memory = {
        "host": sum(host.values()),
        "neuron_device": sum(device.values()),
        "usage_breakdown": {"host": host, "neuron_device": device},
    }
    name = uuid(seed, job, program)
    return [
        dumps([_model(name, program, memory, fleet, fleet.owned(runtime).start)])
        for runtime in range(fleet.runtimes)
    ]


def _model(uuid: str, program: int, memory: Any, fleet: Fleet, core: int) -> Any:
    return {
        "name": f"/var/tmp/neuron-compile-cache/{uuid}/{neff(program)}",
        "uuid": uuid,
        "model_id": 10_001 + program,
        "is_running": True,
        "subgraphs": {
            "sg_00": {
                "memory_used_bytes": memory,
                "neuroncore_index": core % fleet.cores_per_device,
                "neuron_device_index": core // fleet.cores_per_device,
            }
        },
    }
