"""What the agent tells those who watch: `/v1/inventory`, `/v1/frame` and `/v1/stream`.

A view is put into messages (`trntop.remote.wire`) once, whoever listens, and only while somebody
does. A client has no queue: when it is ready for more it gets the newest frames, and before them
whatever it has not heard yet that they need. One that is slow loses frames, and nothing else.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field, replace

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from trntop import __version__
from trntop.core.model import View
from trntop.remote import wire

from .. import document
from .connection import Ongoing
from .negotiation import prefers_json

MAX_STREAMS = 64
"""Clients at a time; a dashboard is one."""
REST_SECONDS = 2.0
"""After so long without a new view something is said all the same."""
MAX_PERIOD = 60.0
"""Seconds between frames that are announced, at most."""
NOTHING = wire.framed(b"")
"""Says that the agent lives."""

JSON = "application/json"
ABOUT = {
    "/v1/inventory": "what there is, in JSON",
    "/v1/frame": "the newest values, in JSON if Accept says so",
    "/v1/stream": "the same each tick, for trntop and its like",
}
_RETRY = {"Retry-After": "10"}

Latest = Callable[[], View | None]


@dataclass(frozen=True, slots=True)
class _Said:
    """One node's newest messages."""

    announcement: bytes
    held: bytes
    frame: bytes
    """Behind its length already: all get it."""


@dataclass(slots=True)
class _Client:
    """What one of those who listen has heard so far."""

    nodes: Collection[str] | None
    """Those that it wants; None for all."""
    heard: dict[str, _Said] = field(default_factory=dict)
    generation: int | None = None
    """Of the newest view that it was told of."""


class _Stream(StreamingResponse):
    """A stream to one client.

    Args:
        content: what it is told.
        at_end: called when it is over, however far it came.
    """

    media_type = wire.CONTENT_TYPE

    def __init__(self, content: AsyncIterator[bytes], at_end: Callable[[], None]) -> None:
        # Whoever stands in between is not to keep it, nor to wait until there is more.
        super().__init__(content, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._at_end = at_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it until its end."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._at_end()


class Streams:
    """Views as messages, for all who listen.

    Its methods but `publish` run on the server's loop.

    Args:
        latest: gives the newest view, or None when there is none (any more).
        period: seconds between views.
        relay: whether the views are of other machines than this one.
    """

    def __init__(self, latest: Latest, period: float, *, relay: bool = False) -> None:
        self._latest = latest
        self._period = period
        self._relay = relay
        self._speakers: dict[str, wire.FrameEncoder] = {}
        self._said: dict[str, _Said] = {}
        self._view: View | None = None
        self.clients = 0
        """Those who listen now."""
        self._skipped = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()

    @property
    def routes(self) -> list[Route]:
        """The pages."""
        return [
            Route("/v1/inventory", self._inventory),
            Route("/v1/frame", self._frame),
            Route("/v1/stream", self._stream),
        ]

    def publish(self, view: View) -> None:
        """There is a new view; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _inventory(self, request: Request) -> Response:
        streams = {"clients": self.clients, "skipped_total": self._skipped}
        view = self._latest()
        shown = None if view is None else _only(view, _wanted(request))
        told = document.inventory(shown, __version__, self._period, streams)
        return Response(document.encode(told), media_type=JSON)

    async def _frame(self, request: Request) -> Response:
        if (view := self._latest()) is None:
            return _unavailable("not collecting")
        vary = {"Vary": "Accept"}
        if prefers_json(",".join(request.headers.getlist("accept"))):
            body = document.encode(document.snapshot(_only(view, _wanted(request))))
            return Response(body, media_type=JSON, headers=vary)
        self._renew(view)
        body = self._chunk(_Client(_wanted(request)))
        return Response(body, media_type=wire.CONTENT_TYPE, headers=vary)

    async def _stream(self, request: Request) -> Response:
        if self._latest() is None:
            return _unavailable("not collecting")
        if self.clients >= MAX_STREAMS:
            return _unavailable(f"{MAX_STREAMS} clients are listening already")
        # Counted here, not once the response begins: many may ask in one moment.
        self.clients += 1
        self._loop = asyncio.get_running_loop()
        ongoing: Ongoing | None = request.scope.get("state", {}).get("ongoing")
        return _Stream(self._follow(_Client(_wanted(request)), ongoing), self._left)

    def _left(self) -> None:
        self.clients -= 1

    async def _follow(self, client: _Client, ongoing: Ongoing | None) -> AsyncIterator[bytes]:
        """What one client is told, as long as there is anything to tell."""
        rest = min(REST_SECONDS, self._period)
        while (view := self._latest()) is not None:
            changed = self._changed
            self._renew(view)
            yield self._chunk(client, again=view.ended) or NOTHING
            if ongoing is not None:
                ongoing.taken()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest if view.ended else REST_SECONDS):
                    await changed.wait()

    def _renew(self, view: View) -> None:
        """Puts a view into messages, if it is a new one."""
        if view is self._view:
            return
        nodes = view.cluster.nodes
        for name in self._said.keys() - nodes.keys():
            del self._said[name], self._speakers[name]
        for name, node in nodes.items():
            speaker = self._speakers.get(name)
            if speaker is None:
                period = min(self._period, MAX_PERIOD)
                speaker = self._speakers[name] = wire.FrameEncoder(name, period, relay=self._relay)
            _, frame = speaker.messages(node, len(nodes))
            self._said[name] = _Said(*speaker.preface, wire.framed(frame))
        self._view = view

    def _chunk(self, client: _Client, *, again: bool = False) -> bytes:
        """What a client has to hear now: nothing, if it has heard it all and not `again`."""
        assert self._view is not None
        generation, before = self._view.generation, client.generation
        if generation == before and not again:
            return b""
        if before is not None:
            self._skipped += max(0, generation - before - 1)
        client.generation = generation
        parts: list[bytes] = []
        for name, said in self._said.items():
            if client.nodes is not None and name not in client.nodes:
                continue
            heard = client.heard.get(name)
            # By identity: what is said again after a while is to be heard again.
            if heard is None or heard.announcement is not said.announcement:
                parts += (wire.framed(said.announcement), wire.framed(said.held))
            elif heard.held is not said.held:
                parts.append(wire.framed(said.held))
            parts.append(said.frame)
            client.heard[name] = said
        for name in client.heard.keys() - self._said.keys():
            parts.append(wire.framed(wire.gone(name)))
            del client.heard[name]
        return b"".join(parts)


def _wanted(request: Request) -> frozenset[str] | None:
    """The nodes that a client asks for by `?nodes=a,b`; None for all."""
    asked = request.query_params.getlist("nodes")
    return frozenset(",".join(asked).split(",")) if asked else None


def _only(view: View, nodes: Collection[str] | None) -> View:
    """A view without the nodes that were not asked for; None asks for all."""
    if nodes is None:
        return view
    left = {name: node for name, node in view.cluster.nodes.items() if name in nodes}
    return replace(view, cluster=replace(view.cluster, nodes=left))


def _unavailable(reason: str) -> Response:
    return PlainTextResponse(f"{reason}\n", 503, _RETRY)
