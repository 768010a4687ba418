"""The loop of a Prometheus backend: probe, refresh, and the selected node.

All queries of a refresh are for the same time of the server. After a failed refresh the previous
values remain, with their age. The selected node is queried in full.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from trntop.catalog import PROMETHEUS
from trntop.core.model import State
from trntop.core.settings import Fleet
from trntop.session.collector import Sink

from ..backoff import Backoff
from .address import Address
from .client import BackendError, Client
from .publisher import Publisher
from .queries import probe
from .refresh import Refresher

log = logging.getLogger(__name__)

MIN_REFRESH = 5.0
"""Minimum seconds between refreshes; more if the scrape interval is longer."""
PROBE_INTERVAL = 600.0
"""Seconds between probes, which detect newly loaded rules."""
SELECT_SECONDS = 0.08
"""Seconds for which a node must be selected before it is queried in full."""


class PrometheusCollector:
    """All nodes of one backend.

    Args:
        address: address of the backend.
        fleet: the settings.
        min_refresh: minimum seconds between refreshes.
        wall: returns the unix time of this machine.
    """

    source = PROMETHEUS

    def __init__(
        self,
        address: Address,
        fleet: Fleet,
        min_refresh: float = MIN_REFRESH,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.node = address.name
        self._match = address.match
        self._min_refresh = min_refresh
        self._client = Client(address, fleet, wall)
        self._probed_at: float | None = None
        self._refresher: Refresher | None = None
        self._focus: str | None = None
        self._changed = asyncio.Event()
        """Set by a new selection and by each refresh."""

    def set_focus(self, node: str | None) -> None:
        """See `FocusAware`."""
        self._focus = node
        self._changed.set()

    async def run(self, sink: Sink) -> None:
        """Refreshes until cancelled."""
        publisher = Publisher(self.node, self._client, sink)
        backoff = Backoff(first=1.0, longest=30.0)
        details = asyncio.create_task(self._follow_focus(publisher))
        try:
            while True:
                start = self._client.wall()
                try:
                    await self._refresh(publisher)
                    pause = max(0.0, publisher.pause - (self._client.wall() - start))
                    backoff = Backoff(first=1.0, longest=30.0)
                except BackendError as error:
                    pause = backoff.wait(0.0) if error.wait is None else error.wait
                    publisher.report(State.DOWN, f"{error} (retry in {pause:.0f} s)")
                    if error.reprobe:
                        self._probed_at = None
                await asyncio.sleep(pause)
        finally:
            await _cancel(details)
            await self._client.close()

    async def _refresh(self, publisher: Publisher) -> None:
        at = self._client.now()
        self._client.notes = []
        if self._probed_at is None or at - self._probed_at > PROBE_INTERVAL:
            queries = await probe(self._client, self._match, at)
            at = self._probed_at = self._client.now()
            if self._refresher is None or not self._refresher.supports(queries):
                self._refresher = Refresher(self._client, publisher, queries)
            publisher.interval = queries.interval
            publisher.pause = max(queries.interval, self._min_refresh)
        assert self._refresher is not None
        await self._refresher.refresh(at, self._focus)
        self._changed.set()

    async def _follow_focus(self, publisher: Publisher) -> None:
        """Queries the selected node in full, and again with each refresh."""
        task: asyncio.Task[None] | None = None
        current: str | None = None
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                if task is not None and (self._focus != current or task.done()):
                    await _cancel(task)
                    task = None
                if self._focus not in publisher.nodes:
                    publisher.full = current = None
                elif task is None:
                    delay = 0.0 if self._focus == current else SELECT_SECONDS
                    if self._focus != current:
                        publisher.full = None
                    current = self._focus
                    task = asyncio.create_task(self._refresh_node(publisher, current, delay))
        finally:
            if task is not None:
                await _cancel(task)

    async def _refresh_node(self, publisher: Publisher, name: str | None, delay: float) -> None:
        await asyncio.sleep(delay)
        node = publisher.nodes.get(name or "")
        if node is None or self._refresher is None:
            return
        try:
            await self._refresher.refresh_node(node, self._client.now())
        except BackendError as error:
            publisher.report_partial(node, str(error))
        except Exception as error:  # only affects this node
            log.exception("querying %s failed", node.name)
            publisher.report_partial(node, f"internal error: {type(error).__name__}")


async def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(task, return_exceptions=True)
