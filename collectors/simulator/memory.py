"""Device memory of the Neuron processes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from . import report
from .fleet import Fleet
from .template import Template

SHARES = {
    "constants": 0.040,
    "model_code": 0.031,
    "model_shared_scratchpad": 0.044,
    "runtime_memory": 0.005,
    "tensors": 0.58,
}
"""Shares of the HBM of a core, in the order of neuron-monitor."""
TENSOR_NOISE = 0.003
FULL_FROM = 0.95
"""Share of the HBM that counts as memory pressure."""
HOST_BYTES = (96 << 20, 8 << 20, 256 << 20, 32 << 20)
"""Per core, in the order of `report.HOST_PARTS`."""
PERIOD = 5
"""Seconds between two updates of a steady node: its payload is long and changes little."""


@dataclass(frozen=True, slots=True)
class Filling:
    """A device with filling memory."""

    node: int
    device: int
    share: float
    """Share in use at the end."""
    progress: float
    """From 0 to 1."""


def filled(share: float, most: float) -> float:
    """Relative time at which `share` is in use, on the way to `most`."""
    steady = sum(SHARES.values())
    return min(max((share - steady) / max(most - steady, share - steady), 0.0), 1.0)


class RuntimeMemory:
    """The memory of every runtime on every node."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet = fleet
        self._rng = np.random.default_rng([seed, 6])
        self._core_bytes = fleet.chip.hbm_bytes / fleet.cores_per_device
        self._templates = [
            Template(report.used_bytes(fleet, runtime)) for runtime in range(fleet.runtimes)
        ]
        self._updates = 0
        self.used: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)] * fleet.nodes
        """Bytes in use, `[logical core, category]`, of each node."""
        self.texts: list[list[str]] = [[]] * fleet.nodes
        """`neuron_runtime_used_bytes` of each runtime of each node."""

    def observe(self, filling: Filling | None) -> None:
        """Updates some nodes in turn, and the one with filling memory."""
        for node in range(self._fleet.nodes):
            mine = filling if filling is not None and filling.node == node else None
            if mine is not None or not self._updates or (self._updates + node) % PERIOD == 0:
                self._update(node, mine)
        self._updates += 1

    def _update(self, node: int, filling: Filling | None) -> None:
        fleet = self._fleet
        tensors = SHARES["tensors"] + TENSOR_NOISE * self._rng.uniform(-1.0, 1.0, fleet.cores)
        if filling is not None:
            first = filling.device * fleet.cores_per_device
            cores = slice(first, first + fleet.cores_per_device)
            full = filling.share - sum(SHARES.values()) + SHARES["tensors"]
            tensors[cores] += filling.progress * (full - tensors[cores])
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
        self.used[node], self.texts[node] = whole, texts
