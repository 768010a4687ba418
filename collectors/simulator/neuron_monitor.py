"""neuron-monitor on every node.

Indices are flat logical cores. Every runtime reports every core, with zeros for those it does
not own. A node's first report is the real one's trap: it covers half a millisecond.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trntop.catalog import ECC_EVENTS

from . import report
from .fleet import Fleet
from .host import HostUsage
from .memory import RuntimeMemory, loaded_models
from .scenarios import Effect, Fault, Script
from .template import Template, dumps
from .training import MICROBATCHES, Activity, Stall

FIRST_PERIOD = 0.00047258
"""Seconds; from a public capture."""

BUSY_COMPUTE = 0.984
BUSY_EXPOSED = 0.945
"""Busy share of a core that waits in a collective: neuron-monitor counts it as utilized."""
BUSY_STALLED = {Stall.NONE: 0.0, Stall.CHECKPOINT: 0.01, Stall.COMPILE: 0.002, Stall.HANG: 0.999}
NODE_BIAS = 0.003
CORE_NOISE = 0.004
FLOPS_SHARE = 0.5
"""Of the chip's peak, while it computes."""

MEMORY_EVERY = 5
"""Reports between two looks at the memory of a steady node: it moves little, and is long."""
VCPUS_EVERY = 30
"""Reports for which a node keeps its values of single vCPUs."""

LATENCY_FACTORS = {
    "p0": 0.968, "p1": 0.974, "p25": 0.992, "p50": 1.0, "p75": 1.009, "p99": 1.031, "p100": 1.044,
}  # fmt: skip
SLOWEST = ("p99", "p100")
"""Percentiles in which the last execution of a step shows, the one that holds the collective."""
LAUNCH_SECONDS = 0.0004
"""Between the latency on the device and the one the runtime sees."""

ERRORS_PER_SECOND = 2.0
HOST_SHARE = 0.31
"""Of the host's memory in use."""
CONTEXT_SWITCHES = 170_000
"""Per second."""


@dataclass(frozen=True, slots=True, eq=False)
class _Second:
    """What the reports of one second are written from."""

    first: bool
    activity: Activity
    cores: npt.NDArray[np.float64]
    """The values of a core's entry in the frame's order, `[node, logical core, value]`."""
    noise: list[list[float]]
    """From 0 to 1, `[node, use]`."""
    failing: Fault | None


