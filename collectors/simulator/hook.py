"""What a module of the simulator declares as `HOOK`, so that its source is simulated."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .fleet import Fleet
from .machines import Machines
from .script import Script
from .spec import Simulation


@dataclass(frozen=True, slots=True)
class World:
    """What payloads are made from."""

    fleet: Fleet
    script: Script
    simulation: Simulation
    machines: Machines
    starts: list[float]
    """Unix time of the stream's start by the clock of each node."""

    @property
    def seed(self) -> int:
        """Of the simulation."""
        return self.simulation.seed


@dataclass(frozen=True, slots=True)
class Simulated:
    """One source on all nodes."""

    payload: Callable[[int], bytes] | None = None
    """The payload of one node, where the source is polled."""
    observe: Callable[[float], None] | None = None
    """Advances by one second, up to about this time; `World.machines` has done so already."""
    results: Callable[[int, int, int], Iterable[bytes]] | None = None
    """The payloads of a second, a node and a span of seconds, where the source is not polled."""


@dataclass(frozen=True, slots=True)
class Hook:
    """How a source is simulated."""

    make: Callable[[World], Simulated | None]
    """None where these machines lack the source."""
    every: int = 1
    """Seconds between two payloads of a node."""
    order: int = 100
    """Place among the payloads of one moment: the same seed gives the same stream only while the
    places remain.
    """
