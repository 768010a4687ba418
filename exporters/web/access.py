"""Access control by the web configuration file: TLS and basic authentication.

The file, its certificates and its key are checked at each TLS handshake and each request, and read
again after they changed. If they cannot be used, the previous configuration stays in force.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import ssl
from asyncio import get_running_loop
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bcrypt
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from trntop.core.errors import SettingsError

from . import probes, web_config
from .web_config import WebConfig

MAX_PASSWORD = 72
"""Bytes of a password that bcrypt uses."""


class Access:
    """The web configuration in force.

    Args:
        path: the file.
        warn: reports, in a line, a problem of the file.

    Raises:
        SettingsError: the file cannot be used.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn = warn
        self._verifier = Verifier()
        self._stats: dict[Path, object] = {}
        self._config, self._context = self._read()
        if self._config == WebConfig():
            raise SettingsError(
                f"{path} is empty: no TLS, no passwords; to serve without, leave out "
                "--web.config.file"
            )
        if self._context is not None:
            # Renewed certificates come in force without a restart.
            self._context.sni_callback = self._use_newest

    @property
    def context(self) -> ssl.SSLContext | None:
        """For the listening sockets; None without TLS."""
        return self._context

    def guard(self, app: ASGIApp) -> ASGIApp:
        """The application behind the users' passwords."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            # Probes have a token in the same header, and no password.
            users = {} if probes.is_locked(scope.get("path", "")) else self._users()
            if users and not await self._verifier.allows(
                users, Headers(scope=scope).get("authorization", "")
            ):
                challenge = {"WWW-Authenticate": 'Basic realm="trntop", charset="UTF-8"'}
                await PlainTextResponse("unauthorized\n", 401, challenge)(scope, receive, send)
                return
            await app(scope, receive, send)

        return guarded

    def reload(self) -> None:
        """Reads the file again, whether it has changed or not."""
        self._stats[self._path] = None
        self._refresh()

    def close(self) -> None:
        self._verifier.close()

    def _users(self) -> dict[bytes, bytes]:
        self._refresh()
        users = self._config.basic_auth_users
        return {name.encode(): hashed.encode() for name, hashed in users.items()}

    def _use_newest(self, connection: ssl.SSLObject, *_: object) -> None:
        self._refresh()
        assert self._context is not None
        connection.context = self._context

    def _refresh(self) -> None:
        if all(_stat(path) == stat for path, stat in self._stats.items()):
            return
        try:
            config, context = self._read()
            if (context is None) != (self._context is None):
                raise SettingsError(f"{self._path}: turning TLS on or off needs a restart")
            # An editor may empty a file before it writes the new content.
            if self._config.basic_auth_users and not config.basic_auth_users:
                raise SettingsError(f"{self._path}: removing all passwords needs a restart")
        except SettingsError as error:
            self._warn(f"{error}; the previous configuration stays in force")
            return
        self._config, self._context = config, context
        self._warn(f"{self._path}: reloaded")

    def _read(self) -> tuple[WebConfig, ssl.SSLContext | None]:
        # Before a file is read: a change in between is found by the next check.
        self._stats = {self._path: _stat(self._path)}
        config = web_config.read(self._path)
        tls = config.tls_server_config
        if tls is None:
            return config, None
        folder = self._path.parent
        self._stats |= {folder / name: _stat(folder / name) for name in tls.files}
        try:
            context = web_config.tls_context(tls, folder)
        except SettingsError as error:
            raise SettingsError(f"{self._path}: tls_server_config: {error}") from error
        if (folder / tls.key_file).stat().st_mode & 0o004:
            self._warn(f"{folder / tls.key_file} is readable by every user; run chmod o-r on it")
        return config, context


class Verifier:
    """Checks credentials one at a time in a thread, and remembers the valid ones.

    A check takes about 70 ms. Keys of the cache are keyed digests of name, hash and password, so
    that a hash presented as a password is never found (CVE-2022-46146). Invalid credentials cost a
    check each time, with an unknown name too.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._valid: set[bytes] = set()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="bcrypt")

    async def allows(self, users: Mapping[bytes, bytes], authorization: str) -> bool:
        """Whether an `Authorization` header has the name and password of a user."""
        credentials = parse_basic(authorization)
        if credentials is None:
            return False
        name, password = credentials[0], credentials[1][:MAX_PASSWORD]
        hashed = users.get(name)
        parts = (name, hashed or b"", password)
        joined = b"".join(len(part).to_bytes(4) + part for part in parts)
        digest = hmac.digest(self._key, joined, hashlib.sha256)
        if digest in self._valid:
            return True
        tested = hashed or next(iter(users.values()))
        valid = await get_running_loop().run_in_executor(self._pool, _matches, password, tested)
        if hashed is None or not valid:
            return False
        self._valid.add(digest)
        return True

    def close(self) -> None:
        """Cancels the checks that wait."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def parse_basic(authorization: str) -> tuple[bytes, bytes] | None:
    """Name and password of a `Basic` header (RFC 7617), or None."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return (name, password) if colon else None


def _matches(password: bytes, hashed: bytes) -> bool:
    try:
        return bcrypt.checkpw(password, hashed)
    except ValueError:
        return False


def _stat(path: Path) -> tuple[int, ...] | None:
    """Changes with the content of a file; None for a missing file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
