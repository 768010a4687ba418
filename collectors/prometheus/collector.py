"""One engine: asks, hands on what an agent of each node would say, and waits.

Each refresh is one instant of the server's time for all its questions. While there is no answer,
the screen keeps what it has, with its age. The node that the user looks at is asked for whole, as
soon as the cursor rests on it, and no longer than that.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from trntop.catalog import PROMETHEUS
from trntop.collectors.backoff import Backoff
from trntop.core.model import State
from trntop.core.settings import Fleet
from trntop.session.collector import Sink

from .address import Address
from .capabilities import Capabilities
from .client import BackendError, Client, Trouble
from .native_schema import NativeSchema
from .probe import probe
from .publisher import Publisher
from .query_client import QueryClient
from .selectors import Scope
from .vendor_schema import VendorSchema

log = logging.getLogger(__name__)

LEAST_REFRESH = 5.0
"""Seconds between refreshes, at least; more where samples come less often."""
PROBE_EVERY = 600.0
"""Seconds after which the server is looked at again: rules may have been added."""
REST = 0.08
"""Seconds that a cursor has to rest on a node before all of it is asked for."""


class PrometheusCollector:
    """All nodes of one engine.

    Args:
        address: where it is, and what is asked of it.
        fleet: how it is reached.
        least: seconds between refreshes, at least.
        wall: unix seconds of this machine.
    """

    source = PROMETHEUS

    def __init__(
        self,
        address: Address,
        fleet: Fleet,
        least: float = LEAST_REFRESH,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.node = address.name
        self._scope = Scope(address.match)
        self._least = least
        self._client = Client(address, fleet)
        self.query_client = QueryClient(self._client, wall)
        self._probed_at: float | None = None
        self._found: Capabilities | None = None
        """Without its interval, with which nothing begins anew."""
        self._way: NativeSchema | VendorSchema | None = None
        self._focus: str | None = None
        self._turned = asyncio.Event()

    def set_focus(self, node: str | None) -> None:
        """Tells all of this node from now on, and of the one before no more than of others."""
        self._focus = node
        self._turned.set()

    async def run(self, sink: Sink) -> None:
        """Refreshes until cancelled."""
        publisher = Publisher(self.node, self.query_client, sink)
        backoff = Backoff(first=1.0, longest=30.0)
        watch = asyncio.create_task(self._watch(publisher))
        try:
            while True:
                began = self.query_client.wall()
                try:
                    await self._refresh(publisher)
                    pause = max(0.0, publisher.pause - (self.query_client.wall() - began))
                    backoff = Backoff(first=1.0, longest=30.0)
                except BackendError as error:
                    pause = backoff.wait(0.0) if error.wait is None else error.wait
                    publisher.report(State.DOWN, f"{error} (again in {pause:.0f} s)")
                    if error.kind in (Trouble.BAD_QUERY, Trouble.NO_BACKEND):
                        self._probed_at = None  # it may be another server by now
                await asyncio.sleep(pause)
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            await self._client.close()

    async def _refresh(self, publisher: Publisher) -> None:
        at = self.query_client.begin()
        if self._way is None or self._probed_at is None or at - self._probed_at > PROBE_EVERY:
            found = await probe(self._client, self._scope, at)
            at = self._probed_at = self.query_client.begin()
            if self._way is None or self._found != replace(found, interval=0.0):
                kind = NativeSchema if found.own else VendorSchema
                self._way = kind(self.query_client, publisher, self._scope, found)
                self._found = replace(found, interval=0.0)
            self._way.set_interval(found.interval)
            publisher.interval = found.interval
            publisher.pause = max(found.interval, self._least)
        await self._way.refresh(at, self._focus)
        self._turned.set()

    async def _watch(self, publisher: Publisher) -> None:
        """Keeps one node told whole: that which is looked at, anew with each refresh."""
        drilling: asyncio.Task[None] | None = None
        asked: str | None = None
        try:
            while True:
                await self._turned.wait()
                self._turned.clear()
                if drilling is not None and (self._focus != asked or drilling.done()):
                    await _ended(drilling)
                    drilling = None
                if self._focus not in publisher.nodes:
                    publisher.whole = asked = None
                elif drilling is None:
                    rest = 0.0 if self._focus == asked else REST
                    if self._focus != asked:
                        publisher.whole = None
                    asked = self._focus
                    drilling = asyncio.create_task(self._drill(publisher, asked, rest))
        finally:
            if drilling is not None:
                await _ended(drilling)

    async def _drill(self, publisher: Publisher, name: str | None, rest: float) -> None:
        await asyncio.sleep(rest)
        node = publisher.nodes.get(name or "")
        if node is None or self._way is None:
            return
        try:
            await self._way.drill(node, self.query_client.now())
        except* BackendError as group:
            publisher.report_partial(node, str(group.exceptions[0]))
        except* Exception as group:
            # A defect must cost one node's details, not the refresh.
            log.exception("asking for all of %s failed", node.name)
            publisher.report_partial(node, f"internal error: {type(group.exceptions[0]).__name__}")


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(task, return_exceptions=True)