class NeuronMonitors:
    """All nodes' neuron-monitors. `observe` takes one second of all, `payload` writes a report."""

    def __init__(self, fleet: Fleet, script: Script, seed: int) -> None:
        self._fleet = fleet
        self._script = script
        self._seed = seed
        self._rng = np.random.default_rng([seed, 4])
        self._bias = self._rng.normal(0.0, NODE_BIAS, (fleet.nodes, 1))
        self._report = Template(report.report(fleet))
        self._system = Template(report.system(fleet))
        self._first_system = Template(report.first_system(fleet))
        self._instances = [dumps(instance) for instance in fleet.instances(seed)]
        self._host = HostUsage(fleet, seed)
        self._memory = RuntimeMemory(fleet, seed)
        self._used: list[list[str]] = [[]] * fleet.nodes
        self._program = 0
        self._models = loaded_models(fleet, seed, self._program)
        self._compiling = False
        self._devices = Template(report.devices(fleet))
        self._ecc = np.zeros((fleet.nodes, fleet.devices, len(ECC_EVENTS)), np.int64)
        corrected = self._rng.random((fleet.nodes, fleet.devices)) < 0.02
        self._ecc[:, :, ECC_EVENTS.index("mem_ecc_corrected")] = corrected
        self._ecc_texts = [self._ecc_text(node) for node in range(fleet.nodes)]
        self._ecc_counted: Fault | None = None
        self._count = 0

    def observe(self, time: float, activity: Activity) -> None:
        """Takes what all nodes did in a second, up to about `time`."""
        first = self._count == 0
        self._count += 1
        self._second = _Second(
            first=first,
            activity=activity,
            cores=self._counters(activity, first=first),
            noise=self._rng.random((self._fleet.nodes, 4)).tolist(),
            failing=self._script.at(Effect.EXECUTION_ERRORS, time),
        )
        self._host.observe(activity)
        self._count_ecc(time)
        self._compile(time)
        filling = self._script.at(Effect.MEMORY_FILLING, time)
        for node in range(self._fleet.nodes):
            fault = filling if filling is not None and filling.node == node else None
            if fault is not None or first or (self._count + node) % MEMORY_EVERY == 0:
                self._used[node] = self._memory.used(fault, time)

    def payload(self, node: int) -> bytes:
        """The report of one node."""
        fleet, second = self._fleet, self._second
        first, noise = second.first, second.noise[node]
        period = FIRST_PERIOD if first else float(second.activity.elapsed[node])
        ended = 0 if first else int(second.activity.executions[node])
        total, device = self._latencies(node, ended)
        user = 0.0 if first else (9.0 + 2.0 * noise[0]) / fleet.runtimes
        values: list[Any] = []
        for runtime, pid in enumerate(fleet.pids[node]):
            owned = fleet.owned(runtime)
            completed = ended * len(owned)
            failed = min(self._failed(node, runtime), completed)
            values += (pid, f'"{pid}"', period, failed, completed - failed, failed, total, device)
            values += (period, self._used[node][runtime], self._models[runtime])
            values += (period, user, 0.15 * user, period)
            values += second.cores[node, owned.start : owned.stop].ravel().tolist()
        values += (self._system_data(node, period, noise), self._instances[node])
        return self._report.fill(values).encode()

    def _system_data(self, node: int, period: float, noise: list[float]) -> str:
        memory = int(self._fleet.host_bytes * (HOST_SHARE + 0.002 * noise[1]))
        if self._second.first:
            return self._first_system.fill((period, memory))
        return self._system.fill(
            (
                period,
                self._ecc_texts[node],
                period,
                *self._host.average[node],
                self._host.table(node + self._count // VCPUS_EVERY),
                int(CONTEXT_SWITCHES * (0.95 + 0.1 * noise[2]) * period),
                period,
                memory,
            )
        )

    def _counters(self, activity: Activity, *, first: bool) -> npt.NDArray[np.float64]:
        fleet = self._fleet
        shape = (fleet.nodes, fleet.cores, fleet.lnc)
        if first:
            return np.zeros((fleet.nodes, fleet.cores, 2 + (fleet.lnc if fleet.lnc > 1 else 0)))
        busy = BUSY_COMPUTE * activity.compute + BUSY_EXPOSED * activity.exposed
        for why, seconds in activity.stalled.items():
            busy += BUSY_STALLED[why] * seconds
        level = (busy / activity.elapsed)[:, None] * (1.0 + self._bias)
        noise = self._rng.normal(1.0, CORE_NOISE, shape)
        physical = 100.0 * np.clip(level[:, :, None] * noise, 0.0, 1.0)
        peak = FLOPS_SHARE * fleet.chip.bf16_flops_per_second / fleet.cores_per_device
        flops = peak * (activity.compute / activity.elapsed)[:, None] * noise[:, :, 0]
        parts = [physical.max(axis=2, keepdims=True), flops[:, :, None]]
        if fleet.lnc > 1:
            parts.append(physical)
        return np.concatenate(parts, axis=2)

    def _latencies(self, node: int, ended: int) -> tuple[str, str]:
        """Latency seen by the runtime and on the device, null where nothing was executed."""
        if not ended:
            return "null", "null"
        activity = self._second.activity
        typical = float(activity.compute_seconds[node]) / MICROBATCHES
        typical *= 0.998 + 0.004 * self._second.noise[node][3]
        seconds = {name: typical * factor for name, factor in LATENCY_FACTORS.items()}
        if activity.steps[node]:
            for name in SLOWEST:
                seconds[name] += float(activity.exposed_seconds[node])
        seen = {name: round(value + LAUNCH_SECONDS, 6) for name, value in seconds.items()}
        return dumps(seen), dumps({name: round(value, 6) for name, value in seconds.items()})

    def _failed(self, node: int, runtime: int) -> int:
        """Executions of the period that ended with an error."""
        failing = self._second.failing
        if failing is None or (failing.node, failing.runtime) != (node, runtime):
            return 0
        return round(ERRORS_PER_SECOND * float(self._second.activity.elapsed[node]))

    def _count_ecc(self, time: float) -> None:
        fault = self._script.at(Effect.ECC, time)
        if fault is not None and fault != self._ecc_counted:
            self._ecc_counted = fault
            self._ecc[fault.node, fault.device, ECC_EVENTS.index("mem_ecc_uncorrected")] += 1
            self._ecc_texts[fault.node] = self._ecc_text(fault.node)

    def _ecc_text(self, node: int) -> str:
        return self._devices.fill(self._ecc[node].ravel().tolist())

    def _compile(self, time: float) -> None:
        """Loads another program once a compilation is over."""
        compiling = self._script.at(Effect.RECOMPILE, time) is not None
        if self._compiling and not compiling:
            self._program += 1
            self._models = loaded_models(self._fleet, self._seed, self._program)
        self._compiling = compiling
