"""Probes of the newest check that was kept on this machine, for a dashboard that runs beside it.

`trntop check` keeps its results (`trntop.check.kept`). The folder is looked at now and then; what a
check that is still fresh probed is handed over for the nodes that the dashboard shows, as if those
had probed it themselves.
"""

import asyncio
import contextlib
from collections.abc import Container
from pathlib import Path

from trntop.catalog import PROBE
from trntop.check import kept
from trntop.check.readings import readings
from trntop.core.errors import UsageError
from trntop.core.model import Reading, View
from trntop.session.collector import Sink
from trntop.sources import STALE_AFTER

from .worker import StuckError, Worker

PERIOD = 5.0
"""Seconds between looks."""
DEADLINE = 5.0


class KeptChecks:
    """Gives the probes of the newest check, once.

    It is to be subscribed to the session's views besides: nodes that the session does not show are
    not made up for a check's sake.

    Args:
        folder: where results are kept.
        period: seconds between looks.
    """

    node = ""
    source = PROBE

    def __init__(self, folder: Path, period: float = PERIOD) -> None:
        self._folder = folder
        self._shown: Container[str] = ()
        self._period = period
        self._newest: Path | None = None
        self._waiting: list[Reading] = []

    def __call__(self, view: View) -> None:
        """Takes which nodes are shown."""
        self._shown = view.cluster.nodes

    async def run(self, sink: Sink) -> None:
        """Looks until cancelled."""
        worker = Worker("trntop checks")
        try:
            while True:
                # A result that cannot be read is none: nobody waits for it here.
                with contextlib.suppress(StuckError, OSError, UsageError):
                    await worker.call(self._look, DEADLINE)
                self._hand_over(sink)
                await asyncio.sleep(self._period)
        finally:
            worker.close()

    def _look(self) -> None:
        """Reads a result that was not there before; in a thread."""
        newest = kept.newest(self._folder)
        if newest is not None and newest != self._newest:
            self._newest = newest
            self._waiting = list(readings(kept.read(newest)))

    def _hand_over(self, sink: Sink) -> None:
        """What is fresh, and of nodes that are shown; the others may join yet."""
        oldest, shown = sink.now() - STALE_AFTER[PROBE], self._shown
        fresh = [one for one in self._waiting if one.time > oldest]
        self._waiting = [one for one in fresh if one.node not in shown]
        for one in fresh:
            if one.node in shown:
                sink.reading(one)
