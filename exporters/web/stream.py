"""The agent's data for dashboards: `/v1/inventory`, `/v1/frame` and `/v1/stream`.

A view is encoded (`trntop.remote.wire`) once for all clients, and only while there are clients. A
client has no queue: when it is ready for more it gets the newest frames, and before them the
messages that they depend on. A slow client loses frames, and nothing else.
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
from .negotiation import prefers_json

MAX_STREAMS = 64
REST_SECONDS = 2.0
"""A stream without a new view for so long gets an empty message, as a sign of life."""
MAX_PERIOD = 60.0
"""Limit of the seconds between frames that is announced."""
EMPTY = wire.framed(b"")

JSON = "application/json"
ABOUT = {
    "/v1/inventory": "nodes and their parts, in JSON",
    "/v1/frame": "the newest values, in JSON if Accept asks for it",
    "/v1/stream": "the same each tick, for trntop and other programs",
}

Latest = Callable[[], View | None]


@dataclass(frozen=True, slots=True)
class _Messages:
    """The newest messages of one node."""

    announcement: bytes
    keyframe: bytes
    frame: bytes
    """With its length: all clients get it."""


@dataclass(slots=True)
class _Client:
    nodes: Collection[str] | None
    """The nodes it asked for; None for all."""
    sent: dict[str, _Messages] = field(default_factory=dict)
    generation: int | None = None
    """Of the newest view that was sent."""


class _Stream(StreamingResponse):
    """A stream to one client; `at_end` is called when it is over, even before its first byte."""

    media_type = wire.CONTENT_TYPE

    def __init__(self, content: AsyncIterator[bytes], at_end: Callable[[], None]) -> None:
        # Proxies are not to cache or buffer it.
        super().__init__(content, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._at_end = at_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._at_end()


class Streams:
    """Views as messages for all clients.

    Its methods except `publish` run on the server's loop.

    Args:
        latest: returns the newest view, or None without one.
        period: seconds between views.
        relay: whether the views are of other machines than this one.
    """

    def __init__(self, latest: Latest, period: float, *, relay: bool = False) -> None:
        self._latest = latest
        self._period = period
        self._relay = relay
        self._encoders: dict[str, wire.FrameEncoder] = {}
        self._messages: dict[str, _Messages] = {}
        self._view: View | None = None
        self.clients = 0
        self._skipped = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        self._stopping = False

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/v1/inventory", self._inventory),
            Route("/v1/frame", self._frame),
            Route("/v1/stream", self._stream),
        ]

    def publish(self, view: View) -> None:
        """Wakes the streams for a new view; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def stop(self) -> None:
        """Ends the streams."""
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _inventory(self, request: Request) -> Response:
        streams = {"clients": self.clients, "skipped_total": self._skipped}
        view = self._latest()
        shown = None if view is None else _only(view, _requested_nodes(request))
        inventory = document.inventory(shown, __version__, self._period, streams)
        return Response(document.encode(inventory), media_type=JSON)

    async def _frame(self, request: Request) -> Response:
        if (view := self._latest()) is None:
            return _unavailable("not collecting")
        vary = {"Vary": "Accept"}
        nodes = _requested_nodes(request)
        if prefers_json(",".join(request.headers.getlist("accept"))):
            body = document.encode(document.snapshot(_only(view, nodes)))
            return Response(body, media_type=JSON, headers=vary)
        self._encode(view)
        return Response(
            self._chunk(view, _Client(nodes)), media_type=wire.CONTENT_TYPE, headers=vary
        )

    async def _stream(self, request: Request) -> Response:
        if self._latest() is None:
            return _unavailable("not collecting")
        if self.clients >= MAX_STREAMS:
            return _unavailable(f"{MAX_STREAMS} streams are open already")
        # Counted before the response begins: many requests may come at once.
        self.clients += 1
        self._loop = asyncio.get_running_loop()
        return _Stream(self._follow(_Client(_requested_nodes(request))), self._release)

    def _release(self) -> None:
        self.clients -= 1

    async def _follow(self, client: _Client) -> AsyncIterator[bytes]:
        """The messages for one client, until there are no more views."""
        while (view := self._latest()) is not None and not self._stopping:
            changed = self._changed
            self._encode(view)
            yield self._chunk(view, client) or EMPTY
            # A view that has ended is repeated, so that it does not turn stale.
            rest = min(REST_SECONDS, self._period) if view.ended else REST_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await changed.wait()

    def _encode(self, view: View) -> None:
        if view is self._view:
            return
        nodes = view.cluster.nodes
        for name in self._messages.keys() - nodes.keys():
            del self._messages[name], self._encoders[name]
        for name, node in nodes.items():
            encoder = self._encoders.get(name)
            if encoder is None:
                period = min(self._period, MAX_PERIOD)
                encoder = self._encoders[name] = wire.FrameEncoder(name, period, relay=self._relay)
            _, frame = encoder.messages(node, len(nodes))
            self._messages[name] = _Messages(*encoder.preface, wire.framed(frame))
        self._view = view

    def _chunk(self, view: View, client: _Client) -> bytes:
        """The messages that a client needs now; none if it has the newest view."""
        generation, before = view.generation, client.generation
        if generation == before and not view.ended:
            return b""
        if before is not None:
            self._skipped += max(0, generation - before - 1)
        client.generation = generation
        parts: list[bytes] = []
        for name, messages in self._messages.items():
            if client.nodes is not None and name not in client.nodes:
                continue
            sent = client.sent.get(name)
            # By identity: a message that was encoded again is sent again.
            if sent is None or sent.announcement is not messages.announcement:
                parts += (wire.framed(messages.announcement), wire.framed(messages.keyframe))
            elif sent.keyframe is not messages.keyframe:
                parts.append(wire.framed(messages.keyframe))
            parts.append(messages.frame)
            client.sent[name] = messages
        for name in client.sent.keys() - self._messages.keys():
            parts.append(wire.framed(wire.gone(name)))
            del client.sent[name]
        return b"".join(parts)


def _requested_nodes(request: Request) -> frozenset[str] | None:
    """The nodes in `?nodes=a,b`; None for all."""
    names = request.query_params.getlist("nodes")
    return frozenset(",".join(names).split(",")) if names else None


def _only(view: View, names: Collection[str] | None) -> View:
    if names is None:
        return view
    nodes = {name: node for name, node in view.cluster.nodes.items() if name in names}
    return replace(view, cluster=replace(view.cluster, nodes=nodes))


def _unavailable(reason: str) -> Response:
    return PlainTextResponse(f"{reason}\n", 503, {"Retry-After": "10"})
