"""A node under check through its agent, `trntop export --allow-probes`; see docs/probes.md.

Each request has its own deadline. If a request is cancelled, its connection closes, and the agent
ends the programs that it started for the request.
"""

import asyncio
import contextlib
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
from msgspec import structs

from trntop.check.model import (
    BusyError,
    Inspection,
    ProbeError,
    ProbeResult,
    ProbeServer,
    ProbeSpec,
    RefusedError,
    UnreachableError,
)
from trntop.core.errors import SettingsError
from trntop.core.settings import Fleet
from trntop.core.text import clean

from ..fleet import connection
from ..fleet.target import Target

INSPECTION_SECONDS = 30.0
"""For an inspection, which runs several programs on the node."""
SERVER_SECONDS = 10.0
"""To start or end a server side."""
SLACK_SECONDS = 8.0
"""To start and end the tool, beyond the deadline of the probe."""
MAX_BYTES = 4 << 20
"""Longest response."""
MAX_SENTENCE = 300
"""Longest error of an agent that is passed on."""

T = TypeVar("T")


class SharedClient:
    """The HTTP client of all hosts of a check; it is closed with the last of them."""

    def __init__(self, fleet: Fleet) -> None:
        connection.check(fleet)
        self._fleet = fleet
        self._session: aiohttp.ClientSession | None = None
        self._users = 0

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session; call it on the event loop."""
        if self._session is None:
            self._session = connection.session(self._fleet)
        return self._session

    def acquire(self) -> None:
        self._users += 1

    async def release(self) -> None:
        self._users -= 1
        if self._users == 0 and self._session is not None:
            await self._session.close()


class AgentHost:
    """One node, as its agent permits inspections and probes.

    Args:
        target: its name, and the agent's address.
        client: to reach it.
    """

    def __init__(self, target: Target, client: SharedClient) -> None:
        self.name = target.name
        self._address = target.address
        self._client = client
        self._servers: set[str] = set()
        self._starting: set[asyncio.Task[ProbeServer]] = set()
        """Server sides that are being started."""
        self._closed = False
        client.acquire()

    async def inspect(self) -> Inspection:
        """Inspects the node.

        Raises:
            UnreachableError: its agent does not respond.
            RefusedError: it permits no probes, or not with this token.
            ProbeError: the response is not that of an agent.
        """
        return await self._request("GET", "/v1/inspection", INSPECTION_SECONDS, Inspection)

    async def serve(self, spec: ProbeSpec) -> ProbeServer:
        """Starts the server side of a probe.

        Raises:
            BusyError: the node is in another probe.
            ProbeError: it does not start.
        """
        starting = asyncio.create_task(
            self._request("POST", "/v1/probe/server", SERVER_SECONDS, ProbeServer, spec)
        )
        self._starting.add(starting)
        # If this is cancelled, `close` waits for the server side and ends it.
        try:
            served = await asyncio.shield(starting)
        finally:
            if starting.done():
                self._starting.discard(starting)
        self._servers.add(served.id)
        # Its peers reach it where we reach its agent.
        host = urlsplit(self._address).hostname or ""
        return structs.replace(served, address=served.address or host)

    async def probe(self, spec: ProbeSpec, peer: str, server: ProbeServer) -> list[ProbeResult]:
        """Runs the client side.

        Raises:
            BusyError: the node is in another probe.
            ProbeError: this side cannot be reached, or refuses.
        """
        body = {"spec": spec, "peer": peer, "server": server}
        seconds = spec.seconds + SLACK_SECONDS
        return await self._request("POST", "/v1/probe/client", seconds, list[ProbeResult], body)

    async def end(self, server: ProbeServer) -> str:
        """Ends a server side.

        Raises:
            ProbeError: the agent does not respond; the side ends at its deadline.
        """
        self._servers.discard(server.id)
        path = f"/v1/probe/server/{quote(server.id, safe='')}"
        return clean(await self._request("DELETE", path, SERVER_SECONDS, str), MAX_SENTENCE)

    async def close(self) -> None:
        """Ends the server sides that were started here, and the connection."""
        if self._closed:
            return
        self._closed = True
        try:
            for starting in self._starting:
                with contextlib.suppress(ProbeError):
                    self._servers.add((await starting).id)
            for name in list(self._servers):
                with contextlib.suppress(ProbeError):
                    await self.end(ProbeServer(id=name, port=0))
        finally:
            await self._client.release()

    async def _request(
        self, method: str, path: str, seconds: float, kind: type[T], content: Any = None
    ) -> T:
        """The decoded response of the agent.

        Raises:
            UnreachableError: there is none.
            ProbeError: the agent refuses, or the response is not valid.
        """
        try:
            async with asyncio.timeout(seconds):
                status, body = await self._exchange(method, path, content)
        except aiohttp.ConnectionTimeoutError as error:
            raise UnreachableError(connection.reason(error)) from error
        except TimeoutError:
            raise UnreachableError(f"no response from its agent within {seconds:g} s") from None
        except SettingsError as error:  # a file of secrets was removed
            raise ProbeError(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            why = connection.reason(error)
            # A wrong certificate, or no TLS, is a response.
            if why.startswith("TLS"):
                raise ProbeError(f"its agent: {why}") from error
            raise UnreachableError(why) from error
        if status != HTTPStatus.OK:
            raise _refusal(status, body)
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            why = clean(str(error), 120)
            raise ProbeError(f"the response of its agent is not valid: {why}") from error

    async def _exchange(self, method: str, path: str, content: Any) -> tuple[int, bytes]:
        sent = None if content is None else msgspec.json.encode(content)
        headers = {} if sent is None else {"Content-Type": "application/json"}
        async with self._client.session.request(
            method, self._address + path, data=sent, headers=headers, allow_redirects=False
        ) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise ProbeError("the response of its agent is too long")
            return response.status, bytes(body)


_REFUSALS: dict[int, tuple[type[ProbeError], str]] = {
    401: (RefusedError, "its agent needs another token (fleet.token_file)"),
    403: (RefusedError, "its agent permits no probes (trntop export --allow-probes)"),
    404: (ProbeError, "no trntop agent there, or one without probes"),
    409: (BusyError, "it is in another probe"),
    422: (ProbeError, "it cannot run that probe"),
}


def _refusal(status: int, body: bytes) -> ProbeError:
    """The agent's own error, if it has one in plain text."""
    text = body.decode(errors="replace").strip()
    error = "" if text.startswith("<") else clean(text, MAX_SENTENCE)
    if status not in _REFUSALS:
        return ProbeError(f"its agent responds with {status}{error and f': {error}'}")
    kind, default = _REFUSALS[status]
    return kind(default if status == 404 else error or default)
