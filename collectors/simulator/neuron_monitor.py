"""Reports of neuron-monitor.

Every runtime reports every logical core, with zeros for those it does not own. As in reality, the
first report covers half a millisecond.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from . import report
from .activity import MICROBATCHES
from .simulated import Simulated, World
from .template import Template, dumps

FIRST_PERIOD = 0.00047258
"""Seconds, from a public capture."""
VCPUS_PERIOD = 30
"""Number of consecutive reports with the same values of single vCPUs."""

LATENCY_FACTORS = {
    "p0": 0.968, "p1": 0.974, "p25": 0.992, "p50": 1.0, "p75": 1.009, "p99": 1.031, "p100": 1.044,
}  # fmt: skip
SLOWEST = ("p99", "p100")
"""Percentiles that include the last execution of a step, with its collective."""
LAUNCH_SECONDS = 0.0004
"""Latency that the runtime adds to that of the device."""

CONTEXT_SWITCHES_PER_SECOND = 170_000


class NeuronMonitors(Simulated):
    """The neuron-monitor of all nodes."""

    def __init__(self, world: World) -> None:
        fleet, seed = world.fleet, world.seed
        self._fleet = fleet
        self._machines = world.machines
        self._rng = np.random.default_rng([seed, 11])
        self._report = Template(report.report(fleet, fleet.runtimes))
        self._empty = Template(report.report(fleet, 0))
        self._system = Template(report.system(fleet))
        self._first_system = Template(report.first_system(fleet))
        self._devices: dict[int | None, Template] = {}
        """By the lost device; None if there is none."""
        self._instances = [dumps(instance) for instance in fleet.instances(seed)]
        self._count = 0
        self._cores: npt.NDArray[np.float64]
        self._noise: list[list[float]]

    def observe(self, time: float) -> None:
        self._count += 1
        self._cores = self._counters()
        self._noise = self._rng.random((self._fleet.nodes, 3)).tolist()

    def payload(self, node: int) -> bytes:
        """The report of one node."""
        fleet, machines, noise = self._fleet, self._machines, self._noise[node]
        first = self._count == 1
        period = FIRST_PERIOD if first else float(machines.activity.elapsed[node])
        system = self._system_data(node, period, noise)
        if node == machines.empty:
            return self._empty.fill((system, self._instances[node])).encode()
        user = 0.0 if first else (9.0 + 2.0 * noise[0]) / fleet.runtimes
        values: list[Any] = []
        for runtime, pid in enumerate(fleet.pids[node]):
            owned = fleet.owned(runtime)
            ended = machines.executions[node, owned.start : owned.stop]
            completed = 0 if first else int(ended.sum())
            total, device = self._latencies(node, owned, completed)
            failed = int(machines.failed[node, owned.start : owned.stop].sum())
            values += (pid, f'"{pid}"', period, failed, completed - failed, failed, total, device)
            values += (period, machines.memory.texts[node][runtime])
            values += (machines.models[node][runtime],)
            values += (period, user, 0.15 * user, period)
            values += self._cores[node, owned.start : owned.stop].ravel().tolist()
        values += (system, self._instances[node])
        return self._report.fill(values).encode()

    def _system_data(self, node: int, period: float, noise: list[float]) -> str:
        machines = self._machines
        memory = machines.host_used[node]
        if self._count == 1:
            return self._first_system.fill((period, memory))
        return self._system.fill(
            (
                period,
                self._errors(node),
                period,
                *machines.vcpus.average[node],
                machines.vcpus.table(node, node + self._count // VCPUS_PERIOD),
                int(CONTEXT_SWITCHES_PER_SECOND * (0.95 + 0.1 * noise[1]) * period),
                period,
                memory,
            )
        )

    def _errors(self, node: int) -> str:
        """The error counters of the devices, without a lost one."""
        lost = self._machines.lost(node)
        template = self._devices.get(lost)
        if template is None:
            template = self._devices[lost] = Template(report.devices(self._fleet, lost))
        counts = self._machines.ecc[node]
        if lost is not None:
            counts = np.delete(counts, lost, axis=0)
        return template.fill(counts.ravel().tolist())

    def _counters(self) -> npt.NDArray[np.float64]:
        """The values of each core, `[node, logical core, value]`."""
        fleet, machines = self._fleet, self._machines
        if self._count < 2:
            return np.zeros((fleet.nodes, fleet.cores, 2 + (fleet.lnc if fleet.lnc > 1 else 0)))
        physical = machines.utilization
        parts = [physical.max(axis=2, keepdims=True), machines.flops[:, :, None]]
        if fleet.lnc > 1:
            parts.append(physical)
        return np.concatenate(parts, axis=2)

    def _latencies(self, node: int, owned: range, completed: int) -> tuple[str, str]:
        """Latency of the runtime and of the device; null without an execution."""
        if not completed:
            return "null", "null"
        activity = self._machines.activity
        cores = self._fleet.cores_per_device
        devices = slice(owned.start // cores, (owned.stop - 1) // cores + 1)
        computes = sorted(activity.compute_seconds[node, devices].tolist())
        typical = computes[len(computes) // 2] / MICROBATCHES
        typical *= 0.998 + 0.004 * self._noise[node][2]
        seconds = {name: typical * factor for name, factor in LATENCY_FACTORS.items()}
        # The slowest device waits least.
        late = max(computes[-1] / MICROBATCHES - typical, 0.0)
        if activity.steps[node].any():
            late += float(activity.exposed_seconds[node, devices].min())
        for name in SLOWEST:
            seconds[name] += late
        total = {name: round(value + LAUNCH_SECONDS, 6) for name, value in seconds.items()}
        device = {name: round(value, 6) for name, value in seconds.items()}
        return dumps(total), dumps(device)
