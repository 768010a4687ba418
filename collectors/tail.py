"""Lines appended to files, through rotation and truncation."""

import contextlib
import glob
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from trntop.core.text import clean

MAX_LINE = 4096
"""Bytes kept of a line."""
MAX_FILES = 256
MAX_MATCHES = 4096
"""Paths of a pattern."""
MAX_CHUNK = 1 << 16
"""Bytes read of a file at a time, the newest."""
RESCAN = 10.0
"""Seconds between two searches for new files."""
ALIVE = 600.0
"""Seconds after its last write for which an existing file counts as being written."""

_ENDS = re.compile(rb"[\r\n]")
_Identity = tuple[int, int]


class Lines:
    r"""Splits a stream of bytes into lines, which end with `\n` or, in progress bars, with `\r`.

    Empty lines are skipped, long ones are cut.

    Args:
        inside: the stream starts within a line, whose rest is skipped.
    """

    def __init__(self, *, inside: bool = False) -> None:
        self._open = bytearray()
        self._shown = MAX_LINE if inside else 0
        """Bytes of the open line that were returned already, or are skipped."""
        self._bar = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that the next bytes complete."""
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
        r"""The newest update of a progress bar, once, if no more bytes have come.

        A bar writes `\r` before an update, so the next update ends it, perhaps minutes later.
        """
        if not self._bar or len(self._open) <= self._shown:
            return []
        self._shown = len(self._open)
        return [bytes(self._open)]

    def _extend(self, piece: bytes) -> None:
        self._open += piece[: MAX_LINE - len(self._open)]


@dataclass(slots=True)
class _File:
    path: str
    size: int
    position: int
    lines: Lines

    def read(self, counts: "Counter[str]") -> list[bytes]:
        """Its new lines.

        Raises:
            OSError: it cannot be read.
        """
        if self.size < self.position:
            counts["truncated"] += 1
            self.position = 0
            self.lines = Lines()
        if self.size == self.position:
            return self.lines.settle()
        behind = self.size - self.position - MAX_CHUNK
        if behind > 0:
            counts["skipped_bytes"] += behind
            self.position += behind
            self.lines = Lines(inside=True)
        file = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            data = os.pread(file, MAX_CHUNK, self.position)
        finally:
            os.close(file)
        self.position += len(data)
        return self.lines.feed(data)


@dataclass(frozen=True, slots=True)
class News:
    """The result of a poll."""

    lines: dict[str, list[bytes]]
    """Path → its new lines, oldest first."""
    files: int
    """Files that are followed."""
    problem: str = ""
    ages: dict[str, float] = field(default_factory=dict)
    """Path → seconds since its last write; only of the first poll."""


class Tail:
    """Follows the files that match some patterns.

    The content of existing files is skipped, except their last `look_back` bytes; a file that
    appears later is read from its start. A file is identified by its inode, through renaming. Its
    calls may block, like all file systems: run them in a worker.

    Args:
        patterns: paths with `*`, `?` and `[…]`.
        look_back: bytes before the end that are read at the start, if the file is being written.
        clock: monotonic seconds.
        wall: unix seconds.
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
        """The lines since the last poll."""
        now, first = self._clock(), self._scanned is None
        rescan = self._scanned is None or now - self._scanned >= RESCAN
        if rescan:
            self._scanned = now
            self._paths = self._scan()
        problem = ""
        if len(self._paths) > MAX_FILES:
            problem = f"only the newest {MAX_FILES} of {len(self._paths)} files are followed"
        self._match(first=first, drop_missing=rescan)
        lines: dict[str, list[bytes]] = {}
        ages: dict[str, float] = {}
        for file in self._files.values():
            try:
                if new := file.read(self.counts):
                    lines.setdefault(file.path, []).extend(new)
                    if first:
                        ages[file.path] = max(0.0, self._wall() - Path(file.path).stat().st_mtime)
            except OSError as error:
                self.counts["unreadable"] += 1
                problem = f"{clean(file.path)}: {error.strerror}"
        return News(lines, len(self._files), problem, ages)

    def _scan(self) -> list[str]:
        """Matching paths, the most recently written first."""
        times = {}
        for pattern in self._patterns:
            # Path.glob accepts no absolute patterns.
            for path in islice(glob.iglob(pattern), MAX_MATCHES):  # noqa: PTH207
                with contextlib.suppress(OSError):
                    times[path] = os.stat(path).st_mtime  # noqa: PTH116
        return sorted(times, key=times.__getitem__, reverse=True)

    def _match(self, *, first: bool, drop_missing: bool) -> None:
        """Updates the files to what their paths lead to now.

        Args:
            first: this is the first poll.
            drop_missing: drop files without a path; otherwise the next search may find a new one.
        """
        known, self._files = self._files, {}
        for path in self._paths[:MAX_FILES]:
            try:
                status = os.stat(path)  # noqa: PTH116
            except OSError:
                continue
            identity = status.st_dev, status.st_ino
            if not stat.S_ISREG(status.st_mode) or identity in self._files:
                continue
            if file := known.get(identity):
                file.path, file.size = path, status.st_size
            else:
                start = self._start(status) if first else 0
                lines = Lines(inside=0 < start < status.st_size)
                file = _File(path, status.st_size, start, lines)
            self._files[identity] = file
        for identity, file in known.items():
            if identity not in self._files and not drop_missing:
                file.size = file.position
                self._files[identity] = file

    def _start(self, status: os.stat_result) -> int:
        """The first byte to read of an existing file."""
        if self._wall() - status.st_mtime > ALIVE:
            return status.st_size
        # One byte more shows whether a line starts there.
        return max(0, status.st_size - self._look_back - 1)
