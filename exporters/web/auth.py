"""Basic authentication against bcrypt hashes, without the time of a check on the server's loop."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import bcrypt

MAX_KNOWN = 256
"""Good credentials that are remembered."""
MAX_WAITING = 16
"""Checks that wait for the one under way, at most."""
MAX_PASSWORD = 72
"""Bytes of a password that bcrypt looks at."""


class BusyError(Exception):
    """Too many credentials wait to be checked."""


class Verifier:
    """Checks credentials one at a time in a thread, and remembers the good ones.

    What is remembered is a keyed digest of name, hash and password, so that neither a hash
    presented as a password nor anything put together from such parts is ever taken for one
    (CVE-2022-46146), and a changed hash is asked again. Bad credentials always cost a check, and a
    name that nobody has costs that of one of the users.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, None] = {}
        self._running: dict[bytes, asyncio.Future[bool]] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="bcrypt")

    async def allows(self, users: Mapping[bytes, bytes], authorization: str) -> bool:
        """Whether an `Authorization` header holds the name and password of a user.

        Args:
            users: bcrypt hashes by name; at least one.
            authorization: the header's value.

        Raises:
            BusyError: too many others wait.
        """
        credentials = parse_basic(authorization)
        if credentials is None:
            return False
        name, password = credentials
        hashed = users.get(name)
        digest = self._digest(name, hashed or b"", password)
        if digest in self._known:
            return True
        good = await self._check(digest, password, hashed or self._decoy(users, name))
        if hashed is None or not good:
            return False
        self._known[digest] = None
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        return True

    def close(self) -> None:
        """Leaves undone what still waits."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _check(self, digest: bytes, password: bytes, hashed: bytes) -> bool:
        running = self._running.get(digest)
        if running is None:
            if len(self._running) > MAX_WAITING:
                raise BusyError
            loop = asyncio.get_running_loop()
            running = loop.run_in_executor(self._pool, _matches, password, hashed)
            self._running[digest] = running
            running.add_done_callback(lambda _: self._running.pop(digest, None))
        return await asyncio.shield(running)

    def _decoy(self, users: Mapping[bytes, bytes], name: bytes) -> bytes:
        """The hash, and with it the cost, that a name without a user is checked against."""
        hashes = tuple(users.values())
        return hashes[int.from_bytes(self._digest(name)[:8]) % len(hashes)]

    def _digest(self, *parts: bytes) -> bytes:
        joined = b"".join(len(part).to_bytes(4) + part for part in parts)
        return hmac.digest(self._key, joined, hashlib.sha256)


def parse_basic(authorization: str) -> tuple[bytes, bytes] | None:
    """Name and password of a `Basic` header (RFC 7617); None if it is none."""
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
        return bcrypt.checkpw(password[:MAX_PASSWORD], hashed)
    except ValueError:
        return False
