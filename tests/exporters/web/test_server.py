import asyncio
import contextlib
import gzip
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp

from tests.builders import make_view
from trntop.errors import TrntopError, UsageError
from trntop.exporters import server
from trntop.exporters.prometheus import Page, Pages
from trntop.exporters.server import (
    Server,
    accepts_gzip,
    bind,
    build_app,
    parse_listen,
    url,
    why_not_ready,
)
from trntop.model import State, View

ROOT = Path(__file__).parents[2]
TEXT = "text/plain; version=0.0.4; charset=utf-8"


@contextlib.asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[tuple[httpx.AsyncClient, int]]:
    """A client of the application, over a real socket on loopback, and the port."""
    sock = bind("127.0.0.1", 0)
    port = sock.getsockname()[1]
    one = Server(app)
    task = asyncio.create_task(one.serve(sockets=[sock]))
    try:
        async with httpx.AsyncClient(base_url=url(sock), trust_env=False) as client:
            yield client, port
    finally:
        one.stop()
        await asyncio.wait_for(task, 5)


def direct(app: ASGIApp) -> httpx.AsyncClient:
    """A client of the application without a socket."""
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://trntop", trust_env=False)


def view_now(view: View | None) -> Callable[[], View | None]:
    return lambda: view


class TestPaths:
    async def test_pages(self) -> None:
        async with serving(build_app(view_now(make_view(1)))) as (client, _):
            metrics = await client.get("/metrics")
            cores = await client.get("/metrics/cores")
        for response in (metrics, cores):
            assert response.status_code == 200
            assert response.headers["content-type"] == TEXT
            assert response.headers["x-content-type-options"] == "nosniff"
        assert "trn_node_neuroncores" in metrics.text
        assert "trn_neuroncore_utilization_ratio{" not in metrics.text
        assert "trn_neuroncore_utilization_ratio{" in cores.text

    async def test_landing_page_links_the_others(self) -> None:
        async with serving(build_app(view_now(make_view(1, simulated=True)))) as (client, _):
            response = await client.get("/")
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        for path in ("/metrics", "/metrics/cores", "/-/healthy", "/-/ready"):
            assert f'href="{path}"' in response.text
        assert "SIMULATED" in response.text

    async def test_head(self) -> None:
        async with serving(build_app(view_now(make_view(1)))) as (client, _):
            for path in ("/", "/metrics", "/metrics/cores", "/-/healthy", "/health", "/-/ready"):
                response = await client.head(path)
                assert (response.status_code, response.content) == (200, b""), path
                assert int(response.headers["content-length"]) > 0

    async def test_other_methods(self) -> None:
        async with serving(build_app(view_now(make_view(1)))) as (client, _):
            for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
                response = await client.request(method, "/metrics", content=b"x")
                assert response.status_code == 405, method
                assert {one.strip() for one in response.headers["allow"].split(",")} == {
                    "GET",
                    "HEAD",
                }

    async def test_unknown_paths(self) -> None:
        async with serving(build_app(view_now(make_view(1)))) as (client, port):
            for path in ("/nope", "/metrics/", "/metrics/x", "/healthz"):
                response = await client.get(path)
                assert response.status_code == 404, path
                assert response.headers["x-content-type-options"] == "nosniff"
            for target in ("//..%2f..%2fetc/passwd", "/../etc/passwd", "/metrics%00"):
                assert (await raw(port, target)).startswith(b"HTTP/1.1 404"), target

    async def test_queries_and_odd_accepts_give_the_text_format(self) -> None:
        many = "&".join(f"name[]=m{number}" for number in range(1000))
        async with serving(build_app(view_now(make_view(1)))) as (client, _):
            for accept in ("", "*/*;q=0", "garbage;;;", "application/vnd.google.protobuf"):
                response = await client.get(f"/metrics?{many}", headers={"Accept": accept})
                assert (response.status_code, response.headers["content-type"]) == (200, TEXT)

    async def test_head_of_a_request_is_limited(self) -> None:
        async with serving(build_app(view_now(make_view(1)))) as (client, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * server.MAX_HEAD_BYTES)
            assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 400")
            writer.close()
            assert (await client.get("/metrics")).status_code == 200


