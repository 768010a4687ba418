"""What looks at the machines: each second, or each so many."""

from collections.abc import Callable, Iterator

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

from . import host, job_mapping, kernel_log, neuron_ls, neuron_sysfs, profiles
from .activity import Activity
from .efa import EfaCards
from .fleet import Fleet
from .host import Hosts
from .job_mapping import JobMapping
from .machines import Machines
from .neuron_ls import NeuronLs
from .neuron_monitor import NeuronMonitors
from .neuron_sysfs import NeuronSysfs
from .probes import Probes
from .script import Script
from .spec import Simulation
from .tensor_engine import TensorEngines


class Sources:
    """All of them on all nodes. `observe` takes one second of all, `payloads` writes one node.

    Args:
        fleet: the machines.
        script: what goes wrong on them.
        simulation: the parameters.
        starts: unix time of the stream's start by the clock of each node.
        joins: second in which each node is first heard.
    """

    def __init__(
        self,
        fleet: Fleet,
        script: Script,
        simulation: Simulation,
        starts: list[float],
        joins: list[int],
    ) -> None:
        seed = simulation.seed
        self._joins = joins
        self._machines = machines = Machines(fleet, script, seed)
        self._monitors = NeuronMonitors(fleet, machines, seed)
        self._engines = TensorEngines(fleet, machines, seed)
        self._trees = NeuronSysfs(fleet, machines, seed, starts)
        self._hosts = Hosts(fleet, machines, seed, starts)
        self._cards = EfaCards(fleet, script, simulation) if fleet.cards else None
        probed = simulation.probed and fleet.cards
        self._probes = Probes(fleet, script, seed) if probed else None
        profile = [profiles.payload(fleet, seed, 0)] * fleet.nodes
        for job in script.jobs:
            text = profiles.payload(fleet, seed, job.index)
            for node in job.nodes.tolist():
                profile[node] = text
        self._paces: list[tuple[str, int, Callable[[int], bytes]]] = [
            (NEURON_LS, neuron_ls.EVERY, NeuronLs(fleet, machines, seed).payload),
            (NEURON_MONITOR, 1, self._monitors.payload),
            (TENSOR_ENGINE, 1, self._engines.payload),
            (NEURON_SYSFS, neuron_sysfs.EVERY, self._trees.payload),
            (HOST, host.EVERY, self._hosts.payload),
            (KERNEL_LOG, kernel_log.EVERY, lambda _: kernel_log.payload([])),
            (PROFILES, profiles.EVERY, profile.__getitem__),
            (JOB_MAPPING, job_mapping.EVERY, JobMapping(machines, script, seed).payload),
        ]
        if self._cards is not None:
            self._paces.append((EFA_SOURCE, 1, self._cards.payload))

    def observe(self, time: float, activity: Activity, compiling: list[float | None]) -> None:
        """Takes what all nodes did in a second, up to about `time`."""
        self._machines.observe(time, activity, compiling)
        for source in (self._monitors, self._engines, self._trees, self._hosts):
            source.observe()
        if self._cards is not None:
            self._cards.observe(time, activity)

    def payloads(self, second: int, node: int, span: int = 1) -> Iterator[tuple[str, bytes]]:
        """What a node's sources give in a second, if they are polled for the `span` up to it.

        All speak in the first one; later the nodes take turns with what is long and rare.
        """
        first = second == self._joins[node]
        for source, every, payload in self._paces:
            if first or (second - node) % every < span:
                yield source, payload(node)
        if self._probes is not None:
            for result in self._probes.payloads(second, node, span):
                yield PROBE, result
