"""The declaration of a simulated source, `HOOK` in its module."""

from collections.abc import Callable, Iterable
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


@dataclass(frozen=True, slots=True)
class Simulated:
    """One source on all nodes."""

    payload: Callable[[int], bytes] | None = None
    """The payload of one node, if the source is polled."""
    observe: Callable[[float], None] | None = None
    """Advances by one second, up to about this time, after `World.machines`."""
    results: Callable[[int, int, int], Iterable[bytes]] | None = None
    """The payloads of a second, a node and a span of seconds, if the source is not polled."""


@dataclass(frozen=True, slots=True)
class Hook:
    """How a source is simulated."""

    make: Callable[[World], Simulated | None]
    """None if these machines do not have the source."""
    every: int = 1
    """Seconds between two payloads of a node."""
    order: int = 100
    """Order of the payloads of one moment; changing it changes the stream of a seed."""
