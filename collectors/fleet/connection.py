"""How other machines are reached over HTTP: one client, its secrets from files, and what went wrong
in words.
"""

import errno
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx

from trntop import __version__
from trntop.core.errors import SettingsError
from trntop.core.settings import Fleet
from trntop.core.text import clean

from .names import Names
from .network import Transport

MAX_SECRET = 16 << 10
"""Longest file of a secret."""
MAX_CAUSES = 32
"""Errors behind an error that are looked at."""

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
    errno.EADDRNOTAVAIL: "no port is left to connect from",
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


class Secret(httpx.Auth):
    """Says who asks, by what the files hold at that moment.

    Raises:
        SettingsError: they do not go together, or cannot be read.
    """

    def __init__(self, fleet: Fleet) -> None:
        if fleet.token_file and fleet.user:
            raise SettingsError("fleet.token_file and fleet.user: only one of them")
        if bool(fleet.user) != bool(fleet.password_file):
            raise SettingsError("fleet.user and fleet.password_file go together")
        self._fleet = fleet
        self._header()

    def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:  # type: ignore[override]
        """Puts it into a request."""
        if header := self._header():
            request.headers["Authorization"] = header
        yield request

    def _header(self) -> str:
        fleet = self._fleet
        if fleet.token_file:
            return f"Bearer {_secret(fleet.token_file, 'token_file')}"
        if fleet.user:
            password = _secret(fleet.password_file, "password_file")
            return httpx.BasicAuth(fleet.user, password)._auth_header
        return ""


def client(fleet: Fleet) -> httpx.AsyncClient:
    """A client for many nodes: without limits, redirects, proxies and time-outs of its own.

    Raises:
        SettingsError: a file that the settings name cannot be used.
    """
    return httpx.AsyncClient(
        auth=Secret(fleet),
        transport=Transport(_context(fleet), fleet.connect, Names()),
        headers={"User-Agent": f"trntop/{__version__}", "Accept-Encoding": "identity"},
        trust_env=False,
        timeout=None,
    )


def check(fleet: Fleet) -> None:
    """Looks at the files that the settings name, before anything is watched.

    Raises:
        SettingsError: one of them cannot be used.
    """
    Secret(fleet)
    _context(fleet)


def reason(error: BaseException) -> str:
    """Why a request failed, in words; nothing of its headers is in them."""
    for one in _causes(error):
        if isinstance(one, ssl.SSLCertVerificationError):
            why = _VERIFIED.get(one.verify_code)
            return why or f"TLS: {clean(str(one.verify_message), 80)}"
        if isinstance(one, ssl.SSLError):
            why = (one.reason or "no handshake").replace("_", " ").lower()
            return f"TLS: {clean(why, 80)}"
        if isinstance(one, socket.gaierror):
            return _NAMES.get(one.errno or 0, "host name does not resolve")
        if isinstance(one, OSError) and one.errno:
            return _WORDS.get(one.errno) or (one.strerror or "connection failed").lower()
    if isinstance(error, httpx.RemoteProtocolError):
        text = str(error)
        if "without sending" in text or "incomplete" in text or "without response" in text:
            return "connection closed by the other side"
        return f"garbage instead of HTTP: {clean(text, 80)}"
    if isinstance(error, httpx.TimeoutException):
        return "timed out"
    return clean(str(error), 120) or type(error).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what is behind it, of several tries the first."""
    for _ in range(MAX_CAUSES):
        yield error
        behind = error.__cause__ or error.__context__
        if isinstance(error, BaseExceptionGroup):
            behind = error.exceptions[0]
        if behind is None:
            return
        error = behind


def _context(fleet: Fleet) -> ssl.SSLContext:
    """Whom to believe, and who we are; TLS is never taken without a check."""
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
    """The first line of a file."""
    try:
        with Path(path).open("rb") as file:
            line = file.readline(MAX_SECRET).strip()
    except OSError as error:
        raise SettingsError(f"fleet.{what}: {path}: {error.strerror}") from error
    try:
        text = line.decode("ascii")
    except UnicodeDecodeError:
        raise SettingsError(f"fleet.{what}: {path}: holds what no header may") from None
    if not text or not text.isprintable():
        raise SettingsError(f"fleet.{what}: {path}: its first line holds no secret")
    return text
