"""The black box: what live sources gave lately, so that it can be written once it matters.

It is kept in memory, in segments of about a minute, each a whole Zstandard frame of envelopes. A
recording of it is a header and the segments one after the other: nothing is compressed again, and
no file is left behind by a process that is killed. The format is that of `trntop.recording.writer`.
"""

import contextlib
import math
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trntop.catalog import AGENT
from trntop.core.errors import RecordingError
from trntop.core.model import Reading, Severity, View
from trntop.recording import envelope
from trntop.recording.compression import CODECS, Encoder
from trntop.recording.writer import create, reason_of

SUFFIX = ".jsonl.zst"
SEGMENT_SECONDS = 60.0
SEGMENTS = 8
"""A segment takes at most this part of what all may take."""
AFTERMATH = 60.0
"""Seconds that are added to what an incident had written."""
APART = 900.0
"""Seconds between two recordings that incidents have written."""
MAX_FILES = 5
"""Recordings that incidents have written; the oldest gives way."""
MAX_NAMES = 99
MAX_STREAMED = 128
"""Nodes whose agents stream here and are kept. Of more, a minute would take all there is, and
writing it down more than reading it: their agents may keep boxes of their own.
"""

_CODEC = next(one for one in CODECS if SUFFIX.endswith(one.suffix))
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Segment:
    """Some readings in a row."""

    number: int
    """Counted from 0."""
    start: float
    """Unix seconds of the first reading."""
    end: float
    nodes: frozenset[str]
    readings: int
    data: bytes
    """One whole Zstandard frame."""


class BlackBox:
    """The newest readings; filled by one thread, read by any.

    Args:
        seconds: how far back it reaches, about.
        max_bytes: most that it takes, compressed; where that is less, it reaches less far.
    """

    def __init__(self, seconds: float, max_bytes: int) -> None:
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._segments: deque[Segment] = deque()
        self._bytes = 0
        self._count = 0
        self._open: _Open | None = None
        self._streamed: set[str] = set()
        """Nodes whose agents stream, the first of them."""

    @property
    def bytes(self) -> int:
        """What is kept, compressed; without what the compressor still holds back."""
        return self._bytes + (self._open.bytes if self._open else 0)

    @property
    def streams_left_out(self) -> bool:
        """Whether so many agents stream that none of them is kept."""
        return len(self._streamed) > MAX_STREAMED

    def take(self, reading: Reading) -> None:
        """Takes one reading."""
        if reading.source == AGENT and not self._has_room(reading.node):
            return
        line = envelope.line(reading)
        with self._lock:
            current = self._open
            if current is not None and (
                not 0 <= reading.time - current.start < SEGMENT_SECONDS
                or current.bytes > self._max_bytes // SEGMENTS
            ):
                self._seal()
                current = None
            if current is None:
                current = self._open = _Open(reading.time)
            current.add(reading, line)

    def _has_room(self, node: str) -> bool:
        """Whether messages of agents are kept; once there are too many, those before go too."""
        streamed = self._streamed
        if node not in streamed and len(streamed) <= MAX_STREAMED:
            streamed.add(node)
            if len(streamed) > MAX_STREAMED:
                with self._lock:
                    self._open = None
                    self._segments.clear()
                    self._bytes = 0
        return not self.streams_left_out

    def segments(self, after: int = -1) -> list[Segment]:
        """Everything there is, or what came after the segment of this number."""
        with self._lock:
            self._seal()
            return [segment for segment in self._segments if segment.number > after]

    def _seal(self) -> None:
        """Ends the open segment, and evicts segments that are too old or too many."""
        if self._open is None:
            return
        segment = self._open.sealed(self._count)
        self._open = None
        self._count += 1
        self._segments.append(segment)
        self._bytes += len(segment.data)
        while len(self._segments) > 1 and (
            self._bytes > self._max_bytes or self._segments[0].end < segment.end - self._seconds
        ):
            self._bytes -= len(self._segments.popleft().data)


class _Open:
    """A segment that is being filled."""

    def __init__(self, start: float) -> None:
        self.start = self.end = start
        self.bytes = 0
        self._readings = 0
        self._nodes: set[str] = set()
        self._parts: list[bytes] = []
        self._encoder: Encoder = _CODEC.encoder()

    def add(self, reading: Reading, line: bytes) -> None:
        self.end = reading.time
        self._readings += 1
        self._nodes.add(reading.node)
        self._keep(self._encoder.compress(line))

    def sealed(self, number: int) -> Segment:
        self._keep(self._encoder.flush(_CODEC.finish))
        nodes, data = frozenset(self._nodes), b"".join(self._parts)
        return Segment(number, self.start, self.end, nodes, self._readings, data)

    def _keep(self, data: bytes) -> None:
        if data:
            self._parts.append(data)
            self.bytes += len(data)


@dataclass(frozen=True, slots=True)
class Saved:
    """A recording that was written."""

    path: Path
    seconds: float
    """Of stream time in it."""
    readings: int
    bytes: int
    last: int
    """Number of its last segment."""


