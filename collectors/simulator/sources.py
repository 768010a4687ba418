"""The simulated sources, polled each second or at an interval."""

from collections.abc import Callable, Iterator, Mapping

from trntop.catalog import (
    EFA_SOURCE,
    HOST,
    JOB_MAPPING,
    KERNEL_LOG,
    NEURON_LS,
    NEURON_MONITOR,
    NEURON_SYSFS,
    PROBE,
    PROFILES,
    TENSOR_ENGINE,
)

from .activity import Activity
from .efa import EfaDevices
from .fleet import Fleet
from .host import Hosts
from .job_mapping import JobMapping
from .kernel_log import KernelLogs
from .machines import Machines
from .neuron_ls import NeuronLs
from .neuron_monitor import NeuronMonitors
from .neuron_sysfs import NeuronSysfs
from .probe import Probes
from .profiles import Profiles
from .script import Script
from .simulated import Simulated, World
from .spec import Simulation
from .tensor_engine import TensorEngines

SIMULATED: Mapping[str, Callable[[World], Simulated]] = {
    NEURON_LS: NeuronLs,
    NEURON_MONITOR: NeuronMonitors,
    TENSOR_ENGINE: TensorEngines,
    NEURON_SYSFS: NeuronSysfs,
    HOST: Hosts,
    KERNEL_LOG: KernelLogs,
    PROFILES: Profiles,
    JOB_MAPPING: JobMapping,
    EFA_SOURCE: EfaDevices,
    PROBE: Probes,
}
"""In the order of the payloads of one moment; changing it changes the stream of a seed."""


class Sources:
    """All sources on all nodes.

    Args:
        fleet: the machines.
        script: the faults.
        simulation: the parameters.
        starts: unix time of the start by the clock of each node.
        joins: second of the first reading of each node.
    """

    def __init__(
        self,
        fleet: Fleet,
        script: Script,
        simulation: Simulation,
        starts: list[float],
        joins: list[int],
    ) -> None:
        self._joins = joins
        self._machines = Machines(fleet, script, simulation.seed)
        world = World(fleet, script, simulation, self._machines, starts)
        absent = set() if fleet.efa else {EFA_SOURCE, PROBE}
        if not simulation.probed:
            absent.add(PROBE)
        self._sources = {
            name: make(world) for name, make in SIMULATED.items() if name not in absent
        }
        self.kernels = KernelLogs(world)

    def observe(self, time: float, activity: Activity, compiling: list[float | None]) -> None:
        """Advances by one second, up to about `time`."""
        self._machines.observe(time, activity, compiling)
        for source in self._sources.values():
            source.observe(time)

    def payloads(self, second: int, node: int, span: int = 1) -> Iterator[tuple[str, bytes]]:
        """Source and payload of a node in a second, polled for the `span` up to it."""
        first = second == self._joins[node]
        for name, source in self._sources.items():
            for payload in source.payloads(second, node, span, first=first):
                yield name, payload
