"""What a probing tool is to the prober: its command lines, and what its output means."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from trntop.check.model import ProbeError, ProbeResult, ProbeSpec

from .process import Ended

Guilty = Literal["", "client", "server", "path"]

MAX_SIZE = 1 << 30
MAX_ITERATIONS = 1_000_000
MAX_REPEATS = 20
MAX_SECONDS = 300.0
_CARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}", re.ASCII)


class Failure(NamedTuple):
    """Why a run gave no figure."""

    text: str
    guilty: Guilty = ""


class Run(NamedTuple):
    """What one run measured, by statistic; what a tool does not tell is left out."""

    seconds: dict[str, float]
    """Latencies, one way."""
    bytes_per_second: float | None
    messages: int
    pace: float
    """Seconds from one message to the next."""
    lost: int | None = None


class PairTool(Protocol):
    """A tool whose one side waits on a port and whose other side connects to it.

    Commands are what env(1) takes: assignments, the program, its arguments.
    """

    listens: str
    """What the server side says once it can be connected to."""

    def runs(self, spec: ProbeSpec) -> tuple[int, ...]:
        """How many messages each run sends; the first run is the warm-up."""
        ...

    def server(self, spec: ProbeSpec, port: int, messages: int) -> list[str]:
        """The command of a run's server side."""
        ...

    def client(self, spec: ProbeSpec, address: str, port: int, messages: int) -> list[str]:
        """The command of a run's client side."""
        ...

    def taken(self, ended: Ended) -> bool:
        """Whether the server side found its port taken."""
        ...

    def refused(self, ended: Ended) -> bool:
        """Whether nobody listened for the client side, perhaps not yet."""
        ...

    def read(
        self, spec: ProbeSpec, ended: Ended, messages: int, where: str, *, gone: bool
    ) -> Run | Failure:
        """What one run of the client side measured, or why nothing.

        Args:
            spec: the probe.
            ended: how the client side ended.
            messages: how many it was to send.
            where: the server's host and port in words.
            gone: whether the server side had closed the connection when the client was ended.
        """
        ...

    def results(self, spec: ProbeSpec, peer: str, runs: Sequence[Run]) -> list[ProbeResult]:
        """The figures of several runs, at least one."""
        ...

    def complaint(self, spec: ProbeSpec, ended: Ended) -> str:
        """What the server side complained of when it had ended; empty if of nothing."""
        ...


def check_spec(spec: ProbeSpec) -> None:
    """Looks whether a probe is one that may be run.

    Raises:
        ProbeError: a field is out of bounds; the sentence names it.
    """
    for name, card in (("card", spec.card), ("peer_card", spec.peer_card)):
        if card and not _CARD.fullmatch(card):
            raise ProbeError(f"{name}: not the name of a card")
    if not 1 <= spec.size_bytes <= MAX_SIZE:
        raise ProbeError(f"size_bytes: {spec.size_bytes} is not between 1 and {MAX_SIZE}")
    # perftest wants five messages at least, and of fewer no tool tells anything.
    if not 5 <= spec.iterations <= MAX_ITERATIONS:
        raise ProbeError(f"iterations: {spec.iterations} is not between 5 and {MAX_ITERATIONS}")
    if not 1 <= spec.repeats <= MAX_REPEATS:
        raise ProbeError(f"repeats: {spec.repeats} is not between 1 and {MAX_REPEATS}")
    if not 0.5 <= spec.seconds <= MAX_SECONDS:  # NaN too
        raise ProbeError(f"seconds: {spec.seconds:g} is not between 0.5 and {MAX_SECONDS:g}")
