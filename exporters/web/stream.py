"""The agent's data for dashboards: `/v1/inventory`, `/v1/frame` and `/v1/stream`.

A view is encoded (`trntop.remote.wire`) once for all clients, and only while there are clients. A
client has no queue: when it is ready for more, it gets the newest frames, preceded by the messages
that they depend on. A slow client misses frames but nothing else.
"""

import asyncio
import contextlib
import math
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from trntop import __version__
from trntop.analysis.rule_inputs import rule_columns
from trntop.core.custom_rule import CustomRule
from trntop.core.model import Coverage, Incident, NodeView, View
from trntop.pipeline.totals import totals_of
from trntop.remote import judges, wire
from trntop.session.incident_log import IncidentLog
from trntop.session.monitor import MAX_NODES

from .. import document
from .negotiation import prefers_json

MAX_STREAMS = 64
KEEPALIVE_SECONDS = 2.0
"""Seconds without a new view after which a stream gets an empty message."""
LOADING_CHECKS, LOADING_CHECK = 80, 0.05
"""How often a request checks whether the history is loaded, and the seconds between checks."""
EMPTY = wire.framed(b"")
JITTER = 0.25
"""Seconds by which a frame may be early if not every view is sent: ticks jitter."""
AGGREGATOR_GRACE = 60.0
"""Seconds for which an aggregator that has disconnected still counts: it may restart."""

JSON = "application/json"
ABOUT = {
    "/v1/inventory": "nodes and their parts, in JSON",
    "/v1/frame": "the newest values, in JSON if Accept asks for it",
    "/v1/stream": "the same at each tick, for trntop and other programs",
    "/v1/history": "the last 15 minutes of the stream, compressed",
}

Latest = Callable[[], View | None]


@dataclass(frozen=True, slots=True)
class _Messages:
    """The newest messages of one node."""

    schema: bytes
    keyframe: bytes
    frame: bytes
    """With its length prefix, added once for all clients."""


