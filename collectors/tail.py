"""Files that others write: what is appended to them, through rotation and truncation."""

import asyncio
import contextlib
import glob
import os
import re
import stat
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeVar

from trntop.core.text import clean

from .worker import StuckError, Worker

T = TypeVar("T")

MAX_LINE = 4096
"""Bytes kept of a line; a file may hold anything."""
MAX_FILES = 256
MAX_MATCHES = 4096
"""Matches of a pattern that are looked at."""
MAX_CHUNK = 1 << 16
"""Bytes read of a file at a time; where more has come, its oldest part is left out."""
RESCAN = 10.0
"""Seconds between two looks for new files."""
FAREWELL = 15.0
"""Seconds for which a file that lost its name is still read: it may get another one."""
ALIVE = 600.0
"""Seconds; a file not written to for longer tells nothing of the present."""
PERIOD = 1.0
"""Seconds between two looks at the files."""
DEADLINE = 5.0
"""Seconds after which a file system counts as hung."""

_ENDS = re.compile(rb"[\r\n]")
_Identity = tuple[int, int]


class Lines:
    r"""Cuts a stream of bytes into lines, which end with `\n` or, in progress bars, with `\r`.

    Blank lines are left out, long ones are cut.

    Args:
        inside: the stream begins within a line, whose rest is not wanted.
    """

    def __init__(self, *, inside: bool = False) -> None:
        self._open = bytearray()
        self._shown = MAX_LINE if inside else 0
        """Bytes of the open line that are handed on already, or not wanted."""
        self._bar = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Takes the next bytes and returns the lines that they complete."""
        *ends, rest = _ENDS.split(chunk)
        lines = []
        for end in ends:
            self._extend(end)
            if len(self._open) > self._shown:
                lines.append(bytes(self._open))
            self._open.clear()
            self._shown = 0
        if ends:
            self._bar = chunk[-len(rest) - 1] == ord("\r")
        self._extend(rest)
        return lines

    def settle(self) -> list[bytes]:
        r"""The newest update of a progress bar, once; to be asked for when nothing has come.

        A bar writes `\r` before an update, so what ends one is the next, minutes later perhaps.
        """
        if not self._bar or len(self._open) <= self._shown:
            return []
        self._shown = len(self._open)
        return [bytes(self._open)]

    def _extend(self, piece: bytes) -> None:
        self._open += piece[: MAX_LINE - len(self._open)]


@dataclass(slots=True)
class _File:
    identity: _Identity
    path: str
    size: int
    position: int
    lines: Lines
    file: int | None = None
    """Descriptor; None until there is something to read."""
    nameless_since: float | None = None

    def read(self, counts: "Counter[str]") -> list[bytes]:
        """The lines that have come.

        Raises:
            OSError: it cannot be read.
        """
        if self.file is not None:
            self.size = os.fstat(self.file).st_size
        if self.size < self.position:
            counts["truncated"] += 1
            self.position = 0
            self.lines = Lines()
        if self.size == self.position:
            return self.lines.settle()
        file = self._opened()
        if file is None:
            return []
        behind = self.size - self.position - MAX_CHUNK
        if behind > 0:
            counts["skipped_bytes"] += behind
            self.position += behind
            self.lines = Lines(inside=True)
        data = os.pread(file, MAX_CHUNK, self.position)
        self.position += len(data)
        return self.lines.feed(data)

    def close(self) -> None:
        """Closes it; the next read opens it again."""
        file, self.file = self.file, None
        if file is not None:
            os.close(file)

    def _opened(self) -> int | None:
        """Its descriptor; None where its name is already that of another file."""
        if self.file is None:
            file = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if _identity(os.fstat(file)) == self.identity:
                self.file = file
            else:
                os.close(file)
        return self.file

    def __del__(self) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class News:
    """What one look at the files found."""

    lines: dict[str, list[bytes]]
    """Path → its new lines, oldest first."""
    files: int
    """Files that are followed."""
    trouble: str = ""
    """What is wrong with some of them."""
    ages: dict[str, float] = field(default_factory=dict)
    """Path → seconds since its lines were written, at the first look; later ones are new."""


class Tail:
    """Follows the files that match some patterns, as `tail -F` does.

    What is in a file when it is first seen is old and left out, but for its last `look_back`
    bytes; a file that appears later is read from its beginning. A file is known by its inode, so
    that neither a new name nor a new file under the old name confuses it; one that became shorter
    is read from its beginning.

    Its calls may hang, as file systems may: make them in a worker.

    Args:
        patterns: paths with `*`, `?` and `[…]`.
        look_back: bytes before the end that are read at the start, of files written to lately.
        clock: seconds that only move forward.
        wall: unix seconds, which the files' own times are compared with.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        *,
        look_back: int = 0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.counts = Counter(truncated=0, skipped_bytes=0, unreadable=0)
        self._patterns = patterns
        self._look_back = look_back
        self._clock = clock
        self._wall = wall
        self._files: dict[_Identity, _File] = {}
        self._paths: list[str] = []
        self._scanned: float | None = None

    def poll(self) -> News:
        """What came since the last look."""
        now = self._clock()
        first = self._scanned is None
        if self._scanned is None or now - self._scanned >= RESCAN:
            self._scanned = now
            self._paths = self._scan()
        trouble = ""
        if len(self._paths) > MAX_FILES:
            trouble = f"only the newest {MAX_FILES} of {len(self._paths)} files are followed"
        self._match(self._paths[:MAX_FILES], now, first=first)
        lines: dict[str, list[bytes]] = {}
        ages: dict[str, float] = {}
        for file in self._files.values():
            try:
                if new := file.read(self.counts):
                    lines.setdefault(file.path, []).extend(new)
                    if first:
                        ages[file.path] = max(0.0, self._wall() - Path(file.path).stat().st_mtime)
            except OSError as error:
                file.close()
                self.counts["unreadable"] += 1
                trouble = f"{clean(file.path)}: {error.strerror}"
        return News(lines, len(self._files), trouble, ages)

    def _scan(self) -> list[str]:
        """Paths that match, the most recently written first."""
        times = {}
        for pattern in self._patterns:
            # Not Path.glob, which takes no absolute patterns.
            for path in islice(glob.iglob(pattern), MAX_MATCHES):  # noqa: PTH207
                with contextlib.suppress(OSError):
                    times[path] = os.stat(path).st_mtime  # noqa: PTH116
        return sorted(times, key=times.__getitem__, reverse=True)

    def _match(self, paths: Sequence[str], now: float, *, first: bool) -> None:
        """Brings the files in line with what their names mean now."""
        named: dict[_Identity, tuple[str, os.stat_result]] = {}
        hidden = set()
        for path in paths:
            try:
                status = os.stat(path)  # noqa: PTH116
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:  # says nothing about whether it is there
                hidden.add(path)
                continue
            if stat.S_ISREG(status.st_mode):
                named[_identity(status)] = path, status
        for identity, file in list(self._files.items()):
            if known := named.pop(identity, None):
                file.path, file.size, file.nameless_since = known[0], known[1].st_size, None
            elif file.path in hidden:
                continue
            elif file.nameless_since is None:
                file.nameless_since = now
            elif now - file.nameless_since > FAREWELL:
                del self._files[identity]
        for identity, (path, status) in named.items():
            start = self._start(status) if first else 0
            lines = Lines(inside=0 < start < status.st_size)
            self._files[identity] = _File(identity, path, status.st_size, start, lines)

    def _start(self, status: os.stat_result) -> int:
        """Where to begin in a file that was there before."""
        if self._wall() - status.st_mtime > ALIVE:
            return status.st_size
        # One byte more tells whether a line begins there.
        return max(0, status.st_size - self._look_back - 1)


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino


