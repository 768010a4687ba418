"""Memory of the Neuron processes: what the model takes, and what fills up."""

import hashlib
from typing import Any

import numpy as np

from . import report
from .fleet import Fleet
from .scenarios import Fault
from .template import Template, dumps

SHARES = {
    "constants": 0.040,
    "model_code": 0.031,
    "model_shared_scratchpad": 0.044,
    "runtime_memory": 0.005,
    "tensors": 0.58,
}
"""Of a core's HBM, in neuron-monitor's order; the tensors' share is that of a steady node."""
TENSOR_NOISE = 0.003
FULL = 0.98
"""Share of the HBM in use when it is nearly full."""
FILLED_AFTER = 0.75
"""Of a memory-filling phase; for the rest of it the memory stays full."""
HOST_BYTES = (96 << 20, 8 << 20, 256 << 20, 32 << 20)
"""Per core, in the order of `report.HOST_PARTS`."""


class RuntimeMemory:
    """The memory groups of every runtime on every node, as finished pieces of JSON."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet = fleet
        self._rng = np.random.default_rng([seed, 6])
        self._core_bytes = fleet.chip.hbm_bytes / fleet.cores_per_device
        self._templates = [
            Template(report.used_bytes(fleet, runtime)) for runtime in range(fleet.runtimes)
        ]

    def used(self, filling: Fault | None, time: float) -> list[str]:
        """`neuron_runtime_used_bytes` of each runtime of a node; `filling` is its fault, if any."""
        fleet = self._fleet
        tensors = SHARES["tensors"] + TENSOR_NOISE * self._rng.uniform(-1.0, 1.0, fleet.cores)
        if filling is not None:
            first = filling.device * fleet.cores_per_device
            cores = slice(first, first + fleet.cores_per_device)
            full = FULL - sum(SHARES.values()) + SHARES["tensors"]
            part = min(filling.progress(time) / FILLED_AFTER, 1.0)
            tensors[cores] += part * (full - tensors[cores])
        table = np.tile(self._core_bytes * np.array(list(SHARES.values())), (fleet.cores, 1))
        table[:, -1] = self._core_bytes * tensors
        whole = table.astype(np.int64)
        texts = []
        for runtime, template in enumerate(self._templates):
            owned = fleet.owned(runtime)
            mine = whole[owned.start : owned.stop]
            host = [part * len(owned) for part in HOST_BYTES]
            values = (sum(host), int(mine.sum()), *host, *mine.ravel().tolist())
            texts.append(template.fill(values))
        return texts


def loaded_models(fleet: Fleet, seed: int, program: int) -> list[str]:
    """`loaded_models` of each runtime: the job's program, the same on all nodes."""
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
    uuid = hashlib.sha256(f"{seed}/{program}".encode()).hexdigest()[:32]
    return [
        dumps([_model(uuid, program, memory, fleet, fleet.owned(runtime).start)])
        for runtime in range(fleet.runtimes)
    ]


def _model(uuid: str, program: int, memory: Any, fleet: Fleet, core: int) -> Any:
    return {
        "name": f"/var/tmp/neuron-compile-cache/{uuid}/train_step.neff",
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
