"""Requests to the HTTP API of Prometheus, with limits of bytes and time.

https://prometheus.io/docs/prometheus/latest/querying/api/
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from trntop.collectors import aws
from trntop.collectors.fleet import connection
from trntop.core.errors import TrntopError
from trntop.core.settings import Fleet
from trntop.core.text import clean
from trntop.session.collector import Sink

from .address import Address

MAX_BYTES = 64 << 20
"""Longest response, some 300,000 series, and limit of all responses of a refresh: series take five
times their length in memory.
"""
MAX_ITEMS = 1_200_000
"""Most objects and arrays of a response: a series has three. An empty one takes 3 bytes on the wire
and a hundred in memory.
"""
SECONDS = 10.0
"""Timeout of a query."""
SLACK = 2.0
"""Seconds added to the timeout of the server."""
MAX_WAIT = 300.0
"""Longest `Retry-After` that is used."""
MAX_TEXT = 160
AT_ONCE = 4
"""Concurrent queries of a refresh."""
CLOCK_SLACK = 2.0
"""Clock differences below this are ignored, because `Date` has whole seconds."""
FORM = {"Content-Type": "application/x-www-form-urlencoded"}

Labels = Mapping[str, str]
Rows = Iterator[tuple[Labels, float]]


class BackendError(TrntopError):
    """A query without a usable response.

    Args:
        text: the reason.
        wait: seconds of its `Retry-After`.
        reprobe: whether to probe the server again: it may be a different one.
    """

    def __init__(self, text: str, wait: float | None = None, *, reprobe: bool = False) -> None:
        super().__init__(text)
        self.wait = wait
        self.reprobe = reprobe


class Row(msgspec.Struct, gc=False):
    """One series of a response; `gc=False`, because a response has tens of thousands."""

    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None
    values: tuple[tuple[float, str], ...] = ()


class _Data(msgspec.Struct):
    result_type: str = msgspec.field(default="", name="resultType")
    result: list[Row] = []


class _Response(msgspec.Struct):
    status: str = ""
    data: _Data | list[str] | None = None
    error_type: str = msgspec.field(default="", name="errorType")
    error: str = ""
    warnings: list[str] | None = None
    partial: bool = msgspec.field(default=False, name="isPartial")


_decoder = msgspec.json.Decoder(_Response)


@dataclass(slots=True)
class Result:
    """The series of a query, and the warnings of the server."""

    series: list[Row]
    notes: list[str] = field(default_factory=list)

    def rows(self) -> Rows:
        """Labels and finite value of each series at one instant."""
        for row in self.series:
            if row.value is not None and (value := number(row.value[1])) == value:
                yield row.metric, value


@dataclass(slots=True)
class _Budget:
    """The bytes that the responses to some queries may still have in total."""

    left: int


class Client:
    """One backend; use it on one event loop.

    Args:
        address: its address.
        fleet: the settings: certificates, secrets, tenant.
        wall: unix seconds of this machine.

    Raises:
        SettingsError: a file that the settings name cannot be used.
    """

    def __init__(
        self, address: Address, fleet: Fleet, wall: Callable[[], float] = time.time
    ) -> None:
        connection.check(fleet)
        self.wall = wall
        self.notes: list[str] = []
        """What the newest refresh lacks, and why."""
        self._url = address.url
        self._fleet = fleet
        tenant = address.tenant or fleet.tenant
        self._headers = {"X-Scope-OrgID": tenant} if tenant else {}
        self._signer = aws.Signer("aps", address.region) if address.region else None
        self._session: aiohttp.ClientSession | None = None
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._ahead = 0.0
        """Seconds that the server's clock is ahead."""

    async def close(self) -> None:
        """Closes all connections, which cancels their queries on the server."""
        if self._session is not None:
            await self._session.close()

    def now(self) -> float:
        """The server's time."""
        return self.wall() + self._ahead

    def to_local(self, time: float, sink: Sink) -> float:
        """The session's time of a time of the server."""
        return time - self.now() + sink.now()

    async def instant(
        self, query: str, at: float, seconds: float = SECONDS, budget: _Budget | None = None
    ) -> Result:
        """The series of a query at one time of the server.

        Raises:
            BackendError: there is no usable response.
        """
        form = {"query": query, "time": f"{at:.3f}"}
        return await self._series("query", form, seconds, budget)

    async def range(self, query: str, start: float, end: float, step: float) -> Result:
        """The series of a query over time.

        Raises:
            BackendError: there is no usable response.
        """
        span = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        return await self._series("query_range", {"query": query, **span}, SECONDS)

    async def names(self, start: float, end: float, seconds: float) -> frozenset[str]:
        """The names of all metrics in a span of time, from the index.

        Raises:
            BackendError: there is no usable response.
        """
        span = urlencode({"start": f"{start:.3f}", "end": f"{end:.3f}"})
        body = await self._request("GET", f"label/__name__/values?{span}", b"", seconds)
        names = _decoded(body).data
        if not isinstance(names, list):
            raise BackendError("it responds, but not as Prometheus does", reprobe=True)
        return frozenset(names)

    async def refresh(
        self, queries: Mapping[str, str], at: float, required: tuple[str, ...] = ()
    ) -> dict[str, Result]:
        """The results of several queries; a failed one is noted, unless it is required.

        Raises:
            BackendError: a required query failed.
        """
        budget = _Budget(MAX_BYTES)
        tasks = [
            asyncio.create_task(self._in_turn(query, at, budget)) for query in queries.values()
        ]
        try:
            found = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
        results: dict[str, Result] = {}
        for key, result in zip(queries, found, strict=True):
            if isinstance(result, Result):
                results[key] = result
                self.notes += result.notes
            elif not isinstance(result, BackendError) or key in required:
                raise result
            else:
                self.notes.append(f"no response for {key}: {result}")
        return results

    async def _in_turn(self, query: str, at: float, budget: _Budget) -> Result:
        async with self._turns:
            return await self.instant(query, at, budget=budget)

    async def _series(
        self, path: str, form: Mapping[str, str], seconds: float, budget: _Budget | None = None
    ) -> Result:
        # VictoriaMetrics caches, and hides the newest half minute, unless `nocache` is set.
        limits = {"timeout": f"{seconds:g}s", "nocache": "1"}
        encoded = urlencode({**form, **limits}).encode()
        body = await self._request("POST", path, encoded, seconds, budget)
        response = _decoded(body)
        data = response.data
        if not isinstance(data, _Data) or data.result_type not in ("vector", "matrix"):
            raise BackendError("it responds, but not as Prometheus does", reprobe=True)
        notes = [clean(text, MAX_TEXT) for text in response.warnings or ()]
        if response.partial:
            notes.append("partial response: a part of its storage is not available")
        return Result(data.result, notes)

    async def _request(
        self, method: str, path: str, body: bytes, seconds: float, budget: _Budget | None = None
    ) -> bytes:
        """The body of a response.

        Raises:
            BackendError: there is no usable response.
        """
        if self._session is None:
            self._session = connection.session(self._fleet, signed=self._signer is not None)
        url = f"{self._url}/api/v1/{path}"
        headers = self._headers | (FORM if body else {})
        try:
            async with asyncio.timeout(seconds + SLACK):
                if self._signer is not None:
                    headers |= await self._signer.headers(method, url, body, headers)
                async with self._session.request(
                    method, URL(url, encoded=True), data=body or None, headers=headers,
                    allow_redirects=False,
                ) as response:  # fmt: skip
                    self._note_clock(response)
                    content = await _read(response, budget or _Budget(MAX_BYTES))
        except aiohttp.ConnectionTimeoutError as error:
            raise BackendError(connection.reason(error)) from error
        except TimeoutError:
            raise BackendError(f"no response within {seconds:g} s") from None
        except aws.AwsError as error:
            raise BackendError(str(error)) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise BackendError(connection.reason(error)) from error
        if response.status != 200:
            raise _refusal(response, content)
        return content

    def _note_clock(self, response: aiohttp.ClientResponse) -> None:
        try:
            time = parsedate_to_datetime(response.headers["Date"]).timestamp()
        except (KeyError, ValueError, TypeError, OverflowError):
            return
        ahead = time + 0.5 - self.wall()
        self._ahead = ahead if abs(ahead) > CLOCK_SLACK else 0.0


