"""Questions to a server that speaks Prometheus' HTTP API, and what can go wrong with them.

https://prometheus.io/docs/prometheus/latest/querying/api/ . Answers are read up to a limit of
bytes and of time; what the server warns of is handed on.
"""

import asyncio
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Any
from urllib.parse import urlencode

import httpx
import msgspec

from trntop.collectors.fleet import connection
from trntop.core.errors import TrntopError
from trntop.core.settings import Fleet
from trntop.core.text import clean

from .address import Address
from .sigv4 import SigningError, SigV4

MAX_BYTES = 64 << 20
"""Longest answer that is read: some 300,000 series."""
SLACK = 2.0
"""Seconds more than the server is given, for the way."""
MAX_WAIT = 300.0
"""The longest pause that a server may ask for."""
MAX_TEXT = 160

Labels = Mapping[str, str]


class Trouble(Enum):
    """Kinds of failures; the text says which."""

    UNREACHABLE = auto()
    SLOW = auto()
    REFUSED = auto()
    """Who asks is not let in."""
    NO_BACKEND = auto()
    """Something else answers: a login page, another program."""
    BAD_QUERY = auto()
    """What was asked is not understood."""
    TOO_MUCH = auto()
    """The answer, or the way to it, is beyond a limit of the server or of ours."""
    BUSY = auto()
    """The server wants to be left alone for a while."""
    BROKEN = auto()


class BackendError(TrntopError):
    """A question got no answer that can be used.

    Args:
        kind: of the failure.
        text: why, in words.
        wait: seconds that the server asks for, if it does.
    """

    def __init__(self, kind: Trouble, text: str, wait: float | None = None) -> None:
        super().__init__(text)
        self.kind = kind
        self.wait = wait


class Row(msgspec.Struct, gc=False):
    """One series of an answer.

    An answer has tens of thousands of them: nothing here is for the garbage collector, whose looks
    at them would take longer than the decoding.
    """

    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None
    values: tuple[tuple[float, str], ...] = ()
    histogram: msgspec.Raw = msgspec.Raw()
    histograms: msgspec.Raw = msgspec.Raw()


class _Data(msgspec.Struct):
    result_type: str = msgspec.field(default="", name="resultType")
    result: list[Row] = []


class _Answer(msgspec.Struct):
    status: str = ""
    data: _Data | None = None
    error_type: str = msgspec.field(default="", name="errorType")
    error: str = ""
    warnings: list[str] | None = None
    infos: list[str] | None = None
    partial: bool = msgspec.field(default=False, name="isPartial")


class _Plain(msgspec.Struct):
    """An answer whose data are no series."""

    status: str = ""
    data: Any = None
    error_type: str = msgspec.field(default="", name="errorType")
    error: str = ""


_answers = msgspec.json.Decoder(_Answer)
_plain = msgspec.json.Decoder(_Plain)


@dataclass(slots=True)
class Result:
    """The series of an answer, and what the server said about it."""

    rows: list[Row]
    notes: list[str] = field(default_factory=list)


