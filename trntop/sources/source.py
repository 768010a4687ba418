"""The row that declares a source: what it gives, what it needs, how it is decoded."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from trntop.catalog import Quantity
from trntop.core.model import Sample

Decoder = Callable[[bytes], Sample]
"""Turns a payload into a sample; raises DecodeError when nothing in the payload is usable."""


class Role(Enum):
    """What a source observes, and how it is read."""

    DEVICE = "device"
    """Neuron or EFA devices of this machine."""
    HOST = "host"
    """Anything else on this machine, at an interval of trntop's own."""
    TRAINING = "training"
    """The training processes of this machine: readings come at the interval of the loop."""
    SCHEDULER = "scheduler"
    """Allocations of this machine or its devices by a scheduler."""
    PROBE = "probe"
    """Active probes: readings come on demand."""
    PAGE = "page"
    """Metrics pages of other exporters, polled over HTTP."""
    REMOTE = "remote"
    """Other information about a node that does not come from the node itself."""

    @property
    def local(self) -> bool:
        """Whether `trntop.collectors` has a module that reads it on this machine."""
        return self not in (Role.PROBE, Role.PAGE, Role.REMOTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source. `docs/sources.md` and `trntop doctor` print its texts."""

    name: str
    decode: Decoder
    gives: str
    origin: str
    """Where trntop reads it."""
    needs: str
    without: str
    """What is absent without it, and what replaces it."""
    role: Role = Role.HOST
    stale_after: float = 0.0
    """Seconds without a reading before its values are stale, where three periods are too few."""
    quantities: tuple[Quantity, ...] = ()
    """Quantities that this row adds to the catalog."""
    collector: str = ""
    """Full name of the module that reads it, if not the one in `trntop.collectors` with the
    source's name.
    """

    @property
    def module(self) -> str:
        """Full name of the module that reads it."""
        return self.collector or f"trntop.collectors.{self.name.replace('-', '_')}"
