"""HTTP sessions to remote nodes: credentials from files, and failures in words."""

import asyncio
import base64
import errno
import math
import socket
import ssl
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from trntop import __version__
from trntop.core.errors import SettingsError
from trntop.core.settings import Fleet
from trntop.core.text import clean

from ..worker import Worker

MAX_SECRET = 16 << 10
"""Longest file of a secret, bytes."""
LOOKUPS = 256
"""Host names resolved at a time: an unresponsive name server holds each for half a minute."""
PERIOD_DNS = 60
"""Seconds for which an address of a name is used."""
READ_BUFFER = 16 << 10
"""Bytes. A thousand streams keep as many buffers."""

_WORDS = {
    errno.ECONNREFUSED: "connection refused: nothing listens there",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to the network",
    errno.ETIMEDOUT: "timed out: no packet came back",
    errno.ECONNRESET: "connection reset",
    errno.EPIPE: "connection reset",
    errno.ECONNABORTED: "connection reset",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n)",
    errno.ENFILE: "the system has too many open files",
    errno.EADDRNOTAVAIL: "no free port to connect from",
    errno.EACCES: "not permitted: a firewall of this machine?",
    errno.EPERM: "not permitted: a firewall of this machine?",
}
_NAMES = {
    socket.EAI_NONAME: "host name does not resolve",
    socket.EAI_NODATA: "host name does not resolve to an address",
    socket.EAI_AGAIN: "host name does not resolve: no response from the name server",
}
# https://docs.openssl.org/master/man1/openssl-verification-options/, X509_V_ERR_*
_VERIFIED = {
    9: "TLS: the certificate is not valid yet",
    10: "TLS: the certificate has expired",
    18: "TLS: the certificate is self-signed; name it in fleet.ca_file",
    19: "TLS: signed by an authority that is not trusted here; name it in fleet.ca_file",
    20: "TLS: signed by an authority that is not trusted here; name it in fleet.ca_file",
    21: "TLS: signed by an authority that is not trusted here; name it in fleet.ca_file",
    23: "TLS: the certificate has been revoked",
    62: "TLS: the certificate is for another name",
    64: "TLS: the certificate is for another address",
}


class Credentials:
    """Adds the `Authorization` header of the files in the settings, read for each request.

    Raises:
        SettingsError: the settings do not go together, or a file cannot be read.
    """

    def __init__(self, fleet: Fleet) -> None:
        if fleet.token_file and fleet.user:
            raise SettingsError("fleet.token_file and fleet.user: only one of them")
        if bool(fleet.user) != bool(fleet.password_file):
            raise SettingsError("fleet.user and fleet.password_file go together")
        self._fleet = fleet
        self.header()

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if header := self.header():
            request.headers["Authorization"] = header
        return await handler(request)

    def header(self) -> str:
        fleet = self._fleet
        if fleet.token_file:
            return f"Bearer {_secret(fleet.token_file, 'token_file')}"
        if fleet.user:
            password = _secret(fleet.password_file, "password_file")
            pair = f"{fleet.user}:{password}".encode()
            return f"Basic {base64.b64encode(pair).decode()}"
        return ""


class Resolver(AbstractResolver):
    """Resolves each name in a daemon thread of its own.

    asyncio resolves in the few threads of its executor, so that some dozens of names without a
    response delay all others, and the interpreter waits for these threads at exit.
    """

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(LOOKUPS)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        # As bytes: Python rejects some valid names when it converts them from international ones.
        lookup = partial(socket.getaddrinfo, host.encode(), port, family, socket.SOCK_STREAM)
        async with self._turns:
            worker = Worker(f"trntop resolving {host}")
            try:
                found = await worker.call(lookup, math.inf)
            finally:
                worker.close()
        return [
            ResolveResult(
                hostname=host, host=str(address[0]), port=port, family=family, proto=proto,
                flags=socket.AI_NUMERICHOST,
            )
            for family, _, proto, _, address in found
        ]  # fmt: skip

    async def close(self) -> None:
        pass


