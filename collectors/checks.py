"""The probes of the newest check on this machine, for a dashboard that runs on the same machine.

`trntop check` saves them as a recording (`trntop.check.readings.newest_file`). The file is polled;
the probes that are not stale yet are passed on for the nodes that the dashboard shows, as if those
had probed themselves.
"""

import asyncio
import contextlib
from collections.abc import Container
from pathlib import Path

from trntop.catalog import PROBE
from trntop.core.errors import TrntopError
from trntop.core.model import Reading, View
from trntop.recording.reader import open_recording
from trntop.session.collector import Sink
from trntop.sources import STALE_AFTER

from .worker import StuckError, Worker

PERIOD = 5.0
"""Seconds between polls."""
DEADLINE = 5.0


class SavedCheck:
    """The probes of the newest check, each once.

    It is also subscribed to the session's views: a check adds no nodes to a dashboard.

    Args:
        path: the recording.
        period: seconds between polls.
    """

    node = ""
    source = PROBE

    def __init__(self, path: Path, period: float = PERIOD) -> None:
        self._path = path
        self._shown: Container[str] = ()
        self._period = period
        self._modified = 0
        self._waiting: list[Reading] = []

    def __call__(self, view: View) -> None:
        self._shown = view.cluster.nodes

    async def run(self, sink: Sink) -> None:
        worker = Worker("trntop checks")
        try:
            while True:
                # The dashboard works without a check.
                with contextlib.suppress(StuckError, OSError, TrntopError):
                    await worker.call(self._read, DEADLINE)
                self._pass_on(sink)
                await asyncio.sleep(self._period)
        finally:
            worker.close()

    def _read(self) -> None:
        """Reads a new file; in a thread."""
        modified = self._path.stat().st_mtime_ns
        if modified != self._modified:
            self._modified = modified
            self._waiting = list(open_recording(self._path))

    def _pass_on(self, sink: Sink) -> None:
        """Readings that are not stale, of nodes that are shown; the others may join later."""
        oldest, shown = sink.now() - STALE_AFTER[PROBE], self._shown
        fresh = [reading for reading in self._waiting if reading.time > oldest]
        self._waiting = [reading for reading in fresh if reading.node not in shown]
        for reading in fresh:
            if reading.node in shown:
                sink.reading(reading)
