"""From chunks of bytes to the newest report."""

import asyncio
import contextlib
from collections.abc import Callable

from trntop.recording.framing import Framer


class Intake:
    """Cuts a stream into reports and holds the newest one until it is taken.

    A queue would only make what is shown older: there is one place, and a report that is
    replaced in it counts as dropped.

    Args:
        now: the time of arrival of a report.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.arrived = asyncio.Event()
        """Set when there may be a report, and at the end."""
        self._now = now
        self._framer = Framer()
        self._reports = 0
        self._dropped = 0
        self._unfinished = 0
        self._newest: tuple[float, bytes] | None = None

    @property
    def counts(self) -> dict[str, int]:
        """Totals: `reports`, those `dropped`, parts `skipped`, `oversize` parts."""
        return {
            "reports": self._reports,
            "dropped": self._dropped,
            "skipped": self._framer.skipped + self._unfinished,
            "oversize": self._framer.oversize,
        }

    async def wait(self, seconds: float) -> bool:
        """Whether there may be a report within `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.arrived.wait()
        return self.arrived.is_set()

    def feed(self, chunk: bytes) -> None:
        """Adds the next bytes of the stream."""
        self._keep(self._framer.feed(chunk))

    def close(self) -> None:
        """Ends the stream; another stream may follow."""
        self._framer.partial = 0
        self._keep(self._framer.close())
        self._unfinished += bool(self._framer.partial)
        self.arrived.set()

    def pop_newest(self) -> tuple[float, bytes] | None:
        """Time and bytes of the newest report, once; None if there is no new one."""
        newest, self._newest = self._newest, None
        return newest

    def _keep(self, reports: list[bytes]) -> None:
        if reports:
            self._reports += len(reports)
            self._dropped += len(reports) - (self._newest is None)
            self._newest = (self._now(), reports[-1])
            self.arrived.set()
