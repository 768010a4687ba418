import asyncio
import contextlib
import time
import zlib
from collections.abc import AsyncIterator

import pytest

from tests.collectors.recording_sink import RecordingSink
from tests.exporter_server import TEXT, Handler, giving, response, server
from trntop.catalog import EFA_EXPORTER, NEURON_EXPORTER
from trntop.collectors.fleet import connection, pages
from trntop.collectors.fleet.pages import fetch, kinds, page_url, poll
from trntop.collectors.fleet.target import FindError, Target
from trntop.core.model import State
from trntop.core.settings import Fleet
from trntop.sources import DECODERS

NEURON = b'neuron_hardware_info{neuron_device_count="1",neuroncore_per_device_count="2"} 1\n'
CORES = NEURON + b'neuroncore_utilization_ratio{neuroncore="%d",runtime_tag="1"} %s\n'
EFA = b'node_amazonefa_tx_bytes{device="rdmap0s1",port="1"} 7\n'


async def fetched(handler: Handler) -> bytes:
    async with server(handler) as port, connection.session(Fleet()) as session:
        return await fetch(session, f"http://127.0.0.1:{port}/metrics")


async def test_a_page_as_it_is() -> None:
    assert await fetched(giving(response(NEURON))) == NEURON


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (response(b"<html>", Content_Type="text/html"), "text/html"),
        (response(b"", "404 Not Found"), "HTTP 404"),
        (response(b"", "401 Unauthorized"), "HTTP 401"),
        (response(b"", "302 Found", Location="http://169.254.169.254/"), "not followed"),
        (response(b"", "301 Moved", Location="file:///etc/passwd"), "not followed"),
        (response(b"x", Content_Encoding="gzip"), "compressed"),
        (response(b"x", Content_Length="100"), "connection closed"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "not an HTTP response"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 100_000 + b"\r\n", "not an HTTP response"),
    ],
)
async def test_what_is_no_page_is_refused(answer: bytes, message: str) -> None:
    with pytest.raises(FindError, match=message) as caught:
        await fetched(giving(answer))
    assert "169.254" not in str(caught.value)


async def test_a_body_without_end_is_cut() -> None:
    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {TEXT}\r\n\r\n".encode())
        while True:
            writer.write(b"# more\n" * 10_000)
            await writer.drain()

    with pytest.raises(FindError, match="more than 16 MiB"):
        await fetched(pour)


@pytest.mark.parametrize("drip", [b"", b"#"])
async def test_fault_26_a_body_has_a_deadline_in_all(
    drip: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "DEADLINE", 0.3)

    async def crawl(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {TEXT}\r\n\r\n".encode())
        while True:
            writer.write(drip)
            await writer.drain()
            await asyncio.sleep(0.02)

    began = time.monotonic()
    with pytest.raises(FindError, match=r"no whole page within 0\.3 s"):
        await fetched(crawl)
    assert time.monotonic() - began < 3


async def test_no_server() -> None:
    async with connection.session(Fleet()) as session:
        with pytest.raises(FindError, match="connection refused"):
            await fetch(session, "http://127.0.0.1:9/metrics")


def test_paths() -> None:
    assert page_url("http://trn-1:8000") == "http://trn-1:8000/metrics"
    assert page_url("http://trn-1:8000/metrics") == "http://trn-1:8000/metrics"
    assert page_url("http://trn-1:9/federate/x") == "http://trn-1:9/federate/x"


@pytest.mark.parametrize(
    ("page", "sources"),
    [
        (NEURON, (NEURON_EXPORTER,)),
        (b"# HELP\n" + EFA, (EFA_EXPORTER,)),
        (NEURON + EFA, (NEURON_EXPORTER, EFA_EXPORTER)),
        (b'node_scrape_collector_success{collector="amazonefa"} 0\n', (EFA_EXPORTER,)),
        (b"neuron_runtime_vcpu_usage_ratio 0.1\n", ()),
        (b"python_gc_objects_collected_total 1\n", ()),
        (b'# neuron_hardware_info\nx{y="neuron_hardware_info{"} 1\n', ()),
        (b'trntop_build_info{version="0.0.9"} 1\n' + NEURON, ()),
    ],
)
def test_the_source_of_a_page(page: bytes, sources: tuple[str, ...]) -> None:
    assert kinds(page) == sources


@contextlib.asynccontextmanager
async def polled(
    handler: Handler, monkeypatch: pytest.MonkeyPatch, path: str = "/metrics"
) -> AsyncIterator[tuple[RecordingSink, asyncio.Task[None]]]:
    monkeypatch.setattr(pages, "PERIOD", 0.05)
    sink = RecordingSink()
    async with server(handler) as port, connection.session(Fleet()) as session:
        target = Target("trn-1", f"http://127.0.0.1:{port}{path}")
        task = asyncio.create_task(poll(session, target, sink, lambda *_: ""))
        try:
            yield sink, task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_page_is_handed_over_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    async with polled(giving(response(NEURON + EFA)), monkeypatch, path="") as (sink, _):
        await sink.until(lambda: len(sink.readings) >= 4)
    assert [(reading.node, reading.source) for reading in sink.readings[:2]] == [
        ("trn-1", NEURON_EXPORTER), ("trn-1", EFA_EXPORTER),
    ]  # fmt: skip
    for reading in sink.readings:
        assert reading.data == NEURON + EFA
        DECODERS[reading.source](reading.data)


async def test_a_failing_page_is_reported_and_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = response(NEURON), response(b"", "503 Busy")
    async with polled(giving(good, bad, good), monkeypatch) as (sink, _):
        await sink.until(lambda: len(sink.readings) >= 2)
    assert sink.reasons(State.DOWN) == ["no metrics page: HTTP 503"]
    assert sink.statuses[0].source == NEURON_EXPORTER


async def test_a_page_that_is_gone_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = giving(response(NEURON), response(b"", "503 Busy"))
    async with polled(answers, monkeypatch) as (sink, task):
        with pytest.raises(FindError, match="503"):
            await asyncio.wait_for(task, 5)
        assert len(sink.reasons(State.DOWN)) == pages.FAILURES


@pytest.mark.parametrize(
    ("page", "path", "message"),
    [
        (b"go_goroutines 8\n", "/metrics", "not from neuron-monitor-prometheus.py"),
        (b"trntop_build_info 1\n", "/metrics", "omit /metrics"),
        (b"trntop_build_info 1\n", "", "too old to stream"),
    ],
)
async def test_a_stranger_is_refused(
    page: bytes, path: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with polled(giving(response(page)), monkeypatch, path) as (sink, task):
        with pytest.raises(FindError, match=message):
            await asyncio.wait_for(task, 5)
    assert not sink.readings


async def test_polls_are_spread_over_the_period() -> None:
    """Nodes do not poll all at one time: each has its own offset in the period."""
    places = {zlib.crc32(f"http://trn-{n}:8000/metrics".encode()) * 10 // 2**32 for n in range(100)}
    assert places == set(range(10))
