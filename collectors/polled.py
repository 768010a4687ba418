"""Sources that are read at an interval, each in its own thread."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable

from trntop.core.model import Reading, State, Status
from trntop.session.collector import Sink

from .file_events import FileEvents
from .worker import Caller, StuckError, Worker

log = logging.getLogger(__name__)


class AbsentError(Exception):
    """The machine does not have the source.

    Args:
        found: the reason.
        remedy: the action.
    """

    def __init__(self, found: str, remedy: str = "") -> None:
        super().__init__(f"{found}; {remedy}" if remedy else found)
        self.found = found
        self.remedy = remedy


class Polled:
    """A collector that calls `read` every `period` seconds and passes on its payload.

    Reads that are due during another read are skipped.

    Args:
        node: name of this machine.
        source: name of the source.
        read: returns the payload; called in a worker thread. Raises AbsentError if the machine does
            not have the source.
        period: seconds between reads.
        deadline: seconds after which a read counts as stuck.
        retry_interval: seconds between reads of an absent source.
        worker: calls `read`; None for a thread of this process.
        events: files whose changes cause a read at once.
    """

    def __init__(
        self,
        node: str,
        source: str,
        read: Callable[[], bytes],
        period: float,
        *,
        deadline: float = 5.0,
        retry_interval: float = 30.0,
        worker: Caller | None = None,
        events: FileEvents | None = None,
    ) -> None:
        self.node = node
        self.source = source
        self._read = read
        self._period = period
        self._deadline = deadline
        self._retry_interval = retry_interval
        self._worker = worker or Worker(f"trntop {source}")
        self._events = events
        self._counts = Counter(skipped=0, stuck=0)
        self._stuck_since: float | None = None

    async def run(self, sink: Sink) -> None:
        """Reads until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        try:
            while True:
                interval = await self._read_once(sink)
                late = loop.time() - due
                intervals = max(1, math.ceil(late / interval))
                self._counts["skipped"] += intervals - 1
                due += intervals * interval
                if self._events is None:
                    await asyncio.sleep(due - loop.time())
                elif await self._events.wait(due - loop.time()):
                    due = loop.time()
        finally:
            self._worker.close()
            if self._events is not None:
                self._events.close()

    async def _read_once(self, sink: Sink) -> float:
        """Reads once; returns the seconds from its start to the next read."""
        loop = asyncio.get_running_loop()
        started, began = loop.time(), sink.now()
        try:
            payload = await self._worker.call(self._read, self._deadline)
        except StuckError:
            if self._stuck_since is None:
                self._stuck_since = started
                self._counts["stuck"] += 1
            stuck = loop.time() - self._stuck_since
            self._report(
                sink,
                State.DOWN,
                f"{self.source}: no response for {stuck:.0f} s (a read blocks in the kernel)",
            )
            return self._period
        except (AbsentError, OSError) as error:
            self._stuck_since = None
            self._report(sink, State.DOWN, getattr(error, "strerror", None) or str(error))
            return self._retry_interval
        except Exception as error:  # a bug in a reader must not end the collector
            log.exception("reading %s", self.source)
            self._stuck_since = None
            self._report(sink, State.DOWN, f"internal error: {type(error).__name__}")
            return self._retry_interval
        self._stuck_since = None
        sink.reading(Reading(self.node, self.source, began, payload))
        self._report(sink, State.FRESH)
        return self._period

    def _report(self, sink: Sink, state: State, reason: str = "") -> None:
        sink.status(Status(self.node, self.source, state, reason, dict(self._counts)))