def save(box: BlackBox, folder: Path, *, note: str = "", created: float | None = None) -> Saved:
    """Writes all of the box as `trntop-NODE-TIME.jsonl.zst`, readable by its owner only.

    What cannot be written in whole is not left there in part.

    Args:
        box: what to write.
        folder: where; it must be there.
        note: words for the header.
        created: unix seconds, for the header; now by default.

    Raises:
        RecordingError: nothing was kept yet, or the file cannot be written; says why.
    """
    segments = box.segments()
    if not segments and box.streams_left_out:
        raise RecordingError(
            f"nothing to write: of more than {MAX_STREAMED} streams nothing is kept here; agents"
            " keep boxes of their own (blackbox.agent)"
        )
    if not segments:
        raise RecordingError("nothing to write: no reading has come yet")
    path = free_path(folder, _stem(segments), SUFFIX)
    encoder = _CODEC.encoder()
    header = encoder.compress(envelope.header_line(created or time.time(), note))
    header += encoder.flush(_CODEC.finish)
    content = [header, *(segment.data for segment in segments)]
    write_new(path, content)
    return Saved(
        path,
        segments[-1].end - segments[0].start,
        sum(segment.readings for segment in segments),
        sum(map(len, content)),
        segments[-1].number,
    )


def append(box: BlackBox, saved: Saved) -> None:
    """Adds what came since to a recording.

    Raises:
        RecordingError: it cannot be added; the recording is left as it was.
    """
    content = [segment.data for segment in box.segments(saved.last)]
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(saved.path, flags)
        try:
            size = os.fstat(descriptor).st_size
            try:
                _write(descriptor, content)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise RecordingError(f"{saved.path}: {reason_of(error)}") from error


def free_path(folder: Path, stem: str, suffix: str) -> Path:
    """A name in `folder` that nothing has: `STEM.SUFFIX`, `STEM-2.SUFFIX`, and so on."""
    paths = (
        folder / f"{stem}{'' if number == 1 else f'-{number}'}{suffix}"
        for number in range(1, MAX_NAMES)
    )
    taken = folder / f"{stem}{suffix}"
    return next((path for path in paths if not os.path.lexists(path)), taken)


def stamp(unix: float) -> str:
    """A moment as part of a file's name: `20261120T140342Z`."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(unix))


def write_new(path: Path, content: Sequence[bytes]) -> None:
    """Writes a new file, readable by its owner only; in whole or not at all.

    Raises:
        RecordingError: something is there already, or it cannot be written.
    """
    descriptor = create(path)
    try:
        _write(descriptor, content)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()
        raise RecordingError(f"{path}: {reason_of(error)}") from error
    finally:
        os.close(descriptor)


def _write(descriptor: int, content: Sequence[bytes]) -> None:
    for piece in content:
        left = memoryview(piece)
        while left:
            left = left[os.write(descriptor, left) :]
    os.fsync(descriptor)


def _stem(segments: Sequence[Segment]) -> str:
    nodes = frozenset[str]().union(*(segment.nodes for segment in segments))
    who = next(iter(nodes)) if len(nodes) == 1 else f"{len(nodes)}-nodes"
    return f"trntop-{_UNSAFE.sub('_', who)[:64]}-{stamp(segments[-1].end)}"


class OnCritical:
    """Writes the box when a critical incident opens, and adds what follows; subscribe it.

    It is written at once, as a node that breaks may not be there a minute later.

    Args:
        box: what to write.
        folder: where; made when needed.
        tell: receives the file written, or the error, on another thread.
    """

    def __init__(self, box: BlackBox, folder: Path, tell: Callable[[str], None]) -> None:
        self._box = box
        self._folder = folder
        self._tell = tell
        self._known: frozenset[str] = frozenset()
        """Critical incidents that are open."""
        self._written_at = -math.inf
        """Stream time of the last recording."""
        self._saved: Saved | None = None
        """A recording that what follows is to be added to."""
        self._failed = ""
        self._writing: threading.Thread | None = None

    def __call__(self, view: View) -> None:
        """Takes a view; returns at once."""
        if self._writing is not None and self._writing.is_alive():
            return
        critical = [one for one in view.open_incidents if one.severity is Severity.CRITICAL]
        opened = next((one for one in critical if one.id not in self._known), None)
        self._known = frozenset(one.id for one in critical)
        if opened is not None and view.time >= self._written_at + APART:
            self._written_at = view.time
            self._start(lambda: self._save(f"{opened.kind}: {opened.summary}", opened.kind))
        elif self._saved is not None and view.time >= self._written_at + AFTERMATH:
            saved, self._saved = self._saved, None
            self._start(lambda: append(self._box, saved))

    def wait(self) -> None:
        """Returns when nothing is being written."""
        if self._writing is not None:
            self._writing.join()

    def _start(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
                self._failed = ""
            except RecordingError as error:
                if self._failed != str(error):  # a disk that is full stays full for a while
                    self._failed = str(error)
                    self._tell(f"black box: {error}")

        self._writing = threading.Thread(target=guarded, name="black-box", daemon=True)
        self._writing.start()

    def _save(self, note: str, kind: str) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            old = sorted(
                self._folder.glob(f"trntop-*{SUFFIX}"), key=lambda one: one.stat().st_mtime
            )
            for path in old[: max(0, len(old) - MAX_FILES + 1)]:
                path.unlink()
        except OSError as error:
            raise RecordingError(f"{self._folder}: {reason_of(error)}") from error
        self._saved = save(self._box, self._folder, note=note)
        self._tell(f"{kind} is critical: what led to it is in {self._saved.path}")
