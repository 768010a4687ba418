"""The host: CPUs, memory, network, disks, compilers."""

from typing import Any

import numpy as np
import numpy.typing as npt

from trntop.catalog import CPU_MODES

from .activity import Stall
from .fleet import Fleet
from .simulated import Simulated, World
from .template import Template, dumps, slot
from .vcpus import USAGE

PERIOD = 10
"""Seconds between two readings of a node."""

RATES = {
    "rx": (1.8e6, 2.4e7, 2e6, 0.0),
    "tx": (2.6e6, 1e6, 3.2e9, 0.0),
    "disk_read": (2e4, 0.0, 0.0, 6e6),
    "disk_written": (9e5, 0.0, 0.0, 4.5e7),
    "lustre_read": (0.0, 2.2e7, 0.0, 0.0),
    "lustre_written": (4e4, 0.0, 3.1e9, 0.0),
}
"""Bytes per second: always (telemetry, logs), and in addition during compute (the data set), during
a checkpoint, during a compilation."""
NOISE = 0.05
SECONDS_BEFORE = (200_000.0, 180_000.0, 2_400.0, 600.0)
"""The same seconds before the start."""

LOAD_SECONDS = 60.0
"""Time constant of the load average."""
PROCESSES_PER_VCPU = 3.2
COMPILERS = 4
COMMAND = "neuronx-cc compile --framework=XLA --target={} --model-type=transformer"
TARGETS = {"Inferentia2": "inf2", "Trainium1": "trn1", "Trainium2": "trn2", "Trainium3": "trn3"}
CACHE = "/var/tmp/neuron-compile-cache"
MODULES = 12
"""In the cache at the start."""
MODULE_SECONDS = 4.0
"""Seconds of compilation per added module."""
_IDLE = CPU_MODES.index("idle")


class Hosts(Simulated):
    """All hosts."""

    period = PERIOD

    def __init__(self, world: World) -> None:
        fleet = world.fleet
        self._fleet = fleet
        self._machines = world.machines
        self._starts = world.starts
        self._rng = np.random.default_rng([world.seed, 14])
        self._template = Template(_host(fleet))
        self._command = COMMAND.format(TARGETS[fleet.chip.name])
        self._processes = int(PROCESSES_PER_VCPU * fleet.vcpus) + 200
        self._bytes = np.zeros((fleet.nodes, len(RATES)))
        self._move(np.tile(SECONDS_BEFORE, (fleet.nodes, 1)))
        self._load = np.full(fleet.nodes, fleet.vcpus * sum(USAGE[Stall.NONE].values()) / 100.0)
        self._compiled = np.zeros(fleet.nodes)

    def observe(self, time: float) -> None:
        """Advances by one second."""
        activity = self._machines.activity
        compiling = activity.stalled[Stall.COMPILE].mean(axis=1)
        # A stalled checkpoint waits for the file system.
        saving = activity.stalled[Stall.CHECKPOINT].mean(axis=1) * self._machines.saving
        compute = activity.compute.mean(axis=1)
        self._move(np.stack((activity.elapsed, compute, saving, compiling), axis=1))
        self._compiled += compiling
        idle = np.array(self._machines.vcpus.average)[:, _IDLE] / 100.0
        self._load += (self._fleet.vcpus * (1.0 - idle) - self._load) / LOAD_SECONDS

    def payload(self, node: int) -> bytes:
        """The payload of one host."""
        machines, compilers = self._machines, self._compilers(node)
        busy = 1.0 - machines.vcpus.average[node][_IDLE] / 100.0
        return self._template.fill(
            (
                busy,
                self._load[node],
                self._fleet.host_bytes - machines.host_used[node],
                *self._bytes[node].tolist(),
                self._processes + len(compilers),
                dumps(compilers),
                MODULES + int(self._compiled[node] / MODULE_SECONDS),
            )
        ).encode()

    def _move(self, seconds: npt.NDArray[np.float64]) -> None:
        """Adds the bytes of the seconds of each kind, `[node, kind]`."""
        rates = np.array(list(RATES.values()))
        noise = self._rng.uniform(1.0 - NOISE, 1.0 + NOISE, self._bytes.shape)
        self._bytes += seconds @ rates.T * noise

    def _compilers(self, node: int) -> list[Any]:
        since = self._machines.compiling[node]
        if since is None:
            return []
        first = self._fleet.pids[node][-1] + 101
        return [
            {"pid": pid, "since": round(self._starts[node] + since, 2), "command": self._command}
            for pid in range(first, first + COMPILERS)
        ]


def _host(fleet: Fleet) -> Any:
    return {
        "period": PERIOD,
        "cpu": {"count": fleet.vcpus, "busy": slot("%.4f"), "load1": slot("%.2f")},
        "memory": {"total": fleet.host_bytes, "available": slot()},
        "network": {"eth0": {"rx_bytes": slot(), "tx_bytes": slot()}},
        "disk": {"read_bytes": slot(), "written_bytes": slot()},
        "lustre": {"fsx-OST0000": {"read_bytes": slot(), "written_bytes": slot()}},
        "processes": {"count": slot(), "partial": False},
        "compilers": slot("%s"),
        "compile_cache": {"path": CACHE, "modules": slot(), "partial": False},
    }
