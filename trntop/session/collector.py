"""The protocol between the core and collectors.

A collector owns one source: its interval, timeouts, back-off and state. It runs as one task on the
collection loop (never on the screen's), does not block, and passes raw payloads to the sink, which
decodes them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from trntop.core.model import Reading, Status


class Sink(Protocol):
    """Receives the output of collectors. Call it on the collection loop only."""

    aggregator: bool
    """Whether this program judges its nodes for others, so that agents need not."""
    records: bool
    """Whether it records, and needs all nodes."""

    def now(self) -> float:
        """Stream time for new readings: unix seconds that only move forward."""
        ...

    def reading(self, reading: Reading) -> None:
        """Adds one payload. Decoding errors are counted and shown, never raised."""
        ...

    def status(self, status: Status) -> None:
        """Sets the state that the source reports for itself."""
        ...

    def register(self, node: str, owner: str, *sources: str) -> str:
        """The owner of a remote node's name: `owner`, its address, unless another was first; see
        `trntop.remote.names`.
        """
        ...

    def remove(self, node: str, owner: str = "") -> None:
        """Removes an owner of a node, with the sources that only it had; without owners, the node
        is removed.
        """
        ...

    @property
    def wants_backfill(self) -> bool:
        """Whether the session still accepts a backfill: it has just started."""
        ...

    def backfill(self, readings: Iterable[Reading]) -> None:
        """Adds the backfill of a node: readings from before its first one here, ordered by time."""
        ...

    def warn(self, text: str) -> None:
        """Shows a message to the user that does not concern a single node."""
        ...


class Collector(Protocol):
    """One live source of one node."""

    node: str
    source: str

    async def run(self, sink: Sink) -> None:
        """Collects until cancelled, or returns when the source has ended.

        On cancellation it stops everything it started before it returns.
        """
        ...


@runtime_checkable
class FocusAware(Protocol):
    """A collector that reads more of the node that the user has selected."""

    def set_focus(self, node: str | None) -> None:
        """Sets the selected node, or none. Called on the collection loop."""
        ...


@runtime_checkable
class BackfillAware(Protocol):
    """A collector whose nodes provide a backfill: what they recorded before it connected."""

    async def backfilled(self) -> None:
        """Returns when each node has provided its backfill, or will not."""
        ...


@dataclass(frozen=True, slots=True)
class Examination:
    """The report of `trntop doctor` on one source."""

    source: str
    ok: bool
    found: str
    """One sentence on what was checked and found."""
    remedy: str = ""
    """What to do if it is missing."""
