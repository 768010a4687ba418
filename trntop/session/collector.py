"""What the heart asks of a collector, and what a collector may call.

A collector owns one source: its pace, its deadlines, its back-off and its honest state. It
runs as one task on the collection loop (never on the screen's), blocks nothing, and hands raw
payloads to the sink; decoding is not its business.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from trntop.core.model import Reading, Status


class Sink(Protocol):
    """Where collectors put what they got. Call it on the collection loop only."""

    def now(self) -> float:
        """Stream time for new readings: unix seconds that only move forward."""
        ...

    def reading(self, reading: Reading) -> None:
        """Takes one payload. Decoding errors are counted and shown, never raised."""
        ...

    def status(self, status: Status) -> None:
        """Takes the source's word on its own state."""
        ...

    def register(self, node: str, owner: str, *sources: str) -> str:
        """Who speaks for a node of another machine, see `trntop.remote.names`: `owner`, its
        address, unless another was first.
        """
        ...

    def forget(self, node: str, owner: str = "") -> None:
        """`owner` no longer watches the node: what it alone brought is gone, and the node is when
        nobody else watches it.
        """
        ...

    def tell(self, text: str) -> None:
        """Tells the user what concerns no node alone."""
        ...


class Collector(Protocol):
    """One live source of one node."""

    node: str
    source: str

    async def run(self, sink: Sink) -> None:
        """Collects until cancelled, or returns when the source has ended for good.

        On cancellation everything it started is ended before it returns.
        """
        ...


@runtime_checkable
class FocusAware(Protocol):
    """A collector that tells more of the node that the user is looking at."""

    def set_focus(self, node: str | None) -> None:
        """The user looks at this node now, or at none. Called on the collection loop."""
        ...


@dataclass(frozen=True, slots=True)
class Examination:
    """What `trntop doctor` says of one source."""

    source: str
    ok: bool
    found: str
    """One sentence on what was looked for and seen."""
    remedy: str = ""
    """What to do where it is missing."""