@dataclass(frozen=True, slots=True)
class Hung:
    """A read that does not return."""

    seconds: float
    """Since it was called."""


async def watch(
    read: Callable[[], T], name: str, *, period: float = PERIOD, deadline: float = DEADLINE
) -> AsyncGenerator[T | Hung, None]:
    """What `read` returns, each period, called in a worker of that name.

    What a read that hung has found is not lost: it comes before what the next one finds.
    """
    loop = asyncio.get_running_loop()
    worker = Worker(name)
    found: deque[T] = deque()
    hung_since: float | None = None
    try:
        while True:
            started = loop.time()
            try:
                await worker.call(lambda: found.append(read()), deadline)
                hung_since = None
            except StuckError:
                hung_since = started if hung_since is None else hung_since
                yield Hung(loop.time() - hung_since)
            while found:
                yield found.popleft()
            await asyncio.sleep(period)
    finally:
        worker.close()


def look(read: Callable[[], T], name: str) -> T | Hung:
    """What `read` returns, called once in a worker of that name."""

    async def first() -> T | Hung:
        async with aclosing(watch(read, name)) as looks:
            return await anext(looks)

    return asyncio.run(first())


def following(files: int) -> str:
    """In words: `following 2 files`."""
    return f"following {files} file{'s' * (files != 1)}"
