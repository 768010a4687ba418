"""One connection: HTTP with deadlines, behind TLS where that is wanted, and never too many."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Protocol

from ._uvicorn import HttpProtocol, open_connections

HEAD_SECONDS = 10.0
"""How long a client may take to shake hands, and to send a request's head."""
READ_SECONDS = 30.0
"""How long it may take to read a response; one that goes on for ever, a part of it."""
LINGER_SECONDS = 1.0
"""How long it may go on sending a request that was refused, so that it sees the refusal."""
MAX_HEAD_BYTES = 32 << 10
"""Longest head of a request."""
MAX_PLAIN = 4096
MAX_TLS = 512
"""Open connections. A quarter of a mebibyte is kept for each with TLS."""


class Secured(Protocol):
    """What decides about TLS; see `access.Access`."""

    def context(self) -> ssl.SSLContext | None:
        """What a new connection shakes hands with; None for a plain one."""

    def admits(self, connection: ssl.SSLObject) -> bool:
        """Whether a client that has shaken hands may go on."""


class Crowd:
    """The open connections. When there are too many, the one that asked longest ago goes.

    So nobody keeps others out by opening many and letting them rest.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[asyncio.Transport, None] = {}

    def note(self, transport: asyncio.Transport) -> None:
        """A connection was opened, or asks something."""
        self._open.pop(transport, None)
        self._open[transport] = None
        if len(self._open) > self._most:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.abort()

    def forget(self, transport: asyncio.Transport) -> None:
        """A connection was closed."""
        self._open.pop(transport, None)


class Ongoing(Protocol):
    """A response that has no end, such as a stream; handlers find it as `state["ongoing"]`."""

    def taken(self) -> None:
        """The client took what it was sent, and may wait for more."""


class HttpConnection(HttpProtocol):
    """uvicorn's HTTP, with deadlines for what the client does.

    uvicorn only limits the rest between requests: a client that connects and sends nothing, or
    does not read its response, would hold the connection for ever.
    """

    _deadline: asyncio.TimerHandle | None = None
    _refused = False
    _goes_on = False

    def __init__(self, *, crowd: Crowd, **given: Any) -> None:
        super().__init__(**given)
        self._crowd = crowd

    def taken(self) -> None:
        """A response without an end goes on: its client took what there was so far."""
        self._goes_on = True
        self._crowd.note(self.transport)
        self._allow(READ_SECONDS)

    def shutdown(self) -> None:
        """The server stops."""
        super().shutdown()
        if self._goes_on:
            self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected."""
        super().connection_made(transport)
        self._crowd.note(transport)
        self._allow(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        """The client sent something."""
        if self._refused:
            return
        answering = self.answering
        # h11 looks at the length of a head that is not there yet, and much may come at once.
        for start in range(0, len(data), MAX_HEAD_BYTES):
            super().data_received(data[start : start + MAX_HEAD_BYTES])
            if self._refused:
                return
        if self.answering and not answering:
            self._crowd.note(self.transport)
            self._allow(READ_SECONDS)
        elif self._deadline is None:
            self._allow(HEAD_SECONDS)

    def on_response_complete(self) -> None:
        """A response was handed over."""
        self._goes_on = False
        self._forget()
        super().on_response_complete()
        if self.answering:  # the next request was waiting already
            self._allow(READ_SECONDS)

    def send_400_response(self, msg: str) -> None:
        """Refuses what cannot be read, with the status that says why, such as 431."""
        self._refused = True
        self.refuse(msg)
        if self.transport.is_closing():
            return
        self._allow(LINGER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection was closed."""
        self._forget()
        self._crowd.forget(self.transport)
        super().connection_lost(exc)

    def _allow(self, seconds: float) -> None:
        self._forget()
        # Not `close`: that would wait for the client to take what is left.
        self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class TlsGate(asyncio.Protocol):
    """Shakes hands with the context in force at that moment, then steps aside for HTTP.

    uvicorn would take one context when it starts, and keep its certificate until it ends.
    """

    def __init__(self, *, secured: Secured, **given: Any) -> None:
        self._secured = secured
        self._given = given
        self._crowd: Crowd = given["crowd"]
        self._connections = open_connections(given)
        self._early: list[bytes] = []
        self._lost = False
        self._task: asyncio.Task[None]
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts the handshake, before anything is read."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._crowd.note(transport)
        self._connections.add(self)
        self._task = asyncio.create_task(self._shake_hands())

    def data_received(self, data: bytes) -> None:
        """Keeps what comes with the end of the handshake."""
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client went before HTTP took over."""
        self._lost = True

    def shutdown(self) -> None:
        """The server stops."""
        self._transport.abort()

    async def _shake_hands(self) -> None:
        context = self._secured.context()
        assert context is not None
        try:
            secure = await asyncio.get_running_loop().start_tls(
                self._transport,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=HEAD_SECONDS,
                ssl_shutdown_timeout=LINGER_SECONDS,
            )
        except OSError:  # no TLS, no certificate, too slow, gone
            self._transport.abort()
            return
        finally:
            self._connections.discard(self)
            self._crowd.forget(self._transport)
        if secure is None or self._lost:
            return
        if not self._secured.admits(secure.get_extra_info("ssl_object")):
            secure.abort()
            return
        http = HttpConnection(**self._given)
        http.connection_made(secure)
        secure.set_protocol(http)
        if self._early:
            http.data_received(b"".join(self._early))


def maker(secured: Secured | None) -> Callable[..., asyncio.Protocol]:
    """What makes the protocol of a connection, of what uvicorn gives it."""
    if secured is None or secured.context() is None:
        crowd = Crowd(MAX_PLAIN)
        return lambda **given: HttpConnection(crowd=crowd, **given)
    tls_crowd = Crowd(MAX_TLS)
    return lambda **given: TlsGate(secured=secured, crowd=tls_crowd, **given)
