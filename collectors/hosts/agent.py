"""A node under check that its agent speaks for: `trntop export --allow-probes` there.

What is asked and answered is described in docs/probes.md. Each request has a deadline of its own,
and one that is given up closes its connection, upon which the agent ends what it ran for it.
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
    ProbeSpec,
    RefusedError,
    Served,
    UnreachableError,
)
from trntop.core.errors import SettingsError
from trntop.core.settings import Fleet
from trntop.core.text import clean

from ..fleet import connection
from ..fleet.target import Target

INSPECTION_SECONDS = 30.0
"""How long a look at a node may take; it runs several programs there."""
ORDER_SECONDS = 10.0
"""How long it may take to start or end a server side."""
SLACK_SECONDS = 8.0
"""How much longer than the probe its answer may take: to start the tool, and to end it."""
MAX_BYTES = 4 << 20
"""Longest answer that is taken."""
MAX_SENTENCE = 300
"""Longest sentence of an agent that is passed on."""

T = TypeVar("T")


class Line:
    """The client that all hosts of a check share; it is closed when the last of them is."""

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

    def join(self) -> None:
        """One more host uses it."""
        self._users += 1

    async def leave(self) -> None:
        """One host less does."""
        self._users -= 1
        if self._users == 0 and self._session is not None:
            await self._session.close()


class AgentHost:
    """One node, as its agent lets it be looked at and probed.

    Args:
        target: what it is called, and the agent's address.
        line: what it is reached over.
    """

    def __init__(self, target: Target, line: Line) -> None:
        self.name = target.name
        self._address = target.address
        self._facts = target.facts
        self._line = line
        self._servers: set[str] = set()
        self._orders: set[asyncio.Task[Served]] = set()
        """Server sides that are being started."""
        self._closed = False
        line.join()

    async def inspect(self) -> Inspection:
        """Looks at the node.

        Raises:
            UnreachableError: its agent does not answer.
            RefusedError: it allows no probes, or not to us.
            ProbeError: what answers is no agent, or makes no sense.
        """
        seen = await self._ask("GET", "/v1/inspection", INSPECTION_SECONDS, Inspection)
        # What a list such as ec2: told of the node, where the node itself says nothing.
        return structs.replace(seen, facts={**self._facts, **seen.facts})

    async def serve(self, spec: ProbeSpec) -> Served:
        """Starts the server side of a probe.

        Raises:
            BusyError: the node is in another probe.
            ProbeError: it does not start.
        """
        asked = asyncio.create_task(
            self._ask("POST", "/v1/probe/server", ORDER_SECONDS, Served, spec)
        )
        self._orders.add(asked)
        # Given up, it would leave a server side that nobody knows: `close` waits for it.
        try:
            served = await asyncio.shield(asked)
        finally:
            if asked.done():
                self._orders.discard(asked)
        self._servers.add(served.id)
        host = urlsplit(self._address).hostname or ""
        # Where we reach its agent, its peers reach it as well.
        return structs.replace(served, address=served.address or host)

    async def probe(self, spec: ProbeSpec, peer: str, server: Served) -> list[ProbeResult]:
        """Runs the client side.

        Raises:
            BusyError: the node is in another probe.
            ProbeError: this side cannot be reached, or refuses.
        """
        order = {"spec": spec, "peer": peer, "server": server}
        seconds = spec.seconds + SLACK_SECONDS
        return await self._ask("POST", "/v1/probe/client", seconds, list[ProbeResult], order)

    async def end(self, server: Served) -> str:
        """Ends a server side.

        Raises:
            ProbeError: the agent does not answer; it ends by itself after its time.
        """
        self._servers.discard(server.id)
        path = f"/v1/probe/server/{quote(server.id, safe='')}"
        return clean(await self._ask("DELETE", path, ORDER_SECONDS, str), MAX_SENTENCE)

    async def close(self) -> None:
        """Ends the server sides that were started here, and hangs up."""
        if self._closed:
            return
        self._closed = True
        try:
            for order in self._orders:
                with contextlib.suppress(ProbeError):
                    self._servers.add((await order).id)
            for one in list(self._servers):
                with contextlib.suppress(ProbeError):
                    await self.end(Served(id=one, port=0))
        finally:
            await self._line.leave()

    async def _ask(
        self, method: str, path: str, seconds: float, kind: type[T], content: Any = None
    ) -> T:
        """What the agent answers.

        Raises:
            UnreachableError: nothing.
            ProbeError: not this; the sentence says why.
        """
        try:
            async with asyncio.timeout(seconds):
                status, body = await self._exchange(method, path, content)
        except aiohttp.ConnectionTimeoutError as error:
            raise UnreachableError(connection.reason(error)) from error
        except TimeoutError:
            raise UnreachableError(f"no response from its agent within {seconds:g} s") from None
        except SettingsError as error:  # a file of secrets that has gone
            raise ProbeError(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            why = connection.reason(error)
            # Who answers with the wrong certificate, or without TLS, is there.
            if why.startswith("TLS"):
                raise ProbeError(f"its agent: {why}") from error
            raise UnreachableError(why) from error
        if status != HTTPStatus.OK:
            raise _refusal(status, body)
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ProbeError(
                f"its agent answers what a check does not understand: {clean(str(error), 120)}"
            ) from error

    async def _exchange(self, method: str, path: str, content: Any) -> tuple[int, bytes]:
        line = self._line
        sent = None if content is None else msgspec.json.encode(content)
        headers = {} if sent is None else {"Content-Type": "application/json"}
        async with line.session.request(
            method, self._address + path, data=sent, headers=headers, allow_redirects=False
        ) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise ProbeError("its agent answers more than a check takes")
            return response.status, bytes(body)


def _refusal(status: int, body: bytes) -> ProbeError:
    """An answer that is none, in words: the agent's own where it gives a sentence."""
    text = body.decode(errors="replace").strip()
    said = "" if text.startswith("<") else clean(text, MAX_SENTENCE)
    match status:
        case HTTPStatus.UNAUTHORIZED:
            return RefusedError(said or "its agent asks for another token (fleet.token_file)")
        case HTTPStatus.FORBIDDEN:
            return RefusedError(said or "its agent allows no probes (trntop export --allow-probes)")
        case HTTPStatus.NOT_FOUND:
            return ProbeError("no agent of trntop answers there, or one that knows no probes")
        case HTTPStatus.CONFLICT:
            return BusyError(said or "it is in another probe")
        case HTTPStatus.UNPROCESSABLE_ENTITY:
            return ProbeError(said or "it cannot run that probe")
        case _:
            return ProbeError(f"its agent answers {status}{said and f': {said}'}")