def session(fleet: Fleet, *, signed: bool = False) -> aiohttp.ClientSession:
    """A session for many nodes; call it on the event loop.

    Args:
        fleet: the settings.
        signed: its requests bring their own credentials.

    Raises:
        SettingsError: a file that the settings name cannot be used.
    """
    tracing = aiohttp.TraceConfig()
    tracing.on_connection_create_start.append(partial(_note_stage, "connection"))
    tracing.on_dns_resolvehost_start.append(partial(_note_stage, "address for its name"))
    tracing.on_dns_resolvehost_end.append(partial(_note_stage, "connection"))
    tracing.on_request_headers_sent.append(partial(_note_stage, "answer"))
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0, ssl=_context(fleet), resolver=Resolver(), ttl_dns_cache=PERIOD_DNS,
            keepalive_timeout=5.0,
        ),
        timeout=aiohttp.ClientTimeout(total=None, connect=fleet.connect),
        headers={"User-Agent": f"trntop/{__version__}", "Accept-Encoding": "identity"},
        middlewares=() if signed else (Credentials(fleet),),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        read_bufsize=READ_BUFFER,
        trace_configs=[tracing],
    )  # fmt: skip


async def _note_stage(
    stage: str, _session: aiohttp.ClientSession, context: SimpleNamespace, _event: object
) -> None:
    if context.trace_request_ctx is not None:
        context.trace_request_ctx(stage)


def check(fleet: Fleet) -> None:
    """Reads the files that the settings name.

    Raises:
        SettingsError: one of them cannot be used.
    """
    Credentials(fleet)
    _context(fleet)


def reason(error: BaseException) -> str:
    """The cause of a failed request, without any of its headers."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        why = _VERIFIED.get(cause.verify_code)
        return why or f"TLS: {clean(str(cause.verify_message), 80)}"
    if isinstance(cause, ssl.SSLError):
        why = (cause.reason or "no handshake").replace("_", " ").lower()
        return f"TLS: {clean(why, 80)}"
    if isinstance(cause, socket.gaierror):
        return _NAMES.get(cause.errno or 0, "host name does not resolve")
    if isinstance(cause, OSError) and cause.errno:
        return _WORDS.get(cause.errno) or (cause.strerror or "connection failed").lower()
    if isinstance(error, aiohttp.ClientResponseError):
        return f"not an HTTP response: {clean(error.message, 80)}"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "connection closed by the other side"
    if isinstance(error, TimeoutError):
        return "timed out"
    return clean(str(error), 120) or type(error).__name__


def _context(fleet: Fleet) -> ssl.SSLContext:
    """TLS with verified certificates, and the client certificate of the settings."""
    try:
        context = ssl.create_default_context(cafile=fleet.ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(f"fleet.ca_file: {fleet.ca_file}: {_why(error)}") from error
    if bool(fleet.cert_file) != bool(fleet.key_file):
        raise SettingsError("fleet.cert_file and fleet.key_file go together")
    if fleet.cert_file:
        try:
            context.load_cert_chain(fleet.cert_file, fleet.key_file, password=lambda: "")
        except (OSError, ssl.SSLError) as error:
            named = f"{fleet.cert_file} and {fleet.key_file}"
            raise SettingsError(f"fleet.cert_file: {named}: {_why(error)}") from error
    return context


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no certificates in PEM").replace("_", " ").lower()
    return error.strerror or "cannot be read"


def _secret(path: str, what: str) -> str:
    """First line of a file."""
    try:
        with Path(path).open("rb") as file:
            line = file.readline(MAX_SECRET).strip()
    except OSError as error:
        raise SettingsError(f"fleet.{what}: {path}: {error.strerror}") from error
    try:
        text = line.decode("ascii")
    except UnicodeDecodeError:
        raise SettingsError(
            f"fleet.{what}: {path}: has characters that are not allowed in a header"
        ) from None
    if not text or not text.isprintable():
        raise SettingsError(f"fleet.{what}: {path}: its first line is empty")
    return text