class Client:
    """One engine; use it on one event loop.

    Args:
        address: where it is.
        fleet: how it is reached: certificates, secrets, tenant.

    Raises:
        SettingsError: a file that the settings name cannot be used, or the extra aws is missing.
    """

    def __init__(self, address: Address, fleet: Fleet) -> None:
        self._url = address.url
        self._http = connection.client(fleet)
        if tenant := address.tenant or fleet.tenant:
            self._http.headers["X-Scope-OrgID"] = tenant
        if address.region:
            self._http.auth = SigV4(address.region)
        self._connect = fleet.connect
        self.ahead: float | None = None
        """Seconds that the server's clock is ahead of this machine's, by the newest answer; it is
        told in whole seconds.
        """

    async def close(self) -> None:
        """Ends all connections, and with them what the server still works on."""
        await self._http.aclose()

    async def instant(self, query: str, at: float, seconds: float) -> Result:
        """The series of a query at one moment of the server's time.

        Raises:
            BackendError: there is no answer.
        """
        return await self._series(
            "query", {"query": query, "time": f"{at:.3f}", **_limits(seconds)}, seconds
        )

    async def range(
        self, query: str, start: float, end: float, step: float, seconds: float
    ) -> Result:
        """The series of a query over time.

        Raises:
            BackendError: there is no answer.
        """
        span = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        return await self._series(
            "query_range", {"query": query, **span, **_limits(seconds)}, seconds
        )

    async def names(self, start: float, end: float, seconds: float) -> frozenset[str]:
        """The names of all metrics in a span of time; this asks the index, not the series.

        Raises:
            BackendError: there is no answer.
        """
        span = {"start": f"{start:.3f}", "end": f"{end:.3f}"}
        path = f"label/__name__/values?{urlencode(span)}"
        data = _whole(_plain, await self._ask("GET", path, None, seconds)).data
        if not isinstance(data, list):
            raise BackendError(Trouble.NO_BACKEND, "answers, but not as Prometheus does")
        return frozenset(name for name in data if isinstance(name, str))

    async def build(self, seconds: float) -> str:
        """What the server calls itself: `Prometheus 2.42.0`; empty where it does not say."""
        try:
            body = await self._ask("GET", "status/buildinfo", None, seconds)
            data = _whole(_plain, body).data
        except BackendError as error:
            if error.kind in (Trouble.UNREACHABLE, Trouble.REFUSED, Trouble.SLOW):
                raise
            return ""  # not every server has this page
        told = data if isinstance(data, dict) else {}
        name, version = told.get("application") or "Prometheus", told.get("version") or ""
        return clean(f"{name} {version}".strip(), 64)

    async def _series(self, path: str, form: Mapping[str, str], seconds: float) -> Result:
        answer = _whole(_answers, await self._ask("POST", path, form, seconds))
        if answer.data is None or answer.data.result_type not in ("vector", "matrix"):
            raise BackendError(Trouble.NO_BACKEND, "answers, but not as Prometheus does")
        rows = answer.data.result
        notes = [clean(text, MAX_TEXT) for text in answer.warnings or ()]
        if answer.partial:
            notes.append("the answer is partial: a part of its storage is away")
        if lost := sum(bool(bytes(row.histogram) or bytes(row.histograms)) for row in rows):
            notes.append(f"{lost} histograms where numbers were expected are left out")
        return Result(rows, notes)

    async def _ask(
        self, method: str, path: str, form: Mapping[str, str] | None, seconds: float
    ) -> bytes:
        """The body of an answer.

        Raises:
            BackendError: there is none, or it says that something is wrong.
        """
        content = None if form is None else urlencode(form).encode()
        kind = {} if form is None else {"Content-Type": "application/x-www-form-urlencoded"}
        try:
            async with (
                asyncio.timeout(seconds + SLACK),
                self._http.stream(
                    method,
                    f"{self._url}/api/v1/{path}",
                    content=content,
                    headers=kind,
                    timeout=httpx.Timeout(None, connect=self._connect),
                ) as response,
            ):
                self._note_clock(response)
                body = await _read(response)
        except TimeoutError:
            text = f"no answer within {seconds:g} s"
            raise BackendError(Trouble.SLOW, text) from None
        except SigningError as error:
            raise BackendError(Trouble.REFUSED, str(error)) from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise BackendError(Trouble.UNREACHABLE, connection.reason(error)) from error
        if response.status_code != 200:
            raise _refused(response, body)
        return body

    def _note_clock(self, response: httpx.Response) -> None:
        try:
            told = parsedate_to_datetime(response.headers["Date"]).timestamp()
        except (KeyError, ValueError, TypeError, OverflowError):
            return
        self.ahead = told + 0.5 - time.time()


