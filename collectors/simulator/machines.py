"""The state of the nodes: cores, memory, errors and programs.

Each second the machines advance by the training activity; the sources then create their payloads
from this state, so that they agree.
"""

import numpy as np
import numpy.typing as npt

from trntop.catalog import ECC_EVENTS
from trntop.core.model import Column

from .activity import Activity, Stall
from .effects import Effect
from .fleet import Fleet
from .jobs import Job
from .memory import Filling, RuntimeMemory
from .programs import loaded_models
from .script import Fault, Script
from .vcpus import VcpuUsage

BUSY_COMPUTE = 0.984
BUSY_EXPOSED = 0.945
"""Utilization of a core that waits in a collective."""
BUSY_STALLED = {
    Stall.NONE: 0.0,
    Stall.CHECKPOINT: 0.01,
    Stall.COMPILE: 0.002,
    Stall.HANG: 0.999,
    Stall.STUCK: 0.0,
    Stall.EVALUATION: 0.9,
    Stall.IDLE: 0.0,
}
NODE_BIAS = 0.003
CORE_NOISE = 0.004
FLOPS_SHARE = 0.5
"""Of the peak of the chip, during compute."""
EVALUATION_FLOPS = 0.4
"""Of that, during an evaluation."""

STALLED_WRITES = 0.02
"""Write speed of a stalled checkpoint, relative to the default."""
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
        self._due_failures = 0.0
        self._lost: Fault | None = None
        self._skewed: Fault | None = None
        self.vcpus = VcpuUsage(fleet, seed)
        self.memory = RuntimeMemory(fleet, seed)
        self.program = [0] * fleet.nodes
        """Programs that its job has compiled since the start, `[node]`."""
        self.models = [loaded_models(fleet, seed, 0, 0)] * fleet.nodes
        """`loaded_models`, `[node][runtime]`."""
        for job in script.jobs:
            self._load(job, 0)
        self.compiling: list[float | None] = [None] * fleet.nodes
        """Start of the running compilation of its job, `[node]`."""
        self.saving = np.ones(fleet.nodes)
        """Write speed of checkpoints, 1 is the default, `[node]`."""
        self.empty: int | None = None
        """The node without a process."""
        self.ecc = np.zeros((fleet.nodes, fleet.devices, len(ECC_EVENTS)), np.int64)
        """Errors since boot, `[node, device, event]`."""
        corrected = self._rng.random((fleet.nodes, fleet.devices)) < 0.02
        self.ecc[:, :, ECC_EVENTS.index("mem_ecc_corrected")] = corrected
        self.activity: Activity
        """Of the newest second, like the following ones."""
        self.executions: npt.NDArray[np.int64]
        """Executions that ended, `[node, logical core]`."""
        self.utilization: npt.NDArray[np.float64]
        """Percent, `[node, logical core, physical core behind it]`."""
        self.flops: Column
        """Per second, `[node, logical core]`."""
        self.failed: npt.NDArray[np.int64]
        """Executions that ended with an error, `[node, logical core]`."""
        self.host_used: list[int]
        """Bytes of the host's memory, `[node]`."""

    def observe(self, time: float, activity: Activity, compiling: list[float | None]) -> None:
        """Advances by one second, up to about `time`; `compiling` is per node."""
        fleet = self._fleet
        self.activity = activity
        self._lost = self._script.at(Effect.DEVICE_LOST, time)
        self._skewed = self._script.at(Effect.VERSION_SKEW, time)
        idle = self._script.at(Effect.IDLE_ALLOCATION, time)
        self.empty = self._script.bystander if idle is None else None
        self._work(activity)
        self.failed = self._failures(time)
        noise = self._rng.random(fleet.nodes)
        self.host_used = (fleet.host_bytes * (HOST_SHARE + 0.002 * noise)).astype(int).tolist()
        self.vcpus.observe(activity)
        self.memory.observe(self._filling(time))
        self._count_ecc(time)
        self.saving[:] = 1.0
        for job, since in zip(self._script.jobs, compiling, strict=True):
            first = int(job.nodes[0])
            if self.compiling[first] is not None and since is None:
                self._load(job, self.program[first] + 1)
            for node in job.nodes.tolist():
                self.compiling[node] = since
            if self._script.at(Effect.CHECKPOINT_STALL, time, job) is not None:
                self.saving[job.nodes] = STALLED_WRITES

    def lost(self, node: int) -> int | None:
        """The device of a node that is not there any more."""
        fault = self._lost
        return fault.device if fault is not None and fault.node == node else None

    def older(self, what: str) -> int | None:
        """The node with an older version of something."""
        fault = self._skewed
        return fault.node if fault is not None and fault.variant == what else None

    def _load(self, job: Job, program: int) -> None:
        """All nodes of a job load a program."""
        models = loaded_models(self._fleet, self._seed, job.index, program)
        for node in job.nodes.tolist():
            self.program[node], self.models[node] = program, models

    def _filling(self, time: float) -> Filling | None:
        fault = self._script.at(Effect.MEMORY_FILLING, time)
        if fault is None:
            return None
        return Filling(fault.node, fault.device, fault.depth, fault.progress(time))

    def _work(self, activity: Activity) -> None:
        busy = BUSY_COMPUTE * activity.compute + BUSY_EXPOSED * activity.exposed
        for why, seconds in activity.stalled.items():
            busy += BUSY_STALLED[why] * seconds
        level = self._of_cores(busy / activity.elapsed[:, None] * (1.0 + self._bias))
        shape = (self._fleet.nodes, self._fleet.cores, self._fleet.lnc)
        noise = self._rng.normal(1.0, CORE_NOISE, shape)
        self.utilization = 100.0 * np.clip(level[:, :, None] * noise, 0.0, 1.0)
        work = activity.work + EVALUATION_FLOPS * activity.stalled[Stall.EVALUATION]
        computed = self._of_cores(work / activity.elapsed[:, None])
        self.flops = self._core_flops * computed * noise[:, :, 0]
        self.executions = self._of_cores(activity.executions).astype(np.int64)

    def _of_cores(self, of_devices: Column) -> Column:
        """`[node, logical core]` of `[node, device]`."""
        return np.repeat(of_devices, self._fleet.cores_per_device, axis=1)

    def _failures(self, time: float) -> npt.NDArray[np.int64]:
        fleet, activity = self._fleet, self.activity
        failed = np.zeros((fleet.nodes, fleet.cores), np.int64)
        fault = self._script.at(Effect.EXECUTION_ERRORS, time)
        if fault is not None:
            owned = fleet.owned(fault.runtime)
            ended = self.executions[fault.node, owned.start : owned.stop]
            # What cannot fail yet, because nothing was executed, does so later.
            self._due_failures += fault.depth_at(time) * float(activity.elapsed[fault.node])
            count = min(int(self._due_failures), int(ended.sum()))
            self._due_failures -= count
            # Evenly, so that no core fails more than it executes.
            shares = (count + np.arange(len(owned))) // len(owned)
            failed[fault.node, owned.start : owned.stop] = np.minimum(shares, ended)
        return failed

    def _count_ecc(self, time: float) -> None:
        fault = self._script.at(Effect.ECC, time)
        if fault is not None and fault != self._ecc_counted:
            self._ecc_counted = fault
            event = ECC_EVENTS.index(f"{fault.variant}_ecc_uncorrected")
            self.ecc[fault.node, fault.device, event] += 1
