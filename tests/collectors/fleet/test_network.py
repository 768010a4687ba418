"""The connections below httpx: what a peer may do to them, and what is said of it."""

import asyncio
import contextlib
import gc
import socket
import ssl
import struct
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import h11
import httpcore
import httpx
import pytest

from trntop.collectors.fleet import network
from trntop.collectors.fleet.connection import reason
from trntop.collectors.fleet.names import Names
from trntop.collectors.fleet.network import FULL, PIECE, Network, Transport

OF_A_CONNECTION = {h11.Connection, httpcore.AsyncHTTP11Connection, network._Connection}
Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(peer: Peer) -> AsyncIterator[int]:
    """A server that does with each connection what `peer` says."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError), contextlib.closing(writer):
            await peer(reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def connected(
    port: int, host: str = "127.0.0.1", *, addresses: Sequence[str] = (), patience: float = 5.0
) -> httpcore.AsyncNetworkStream:
    network = Network(patience, Names(lambda _: addresses))
    return await network.connect_tcp(host, port, timeout=10.0)


async def test_what_is_sent_comes_in_pieces_no_longer_than_asked_for() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        writer.close()

    async with listening(echo) as port:
        stream = await connected(port)
        await stream.write(b"abcdef")
        told = b""
        while piece := await stream.read(4):
            assert len(piece) <= 4
            told += piece
        assert told == b"abcdef"
        assert await stream.read(4) == b""
        assert stream.get_extra_info("is_readable")
        await stream.aclose()


async def test_a_peer_that_says_too_much_is_not_read_from() -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while sent < 64 * FULL:
            writer.write(bytes(FULL))
            await writer.drain()
            sent += FULL

    async with listening(flood) as port:
        stream = await connected(port)
        await stream.read(1)
        assert isinstance(stream, network._Connection)
        seen = -1
        while sent != seen:  # until nothing more goes into the connection
            seen = sent
            await asyncio.sleep(0.2)
        assert sent < 64 * FULL
        assert len(stream._incoming.data) < 2 * FULL + network.BUFFER
        taken = 1
        while taken < 64 * FULL:
            piece = await stream.read(FULL)
            assert len(piece) <= PIECE  # each layer above keeps one
            taken += len(piece)
        await stream.aclose()


async def test_a_response_that_is_over_keeps_nothing_of_its_connection() -> None:
    """Without the garbage collector, which has to be rare where a thousand hosts are heard."""

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + bytes(50_000))
        await reader.read()

    transport = Transport(ssl.create_default_context(), 5.0, Names(lambda _: ()))
    async with listening(half) as port, httpx.AsyncClient(transport=transport) as client:
        gc.collect()
        gc.disable()
        try:
            async with client.stream("GET", f"http://127.0.0.1:{port}") as response:
                body = response.aiter_raw()
                assert await anext(body)
                held = [
                    weakref.ref(one) for one in gc.get_objects() if type(one) in OF_A_CONNECTION
                ]
                assert {type(one()) for one in held} == OF_A_CONNECTION
                await body.aclose()
            del body
            for _ in range(10):  # the generators below are closed by tasks of their own
                await asyncio.sleep(0)
            assert [one() for one in held if one() is not None] == []
        finally:
            gc.enable()
        with pytest.raises(httpx.StreamError):
            await response.aread()


async def test_a_connection_that_is_reset() -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at_once = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)

    async with listening(reset) as port:
        stream = await connected(port)
        with pytest.raises(httpcore.ReadError) as broken:
            while await stream.read(10):
                pass
        assert isinstance(broken.value.__cause__, ConnectionResetError)
        with pytest.raises(httpcore.WriteError):
            await stream.write(b"x")


async def test_deadlines() -> None:
    over = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()  # nor does it take what is sent

    async with listening(silent) as port:
        stream = await connected(port)
        with pytest.raises(httpcore.ReadTimeout):
            await stream.read(1, timeout=0.02)
        with pytest.raises(httpcore.WriteTimeout):
            await stream.write(bytes(64 << 20), timeout=0.1)
        await stream.aclose()
        over.set()


async def test_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(httpcore.ConnectError) as refused:
            await connected(bound.getsockname()[1])
    assert isinstance(refused.value.__cause__, ConnectionRefusedError)


@pytest.mark.parametrize("first", ["refused", "silent"])
async def test_the_next_address_is_tried(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    loop = asyncio.get_running_loop()
    connect = loop.create_connection

    async def one(make: Callable[[], asyncio.Protocol], host: str, *more: object, **other: object):  # type: ignore[no-untyped-def]
        if (first, host) == ("silent", "127.0.0.2"):
            await asyncio.sleep(60)
        return await connect(make, host, *more, **other)  # type: ignore[call-overload]

    monkeypatch.setattr(loop, "create_connection", one)
    async with listening(nothing) as port:
        stream = await connected(
            port, "two.example", addresses=["127.0.0.2", "127.0.0.1"], patience=0.2
        )
        assert stream.get_extra_info("server_addr") == ("127.0.0.1", port)
        await stream.aclose()


async def test_a_tls_handshake_with_a_peer_that_hangs_up() -> None:
    async def gone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    async with listening(gone) as port:
        stream = await connected(port)
        with pytest.raises(httpcore.ConnectError) as refused:
            await stream.start_tls(ssl.create_default_context(), "localhost", timeout=5.0)
    assert reason(refused.value) in ("connection closed by the other side", "connection reset")


async def test_what_comes_before_tls_is_not_taken_for_what_tls_brings() -> None:
    async def hasty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await reader.read()

    async with listening(hasty) as port:
        stream = await connected(port)
        async with asyncio.timeout(20):
            while not stream.get_extra_info("is_readable"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        with pytest.raises(httpcore.ConnectError):
            await stream.start_tls(ssl.create_default_context(), "localhost", timeout=5.0)


async def test_each_host_has_its_own_connections_and_they_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    monkeypatch.setattr(network, "FEW_HOSTS", 4)
    transport = Transport(ssl.create_default_context(), 5.0, Names(lambda _: ["127.0.0.1"]))
    async with httpx.AsyncClient(transport=transport) as client, listening(answer) as port:
        for number in range(20):
            told = await client.get(f"http://node-{number}.example:{port}/")
            assert told.status_code == 200
            assert len(transport._hosts) <= 4
