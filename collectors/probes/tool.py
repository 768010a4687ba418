"""The interface of a probing tool: its commands, its output, and the results of several runs."""

import re
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple, Protocol

from trntop.check.model import ProbeError, ProbeResult, ProbeSpec, Side

from .process import Ended

MAX_SIZE = 1 << 30
MAX_ITERATIONS = 1_000_000
MAX_REPEATS = 20
MAX_SECONDS = 300.0
_CARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}", re.ASCII)


class Failure(NamedTuple):
    """Why a run gave no latency."""

    text: str
    side: Side = ""


class Run(NamedTuple):
    """The measurement of one run."""

    seconds: dict[str, float]
    """One-way latency by statistic; `mean` is always known."""
    messages: int
    lost: int | None = None


class PairTool(Protocol):
    """A tool whose server side waits on a port and whose client side connects to it.

    Commands are arguments of env(1): assignments, the program, its arguments.
    """

    program: str
    listens: str
    """Output of the server side once a client can connect."""

    def server(self, spec: ProbeSpec, port: int, messages: int) -> list[str]: ...

    def client(self, spec: ProbeSpec, address: str, port: int, messages: int) -> list[str]: ...

    def port_is_taken(self, ended: Ended) -> bool:
        """Whether the server side found its port in use."""
        ...

    def is_refused(self, ended: Ended) -> bool:
        """Whether no server listened for the client side, perhaps not yet."""
        ...

    def read(self, spec: ProbeSpec, ended: Ended, messages: int, where: str) -> Run | Failure:
        """The measurement of one run of the client side.

        Args:
            spec: the probe.
            ended: how the client side ended.
            messages: to be sent.
            where: the server's host and port in words.
        """
        ...

    def server_error(self, spec: ProbeSpec, ended: Ended) -> str:
        """Why the server side failed; empty if it did not."""
        ...


def results(tool: str, spec: ProbeSpec, peer: str, runs: Sequence[Run]) -> list[ProbeResult]:
    """The results of several runs: the mean of each statistic, the lowest and the highest."""
    combine = {"min": min, "max": max}
    figures = {
        statistic: combine.get(statistic, fmean)([run.seconds[statistic] for run in runs])
        for statistic in runs[0].seconds
        if all(statistic in run.seconds for run in runs)
    }
    if len(runs) > 1 and "min" not in figures:
        means = [run.seconds["mean"] for run in runs]
        figures |= {"min": min(means), "max": max(means)}
    efa = spec.provider == "efa"
    return [
        ProbeResult(
            tool=tool,
            peer=peer,
            provider=spec.provider,
            card=spec.card if efa else "",
            peer_card=spec.peer_card if efa else "",
            size_bytes=spec.size_bytes,
            statistic=statistic,
            seconds=seconds,
            iterations=sum(run.messages for run in runs),
            lost=sum(run.lost or 0 for run in runs),
        )
        for statistic, seconds in figures.items()
    ]


def check_spec(spec: ProbeSpec) -> None:
    """Validates a probe.

    Raises:
        ProbeError: a field is out of bounds.
    """
    for name, card in (("card", spec.card), ("peer_card", spec.peer_card)):
        if card and not _CARD.fullmatch(card):
            raise ProbeError(f"{name}: not the name of an EFA device")
    # perftest needs at least five messages. NaN is out of bounds, too.
    for name, value, least, most in (
        ("size_bytes", spec.size_bytes, 1, MAX_SIZE),
        ("iterations", spec.iterations, 5, MAX_ITERATIONS),
        ("repeats", spec.repeats, 1, MAX_REPEATS),
        ("seconds", spec.seconds, 0.5, MAX_SECONDS),
    ):
        if not least <= value <= most:
            shown = f"{value:g}" if isinstance(value, float) else value
            raise ProbeError(f"{name}: {shown} is not between {least:g} and {most:.10g}")
