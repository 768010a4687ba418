"""What simulated sources share."""

from collections.abc import Iterator
from dataclasses import dataclass

from .fleet import Fleet
from .machines import Machines
from .script import Script
from .spec import Simulation


@dataclass(frozen=True, slots=True)
class World:
    """The state that payloads are made from."""

    fleet: Fleet
    script: Script
    simulation: Simulation
    machines: Machines
    starts: list[float]
    """Unix time of the start by the clock of each node."""

    @property
    def seed(self) -> int:
        return self.simulation.seed


class Simulated:
    """One source on all nodes."""

    period = 1
    """Seconds between two payloads of a node."""

    def observe(self, time: float) -> None:
        """Advances by one second, up to about this time, after `World.machines`."""

    def payload(self, node: int) -> bytes:
        """The payload of one node."""
        raise NotImplementedError

    def payloads(self, second: int, node: int, span: int, *, first: bool) -> Iterator[bytes]:
        """The payloads of a node in a second, polled for the `span` up to it.

        All sources report in the first second; later the long, rare ones are spread over the nodes.
        """
        if first or (second - node) % self.period < span:
            yield self.payload(node)