class _Feed:
    """The newest messages of all nodes, encoded once for all clients with the same options.

    Args:
        period: seconds between frames.
        columns: the columns of frames; None for all.
        most: number of nodes; with more there are those with incidents, some others, and totals.
        aggregator: whether the nodes are other machines than this one.
        judge: the run that judges the nodes for others; empty if there is none.
    """

    def __init__(
        self,
        period: float,
        columns: frozenset[str] | None,
        most: int,
        *,
        aggregator: bool,
        judge: str,
    ) -> None:
        self.period = period
        self._columns = columns
        self._most = most
        self._aggregator = aggregator
        self._judge = judge
        self._encoders: dict[str, wire.FrameEncoder] = {}
        self.messages: dict[str, _Messages] = {}
        self.totals = b""
        """Those of all nodes, if not all are sent."""
        self.clients = 0
        self._view: View | None = None

    def encode(self, view: View) -> None:
        if view is self._view:
            return
        self._view, nodes = view, self._chosen(view)
        self.totals = b""
        if self._judge and (len(nodes) < len(view.cluster.nodes) or view.cluster.whole is not None):
            self.totals = wire.framed(judges.totals_message(self._judge, totals_of(view.cluster)))
        for name in self.messages.keys() - nodes.keys():
            del self.messages[name], self._encoders[name]
        for name, node in nodes.items():
            encoder = self._encoders.get(name)
            if encoder is None:
                period = min(self.period, wire.MAX_PERIOD)
                encoder = self._encoders[name] = wire.FrameEncoder(
                    name, period, aggregator=self._aggregator, judge=self._judge
                )
            shown = node if self._columns is None else wire.only(node, self._columns)
            _, frame = encoder.messages(shown, len(nodes))
            self.messages[name] = _Messages(*encoder.preface, wire.framed(frame))

    def _chosen(self, view: View) -> Mapping[str, NodeView]:
        """The nodes to send: all, or those with incidents and as many others as before."""
        nodes = view.cluster.nodes
        if len(nodes) <= self._most:
            return nodes
        known = [name for name in self.messages if name in nodes]
        # The others are spread over all racks.
        order = chain(_faulty(view), known, view.cluster.names[:: len(nodes) // self._most], nodes)
        unique = dict.fromkeys(name for name in order if name in nodes)
        return {name: nodes[name] for name in sorted(islice(unique, self._most))}


def _faulty(view: View) -> Iterator[str]:
    """The nodes of open incidents, the worst first."""
    for incident in view.open_incidents:
        for name in (incident.node, *(item.node for item in incident.evidence)):
            if name is not None:
                yield name


@dataclass(slots=True)
class _Client:
    nodes: Collection[str] | None
    """The nodes that it requested; None for all."""
    feed: _Feed
    due: float = -math.inf
    """Earliest time of the view that it gets next."""
    sent: dict[str, _Messages] = field(default_factory=dict)
    generation: int | None = None
    """Generation of the newest view that was sent."""
    incidents: dict[str, bytes] = field(default_factory=dict)
    """The incidents that were sent, by id."""
    log_state: tuple[object, ...] | None = None
    """What else was sent about the incidents; None before the first message."""


class _Stream(StreamingResponse):
    """A stream to one client; calls `on_close` when it ends, even before its first byte."""

    media_type = wire.CONTENT_TYPE

    def __init__(self, content: AsyncIterator[bytes], on_close: Callable[[], None]) -> None:
        # Proxies must not cache or buffer it.
        super().__init__(content, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._on_close = on_close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_close()


class Streams:
    """Sends views to all clients.

    All methods except `publish` run on the server's loop.

    Args:
        latest: returns the newest view, or None if there is none.
        period: seconds between views.
        loading: returns whether views are still of the backfill.
        aggregator: whether the views are of other machines than this one.
        log: the incidents of the day; an aggregator sends its incidents to clients.
        custom_rules: custom rules.
    """

    def __init__(
        self,
        latest: Latest,
        period: float,
        loading: Callable[[], bool] = lambda: False,
        *,
        aggregator: bool = False,
        log: IncidentLog | None = None,
        custom_rules: Iterable[CustomRule] = (),
    ) -> None:
        self._latest = latest
        self._loading = loading
        self._period = period
        self._aggregator = aggregator
        self._log = log
        self.judge = secrets.token_hex(4) if aggregator and log is not None else ""
        """Identifies this run as the judge of its nodes."""
        self._incidents: dict[str, tuple[Incident, bytes]] = {}
        self._logged: tuple[Incident, ...] = ()
        self._aggregator_clients = 0
        self._aggregator_left_at = -AGGREGATOR_GRACE
        self._rule_columns = rule_columns(custom_rules)
        self._feeds: dict[tuple[bool, float, int], _Feed] = {}
        """By whether a feed has only the columns of rules, its period, and its number of nodes."""
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
        """Wakes the streams for a new view; callable from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    @property
    def aggregated(self) -> bool:
        """Whether an aggregator reads the stream."""
        gone = time.monotonic() - self._aggregator_left_at
        return self._aggregator_clients > 0 or gone < AGGREGATOR_GRACE

    def stop(self) -> None:
        """Ends the streams."""
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _inventory(self, request: Request) -> Response:
        streams = {
            "clients": self.clients,
            "skipped_total": self._skipped,
            "aggregated": self.aggregated,
        }
        view = self._latest()
        shown = None if view is None else _only(view, requested_nodes(request))
        inventory = document.inventory(shown, __version__, self._period, streams)
        return Response(document.encode(inventory), media_type=JSON)

    async def _frame(self, request: Request) -> Response:
        if (view := await self._loaded_view()) is None:
            return _unavailable("not collecting")
        vary = {"Vary": "Accept"}
        nodes = requested_nodes(request)
        if prefers_json(",".join(request.headers.getlist("accept"))):
            body = document.encode(document.snapshot(_only(view, nodes)))
            return Response(body, media_type=JSON, headers=vary)
        body = self._chunk(view, _Client(nodes, self._feed(request)))
        return Response(body, media_type=wire.CONTENT_TYPE, headers=vary)

    async def _stream(self, request: Request) -> Response:
        if await self._loaded_view() is None:
            return _unavailable("not collecting")
        if self.clients >= MAX_STREAMS:
            return _unavailable(f"{MAX_STREAMS} streams are open already")
        # Counted before the response begins: many requests may arrive at once.
        self.clients += 1
        self._loop = asyncio.get_running_loop()
        aggregator = request.query_params.get("role") == "aggregator"
        self._aggregator_clients += aggregator
        client = _Client(requested_nodes(request), self._feed(request))
        client.feed.clients += 1
        return _Stream(self._follow(client), lambda: self._release(client, aggregator=aggregator))

    def _feed(self, request: Request) -> _Feed:
        """The feed that a request selects with `?columns=rules`, `?period=SECONDS`, `?most=NODES`.

        An agent sends all nodes, since it does not judge them for others.
        """
        rules_only = request.query_params.get("columns") == "rules"
        seconds = _number(request, "period", 0)
        period = max(self._period, min(seconds, wire.MAX_PERIOD))
        most = _number(request, "most", MAX_NODES) if self.judge else MAX_NODES
        feed = self._feeds.get((rules_only, period, most))
        if feed is None:
            columns = self._rule_columns if rules_only else None
            feed = _Feed(period, columns, most, aggregator=self._aggregator, judge=self.judge)
            self._feeds[rules_only, period, most] = feed
        return feed

    async def _loaded_view(self) -> View | None:
        """The newest view; waits while the backfill is loaded."""
        for _ in range(LOADING_CHECKS):
            if not self._loading() or self._stopping:
                break
            await asyncio.sleep(LOADING_CHECK)
        return self._latest()

    def _release(self, client: _Client, *, aggregator: bool) -> None:
        self.clients -= 1
        client.feed.clients -= 1
        if not client.feed.clients:
            self._feeds = {key: feed for key, feed in self._feeds.items() if feed.clients}
        if aggregator:
            self._aggregator_clients -= 1
            self._aggregator_left_at = time.monotonic()

    async def _follow(self, client: _Client) -> AsyncIterator[bytes]:
        """The messages for one client, until there are no more views."""
        while (view := self._latest()) is not None and not self._stopping:
            changed = self._changed
            if view.ended or not 0 <= client.due - view.time <= client.feed.period:
                yield self._chunk(view, client) or EMPTY
                if client.feed.period > self._period:
                    client.due = view.time + client.feed.period - JITTER
            # A view that has ended is repeated, so that it does not turn stale.
            timeout = min(KEEPALIVE_SECONDS, self._period) if view.ended else KEEPALIVE_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await changed.wait()

    def _encode_incidents(self) -> None:
        log = self._log
        if log is not None and self.judge and log.incidents is not self._logged:
            self._logged, before = log.incidents, self._incidents
            self._incidents = {}
            for incident in self._logged:
                known = before.get(incident.id)
                if known is None or known[0] != incident:
                    known = incident, judges.encoded(incident)
                self._incidents[incident.id] = known

    def _judgment(self, client: _Client, view: View) -> list[bytes]:
        """The messages on incidents that a client needs now."""
        if (log := self._log) is None:
            return []
        coverage = view.coverage if self.judge else Coverage()
        current = (log.since, round(log.behind), self.aggregated, coverage)
        sent, incidents = client.incidents, self._incidents
        changed = [data for key, (_, data) in incidents.items() if sent.get(key) is not data]
        gone = sent.keys() - incidents.keys()
        if not changed and not gone and current == client.log_state:
            return []
        first, client.log_state = client.log_state is None, current
        client.incidents = {key: data for key, (_, data) in incidents.items()}
        since, behind, aggregated, _ = current
        found = judges.messages(
            self.judge, view.time, since, behind, aggregated=aggregated, first=first,
            changed=changed, gone=gone, coverage=coverage,
        )  # fmt: skip
        return list(map(wire.framed, found))

    def _chunk(self, view: View, client: _Client) -> bytes:
        """The messages that a client needs now; none if it has the newest view."""
        generation, before = view.generation, client.generation
        if generation == before and not view.ended:
            return b""
        if before is not None:
            self._skipped += max(0, generation - before - round(client.feed.period / self._period))
        client.generation = generation
        client.feed.encode(view)
        self._encode_incidents()
        parts = [*self._judgment(client, view), client.feed.totals]
        known = client.feed.messages
        for name, messages in known.items():
            if client.nodes is not None and name not in client.nodes:
                continue
            sent = client.sent.get(name)
            # By identity: a message that was encoded again is sent again.
            if sent is None or sent.schema is not messages.schema:
                parts += (wire.framed(messages.schema), wire.framed(messages.keyframe))
            elif sent.keyframe is not messages.keyframe:
                parts.append(wire.framed(messages.keyframe))
            parts.append(messages.frame)
            client.sent[name] = messages
        for name in client.sent.keys() - known.keys():
            parts.append(wire.framed(wire.gone(name)))
            del client.sent[name]
        return b"".join(parts)


def requested_nodes(request: Request) -> frozenset[str] | None:
    """The nodes in `?nodes=a,b`; None for all."""
    names = request.query_params.getlist("nodes")
    return frozenset(",".join(names).split(",")) if names else None


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 else default


def _only(view: View, names: Collection[str] | None) -> View:
    if names is None:
        return view
    nodes = {name: node for name, node in view.cluster.nodes.items() if name in names}
    return replace(view, cluster=replace(view.cluster, nodes=nodes))


def _unavailable(reason: str) -> Response:
    return PlainTextResponse(f"{reason}\n", 503, {"Retry-After": "10"})
