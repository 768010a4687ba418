"""The connections below httpx, straight on asyncio, for a thousand streams at once.

httpcore's own go through anyio, whose layers take a tenth of a core at a thousand frames a second;
and asyncio reads for it into 256 KiB that are then cut to what came, so that memory falls into
holes. Here all connections read into one buffer, and what came is copied once, at its size.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import httpcore
import httpx

from .names import Names

BUFFER = 256 << 10
"""Bytes that are read in one go."""
PIECE = 16 << 10
"""Bytes that are handed on in one go, at most: each layer above keeps its newest piece until the
next comes, which of a thousand streams is a second later.
"""
FULL = 256 << 10
"""Bytes of one connection that wait to be taken, from which on it is not read."""
ADDRESS_SECONDS = 2.0
"""For each address of a host but the last, at most, before the next is tried."""
KEPT_SECONDS = 5.0
"""For so long a connection that nobody uses is kept for the next request."""
FEW_HOSTS = 256
"""So many are not looked through for those that nobody asks any more."""

_Made = TypeVar("_Made")


class Transport(httpx.AsyncBaseTransport):
    """Requests over connections of our own, each host's for itself.

    httpx's own has them all in one pool, through which each request looks.

    Args:
        verify: whom to believe.
        patience: seconds in which a connection has to be there.
        names: finds the addresses of hosts.
    """

    def __init__(self, verify: ssl.SSLContext, patience: float, names: Names) -> None:
        self._verify = verify
        self._names = names
        self._network = Network(patience, names)
        self._hosts: dict[tuple[str, str, int | None], httpx.AsyncHTTPTransport] = {}
        self._room = FEW_HOSTS

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends it.

        Raises:
            httpx.TransportError: it could not be sent, or was not answered.
        """
        url = request.url
        try:
            # Before anything else, so that whoever asked knows what is waited for.
            await self._names.addresses(url.host)
        except OSError as error:
            raise httpx.ConnectError(str(error), request=request) from error
        transport = self._hosts.get((url.scheme, url.host, url.port))
        if transport is None:
            self._make_room()
            transport = httpx.AsyncHTTPTransport(verify=self._verify, trust_env=False)
            # httpx has no parameter for the network below.
            transport._pool = httpcore.AsyncConnectionPool(
                ssl_context=self._verify,
                max_connections=None,
                keepalive_expiry=KEPT_SECONDS,
                network_backend=self._network,
            )
            self._hosts[url.scheme, url.host, url.port] = transport
        response = await transport.handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Body(response.stream)
        response.extensions.pop("network_stream", None)
        return response

    async def aclose(self) -> None:
        """Closes all connections."""
        for transport in self._hosts.values():
            await transport.aclose()
        self._names.close()

    def _make_room(self) -> None:
        """Forgets hosts to which nothing is open, before there are too many."""
        if len(self._hosts) < self._room:
            return
        self._hosts = {
            origin: transport
            for origin, transport in self._hosts.items()
            if transport._pool.connections
        }
        self._room = max(FEW_HOSTS, 2 * len(self._hosts))


class _Body(httpx.AsyncByteStream):
    """What a response says; once it is closed, its connection is let go.

    httpx's response and its stream know each other, so that nothing but the garbage collector,
    which rarely comes here, would free the connections of hosts that are asked again and again.
    The response itself is not to know its connection, either.
    """

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream: httpx.AsyncByteStream | None = stream

    def __aiter__(self) -> AsyncIterator[bytes]:
        if self._stream is None:
            raise httpx.StreamClosed
        return aiter(self._stream)

    async def aclose(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.aclose()


class Network(httpcore.AsyncNetworkBackend):
    """Opens connections on the running loop.

    Args:
        patience: seconds in which one has to be there.
        names: finds the addresses of hosts.
    """

    def __init__(self, patience: float, names: Names) -> None:
        self._patience = patience
        self._names = names
        self._buffer = memoryview(bytearray(BUFFER))
        """For all connections: what is read into it is copied before anything else is read."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to the first address of a host that takes one.

        Raises:
            httpcore.ConnectError: none does; why the first did not is its cause.
            httpcore.ConnectTimeout: it took too long.
        """
        loop = asyncio.get_running_loop()
        local = None if local_address is None else (local_address, 0)
        with _told(httpcore.ConnectTimeout, httpcore.ConnectError):
            async with asyncio.timeout(timeout):
                addresses = await self._names.addresses(host)
                share = min(ADDRESS_SECONDS, self._patience / len(addresses))
                transport, incoming = await _first(
                    [
                        partial(loop.create_connection, self._incoming, one, port, local_addr=local)
                        for one in addresses
                    ],
                    share,
                )
            for option in socket_options or ():
                transport.get_extra_info("socket").setsockopt(*option)
        return _Connection(transport, incoming)

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)

    def _incoming(self) -> "_Incoming":
        return _Incoming(self._buffer)


