"""What looks at the machines: each second, or each so many."""

from collections.abc import Callable, Iterator

from trntop.catalog import (
    EFA_SOURCE,
    HOST,
    KERNEL_LOG,
    NEURON_LS,
    NEURON_MONITOR,
    NEURON_SYSFS,
    PROFILES,
    TENSOR_ENGINE,
)

from . import host, kernel_log, neuron_ls, neuron_sysfs, profiles
from .efa import EfaCards
from .fleet import Fleet
from .host import Hosts
from .machines import Machines
from .neuron_ls import NeuronLs
from .neuron_monitor import NeuronMonitors
from .neuron_sysfs import NeuronSysfs
from .scenarios import Script
from .tensor_engine import TensorEngines
from .training import Activity


class Sources:
    """All of them on all nodes. `observe` takes one second of all, `payloads` writes one node."""

    def __init__(self, fleet: Fleet, script: Script, seed: int, start: float) -> None:
        self._machines = machines = Machines(fleet, script, seed)
        self._monitors = NeuronMonitors(fleet, machines, seed)
        self._engines = TensorEngines(fleet, machines, seed)
        self._trees = NeuronSysfs(fleet, machines, seed, start)
        self._hosts = Hosts(fleet, machines, seed, start)
        self._cards = EfaCards(fleet, script, seed) if fleet.cards else None
        profile = profiles.payload(fleet, seed)
        self._paces: list[tuple[str, int, Callable[[int], bytes]]] = [
            (NEURON_LS, neuron_ls.EVERY, NeuronLs(fleet, seed).payload),
            (NEURON_MONITOR, 1, self._monitors.payload),
            (TENSOR_ENGINE, 1, self._engines.payload),
            (NEURON_SYSFS, neuron_sysfs.EVERY, self._trees.payload),
            (HOST, host.EVERY, self._hosts.payload),
            (KERNEL_LOG, kernel_log.EVERY, lambda _: kernel_log.payload([])),
            (PROFILES, profiles.EVERY, lambda _: profile),
        ]
        if self._cards is not None:
            self._paces.append((EFA_SOURCE, 1, self._cards.payload))

    def observe(self, time: float, activity: Activity, compiling: float | None) -> None:
        """Takes what all nodes did in a second, up to about `time`."""
        self._machines.observe(time, activity, compiling)
        for source in (self._monitors, self._engines, self._trees, self._hosts):
            source.observe()
        if self._cards is not None:
            self._cards.observe(time, activity)

    def payloads(self, second: int, node: int) -> Iterator[tuple[str, bytes]]:
        """What a node's sources give in a second.

        All speak in the first one; later the nodes take turns with what is long and rare.
        """
        for source, every, payload in self._paces:
            if second == 0 or second % every == node % every:
                yield source, payload(node)
