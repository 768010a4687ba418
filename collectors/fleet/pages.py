"""Metrics pages of other exporters, polled: AWS's neuron-monitor-prometheus.py and EFA node
exporter.

A page is passed on unchanged, to the decoder of each known source in it. If shares on it were ever
in percent, a comment above the page marks them: the values of an idle node would not show it.
"""

import asyncio
import re
import zlib
from collections.abc import Callable
from typing import NoReturn

import aiohttp

from trntop.catalog import EFA_EXPORTER, NEURON_EXPORTER
from trntop.core.model import Reading, State, Status
from trntop.core.text import clean
from trntop.session.collector import Sink
from trntop.sources import exporter_page

from . import connection
from .target import FindError, Target

PERIOD = 5.0
"""Seconds between two polls."""
DEADLINE = 4.0
"""Seconds for a whole page."""
MAX_BYTES = exporter_page.MAX_BYTES
FAILURES = 3
"""Failed polls in a row after which the address is probed again."""
HEADERS = {"Accept": "text/plain;version=0.0.4;q=1,text/plain;q=0.5"}
TEXT = ("text/plain", "application/openmetrics-text")
"""Content types of a metrics page."""

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
"""Source → what is only on its page."""


class TakenError(FindError):
    """Another owner has the name of the node, or provides the same sources."""


async def poll(
    session: aiohttp.ClientSession, target: Target, sink: Sink, register: Callable[..., str]
) -> NoReturn:
    """Polls a page every `PERIOD` until cancelled.

    Args:
        session: shared by all nodes.
        target: the node and the address of the page.
        sink: receives its readings.
        register: registers the target's name for its sources; returns the reason if it is taken.

    Raises:
        FindError: there is no page of a known exporter, or not any more.
    """
    url = page_url(target.address)
    loop = asyncio.get_running_loop()
    page = await fetch(session, url)
    sources = kinds(page)
    if not sources:
        raise FindError(_stranger(page, target))
    if taken := register(*sources):
        raise TakenError(taken)
    failures = 0
    # Spreads the polls of all nodes over the period.
    due = loop.time() + PERIOD * (1 + zlib.crc32(target.address.encode()) / 2**32)
    while True:
        for source in sources:
            sink.reading(Reading(target.name, source, sink.now(), page))
        while True:
            await asyncio.sleep(due - loop.time())
            due = max(due + PERIOD, loop.time())
            try:
                page = await fetch(session, url)
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
    """The URL of the page of an address: its own path, else `/metrics`."""
    has_path = "/" in address.partition("://")[2]
    return address if has_path else f"{address}/metrics"


def kinds(page: bytes) -> tuple[str, ...]:
    """The sources of a page."""
    if _TRNTOP.search(page):
        return ()
    return tuple(source for source, mark in _MARKS.items() if mark.search(page))


async def fetch(session: aiohttp.ClientSession, url: str) -> bytes:
    """A metrics page.

    Raises:
        FindError: the reason why there is none, without its body, a redirect or a secret.
    """
    try:
        async with (
            asyncio.timeout(DEADLINE),
            session.get(url, headers=HEADERS, allow_redirects=False) as response,
        ):
            return await _body(response)
    except TimeoutError:
        raise FindError(f"no whole page within {DEADLINE:g} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise FindError(connection.reason(error)) from None


async def _body(response: aiohttp.ClientResponse) -> bytes:
    if 300 <= response.status < 400:
        raise FindError("redirects elsewhere, which is not followed")
    if response.status != 200:
        raise FindError(f"no metrics page: HTTP {response.status}")
    kind = response.headers.get("Content-Type", "text/plain").partition(";")[0].strip().lower()
    if kind not in TEXT:
        raise FindError(f"no metrics page but {clean(kind, 40)}")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise FindError("its page is compressed, which was not requested")
    page = bytearray()
    async for chunk in response.content.iter_any():
        page += chunk
        if len(page) > MAX_BYTES:
            raise FindError(f"a page of more than {MAX_BYTES >> 20} MiB")
    return bytes(page)


def _stranger(page: bytes, target: Target) -> str:
    """Why a page cannot be used."""
    if _TRNTOP.search(page):
        if target.address.endswith("/metrics"):
            return "this is a trntop agent: omit /metrics from its address"
        return "a trntop agent that is too old to stream: update it"
    return "its metrics page is not from neuron-monitor-prometheus.py or the EFA node exporter"