def number(text: str) -> float:
    """A value as the API writes it; NaN unless it is finite."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


async def _read(response: aiohttp.ClientResponse, budget: _Budget) -> bytes:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise BackendError("its response is compressed, which was not requested", reprobe=True)
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        budget.left -= len(chunk)
        if budget.left < 0:
            raise BackendError(
                f"responses of more than {MAX_BYTES >> 20} MiB: narrow it with match="
            )
    return bytes(body)


def _decoded(body: bytes) -> _Response:
    if body.count(b"{") + body.count(b"[") > MAX_ITEMS:
        raise BackendError("a response with too many series: narrow it with match=")
    try:
        response = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if body.lstrip()[:1] == b"<":
            text = "it responds with a web page: is there a login in between?"
        else:
            text = f"it responds, but not as Prometheus does: {clean(str(error), 80)}"
        raise BackendError(text, reprobe=True) from error
    if response.status != "success":
        raise _failure(response, None)
    return response


def _refusal(response: aiohttp.ClientResponse, body: bytes) -> BackendError:
    """The error of a status other than 200."""
    status, wait = response.status, _retry_after(response)
    if status in (401, 403):
        return BackendError(f"{status}: access denied; see fleet.token_file, fleet.user")
    if 300 <= status < 400:
        return BackendError(f"{status}: it redirects: is there a login in between?", reprobe=True)
    try:
        answer = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        answer = _Response()
    if status == 429:
        return BackendError(f"429: too many queries{_detail(answer.error)}", wait)
    if answer.error_type or answer.error:
        return _failure(answer, wait)
    if status == 404:
        text = "404: no Prometheus API there; is a prefix missing?"
        return BackendError(text, reprobe=True)
    if status in (502, 503, 504):
        return BackendError(f"{status}: not available now", wait)
    return BackendError(f"{status}: no reason given", wait)


def _failure(answer: _Response, wait: float | None) -> BackendError:
    reprobe = answer.error_type in ("bad_data", "not_found")
    return BackendError(
        f"the server reports an error{_detail(answer.error)}", wait, reprobe=reprobe
    )


def _detail(text: str) -> str:
    return f": {clean(text, MAX_TEXT)}" if text else ""


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    """`Retry-After`, if it has seconds."""
    text = response.headers.get("Retry-After", "")
    return min(float(text), MAX_WAIT) if text.isascii() and text.isdigit() else None
