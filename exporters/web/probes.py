"""The endpoints with which a check inspects this node, and probes to and from it.

    GET    /v1/inspection        → Inspection
    POST   /v1/probe/server      ProbeSpec → ProbeServer
    POST   /v1/probe/client      {"spec", "peer", "server"} → [ProbeResult]
    DELETE /v1/probe/server/ID   → the error of the server side

All of it is JSON, see `trntop.check.model`. It is off by default and needs a token,
`Authorization: Bearer`; only the fields of a probe become part of a command. Status codes: 401
wrong token, 403 no probes here or not to that address, 409 another probe is under way, 422 the
probe could not be started.
"""

import asyncio
import contextlib
import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import structs
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from trntop.check.model import (
    BusyError,
    Host,
    Inspection,
    ProbeError,
    ProbeResult,
    ProbeServer,
    ProbeSpec,
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
    "this agent permits no probes: start it with --allow-probes and --probe-token-file FILE"
)

NO_TOKEN = "this agent needs a token"
WRONG_TOKEN = "not the token of this agent"

T = TypeVar("T")


class _ClientSide(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request for a client side."""

    spec: ProbeSpec
    peer: str
    server: ProbeServer


class _RefusalError(Exception):
    """Why a request is refused."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Token:
    """The secret that a check sends; its file is read for each request, so it can be replaced.

    Raises:
        SettingsError: the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read()

    def matches(self, authorization: str) -> bool:
        """Whether a header has it; in constant time.

        Raises:
            SettingsError: the file cannot be used any more.
        """
        scheme, _, sent = authorization.partition(" ")
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
                f"{self._path}: the first line is not a token of {MIN_TOKEN} to {MAX_TOKEN} ASCII"
                " characters; openssl rand -hex 32 makes one"
            )
        return token


class Probes:
    """The endpoints.

    Args:
        host: this machine; None if probes are not permitted.
        token: that a check must send.
    """

    def __init__(self, host: Host | None = None, token: Token | None = None) -> None:
        self._host = host
        self._token = token

    @property
    def routes(self) -> list[Route]:
        return [
            Route(INSPECTION, self._guarded(self._inspect)),
            Route(f"{PROBE}server", self._guarded(self._serve), methods=["POST"]),
            Route(f"{PROBE}client", self._guarded(self._probe), methods=["POST"]),
            Route(f"{PROBE}server/{{id}}", self._guarded(self._end), methods=["DELETE"]),
        ]

    async def close(self) -> None:
        """Ends everything that is under way."""
        if self._host is not None:
            await self._host.close()

    def _guarded(
        self, respond: Callable[[Request, Host], Awaitable[Any]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                answer = await respond(request, self._authorized(request))
            except _RefusalError as error:
                challenge = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
                return PlainTextResponse(f"{error}\n", error.status, challenge)
            except BusyError as error:
                return PlainTextResponse(f"{error}\n", 409)
            except ProbeError as error:
                return PlainTextResponse(f"{error}\n", 422)
            except ClientDisconnect:
                return Response(status_code=499)
            return Response(msgspec.json.encode(answer), media_type="application/json")

        return endpoint

    def _authorized(self, request: Request) -> Host:
        if self._host is None or self._token is None:
            raise _RefusalError(403, NOT_ALLOWED)
        sent = request.headers.get("authorization", "")
        try:
            matches = self._token.matches(sent)
        except SettingsError:
            raise _RefusalError(503, "the agent's token file is not readable any more") from None
        if not matches:
            raise _RefusalError(401, WRONG_TOKEN if sent else NO_TOKEN)
        return self._host

    async def _inspect(self, request: Request, host: Host) -> Inspection:
        return await _while_connected(request, host.inspect())

    async def _serve(self, request: Request, host: Host) -> ProbeServer:
        spec = await _body(request, ProbeSpec)
        served = await _while_connected(request, host.serve(spec))
        # A client that disconnected meanwhile has no id to end it.
        if await request.is_disconnected():
            await host.end(served)
        return served

    async def _probe(self, request: Request, host: Host) -> list[ProbeResult]:
        side = await _body(request, _ClientSide)
        peer = clean(side.peer, 253)
        name = side.server.address or side.peer
        try:
            address = await _resolve(name)
        except OSError as error:
            why = f"{clean(name, 253)}: host name does not resolve ({error.strerror or error})"
            return [ProbeResult(tool=side.spec.tool, peer=peer, error=why, faulty_side="client")]
        if not _may_reach(address, request):
            raise _RefusalError(403, f"no probe to {address} is permitted from here")
        # By address: the name may resolve to another one the next time.
        server = structs.replace(side.server, address=str(address))
        return await _while_connected(request, host.probe(side.spec, peer, server))

    async def _end(self, request: Request, host: Host) -> str:
        return await host.end(ProbeServer(id=request.path_params["id"], port=0))


def is_locked(path: str) -> bool:
    """Whether a page needs the token, and so no password."""
    return path == INSPECTION or path.startswith(PROBE)


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


async def _resolve(name: str) -> ipaddress.IPv4Address:
    """The IPv4 address of a host: the tools support no other.

    Raises:
        OSError: it has none, or the name server does not respond in time.
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
        raise OSError("the name server does not respond") from None
    return ipaddress.IPv4Address(found[0][4][0])


def _may_reach(address: ipaddress.IPv4Address, request: Request) -> bool:
    """Whether a probe may go there: to other machines, not to services of this one or of EC2."""
    with contextlib.suppress(ValueError):
        if request.client and ipaddress.ip_address(request.client.host).is_loopback:
            return True
    return not (
        address.is_loopback
        or address.is_link_local  # EC2's instance metadata
        or address.is_multicast
        or address.is_unspecified
        or address == ipaddress.IPv4Address("255.255.255.255")
    )


async def _while_connected(request: Request, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled if the client disconnects.

    Raises:
        ClientDisconnect: it did.
    """
    working = asyncio.ensure_future(work)
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        gone.cancel()
        working.cancel()
        await asyncio.wait([working])


async def _disconnected(request: Request) -> None:
    """Returns when the client has disconnected; its whole request was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
