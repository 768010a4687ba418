import asyncio
import contextlib
import os
import resource
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.builders import make_view
from tests.serving import Authority, app_of, raw, served, serving
from trntop.exporters.web import _uvicorn, listening
from trntop.exporters.web._uvicorn import HttpConnection
from trntop.exporters.web.access import Access
from trntop.exporters.web.server import MAX_HEAD_BYTES

ROOT = Path(__file__).parents[3]
HEALTHY = b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class TestDeadlines:
    async def test_slow_heads_are_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_uvicorn, "HEAD_SECONDS", 0.05)
        async with serving(app_of()) as (client, port):
            silent, writer = await asyncio.open_connection("127.0.0.1", port)
            slow, slow_writer = await asyncio.open_connection("127.0.0.1", port)
            slow_writer.write(b"GET /metrics HTTP/1.1\r\n")
            assert await asyncio.wait_for(silent.read(), 2) == b""
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(slow.read(), 2) == b""
            writer.close()
            slow_writer.close()
            assert (await client.get("/metrics")).status_code == 200

    async def test_rest_between_scrapes_is_allowed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_uvicorn, "HEAD_SECONDS", 0.05)
        async with served(app_of()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(2):
                writer.write(HEALTHY)
                answer = await asyncio.wait_for(reader.readuntil(b"healthy\n"), 2)
                assert answer.startswith(b"HTTP/1.1 200")
                await asyncio.sleep(0.15)
            writer.close()

    async def test_unread_responses_are_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """By the kernel, at the user timeout of the connection."""
        monkeypatch.setattr(listening, "READ_SECONDS", 1)
        lost = asyncio.Event()
        losing = HttpConnection.connection_lost

        def connection_lost(self: HttpConnection, error: Exception | None) -> None:
            losing(self, error)
            lost.set()

        monkeypatch.setattr(HttpConnection, "connection_lost", connection_lost)
        app = app_of(make_view(60, efa=16), max_series=10**6)
        async with served(app) as port:
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
            sock.send(b"GET /metrics/detail HTTP/1.1\r\nHost: x\r\n\r\n" * 4)
            await asyncio.wait_for(lost.wait(), 20)
            sock.close()


class TestRequests:
    async def test_pipelined(self) -> None:
        async with served(app_of()) as port:
            answer = await raw(port, HEALTHY * 20 + LAST)
        assert answer.count(b"HTTP/1.1 200 OK") == answer.count(b"healthy\n") == 21

    async def test_the_whole_url_as_a_proxy_sends_it(self) -> None:
        request = b"GET http://x/-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        async with served(app_of()) as port:
            status = (await raw(port, request)).partition(b"\r\n")[0]
        assert status in (b"HTTP/1.1 200 OK", b"HTTP/1.1 404 Not Found")

    @pytest.mark.parametrize(
        "request_line",
        [
            b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 70_000,
            b"GET /metrics?" + b"&".join(b"name[]=m%d" % n for n in range(10_000)),
        ],
        ids=["a header of 70 kB", "10,000 names"],
    )
    async def test_a_head_that_is_too_long(self, request_line: bytes) -> None:
        assert len(request_line) > MAX_HEAD_BYTES
        async with serving(app_of()) as (client, port):
            with contextlib.suppress(ConnectionResetError):  # the rest of the head is not read
                answer = await raw(port, request_line + b" HTTP/1.1\r\n\r\n")
                assert answer.startswith(b"HTTP/1.1 400 ")
            assert (await client.get("/metrics")).status_code == 200

    @pytest.mark.parametrize(
        "garbage",
        [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
            b"GET /metrics HTTP/1.1\r\n\r\n",
            b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: a\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ],
    )
    async def test_garbage(self, garbage: bytes) -> None:
        async with serving(app_of()) as (client, port):
            answer = await raw(port, garbage)
            assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")) or not answer
            assert (await client.get("/-/healthy")).status_code == 200


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def access_of(authority: Authority, tmp_path: Path) -> Access:
    certificate, key = authority.issue("server", "127.0.0.1")
    file = tmp_path / "web.yml"
    file.write_text(f"tls_server_config: {{cert_file: {certificate}, key_file: {key}}}")
    return Access(file, lambda _: None)


class TestTls:
    async def test_broken_handshakes(self, authority: Authority, tmp_path: Path) -> None:
        access = access_of(authority, tmp_path)
        async with serving(app_of(), access, authority.trust()) as (client, port):
            _, half_writer = await asyncio.open_connection("127.0.0.1", port)
            half_writer.write(b"\x16\x03\x01\x02\x00\x01")
            gone = await asyncio.open_connection("127.0.0.1", port)
            gone[1].transport.abort()
            assert b"HTTP/" not in await raw(port, LAST)
            assert (await client.get("/metrics")).status_code == 200
            half_writer.close()

    async def test_slow_heads_are_cut_off(
        self, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_uvicorn, "HEAD_SECONDS", 0.05)
        async with served(app_of(), access_of(authority, tmp_path)) as port:
            silent, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=authority.trust(), server_hostname="127.0.0.1"
            )
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(silent.read(), 2) == b""
            writer.close()

    async def test_slow_handshakes_are_cut_off(
        self, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_uvicorn, "HEAD_SECONDS", 0.05)
        async with served(app_of(), access_of(authority, tmp_path)) as port:
            ((silent, writer),) = await connections(port, 1, b"\x16\x03\x01\x02\x00\x01")
            assert await asyncio.wait_for(silent.read(), 5) == b""
            writer.close()

    async def test_fault_38_scrapes_among_unfinished_handshakes(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        """Those above the limit are closed, of the client with most of them."""
        trust = authority.trust()
        async with serving(app_of(), access_of(authority, tmp_path), trust) as (client, port):
            tracemalloc.start()
            ((_, other),) = await connections(port, 1, b"", "127.0.0.2")
            crowd = await connections(port, _uvicorn.MAX_HANDSHAKES + 100, b"\x16\x03\x01")
            assert (await client.get("/metrics")).status_code == 200
            for reader, _ in crowd[:101]:
                with contextlib.suppress(ConnectionResetError):
                    assert await asyncio.wait_for(reader.read(), 5) == b""
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert held < _uvicorn.MAX_HANDSHAKES * (128 << 10)
            await asyncio.wait_for(other.start_tls(trust, server_hostname="127.0.0.1"), 5)
            for _, writer in (*crowd, (None, other)):
                writer.transport.abort()

    async def test_the_connection_without_a_request_for_longest_makes_room(
        self, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_uvicorn, "MAX_TLS_CONNECTIONS", 2)
        trust = authority.trust()
        async with serving(app_of(), access_of(authority, tmp_path), trust) as (client, port):
            idle, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=trust, server_hostname="127.0.0.1"
            )
            for _ in range(2):
                answer = await client.get("/-/healthy", headers={"Connection": "close"})
                assert answer.status_code == 200
            async with httpx.AsyncClient(verify=trust, trust_env=False) as second:
                await client.get("/-/healthy")
                await second.get(f"https://127.0.0.1:{port}/-/healthy")
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(idle.read(), 5) == b""
            writer.close()

    async def test_a_request_that_arrives_with_the_end_of_the_handshake(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        received, sending = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = authority.trust().wrap_bio(received, sending, server_hostname="127.0.0.1")
        async with served(app_of(), access_of(authority, tmp_path)) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    writer.write(sending.read())
                    received.write(await asyncio.wait_for(reader.read(1 << 16), 5))
            tls.write(LAST)
            writer.write(sending.read())
            answer = b""
            while not answer:
                received.write(await asyncio.wait_for(reader.read(1 << 16), 5))
                with contextlib.suppress(ssl.SSLWantReadError):
                    answer = tls.read()
            assert answer.startswith(b"HTTP/1.1 200")
            writer.close()

    async def test_it_stops_at_once_with_handshakes_open(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        async with served(app_of(), access_of(authority, tmp_path)) as port:
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
            await asyncio.sleep(0.05)
            start = time.monotonic()
        assert time.monotonic() - start < 1.5
        for _, writer in idle:
            writer.close()


@pytest.fixture
def descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("too few open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def exporter(*before: str) -> Iterator[tuple[int, str]]:
    """`trntop export` in a process of its own: its id and URL.

    It prints nothing but its address until it is ended.
    """
    process = subprocess.Popen(
        [
            *before,
            *(sys.executable, "-m", "trntop", "export", "sim:healthy?nodes=1&minutes=1"),
            *("--listen", "127.0.0.1:0"),
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("trntop: serving http://127.0.0.1:"), line
            yield process.pid, line.split()[2].removesuffix("/metrics")
            process.send_signal(signal.SIGTERM)
            assert process.communicate(timeout=5)[1] == ""
            assert process.returncode == 0
        finally:
            process.kill()


async def connections(
    port: int, count: int, request: bytes, client: str = "127.0.0.1"
) -> list[Streams]:
    opened = [
        await asyncio.open_connection("127.0.0.1", port, local_addr=(client, 0))
        for _ in range(count)
    ]
    for _, writer in opened:
        writer.write(request)
    return opened


async def scraped(client: httpx.AsyncClient) -> float:
    start = time.perf_counter()
    assert (await client.get("/metrics")).status_code == 200
    return time.perf_counter() - start


def held(pid: int) -> tuple[int, int]:
    """How many descriptors and threads a process has."""
    threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    return len(list(Path(f"/proc/{pid}/fd").iterdir())), threads


async def test_fault_38_scrapes_among_a_thousand_idle_and_half_open_connections(
    descriptors: None,
) -> None:
    with exporter() as (pid, address):
        async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=10) as client:
            port = int(address.rpartition(":")[2])
            for _ in range(200):
                if (await client.get("/-/ready")).status_code == 200:
                    break
                await asyncio.sleep(0.05)
            files, threads = held(pid)
            idle = await connections(port, 500, b"")
            slow = await connections(port, 500, b"GET /metrics HTTP/1.1\r\nX-Slow: ")
            for _, writer in slow:
                writer.write(b"x")
            spent = [await scraped(client) for _ in range(30)]
            assert statistics.median(spent) < 0.1
            together = await asyncio.gather(*(scraped(client) for _ in range(50)))
            assert max(together) < 5
            assert held(pid)[1] == threads
        for _, writer in (*idle, *slow):
            writer.transport.abort()
        for _ in range(100):
            if held(pid)[0] <= files:
                break
            await asyncio.sleep(0.05)
        assert held(pid) == (pytest.approx(files, abs=2), threads)


async def test_fault_32_more_connections_than_open_files() -> None:
    """The longest idle ones are closed, so that a new one is answered."""
    with exporter("bash", "-c", 'ulimit -n 320; exec "$0" "$@"') as (pid, address):
        port = int(address.rpartition(":")[2])
        idle = await connections(port, 400, b"")
        async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=10) as client:
            assert (await client.get("/-/healthy")).status_code == 200
        assert held(pid)[0] < 320
        for _, writer in idle:
            writer.transport.abort()


async def test_the_connection_without_a_request_for_longest_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_uvicorn, "MAX_CONNECTIONS", 3)
    async with served(app_of()) as port:
        crowd = await connections(port, 3, HEALTHY)
        for reader, _ in crowd:
            await reader.readuntil(b"healthy\n")
        (first, writer), (second, _), (third, _) = crowd
        writer.write(HEALTHY)
        await first.readuntil(b"healthy\n")
        crowd += await connections(port, 1, HEALTHY)
        await crowd[-1][0].readuntil(b"healthy\n")
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(second.read(), 5) == b""
        assert not first.at_eof()
        assert not third.at_eof()
        for _, writer in crowd:
            writer.transport.abort()
