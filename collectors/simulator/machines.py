"""What several sources of a node tell of alike: its cores, memory, errors and programs.

Each second the machines observe what the training loop did; the sources then write their
payloads from here, so that two sources never contradict each other.
"""

import numpy as np
import numpy.typing as npt

from trntop.catalog import ECC_EVENTS
from trntop.model import Column

from .fleet import Fleet
from .memory import RuntimeMemory
from .programs import loaded_models
from .scenarios import Effect, Fault, Script
from .training import Activity, Stall
from .vcpus import VcpuUsage

BUSY_COMPUTE = 0.984
BUSY_EXPOSED = 0.945
"""Busy share of a core that waits in a collective: neuron-monitor counts it as utilized."""
BUSY_STALLED = {Stall.NONE: 0.0, Stall.CHECKPOINT: 0.01, Stall.COMPILE: 0.002, Stall.HANG: 0.999}
NODE_BIAS = 0.003
CORE_NOISE = 0.004
FLOPS_SHARE = 0.5
"""Of the chip's peak, while it computes."""

ERRORS_PER_SECOND = 2.0
HOST_SHARE = 0.31
"""Of the host's memory in use."""


class Machines:
    """All nodes, second by second."""

    def __init__(self, fleet: Fleet, script: Script, seed: int) -> None:
        self._fleet = fleet
        self._script = script
        self._seed = seed
        self._rng = np.random.default_rng([seed, 4])
        self._bias = self._rng.normal(0.0, NODE_BIAS, (fleet.nodes, 1))
        self._core_flops = FLOPS_SHARE * fleet.chip.bf16_flops_per_second / fleet.cores_per_device
        self._ecc_counted: Fault | None = None
        self.vcpus = VcpuUsage(fleet, seed)
        self.memory = RuntimeMemory(fleet, seed)
        self.program = 0
        """Programs the job has had compiled while it was watched."""
        self.models = loaded_models(fleet, seed, self.program)
        """`loaded_models` of each runtime."""
        self.compiling: float | None = None
        """Since when the job's graph is being compiled."""
        self.ecc = np.zeros((fleet.nodes, fleet.devices, len(ECC_EVENTS)), np.int64)
        """Errors since boot, `[node, device, event]`."""
        corrected = self._rng.random((fleet.nodes, fleet.devices)) < 0.02
        self.ecc[:, :, ECC_EVENTS.index("mem_ecc_corrected")] = corrected
        self.activity: Activity
        """What the nodes did in the newest second; so are the following."""
        self.utilization: npt.NDArray[np.float64]
        """Percent, `[node, logical core, physical core behind it]`."""
        self.flops: Column
        """Per second, `[node, logical core]`."""
        self.failed: npt.NDArray[np.int64]
        """Executions that ended with an error, `[node, logical core]`."""
        self.host_used: list[int]
        """Bytes of the host's memory, `[node]`."""

    def observe(self, time: float, activity: Activity, compiling: float | None) -> None:
        """Takes what all nodes did in a second, up to about `time`."""
        fleet = self._fleet
        self.activity = activity
        self._work(activity)
        self.failed = self._failures(time)
        noise = self._rng.random(fleet.nodes)
        self.host_used = (fleet.host_bytes * (HOST_SHARE + 0.002 * noise)).astype(int).tolist()
        self.vcpus.observe(activity)
        self.memory.observe(self._script.at(Effect.MEMORY_FILLING, time), time)
        self._count_ecc(time)
        if self.compiling is not None and compiling is None:
            self.program += 1
            self.models = loaded_models(fleet, self._seed, self.program)
        self.compiling = compiling

    def _work(self, activity: Activity) -> None:
        busy = BUSY_COMPUTE * activity.compute + BUSY_EXPOSED * activity.exposed
        for why, seconds in activity.stalled.items():
            busy += BUSY_STALLED[why] * seconds
        level = (busy / activity.elapsed)[:, None] * (1.0 + self._bias)
        shape = (self._fleet.nodes, self._fleet.cores, self._fleet.lnc)
        noise = self._rng.normal(1.0, CORE_NOISE, shape)
        self.utilization = 100.0 * np.clip(level[:, :, None] * noise, 0.0, 1.0)
        computed = (activity.compute / activity.elapsed)[:, None]
        self.flops = self._core_flops * computed * noise[:, :, 0]

    def _failures(self, time: float) -> npt.NDArray[np.int64]:
        fleet, activity = self._fleet, self.activity
        failed = np.zeros((fleet.nodes, fleet.cores), np.int64)
        fault = self._script.at(Effect.EXECUTION_ERRORS, time)
        if fault is not None:
            owned = fleet.owned(fault.runtime)
            ended = int(activity.executions[fault.node]) * len(owned)
            count = min(round(ERRORS_PER_SECOND * float(activity.elapsed[fault.node])), ended)
            # As evenly as whole numbers allow, so that no core fails more than it executes.
            shares = (count + np.arange(len(owned))) // len(owned)
            failed[fault.node, owned.start : owned.stop] = shares
        return failed

    def _count_ecc(self, time: float) -> None:
        fault = self._script.at(Effect.ECC, time)
        if fault is not None and fault != self._ecc_counted:
            self._ecc_counted = fault
            self.ecc[fault.node, fault.device, ECC_EVENTS.index("mem_ecc_uncorrected")] += 1
