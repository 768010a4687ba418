"""The tensor engines' cycle counters, as in the driver's `pe_cntrs` files.

The cycles since boot in which each row group of an engine multiplied matrices, loaded weights or
was idle. neuron-monitor reports the result of the multiplications as flops.
"""

from typing import Any

import numpy as np

from trntop.core.model import Column

from .fleet import Fleet
from .neuron_sysfs import GONE
from .simulated import Simulated, World
from .template import Template, inset

CLOCK = 1.4e9
"""Cycles per second."""
ROW_GROUPS = 4
WEIGHT_LOAD = 0.1
"""Cycles of loading weights per cycle of multiplying."""
MAX_UPTIME = 12 * 86_400.0
"""Maximum seconds for which a node was up before the simulation."""
BUSY_BEFORE = 0.5
"""Mean busy share in that time."""


class TensorEngines(Simulated):
    """All engines of all nodes."""

    def __init__(self, world: World) -> None:
        fleet = world.fleet
        self._fleet = fleet
        self._machines = world.machines
        rng = np.random.default_rng([world.seed, 12])
        self._core_flops = fleet.chip.bf16_flops_per_second / fleet.cores_per_device
        # Payloads of 128 cores are written each second, so the physical cores behind a logical
        # one, and the row groups of a core, share their numbers.
        self._copies = fleet.lnc * ROW_GROUPS
        self._templates: dict[int | None, Template] = {}
        """By the lost device; None if there is none."""
        self._rows = "\n".join(["%d,%d,%d"] * fleet.cores)
        cycles = CLOCK * rng.uniform(0.1, 1.0, (fleet.nodes, 1)) * MAX_UPTIME
        self._cycles = np.zeros((fleet.nodes, fleet.cores, 3), np.int64)
        self._run(BUSY_BEFORE * rng.uniform(0.9, 1.1, (fleet.nodes, fleet.cores)), cycles)

    def observe(self, time: float) -> None:
        machines = self._machines
        cycles = CLOCK * machines.activity.elapsed[:, None]
        self._run(machines.flops / self._core_flops, cycles)

    def payload(self, node: int) -> bytes:
        """The counters of one node's engines."""
        fleet, lost = self._fleet, self._machines.lost(node)
        rows = (self._rows % tuple(self._cycles[node].ravel().tolist())).split("\n")
        template = self._templates.get(lost)
        if template is None:
            template = self._templates[lost] = Template(_engines(fleet, lost))
        if lost is not None:
            del rows[lost * fleet.cores_per_device : (lost + 1) * fleet.cores_per_device]
        copies = range(self._copies)
        return template.fill([row for row in rows for _ in copies]).encode()

    def _run(self, share: Column, cycles: Column) -> None:
        """Adds `cycles`, `[node, 1]`, of which `share` multiplied, `[node, logical core]`."""
        matmul = (share * cycles).astype(np.int64)
        load = (WEIGHT_LOAD * matmul).astype(np.int64)
        idle = cycles.astype(np.int64) - matmul - load
        self._cycles += np.stack((matmul, load, idle), axis=2)


def _engines(fleet: Fleet, lost: int | None) -> Any:
    rows = "\n".join(f"{group},{inset()}" for group in range(ROW_GROUPS))
    text = f"xrow_grp,mm_active,wl_active,idle\n{rows}"
    cores = [str(core) for core in range(fleet.chip.cores)]
    payload: dict[str, Any] = {
        "devices": {
            str(device): dict.fromkeys(cores, None if device == lost else text)
            for device in range(fleet.devices)
        }
    }
    return payload if lost is None else payload | {"errors": [f"neuron{lost}: {GONE}"]}
