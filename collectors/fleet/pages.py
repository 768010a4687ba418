"""Nodes of which only another exporter's page of metrics can be had: polled.

Known are AWS's neuron-monitor-prometheus.py and the EFA node exporter. A page is
handed over as it came, each kind to its decoder. Where its shares are in percent, a comment above
it says so from then on: on an idle node nobody could tell.
"""

import asyncio
import re
import zlib
from collections.abc import Callable
from typing import NoReturn

import httpx

from trntop.catalog import EFA_EXPORTER, NEURON_EXPORTER
from trntop.core.errors import DecodeError
from trntop.core.model import Reading, State, Status
from trntop.core.text import clean
from trntop.session.collector import Sink
from trntop.sources import exporter_page, neuron_page

from . import connection
from .target import FindError, Target

PERIOD = 5.0
"""Seconds from one look to the next."""
DEADLINE = 4.0
"""Seconds that a page may take in all."""
MAX_WIRE = 4 << 20
MAX_BYTES = exporter_page.MAX_BYTES
FAILURES = 3
"""Looks in vain after which it is asked anew what is there."""
HEADERS = {
    "Accept": "text/plain;version=0.0.4;q=1,text/plain;q=0.5",
    "Accept-Encoding": "gzip",
}

_TRNTOP = re.compile(rb"^trntop_build_info\b", re.MULTILINE)
_MARKS = {
    NEURON_EXPORTER: re.compile(
        rb"^neuron(?:_hardware_info|_runtime_memory_used_bytes|core_utilization_ratio"
        rb"|core_memory_usage_\w+)[{ ]",
        re.MULTILINE,
    ),
    EFA_EXPORTER: re.compile(
        rb'^node_(?:amazonefa_|scrape_collector_success\{collector="amazonefa")', re.MULTILINE
    ),
}
"""Source → what tells its page."""
_TEXT = ("text/plain", "application/openmetrics-text")
_GZIP = 31
"""What zlib calls the gzip format."""


class TakenError(FindError):
    """What a page tells, another tells of the node already, or of one that is called the same."""


async def poll(
    client: httpx.AsyncClient, target: Target, sink: Sink, register: Callable[..., str]
) -> NoReturn:
    """Looks at a node's page each `PERIOD` until cancelled; the first look is at once.

    Args:
        client: the client for all.
        target: where the page is.
        sink: takes its readings.
        register: takes the target's name for the sources that it is given; returns why not.

    Raises:
        FindError: there is no page, it is none of a known exporter, or it is gone.
    """
    url = page_url(target.address)
    loop = asyncio.get_running_loop()
    page = await fetch(client, url)
    sources = kinds(page)
    if not sources:
        raise FindError(_stranger(page, target))
    if taken := register(*sources):
        raise TakenError(taken)
    percent: frozenset[str] = frozenset()
    failures = 0
    # Each node at its own moment of the period, so that no burst comes back.
    due = loop.time() + PERIOD * (1 + zlib.crc32(target.address.encode()) / 2**32)
    while True:
        for source in sources:
            data = page
            if source == NEURON_EXPORTER:
                data, percent = _marked(page, percent)
            sink.reading(Reading(target.name, source, sink.now(), data))
        while True:
            await asyncio.sleep(due - loop.time())
            due = max(due + PERIOD, loop.time())
            try:
                page = await fetch(client, url)
            except FindError as error:
                failures += 1
                for source in sources:
                    sink.status(Status(target.name, source, State.DOWN, str(error)))
                if failures >= FAILURES:
                    raise
                continue
            failures = 0
            break


def page_url(address: str) -> str:
    """Where the page of an address is: its own path, else `/metrics`."""
    has_path = "/" in address.partition("://")[2]
    return address if has_path else f"{address}/metrics"


def kinds(page: bytes) -> tuple[str, ...]:
    """The sources whose decoders can read something on a page."""
    if _TRNTOP.search(page):
        return ()
    return tuple(source for source, mark in _MARKS.items() if mark.search(page))


async def fetch(client: httpx.AsyncClient, url: str) -> bytes:
    """A page of metrics, unpacked.

    Raises:
        FindError: why there is none; nothing of a redirect, a secret or a body is in it.
    """
    try:
        async with asyncio.timeout(DEADLINE):
            async with client.stream(
                "GET", url, headers=HEADERS, follow_redirects=False
            ) as response:
                return await _body(response)
    except TimeoutError:
        raise FindError(f"no whole page within {DEADLINE:g} s") from None
    except (httpx.HTTPError, OSError) as error:
        raise FindError(connection.reason(error)) from None


async def _body(response: httpx.Response) -> bytes:
    if response.is_redirect:
        raise FindError("redirects elsewhere, which is not followed")
    if response.status_code != 200:
        raise FindError(f"no page of metrics: HTTP {response.status_code}")
    kind = response.headers.get("content-type", "text/plain").partition(";")[0].strip().lower()
    if kind not in _TEXT:
        raise FindError(f"no page of metrics but {clean(kind, 40)}")
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip", ""):
        raise FindError(f"packed as {clean(coding, 40)}, which was not asked for")
    packed = bytearray()
    async for chunk in response.aiter_raw():
        packed += chunk
        if len(packed) > MAX_WIRE:
            raise FindError(f"a page of more than {MAX_WIRE >> 20} MiB")
    return inflate(bytes(packed)) if coding == "gzip" else bytes(packed)


def inflate(packed: bytes) -> bytes:
    """What gzip packed, if it is not more than `MAX_BYTES`.

    Raises:
        FindError: it is more, or damaged.
    """
    unpacker = zlib.decompressobj(_GZIP)
    try:
        page = unpacker.decompress(packed, MAX_BYTES)
    except zlib.error:
        raise FindError("a page that cannot be unpacked") from None
    if unpacker.unconsumed_tail:
        raise FindError(f"a page that unpacks to more than {MAX_BYTES >> 20} MiB")
    if not unpacker.eof or unpacker.unused_data:
        raise FindError("a page that cannot be unpacked")
    return page


def _marked(page: bytes, percent: frozenset[str]) -> tuple[bytes, frozenset[str]]:
    """The page, with what is known of its scales, and what is known now."""
    try:
        now = percent | exporter_page.percents(page, neuron_page.FAMILIES)
    except DecodeError:
        now = percent
    # What this page shows for the first time, its decoder finds and tells.
    if not percent:
        return page, now
    note = f"{exporter_page.NOTE}{' '.join(sorted(percent))}\n"
    return note.encode() + page, now


def _stranger(page: bytes, target: Target) -> str:
    """What an unknown page is, in words."""
    if _TRNTOP.search(page):
        if target.address.endswith("/metrics"):
            return "this is a trntop agent: leave /metrics out of its address"
        return "an agent of trntop that is too old to stream: update it"
    return "its page of metrics is none of neuron-monitor-prometheus.py or the EFA node exporter"
