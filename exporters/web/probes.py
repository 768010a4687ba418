"""What an agent lets a check do: look at its node, and run probes to and from it.

    GET    /v1/inspection        → Inspection
    POST   /v1/probe/server      ProbeSpec → Served
    POST   /v1/probe/client      {"spec", "peer", "server"} → [ProbeResult]
    DELETE /v1/probe/server/ID   → what the server side complained of

All of it is JSON, see `trntop.check.model`. It is off unless it is asked for, and takes a token,
`Authorization: Bearer`; nothing that is sent becomes a command but the fields of a probe. What is
refused is said in a sentence: 401 the token, 403 no probes here or not to that address, 409 another
probe is under way, 422 the probe could not be started.
"""

import asyncio
import contextlib
import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import structs
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from trntop.check.model import (
    BusyError,
    Inspection,
    ProbeError,
    ProbeResult,
    ProbeSpec,
    Served,
)
from trntop.core.errors import SettingsError
from trntop.core.text import clean

INSPECTION = "/v1/inspection"
PROBE = "/v1/probe/"
MAX_BODY = 16 << 10
MAX_TOKEN = 1024
MIN_TOKEN = 16
"""Characters of a token; shorter ones can be guessed."""
NAME_SECONDS = 5.0

NOT_ALLOWED = (
    "this agent allows no probes: start it with --allow-probes and --probe-token-file FILE"
)

NO_TOKEN = "this agent asks for a token, and none was sent"
WRONG_TOKEN = "not the token of this agent"

T = TypeVar("T")


class Prober(Protocol):
    """What runs probes on this machine; see `trntop.collectors.probes.local.LocalHost`."""

    async def inspect(self) -> Inspection:
        """Looks at this machine."""
        ...

    async def serve(self, spec: ProbeSpec, asker: str, /) -> Served:
        """Starts the server side of a probe."""
        ...

    async def probe(
        self, spec: ProbeSpec, peer: str, server: Served, asker: str, /
    ) -> list[ProbeResult]:
        """Runs the client side."""
        ...

    async def end(self, server: Served) -> str:
        """Ends a server side; what it complained of."""
        ...

    async def close(self) -> None:
        """Ends whatever is under way."""
        ...


