import gc
import gzip
import os
import signal
import socket
import subprocess
import sys
import tracemalloc
from pathlib import Path

import httpx
import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics
from starlette.types import ASGIApp

from tests.builders import make_view
from tests.serving import app_of, raw, serving
from trntop.catalog import Page
from trntop.core.model import State, View
from trntop.exporters.metrics.exposition import Format
from trntop.exporters.metrics.pages import Exposition, Rendered
from trntop.exporters.web import server
from trntop.exporters.web.readiness import why_not_ready
from trntop.exporters.web.server import build_app

ROOT = Path(__file__).parents[3]
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores"
PAGES = ("/metrics", "/metrics/detail", "/metrics/cores")
PATHS = ("/", *PAGES, "/-/healthy", "/health", "/-/ready")


def direct(app: ASGIApp) -> httpx.AsyncClient:
    """A client of the application without a socket."""
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://trntop", trust_env=False)


def app_on(view: View | None) -> ASGIApp:
    return build_app(lambda: view, Exposition())


class TestPaths:
    async def test_pages(self) -> None:
        async with serving(app_of()) as (client, _):
            responses = {path: await client.get(path) for path in PAGES}
        for response in responses.values():
            assert response.status_code == 200
            assert response.headers["content-type"] == TEXT
            assert response.headers["x-content-type-options"] == "nosniff"
        metrics, detail, cores = responses.values()
        assert "\ntrn_node_neuroncores{" in metrics.text
        assert "\ntrn_device_info{" in detail.text
        assert "\ntrn_neuroncore_utilization_ratio{" in cores.text
        names = [
            {line.partition(" ")[0] for line in response.text.splitlines() if line[0] != "#"}
            for response in responses.values()
        ]
        assert not (names[0] & names[1] or names[1] & names[2] or names[0] & names[2])

    async def test_formats(self) -> None:
        """Both are valid, by the parsers of Prometheus' own client."""
        async with serving(app_of()) as (client, _):
            for path in PAGES:
                text = await client.get(path)
                assert list(parser.text_string_to_metric_families(text.text)), path
                wanted = {"Accept": "application/openmetrics-text;version=1.0.0,*/*;q=0.1"}
                other = await client.get(path, headers=wanted)
                assert other.headers["content-type"] == OPENMETRICS
                assert list(openmetrics.text_string_to_metric_families(other.text)), path
                assert text.headers["vary"] == other.headers["vary"] == "Accept, Accept-Encoding"

    async def test_landing_page_links_the_others(self) -> None:
        async with serving(app_of(make_view(1, simulated=True))) as (client, _):
            response = await client.get("/")
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        for path in (*PAGES, "/-/healthy", "/-/ready"):
            assert f'href="{path}"' in response.text
        assert "SIMULATED" in response.text

    async def test_head(self) -> None:
        async with serving(app_of()) as (client, _):
            for path in PATHS:
                response = await client.head(path)
                assert (response.status_code, response.content) == (200, b""), path
                assert int(response.headers["content-length"]) > 0

    async def test_fault_39_other_methods(self) -> None:
        async with serving(app_of()) as (client, _):
            for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
                response = await client.request(method, "/metrics", content=b"x")
                assert response.status_code == 405, method
                assert {method.strip() for method in response.headers["allow"].split(",")} == {
                    "GET",
                    "HEAD",
                }

    async def test_unknown_paths(self) -> None:
        async with serving(app_of()) as (client, port):
            for path in ("/nope", "/metrics/", "/metrics/x", "/healthz"):
                response = await client.get(path)
                assert response.status_code == 404, path
                assert response.headers["x-content-type-options"] == "nosniff"
            for target in ("//..%2f..%2fetc/passwd", "/../etc/passwd", "/metrics%00"):
                request = f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                answer = await raw(port, request.encode())
                assert answer.startswith(b"HTTP/1.1 404"), target

    async def test_fault_39_queries_and_odd_accepts_give_the_text_format(self) -> None:
        many = "&".join(f"name[]=m{number}" for number in range(1000))
        async with serving(app_of()) as (client, _):
            whole = await client.get("/metrics")
            for accept in ("", "*/*;q=0", "garbage;;;", "application/vnd.google.protobuf"):
                response = await client.get(f"/metrics?{many}", headers={"Accept": accept})
                assert (response.status_code, response.headers["content-type"]) == (200, TEXT)
                assert len(response.content) > 0.9 * len(whole.content), "nothing is filtered"

    async def test_headers_that_are_sent_twice(self) -> None:
        async with serving(app_of()) as (client, _):
            accepts = [("Accept", "text/plain;q=0.1"), ("Accept", "application/openmetrics-text")]
            response = await client.get("/metrics", headers=httpx.Headers(accepts))
        assert response.headers["content-type"] == Format.OPENMETRICS.content_type


