"""vCPU usage of the hosts."""

import numpy as np

from trntop.catalog import CPU_MODES
from trntop.core.model import Column

from .activity import Activity, Stall
from .fleet import Fleet
from .template import dumps

USAGE = {
    Stall.NONE: {"user": 17.5, "system": 1.9, "io_wait": 0.05, "soft_irq": 0.15},
    Stall.CHECKPOINT: {"user": 9.0, "system": 6.5, "io_wait": 7.5, "soft_irq": 0.3},
    Stall.COMPILE: {"user": 82.0, "system": 3.5, "io_wait": 0.4, "soft_irq": 0.1},
    Stall.HANG: {"user": 17.0, "system": 1.2, "io_wait": 0.05, "soft_irq": 0.05},
    Stall.STUCK: {"user": 1.5, "system": 0.6, "io_wait": 0.05, "soft_irq": 0.05},
    Stall.EVALUATION: {"user": 15.0, "system": 1.6, "io_wait": 0.05, "soft_irq": 0.1},
    Stall.IDLE: {"user": 0.6, "system": 0.3, "io_wait": 0.02, "soft_irq": 0.02},
}
"""Percent of all vCPU time, by stall; the rest is idle."""
NOISE = 0.03
VARIANTS = 8
"""Prepared tables of single vCPUs, which are long."""
_IDLE = CPU_MODES.index("idle")


class VcpuUsage:
    """vCPU usage of all nodes."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 10])
        self._shape = (fleet.nodes, len(CPU_MODES))
        self._usage = {
            why: np.array([usage.get(mode, 0.0) for mode in CPU_MODES])
            for why, usage in USAGE.items()
        }
        self._tables = {
            why: [self._table(usage, fleet.vcpus) for _ in range(VARIANTS)]
            for why, usage in self._usage.items()
        }
        self._why = [Stall.NONE] * fleet.nodes
        self.average: list[list[float]] = []
        """Percent, `[node]` and in the order of CPU_MODES."""

    def observe(self, activity: Activity) -> None:
        """Advances by one second."""
        usage = np.tile(self._usage[Stall.NONE], (self._shape[0], 1))
        self._why = [Stall.NONE] * self._shape[0]
        for why, seconds in activity.stalled.items():
            if not seconds.any():
                continue
            share = seconds.mean(axis=1) / activity.elapsed
            usage += share[:, None] * (self._usage[why] - self._usage[Stall.NONE])
            for node in np.flatnonzero(share > 0.5).tolist():
                self._why[node] = why
        usage *= self._rng.uniform(1.0 - NOISE, 1.0 + NOISE, self._shape)
        usage[:, _IDLE] = 100.0 - usage.sum(axis=1)
        self.average = usage.tolist()

    def table(self, node: int, variant: int) -> str:
        """`usage_data` of a node, by vCPU."""
        return self._tables[self._why[node]][variant % VARIANTS]

    def _table(self, usage: Column, vcpus: int) -> str:
        table = usage * self._rng.uniform(0.85, 1.1, (vcpus, len(CPU_MODES)))
        table[:, _IDLE] = 100.0 - table.sum(axis=1)
        return dumps(
            {
                str(cpu): dict(zip(CPU_MODES, row, strict=True))
                for cpu, row in enumerate(table.round(2).tolist())
            }
        )
