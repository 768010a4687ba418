"""The simulated sources, polled each second or at an interval."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from trntop.sources import SOURCES

from .activity import Activity
from .fleet import Fleet
from .hook import Hook, World
from .machines import Machines
from .script import Script
from .spec import Simulation


def hooks() -> dict[str, Hook]:
    """Source → the `HOOK` of the module of its name, in the order of the stream."""
    package = __name__.rpartition(".")[0]
    names = {source.name.replace("-", "_"): source.name for source in SOURCES}
    found: dict[str, Hook] = {}
    for module in iter_modules(import_module(package).__path__):
        if module.name in names:
            hook = getattr(import_module(f"{package}.{module.name}"), "HOOK", None)
            if hook is not None:
                found[names[module.name]] = hook
    return dict(sorted(found.items(), key=lambda item: item[1].order))


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
        self._sources = [
            (name, hook.every, made)
            for name, hook in hooks().items()
            if (made := hook.make(world)) is not None
        ]

    def observe(self, time: float, activity: Activity, compiling: list[float | None]) -> None:
        """Advances by one second, up to about `time`."""
        self._machines.observe(time, activity, compiling)
        for _, _, source in self._sources:
            if source.observe is not None:
                source.observe(time)

    def payloads(self, second: int, node: int, span: int = 1) -> Iterator[tuple[str, bytes]]:
        """The payloads of a node in a second, polled for the `span` up to it.

        All sources report in the first second; later the long, rare ones are spread over the nodes.
        """
        first = second == self._joins[node]
        for name, every, source in self._sources:
            if source.payload is not None and (first or (second - node) % every < span):
                yield name, source.payload(node)
            if source.results is not None:
                for result in source.results(second, node, span):
                    yield name, result
