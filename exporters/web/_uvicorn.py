"""uvicorn's private API: everything of it that trntop uses.

- `H11Protocol`: uvicorn limits only the pause between requests (`timeout_keep_alive`). A client
  that sends half a head would keep its connection open without end; the subclass has a deadline.
- `H11Protocol.connections`: without free descriptors a server accepts nothing, and asyncio
  (`_accept_connection`) logs a traceback as often as it may accept at once, 4,096 times a second
  with uvicorn's one number for this and for the backlog. So open connections have a limit.
- `asyncio.sslproto`: uvicorn has neither a limit nor a deadline for TLS handshakes. `TlsConnection`
  makes them itself, by `loop.start_tls`. asyncio gives each a buffer of 256 KiB without a setting.
- `Server.capture_signals`: uvicorn raises its signals again after it has stopped, which would end
  the process with the exit status of the signal.
"""

import asyncio
import contextlib
import socket
import ssl
from asyncio import sslproto
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from trntop.core import descriptors

from .listening import BACKLOG

HEAD_SECONDS = 10.0
"""For the head of a request, from its first byte or from connecting, and for a TLS handshake."""
MAX_CONNECTIONS = 4096
"""If the system allows so many open files; above it the longest idle one is closed."""
MAX_TLS_CONNECTIONS = 384
"""The same over TLS, where each takes some 60 KiB."""
MAX_HANDSHAKES = 128
"""Unfinished ones of TLS; above it the oldest one of the client with most of them is closed."""
AT_ONCE = 16
"""Connections accepted in one step of the event loop."""

sslproto.SSLProtocol.max_size = 16 << 10
"""Bytes of the buffer of a connection: one TLS record."""


class TlsConnection(asyncio.Protocol):
    """A connection during its TLS handshake; an `HttpConnection` takes over.

    Args:
        context: the certificate and its key.
        arguments: of the `HttpConnection`.
    """

    _unfinished: ClassVar[dict["TlsConnection", str]] = {}
    """The handshakes of this process and the addresses of their clients, oldest first."""

    def __init__(self, context: ssl.SSLContext, **arguments: Any) -> None:
        self._context = context
        self._arguments = arguments
        self._received = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.pause_reading()
        self._transport = transport
        self._unfinished[self] = str((transport.get_extra_info("peername") or ("",))[0])
        self._task = asyncio.get_running_loop().create_task(self._handshake())
        if len(self._unfinished) > MAX_HANDSHAKES:
            ((crowd, _),) = Counter(self._unfinished.values()).most_common(1)
            oldest = next(one for one, client in self._unfinished.items() if client == crowd)
            del self._unfinished[oldest]
            oldest._transport.abort()

    async def _handshake(self) -> None:
        loop, transport = asyncio.get_running_loop(), self._transport
        try:
            if transport.is_closing():
                return
            secured = await loop.start_tls(
                transport, self, self._context, server_side=True, ssl_handshake_timeout=HEAD_SECONDS
            )
        except OSError:  # a failed handshake too
            return
        finally:
            self._unfinished.pop(self, None)
        if secured is None or secured.is_closing():
            return
        connection = HttpConnection(**self._arguments)
        secured.set_protocol(connection)
        connection.connection_made(secured)
        if self._received:
            connection.data_received(self._received)

    def data_received(self, data: bytes) -> None:
        """What arrives with the end of the handshake."""
        self._received += data


class HttpConnection(H11Protocol):
    """uvicorn's HTTP connection, closed if a request head takes too long or there are too many."""

    _held: ClassVar[dict["HttpConnection", None]] = {}
    """The open ones of this process, by their last request."""
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_deadline()
        self._held[self] = None
        most = MAX_TLS_CONNECTIONS if self.scheme == "https" else MAX_CONNECTIONS
        if len(self._held) > min(most, descriptors.possible(MAX_CONNECTIONS)):
            # There is one: this.
            longest = next(connection for connection in self._held if connection._idle)
            del self._held[longest]
            longest.transport.abort()

    @property
    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._idle:
            self._clear_deadline()
            if self in self._held:
                self._held[self] = self._held.pop(self)
        elif self._deadline is None:
            self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        self._held.pop(self, None)
        super().connection_lost(exc)

    def _set_deadline(self) -> None:
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class QuietServer(uvicorn.Server):
    """A server that leaves signals to its caller.

    Args:
        config: of uvicorn.
        on_stop: called on the loop when `stop` is, to end responses that have no end.
    """

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for sock in sockets or ():
            sock.listen(BACKLOG)  # asyncio takes one number for this and for `AT_ONCE`

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop(self) -> None:
        """Stops serving; a second call does not wait for responses."""
        self.force_exit = self.should_exit
        self.should_exit = True
        if self._on_stop is not None:
            self._on_stop()