class _Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client side."""

    spec: ProbeSpec
    peer: str
    server: Served


class _RefusalError(Exception):
    """Why something is not done."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Token:
    """The secret that a check has to send, as its file has it at that moment.

    Raises:
        SettingsError: the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read()

    def matches(self, authorization: str) -> bool:
        """Whether a header holds it.

        Raises:
            SettingsError: the file cannot be used any more.
        """
        scheme, _, sent = authorization.partition(" ")
        # Both are compared whatever the scheme is, and in a time that tells nothing of either.
        same = hmac.compare_digest(sent.strip().encode(), self._read())
        return same and scheme.lower() == "bearer"

    def _read(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                token = file.readline(MAX_TOKEN + 1).strip()
        except OSError as error:
            raise SettingsError(f"{self._path}: {error.strerror}") from error
        if not MIN_TOKEN <= len(token) <= MAX_TOKEN or not token.isascii():
            raise SettingsError(
                f"{self._path}: the first line is no token of {MIN_TOKEN} to {MAX_TOKEN} ASCII"
                " characters; openssl rand -hex 32 makes one"
            )
        return token


class Probes:
    """The endpoints.

    Args:
        prober: runs probes; None where none are allowed.
        token: what a check has to send; none is needed where nothing is allowed.
    """

    def __init__(self, prober: Prober | None = None, token: Token | None = None) -> None:
        self._prober = prober
        self._token = token

    @property
    def routes(self) -> list[Route]:
        """The pages."""
        return [
            Route(INSPECTION, self._guarded(self._inspection)),
            Route(f"{PROBE}server", self._guarded(self._serve), methods=["POST"]),
            Route(f"{PROBE}client", self._guarded(self._probe), methods=["POST"]),
            Route(f"{PROBE}server/{{id}}", self._guarded(self._end), methods=["DELETE"]),
        ]

    async def close(self) -> None:
        """Ends whatever is under way."""
        if self._prober is not None:
            await self._prober.close()

    def _guarded(
        self, respond: Callable[[Request, Prober], Awaitable[Any]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                answer = await respond(request, self._admitted(request))
            except _RefusalError as error:
                challenge = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
                return PlainTextResponse(f"{error}\n", error.status, challenge)
            except BusyError as error:
                return PlainTextResponse(f"{error}\n", 409)
            except ProbeError as error:
                return PlainTextResponse(f"{error}\n", 422)
            except ClientDisconnect:
                return Response(status_code=499)  # nobody reads it
            return Response(msgspec.json.encode(answer), media_type="application/json")

        return endpoint

    def _admitted(self, request: Request) -> Prober:
        if self._prober is None or self._token is None:
            raise _RefusalError(403, NOT_ALLOWED)
        try:
            sent = request.headers.get("authorization", "")
            good = self._token.matches(sent)
        except SettingsError:
            raise _RefusalError(503, "the agent's token cannot be read any more") from None
        if not good:
            raise _RefusalError(401, WRONG_TOKEN if sent else NO_TOKEN)
        return self._prober

    async def _inspection(self, request: Request, prober: Prober) -> Inspection:
        return await _while_connected(request, prober.inspect())

    async def _serve(self, request: Request, prober: Prober) -> Served:
        spec = await _body(request, ProbeSpec)
        # Whoever went meanwhile does not know what to end.
        served = await _while_connected(request, prober.serve(spec, _asker(request)))
        if await request.is_disconnected():
            await prober.end(served)
        return served

    async def _probe(self, request: Request, prober: Prober) -> list[ProbeResult]:
        order = await _body(request, _Order)
        peer = clean(order.peer, 253)
        address = order.server.address or order.peer
        try:
            found = await _resolved(address)
        except OSError as error:
            why = f"{clean(address, 253)}: the name is not known here ({error.strerror or error})"
            return [ProbeResult(tool=order.spec.tool, peer=peer, error=why, guilty="client")]
        if not _may_reach(found, _asker(request)):
            raise _RefusalError(403, f"no probe goes from here to {found}")
        # By its number from here on: a name might lead elsewhere the next time.
        server = structs.replace(order.server, address=str(found))
        return await _while_connected(
            request, prober.probe(order.spec, peer, server, _asker(request))
        )

    async def _end(self, request: Request, prober: Prober) -> str:
        return await prober.end(Served(id=request.path_params["id"], port=0))


def is_locked(path: str) -> bool:
    """Whether a page asks for the token, and so for no password."""
    return path == INSPECTION or path.startswith(PROBE)


def _asker(request: Request) -> str:
    return request.client.host if request.client else "?"


async def _body(request: Request, kind: type[T]) -> T:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise _RefusalError(413, f"more than {MAX_BODY >> 10} KiB")
    try:
        return msgspec.json.decode(bytes(body), type=kind)
    except msgspec.DecodeError as error:
        raise _RefusalError(400, clean(str(error))) from error


async def _resolved(name: str) -> ipaddress.IPv4Address:
    """The IPv4 address of a host: the tools speak no other.

    Raises:
        OSError: it has none, or nobody tells in time.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(NAME_SECONDS):
            found = await loop.getaddrinfo(
                name, None, family=socket.AF_INET, type=socket.SOCK_STREAM
            )
    except UnicodeError:
        raise OSError("not a name") from None
    except TimeoutError:
        raise OSError("the name server does not answer") from None
    return ipaddress.IPv4Address(found[0][4][0])


def _may_reach(address: ipaddress.IPv4Address, asker: str) -> bool:
    """Whether a probe may go there: to machines, and not to what only this one can reach."""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(asker).is_loopback:
            return True
    return not (
        address.is_loopback
        or address.is_link_local  # that is where EC2's instance metadata is
        or address.is_multicast
        or address.is_unspecified
        or address == ipaddress.IPv4Address("255.255.255.255")
    )


async def _while_connected(request: Request, work: Awaitable[T]) -> T:
    """What `work` gives; it is cancelled when nobody waits for it any more.

    Raises:
        ClientDisconnect: the client went.
    """
    working = asyncio.ensure_future(work)
    gone = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        gone.cancel()
        working.cancel()
        await asyncio.wait([working])


async def _gone(request: Request) -> None:
    """Returns when the client has hung up; its whole request was taken before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