async def raw(port: int, target: str) -> bytes:
    """The answer to a request whose target no client would send as it is."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    return answer


class TestCompression:
    async def test_when_the_client_accepts_it(self) -> None:
        async with serving(build_app(view_now(make_view(1)))) as (client, _):
            plain = await client.get("/metrics", headers={"Accept-Encoding": "identity"})
            packed = await client.get("/metrics", headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
        assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 4
        assert packed.content == plain.content, "httpx unpacks it"

    async def test_not_below_a_kilobyte(self) -> None:
        async with serving(build_app(view_now(None))) as (client, _):
            response = await client.get("/metrics/cores", headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in response.headers

    @pytest.mark.parametrize(
        ("header", "accepted"),
        [
            ("gzip", True),
            ("deflate, GZIP;q=0.5", True),
            ("gzip;q=0", False),
            ("gzip; q=0.000", False),
            ("gzip;q=0.001", True),
            ("", False),
            ("identity", False),
            ("br", False),
            (",;,", False),
        ],
    )
    def test_header(self, header: str, accepted: bool) -> None:
        assert accepts_gzip(header) is accepted


class TestCache:
    def test_renders_and_compresses_once_per_view(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rendered = []
        packed = []
        views = [make_view(1, generation=1)]

        class Counting(Page):
            def render(self, view: View | None) -> Pages:
                rendered.append(view)
                return super().render(view)

        compress = gzip.compress

        def counting(data: bytes, level: int, *, mtime: float) -> bytes:
            packed.append(len(data))
            return compress(data, level, mtime=mtime)

        monkeypatch.setattr(gzip, "compress", counting)
        cache = server._Cache(lambda: views[-1], Counting())
        for _ in range(3):
            cache.get("metrics", compressed=True)
            cache.get("cores", compressed=False)
        assert (len(rendered), len(packed)) == (1, 1)
        views.append(make_view(1, generation=2))
        cache.get("cores", compressed=True)
        assert (len(rendered), len(packed)) == (2, 2)


class TestReadiness:
    @pytest.mark.parametrize("state", [State.FRESH, State.LATE])
    async def test_ready(self, state: State) -> None:
        async with direct(build_app(view_now(make_view(1, state=state)))) as client:
            response = await client.get("/-/ready")
        assert (response.status_code, response.text) == (200, "ready\n")

    @pytest.mark.parametrize(
        ("view", "reason"),
        [
            (None, "not collecting"),
            (make_view(0), "no node has been heard yet"),
            (make_view(1, ended=True), "the recording has ended"),
            (
                make_view(1, state=State.DOWN, reason="not installed"),
                "no source is heard; trn-000: neuron-monitor down (not installed)",
            ),
            (make_view(2, state=State.STALE), "trn-000: tensor-engine stale"),
            (make_view(1, state=State.STARTING), "trn-000: neuron-monitor starting"),
        ],
    )
    async def test_not_ready_says_why(self, view: View | None, reason: str) -> None:
        async with direct(build_app(view_now(view))) as client:
            ready = await client.get("/-/ready")
            assert ready.status_code == 503
            assert reason in ready.text
            for path in ("/metrics", "/metrics/cores", "/-/healthy", "/health", "/"):
                assert (await client.get(path)).status_code == 200, path

    def test_one_source_that_speaks_is_enough(self) -> None:
        assert why_not_ready(make_view(2, state=State.DOWN, states={"efa": State.LATE})) == ""

    def test_reasons_are_few(self) -> None:
        assert len(why_not_ready(make_view(500, state=State.STALE))) < 300


class TestConnections:
    async def test_scrape_among_many_idle_and_half_open_ones(self) -> None:
        async with serving(build_app(view_now(make_view(1)))) as (client, port):
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
            for number, (_, writer) in enumerate(idle):
                if number % 2:
                    writer.write(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
            await client.get("/metrics")
            start = time.perf_counter()
            responses = await asyncio.gather(*(client.get("/metrics") for _ in range(10)))
            spent = time.perf_counter() - start
            assert {one.status_code for one in responses} == {200}
            assert spent < 1.0
            for _, writer in idle:
                writer.close()

    async def test_slow_heads_are_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "HEAD_SECONDS", 0.05)
        async with serving(build_app(view_now(make_view(1)))) as (client, port):
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
        monkeypatch.setattr(server, "HEAD_SECONDS", 0.05)
        async with serving(build_app(view_now(make_view(1)))) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(2):
                writer.write(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
                answer = await asyncio.wait_for(reader.readuntil(b"healthy\n"), 2)
                assert answer.startswith(b"HTTP/1.1 200")
                await asyncio.sleep(0.15)
            writer.close()

    async def test_unread_responses_are_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "READ_SECONDS", 0.1)
        lost = asyncio.Event()
        losing = server._Protocol.connection_lost

        def connection_lost(self: server._Protocol, error: Exception | None) -> None:
            losing(self, error)
            lost.set()

        monkeypatch.setattr(server._Protocol, "connection_lost", connection_lost)
        app = build_app(view_now(make_view(60, efa=16)), max_series=10**6)
        async with serving(app) as (_, port):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
            sock.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 4)
            await asyncio.wait_for(lost.wait(), 5)
            sock.close()


class TestListen:
    @pytest.mark.parametrize(
        ("text", "address"),
        [
            ("127.0.0.1:10042", ("127.0.0.1", 10042)),
            (":9000", ("", 9000)),
            ("[::1]:10042", ("::1", 10042)),
            ("[fe80::1%eth0]:1", ("fe80::1%eth0", 1)),
            ("10042", ("127.0.0.1", 10042)),
            ("localhost:0", ("localhost", 0)),
            ("0.0.0.0:65535", ("0.0.0.0", 65535)),
        ],
    )
    def test_addresses(self, text: str, address: tuple[str, int]) -> None:
        assert parse_listen(text) == address

    @pytest.mark.parametrize(
        "text",
        [
            *("", ":", "host", "host:", "host:http", "1.2.3.4:65536", "::1:10042", "[::1]"),
            *("[x]:1", "http://host:1", "host:-1", "a b:1", "host:1\n", "[::1:1", "host:٣"),
        ],
    )
    def test_nonsense(self, text: str) -> None:
        with pytest.raises(UsageError, match="say 127\\.0\\.0\\.1:10042"):
            parse_listen(text)

    def test_taken_port(self) -> None:
        with bind("127.0.0.1", 0) as sock:
            port = sock.getsockname()[1]
            with pytest.raises(TrntopError, match=rf"^127\.0\.0\.1:{port} is taken by another"):
                bind("127.0.0.1", port)

    def test_unknown_host(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def unknown(*_: object, **__: object) -> None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        with pytest.raises(TrntopError, match=r"^nowhere:1: cannot listen there: Name or service"):
            bind("nowhere", 1)

    def test_chosen_port_is_told(self) -> None:
        with bind("127.0.0.1", 0) as sock:
            assert url(sock) == f"http://127.0.0.1:{sock.getsockname()[1]}"
            assert sock.getsockname()[1] > 0

    def test_every_interface(self) -> None:
        with bind("", 0) as sock:
            port = sock.getsockname()[1]
            socket.create_connection(("127.0.0.1", port), 2).close()

    @pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
    def test_ipv6(self) -> None:
        try:
            sock = bind("::1", 0)
        except TrntopError:
            pytest.skip("no IPv6 loopback here")
        with sock:
            assert url(sock).startswith("http://[::1]:")


SERVE = """
import sys
from tests.builders import make_view
from trntop.exporters.server import build_app, serve
view = make_view(1)
serve(build_app(lambda: view), "127.0.0.1", 0)
print("stopped", [m for m in ("textual", "boto3", "httpx") if m in sys.modules])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_it_at_once_despite_open_connections(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("trntop: serving http://127.0.0.1:"), line
            address = line.split()[2].removesuffix("/metrics")
            port = int(address.rpartition(":")[2])
            with (
                socket.create_connection(("127.0.0.1", port)),
                socket.create_connection(("127.0.0.1", port)) as half,
                httpx.Client(base_url=address, trust_env=False) as client,
            ):
                half.send(b"GET /metrics HTTP/1.1\r\n")
                assert client.get("/metrics").status_code == 200
                start = time.monotonic()
                process.send_signal(number)
                out, err = process.communicate(timeout=5)
                assert time.monotonic() - start < 1.0
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "stopped []\n", "")
