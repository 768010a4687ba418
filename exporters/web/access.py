"""Who may connect and ask, by the web configuration file as it is now.

The file, its certificates and its key are looked at on each connection and each request, and read
again when they changed. What cannot be used is said once, and what was in force stays.
"""

import math
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trntop.core.errors import SettingsError

from . import probes, tls, web_config
from .auth import BusyError, Verifier
from .web_config import WebConfig

Say = Callable[[str], None]
Mark = tuple[int, ...] | None
"""What tells a file from what it was before; None where there is none."""


@dataclass(frozen=True)
class _InForce:
    config: WebConfig
    context: ssl.SSLContext | None
    names: frozenset[str]
    users: dict[bytes, bytes]
    bucket: "Bucket | None"


class Access:
    """The web configuration in force.

    Args:
        path: the file.
        say: is told, in a line, what is wrong or weak about it.

    Raises:
        SettingsError: the file cannot be used.
    """

    def __init__(self, path: Path, say: Say) -> None:
        self._path = path
        self._say = say
        self._warned: set[str] = set()
        self._marks: dict[Path, Mark] = {}
        self._verifier = Verifier()
        self._in_force = self._read()

    @property
    def secure(self) -> bool:
        """Whether connections are encrypted; settled when the program starts."""
        return self._in_force.context is not None

    def context(self) -> ssl.SSLContext | None:
        """What a new connection shakes hands with; None for a plain one."""
        return self._current().context

    def admits(self, connection: ssl.SSLObject) -> bool:
        """Whether the certificate of a client that has shaken hands is one of those allowed."""
        wanted = self._in_force.names
        return not wanted or bool(wanted & tls.names_of(connection.getpeercert()))

    def guard(self, app: ASGIApp) -> ASGIApp:
        """The application behind the rate limit and the users' passwords."""
        return _Guard(app, self._current, self._verifier)

    def close(self) -> None:
        """Leaves passwords unchecked that still wait for it."""
        self._verifier.close()

    def _current(self) -> _InForce:
        if any(_mark(path) != mark for path, mark in self._marks.items()):
            try:
                self._in_force = self._read(self._in_force)
            except SettingsError as error:
                self._say(f"{error}; what was in force stays")
            else:
                self._say(f"{self._path}: read again")
        return self._in_force

    def _read(self, before: _InForce | None = None) -> _InForce:
        # Marked before they are read: what changes in between is seen the next time.
        marks = _marks((self._path, *self._marks))
        try:
            config = web_config.read(self._path)
            files = config.tls_server_config.files if config.tls_server_config else ()
            marks |= _marks(files)
            made = self._made(config, before)
            marks = {path: marks[path] for path in (self._path, *files)}
        finally:
            self._marks = marks
        return made

    def _made(self, config: WebConfig, before: _InForce | None) -> _InForce:
        server = config.tls_server_config
        if before is not None:
            if (server is None) != (before.context is None):
                raise SettingsError(f"{self._path}: TLS comes and goes with a restart only")
            # An editor may empty a file before it fills it: nobody gets in through that gap.
            if before.users and not config.basic_auth_users:
                raise SettingsError(f"{self._path}: passwords go with a restart only")
        context = None
        if server is not None:
            try:
                context = tls.context_of(server, self._warn)
            except SettingsError as error:
                raise SettingsError(f"{self._path}: tls_server_config: {error}") from error
        if config == WebConfig():
            # Cut short, perhaps: whoever names a file believes that it protects something.
            self._warn("says nothing: neither TLS nor passwords are in force")
        if config.http_server_config.http2:
            self._warn("http2: HTTP/1.1 is what is spoken")
        limit = config.rate_limit
        bucket = Bucket(limit.seconds, limit.burst) if limit.seconds else None
        if before is not None and before.config.rate_limit == limit:
            bucket = before.bucket
        return _InForce(
            config,
            context,
            frozenset(server.client_allowed_sans if server else ()),
            {name.encode(): hashed.encode() for name, hashed in config.basic_auth_users.items()},
            bucket,
        )

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._say(f"{self._path}: {text}")


class Bucket:
    """A token bucket: `burst` requests at once, and one more each `seconds`."""

    def __init__(
        self, seconds: float, burst: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.seconds = seconds
        self._burst = burst
        self._now = now
        self._tokens = float(burst)
        self._at = now()

    def take(self) -> bool:
        """Takes a token, if there is one."""
        now = self._now()
        self._tokens = min(self._burst, self._tokens + (now - self._at) / self.seconds)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class _Guard:
    """Answers in the application's place whoever may not ask, and sets headers."""

    def __init__(self, app: ASGIApp, current: Callable[[], _InForce], verifier: Verifier) -> None:
        self._app = app
        self._current = current
        self._verifier = verifier

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        force = self._current()
        headers = {"X-Content-Type-Options": "nosniff", **force.config.http_server_config.headers}

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(headers)
            await send(message)

        # A check's header holds its token, and so no password: that lock is its own.
        users = {} if probes.is_locked(scope.get("path", "")) else force.users
        authorization = Headers(scope=scope).get("authorization", "")
        refusal = await self._refusal(force, users, authorization)
        await (refusal or self._app)(scope, receive, with_headers)

    async def _refusal(
        self, force: _InForce, users: dict[bytes, bytes], authorization: str
    ) -> Response | None:
        if force.bucket and not force.bucket.take():
            wait = str(max(1, math.ceil(force.bucket.seconds)))
            return PlainTextResponse("too many requests\n", 429, {"Retry-After": wait})
        if not users:
            return None
        try:
            if await self._verifier.allows(users, authorization):
                return None
        except BusyError:
            return PlainTextResponse("too many unchecked passwords\n", 503, {"Retry-After": "5"})
        challenge = 'Basic realm="trntop", charset="UTF-8"'
        return PlainTextResponse("unauthorized\n", 401, {"WWW-Authenticate": challenge})


def _marks(paths: Iterable[Path]) -> dict[Path, Mark]:
    return {path: _mark(path) for path in paths}


def _mark(path: Path) -> Mark:
    try:
        seen = path.stat()
    except OSError:
        return None
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