class TestCompression:
    async def test_when_the_client_accepts_it(self) -> None:
        async with serving(app_of()) as (client, _):
            plain = await client.get("/metrics", headers={"Accept-Encoding": "identity"})
            packed = await client.get("/metrics", headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert plain.headers["vary"] == packed.headers["vary"] == "Accept, Accept-Encoding"
        assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 4
        assert packed.content == plain.content, "httpx unpacks it"

    async def test_not_below_a_kilobyte(self) -> None:
        async with serving(app_on(None)) as (client, _):
            response = await client.get("/metrics/cores", headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in response.headers


class TestCache:
    def test_renders_and_compresses_once_per_view(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rendered = []
        packed = []
        views = [make_view(1, generation=1)]

        class Counting(Exposition):
            def render(self, view: View | None) -> Rendered:
                rendered.append(view)
                return super().render(view)

        compress = gzip.compress

        def counting(data: bytes, level: int, *, mtime: float) -> bytes:
            packed.append(len(data))
            return compress(data, level, mtime=mtime)

        monkeypatch.setattr(gzip, "compress", counting)
        cache = server._Cache(lambda: views[-1], Counting())
        for _ in range(3):
            assert cache.get(Page.METRICS, Format.TEXT, compressed=True)[1]
            assert not cache.get(Page.CORES, Format.TEXT, compressed=False)[1]
        assert (len(rendered), len(packed)) == (1, 1)
        cache.get(Page.METRICS, Format.OPENMETRICS, compressed=True)
        assert (len(rendered), len(packed)) == (1, 2)
        views.append(make_view(1, generation=2))
        cache.get(Page.METRICS, Format.TEXT, compressed=True)
        assert (len(rendered), len(packed)) == (2, 3)


class TestReadiness:
    async def test_fault_42_a_silent_source_is_reported_and_not_hidden(self) -> None:
        """200 with what is known, so that an alert can go by it; no value of the past."""
        async with direct(app_on(make_view(1, state=State.STALE))) as client:
            page = (await client.get("/metrics")).text
        assert 'trntop_source_up{node="trn-000",source="neuron-monitor"} 0\n' in page
        assert "trntop_source_age_seconds{" in page
        assert "process_cpu_seconds_total" in page
        assert "trn_node_neuroncore_utilization_mean_ratio" not in page

    @pytest.mark.parametrize("state", [State.FRESH, State.LATE])
    async def test_ready(self, state: State) -> None:
        async with direct(app_on(make_view(1, state=state))) as client:
            response = await client.get("/-/ready")
        assert (response.status_code, response.text) == (200, "ready\n")

    @pytest.mark.parametrize(
        ("view", "reason"),
        [
            (None, "not collecting"),
            (make_view(0), "no node has reported yet"),
            (make_view(1, ended=True), "the recording has ended"),
            (
                make_view(1, state=State.DOWN, reason="not installed"),
                "no source is up; trn-000: neuron-monitor down (not installed)",
            ),
            (make_view(2, state=State.STALE), "trn-000: tensor-engine stale"),
            (make_view(1, state=State.STARTING), "trn-000: neuron-monitor starting"),
        ],
    )
    async def test_not_ready_has_a_reason(self, view: View | None, reason: str) -> None:
        async with direct(app_on(view)) as client:
            ready = await client.get("/-/ready")
            assert ready.status_code == 503
            assert reason in ready.text
            for path in (*PAGES, "/-/healthy", "/health", "/"):
                assert (await client.get(path)).status_code == 200, path

    def test_one_live_source_is_enough(self) -> None:
        assert why_not_ready(make_view(2, state=State.DOWN, states={"efa": State.LATE})) == ""

    def test_reasons_are_few(self) -> None:
        assert len(why_not_ready(make_view(500, state=State.STALE))) < 300


SERVE = """
import sys
from tests.builders import make_view
from trntop.exporters.web.listening import listen
from trntop.exporters.metrics.pages import Exposition
from trntop.exporters.web.server import build_app, serve
view = make_view(1)
serve(build_app(lambda: view, Exposition()), listen(["127.0.0.1:0"]))
print("stopped", [m for m in ("textual", "boto3", "httpx", "yaml", "bcrypt") if m in sys.modules])
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
                process.send_signal(number)
                # The connections would be closed after `HEAD_SECONDS`.
                out, err = process.communicate(timeout=5)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "stopped []\n", "")


async def test_fault_38_a_request_of_two_lengths_ends_its_connection() -> None:
    """What follows may be a request that a proxy has not seen."""
    request = (
        b"GET /-/healthy HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
    )
    async with serving(app_of()) as (_, port):
        answer = await raw(port, request)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


async def test_fault_44_scrapes_leave_nothing_behind() -> None:
    """Of each page in both forms, and of new views: what 300 scrapes allocated is gone."""
    shown = [make_view(1)]
    app = build_app(lambda: shown[0], Exposition())
    accepts = ({"accept": "text/plain"}, {"accept": "application/openmetrics-text"})
    async with direct(app) as client:

        async def scrape(times: int) -> None:
            for number in range(times):
                shown[0] = make_view(1)
                response = await client.get(PAGES[number % 3], headers=accepts[number % 2])
                assert response.status_code == 200

        await scrape(24)
        gc.collect()
        tracemalloc.start()
        try:
            await scrape(150)  # the caches of interpreter and libraries are full then
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            await scrape(300)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert after - before < 48 << 10, "160 bytes a scrape"


def test_fault_48_sighup_reads_the_web_configuration_again(tmp_path: Path) -> None:
    file = tmp_path / "web.yml"
    user = "$2y$04$" + "a" * 53
    file.write_text(f"basic_auth_users:\n  alice: {user}\n")
    command = [
        sys.executable, "-m", "trntop", "export", "--listen", "127.0.0.1:0",
        "--web.config.file", str(file), "sim:healthy?nodes=1",
    ]  # fmt: skip
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path)}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environ
    ) as process:
        try:
            assert process.stderr is not None
            assert next(line for line in process.stderr if "serving" in line)
            process.send_signal(signal.SIGHUP)
            assert next(line for line in process.stderr if "reloaded" in line).startswith(
                "trntop: "
            )
            process.terminate()
            assert process.wait(10) == 0
        finally:
            process.kill()