class _Incoming(asyncio.BufferedProtocol):
    """What came over a connection and was not taken yet."""

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self.data = b""
        self.ended = False
        self.error: Exception | None = None
        self.writable = asyncio.Event()
        self.writable.set()
        self._arrived: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._rests = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.carry(transport)

    def carry(self, transport: asyncio.Transport) -> None:
        """From now on it comes over this transport."""
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += bytes(self._buffer[:nbytes])
        if len(self.data) >= FULL and self._transport is not None:
            self._rests = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self.ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self.error = exc
        self._transport = None
        self.writable.set()
        self._wake()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    async def take(self, most: int) -> bytes:
        """What came, as soon as there is anything; nothing at the end.

        Raises:
            OSError: the connection broke.
        """
        while not self.data:
            if self.error is not None:
                raise self.error
            if self.ended:
                return b""
            self._arrived = asyncio.get_running_loop().create_future()
            try:
                await self._arrived
            finally:
                self._arrived = None
        taken, self.data = self.data[:most], self.data[most:]
        if self._rests and len(self.data) < FULL and self._transport is not None:
            self._rests = False
            self._transport.resume_reading()
        return taken

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)


class _Connection(httpcore.AsyncNetworkStream):
    """One connection, as httpcore wants it."""

    def __init__(self, transport: asyncio.Transport, incoming: _Incoming) -> None:
        self._transport = transport
        self._incoming = incoming

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        most = min(max_bytes, PIECE)
        with _told(httpcore.ReadTimeout, httpcore.ReadError):
            if timeout is None:
                return await self._incoming.take(most)
            async with asyncio.timeout(timeout):
                return await self._incoming.take(most)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _told(httpcore.WriteTimeout, httpcore.WriteError):
            if self._transport.is_closing():
                raise self._incoming.error or ConnectionResetError("connection closed")
            self._transport.write(buffer)
            async with asyncio.timeout(timeout):
                await self._incoming.writable.wait()

    async def aclose(self) -> None:
        # Whoever hangs is not waited for, and what was not read will not be.
        self._transport.abort()
        self._incoming.data = b""

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        if self._incoming.data or self._incoming.ended:
            self._transport.abort()
            raise httpcore.ConnectError("it does not wait for the TLS handshake")
        loop = asyncio.get_running_loop()
        try:
            with _told(httpcore.ConnectTimeout, httpcore.ConnectError):
                async with asyncio.timeout(timeout):
                    transport = await loop.start_tls(
                        self._transport,
                        self._incoming,
                        ssl_context,
                        server_hostname=server_hostname,
                    )
        except BaseException:
            self._transport.abort()
            raise
        if transport is None:  # it was closed meanwhile
            raise httpcore.ConnectError("connection closed by the other side")
        self._incoming.carry(transport)
        return _Connection(transport, self._incoming)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return bool(self._incoming.data) or self._incoming.ended
        names = {"client_addr": "sockname", "server_addr": "peername"}
        return self._transport.get_extra_info(names.get(info, info))


async def _first(connect: Sequence[Callable[[], Awaitable[_Made]]], share: float) -> _Made:
    """The first connection that comes about.

    Args:
        connect: makes one, each to another address.
        share: seconds for each but the last.

    Raises:
        OSError: none does; it says why the first did not.
    """
    failed: OSError | None = None
    for one in connect:
        try:
            async with asyncio.timeout(None if one is connect[-1] else share):
                return await one()
        except OSError as error:
            failed = failed or error
    try:
        raise failed or OSError("no address")
    finally:
        failed = None  # its traceback has this frame: together they would stay


@contextlib.contextmanager
def _told(late: type[Exception], failed: type[Exception]) -> Iterator[None]:
    """Says in httpcore's words what went wrong."""
    try:
        yield
    except TimeoutError as error:
        raise late("no answer in time") from error
    except OSError as error:
        raise failed(str(error) or "connection closed by the other side") from error