def number(text: str) -> float:
    """A value as the API writes it, NaN where it is not finite or none."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _limits(seconds: float) -> dict[str, str]:
    # VictoriaMetrics hides the newest half minute from whoever does not ask for no cache.
    return {"timeout": f"{seconds:g}s", "nocache": "1"}


async def _read(response: httpx.Response) -> bytes:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        # It was asked for none, and what it packs may unpack to anything.
        raise BackendError(Trouble.NO_BACKEND, "sends compressed what was asked for plain")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_BYTES:
            raise BackendError(
                Trouble.TOO_MUCH,
                f"an answer of more than {MAX_BYTES >> 20} MiB: narrow it by match=",
            )
    return bytes(body)


def _whole(decoder: "msgspec.json.Decoder[Any]", body: bytes) -> Any:
    """A good answer.

    Raises:
        BackendError: it is none.
    """
    try:
        answer = decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if body.lstrip()[:1] == b"<":
            text = "answers with a page for people, not with data: a login in between?"
        else:
            text = f"answers, but not as Prometheus does: {clean(str(error), 80)}"
        raise BackendError(Trouble.NO_BACKEND, text) from error
    if answer.status != "success":
        raise _failed(answer.error_type, answer.error, None)
    return answer


def _refused(response: httpx.Response, body: bytes) -> BackendError:
    """What a status other than 200 means."""
    status, wait = response.status_code, _wait(response)
    if status in (401, 403):
        return BackendError(
            Trouble.REFUSED, f"{status}: it does not let us in; see fleet.token_file, fleet.user"
        )
    if 300 <= status < 400:
        return BackendError(Trouble.NO_BACKEND, f"{status}: it sends us elsewhere: to a login?")
    try:
        answer = _plain.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        answer = _Plain()
    if status == 429:
        return BackendError(Trouble.BUSY, f"429: too many questions{_said(answer.error)}", wait)
    if answer.error_type or answer.error:
        return _failed(answer.error_type, answer.error, wait)
    if status == 404:
        return BackendError(
            Trouble.NO_BACKEND, "404: no Prometheus API there; is a prefix missing?"
        )
    if status in (502, 503, 504):
        return BackendError(Trouble.BUSY, f"{status}: not available now", wait)
    return BackendError(Trouble.BROKEN, f"{status}: no reason given", wait)


_TYPES = {
    "bad_data": (Trouble.BAD_QUERY, "does not understand the question"),
    "execution": (Trouble.TOO_MUCH, "could not work out the answer"),
    "timeout": (Trouble.SLOW, "took too long"),
    "canceled": (Trouble.SLOW, "gave up"),
    "unavailable": (Trouble.BUSY, "is not available now"),
    "not_found": (Trouble.NO_BACKEND, "does not know this question"),
    "too_many_requests": (Trouble.BUSY, "is asked too much"),
    "422": (Trouble.TOO_MUCH, "could not work out the answer"),
}
"""By the API's `errorType`; VictoriaMetrics gives the status instead."""


def _failed(kind: str, error: str, wait: float | None) -> BackendError:
    trouble, text = _TYPES.get(kind, (Trouble.BROKEN, "answers with an error"))
    return BackendError(trouble, f"it {text}{_said(error)}", wait)


def _said(text: str) -> str:
    return f": {clean(text, MAX_TEXT)}" if text else ""


def _wait(response: httpx.Response) -> float | None:
    """`Retry-After`, in seconds."""
    text = response.headers.get("Retry-After", "")
    if text.isascii() and text.isdigit():
        return min(float(text), MAX_WAIT)
    try:
        seconds = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAX_WAIT)


def plain(rows: Iterable[Row]) -> Iterator[tuple[Labels, float]]:
    """Labels and value of each series of an instant; those without a finite one left out."""
    for row in rows:
        if row.value is not None and (value := number(row.value[1])) == value:
            yield row.metric, value
