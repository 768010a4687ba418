"""neuron-monitor's output on standard input: `neuron-monitor | trntop export -`."""

import asyncio
import os

from trntop.catalog import NEURON_MONITOR
from trntop.core.errors import UsageError
from trntop.core.model import Reading, State, Status
from trntop.recording.envelope import longest_period
from trntop.session.collector import Sink

from .intake import Intake
from .throttle import pause_after, report_interval

CHUNK_BYTES = 1 << 18
GARBAGE = "no line on standard input is a report of neuron-monitor"
DEFAULT_PERIOD = 1.0
"""Seconds; also the minimum, because a first report covers half a millisecond."""


class StandardInput:
    """The collector of reports on standard input.

    At the end of input it returns, with one of two states: ended (input came all at once: its
    values stay) or down (a live stream has stopped: its values become stale).

    Args:
        node: name of the node of the reports.
        descriptor: the input; it stays open.

    Raises:
        UsageError: standard input is a terminal, or closed.
    """

    source = NEURON_MONITOR

    def __init__(self, node: str, descriptor: int = 0) -> None:
        self.node = node
        self._descriptor = descriptor
        try:
            os.fstat(descriptor)
        except OSError as error:
            raise UsageError("standard input is closed; `-` reads a pipe or a file") from error
        if os.isatty(descriptor):
            raise UsageError(
                "standard input is a terminal; `-` needs a pipe: neuron-monitor | trntop export -"
            )

    async def run(self, sink: Sink) -> None:
        """Reads until the end of input."""
        intake = Intake(sink.now)
        self._report(sink, intake, State.STARTING, "waiting for a report on standard input")
        reading = asyncio.create_task(self._read(intake))
        reading.add_done_callback(lambda _: intake.arrived.set())
        last = b""
        try:
            while True:
                while not last and not await intake.wait(DEFAULT_PERIOD):
                    if intake.counts["skipped"] or intake.counts["oversize"]:
                        self._report(sink, intake, State.STARTING, GARBAGE)
                await intake.arrived.wait()
                intake.arrived.clear()
                ended = reading.done()
                if newest := intake.pop_newest():
                    time, last = newest
                    sink.reading(Reading(self.node, self.source, time, last))
                    self._report(sink, intake, State.FRESH)
                if ended:
                    break
                await asyncio.sleep(report_interval(DEFAULT_PERIOD))
            self._report(sink, intake, *self._verdict(intake, last, reading))
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    def _verdict(
        self, intake: Intake, last: bytes, reading: asyncio.Task[float]
    ) -> tuple[State, str]:
        """The state after the end of input."""
        reports = intake.counts["reports"]
        try:
            seconds = reading.result()
        except OSError as error:
            return State.DOWN, f"standard input cannot be read: {error.strerror}"
        if not reports:
            return State.DOWN, "standard input ended without a report"
        if seconds < period_of(last):
            return State.ENDED, "standard input ended"
        return State.DOWN, f"standard input closed after {reports} reports"

    async def _read(self, intake: Intake) -> float:
        """Reads to the end; seconds since the first byte."""
        loop = asyncio.get_running_loop()
        first: float | None = None
        while chunk := await self._chunk():
            started = loop.time()
            first = started if first is None else first
            intake.feed(chunk)
            await asyncio.sleep(pause_after(loop.time() - started))
        intake.close()
        return 0.0 if first is None else loop.time() - first

    async def _chunk(self) -> bytes:
        """The next bytes; empty at the end of input."""
        # Not made non-blocking: the setting would also apply to the writer.
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_reader(self._descriptor, ready.set)
        except PermissionError:
            # /dev/null, which epoll does not accept; a file is a recording (`core.source_spec`).
            return os.read(self._descriptor, CHUNK_BYTES)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)
        return os.read(self._descriptor, CHUNK_BYTES)

    def _report(self, sink: Sink, intake: Intake, state: State, reason: str = "") -> None:
        sink.status(Status(self.node, self.source, state, reason, intake.counts))


def period_of(report: bytes) -> float:
    """The longest period of the groups of a report; at least one second."""
    return max(DEFAULT_PERIOD, longest_period(report))
