"""The black box: the newest readings of live sources, kept in memory to be written on demand.

They are kept in segments of about a minute, compressed as they are: as lines of a recording, the
messages of agents would take half as much again, and twice the time. A recording is a header and
the segments, each a Zstandard frame.
"""

import contextlib
import math
import os
import re
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trntop.catalog import AGENT
from trntop.core.errors import RecordingError
from trntop.core.model import Incident, Reading, Severity, View
from trntop.recording import envelope
from trntop.recording.compression import CODECS, Encoder
from trntop.recording.writer import create, reason_of

SUFFIX = ".jsonl.zst"
SEGMENT_SECONDS = 60.0
MIN_SEGMENTS = 8
"""A segment is at most the size limit divided by this."""
MIN_INTERVAL = 900.0
"""Minimum seconds between two recordings written for incidents."""
MAX_FILES = 5
"""Limit of recordings of incidents; the oldest is deleted."""
MAX_NAMES = 99
STREAM_BYTES = 160 << 10
"""What half a minute of a streaming node takes. If the size limit is less than that for all of
them, nothing is kept; the agents can keep black boxes (`blackbox.agent`).
"""

_CODEC = next(codec for codec in CODECS if SUFFIX.endswith(codec.suffix))
_LENGTH = struct.Struct("<I")
"""Before each reading of a segment."""
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Reading)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive readings."""

    start: float
    """Unix seconds of the first reading."""
    end: float
    nodes: frozenset[str]
    readings: int
    size: int
    parts: Sequence[bytes]
    """Its compressed data."""

    def lines(self) -> Iterator[bytes]:
        """Its lines of a recording."""
        decoder, _ = _CODEC.decoder()
        content = memoryview(decoder.decompress(b"".join(self.parts)))
        while content:
            (size,) = _LENGTH.unpack_from(content)
            end = _LENGTH.size + size
            yield envelope.line(_decoder.decode(content[_LENGTH.size : end]))
            content = content[end:]


class BlackBox:
    """The newest readings; one thread adds them, any thread reads them.

    Args:
        seconds: time span to keep, approximately.
        max_bytes: limit of the compressed size, which can shorten the time span.
    """

    def __init__(self, seconds: float, max_bytes: int) -> None:
        self._seconds = seconds
        self._max_bytes = max_bytes
        self.max_streamed = max_bytes // STREAM_BYTES
        """Limit of streaming nodes whose readings are kept."""
        self._lock = threading.Lock()
        self._segments: deque[Segment] = deque()
        self._bytes = 0
        self._open: _Open | None = None
        self._streamed: set[str] = set()
        """Nodes whose agents stream, up to one more than the limit."""

    @property
    def bytes(self) -> int:
        """Compressed size, without the data that the compressor buffers."""
        return self._bytes + (self._open.bytes if self._open else 0)

    @property
    def drops_streams(self) -> bool:
        """Whether so many agents stream that their readings are not kept."""
        return len(self._streamed) > self.max_streamed

    def append(self, reading: Reading) -> None:
        if reading.source == AGENT and not self._has_room(reading.node):
            return
        data = _encoder.encode(reading)
        with self._lock:
            current = self._open
            if current is not None and (
                not 0 <= reading.time - current.start < SEGMENT_SECONDS
                or current.bytes > self._max_bytes // MIN_SEGMENTS
            ):
                self._seal()
                current = None
            if current is None:
                current = self._open = _Open(reading.time)
            current.add(reading, _LENGTH.pack(len(data)) + data)

    def _has_room(self, node: str) -> bool:
        """Whether a streaming node is kept; older readings are dropped once there are too many."""
        streamed = self._streamed
        if node not in streamed and len(streamed) <= self.max_streamed:
            streamed.add(node)
            if len(streamed) > self.max_streamed:
                with self._lock:
                    self._open = None
                    self._segments.clear()
                    self._bytes = 0
        return not self.drops_streams

    def segments(self) -> list[Segment]:
        with self._lock:
            self._seal()
            return list(self._segments)

    def _seal(self) -> None:
        """Closes the open segment, and drops the oldest segments beyond the limits."""
        if self._open is None:
            return
        segment = self._open.sealed()
        self._open = None
        self._segments.append(segment)
        self._bytes += segment.size
        while len(self._segments) > 1 and (
            self._bytes > self._max_bytes or self._segments[0].end < segment.end - self._seconds
        ):
            self._bytes -= self._segments.popleft().size


class _Open:
    """A segment that is being filled."""

    def __init__(self, start: float) -> None:
        self.start = self.end = start
        self.bytes = 0
        self._readings = 0
        self._nodes: set[str] = set()
        self._parts: list[bytes] = []
        self._encoder: Encoder = _CODEC.encoder()

    def add(self, reading: Reading, data: bytes) -> None:
        self.end = reading.time
        self._readings += 1
        self._nodes.add(reading.node)
        self._keep(self._encoder.compress(data))

    def sealed(self) -> Segment:
        self._keep(self._encoder.flush(_CODEC.finish))
        nodes = frozenset(self._nodes)
        return Segment(self.start, self.end, nodes, self._readings, self.bytes, self._parts)

    def _keep(self, data: bytes) -> None:
        if data:
            self._parts.append(data)
            self.bytes += len(data)


@dataclass(frozen=True, slots=True)
class Saved:
    """A recording that was written."""

    path: Path
    seconds: float
    """Stream time."""
    readings: int
    bytes: int


def save(box: BlackBox, folder: Path, *, note: str = "", created: float | None = None) -> Saved:
    """Writes the black box as `trntop-NODE-TIME.jsonl.zst`, readable by its owner only.

    A file that cannot be written completely is removed.

    Args:
        box: the black box.
        folder: an existing directory.
        note: text for the header.
        created: unix seconds for the header; now by default.

    Raises:
        RecordingError: the black box is empty, or the file cannot be written.
    """
    segments = box.segments()
    if not segments and box.drops_streams:
        raise RecordingError(
            f"nothing to write: streams of more than {box.max_streamed} nodes are not kept here;"
            " enable blackbox.agent on the nodes, or raise blackbox.megabytes"
        )
    if not segments:
        raise RecordingError("nothing to write: no readings yet")
    header = envelope.header_line(created or time.time(), note)
    content = ([header], *(segment.lines() for segment in segments))
    path = write_new(folder, _stem(segments), SUFFIX, map(_compressed, content))
    return Saved(
        path,
        segments[-1].end - segments[0].start,
        sum(segment.readings for segment in segments),
        path.stat().st_size,
    )


def _compressed(lines: Iterable[bytes]) -> bytes:
    encoder = _CODEC.encoder()
    return b"".join(map(encoder.compress, lines)) + encoder.flush(_CODEC.finish)


def stamp(unix: float) -> str:
    """A time as part of a file name: `20261120T140342Z`."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(unix))


def write_new(folder: Path, stem: str, suffix: str, content: Iterable[bytes]) -> Path:
    """Writes a new file, readable by its owner only; removes it if that fails.

    Returns:
        `STEM.SUFFIX`, `STEM-2.SUFFIX` and so on, the first that is unused.

    Raises:
        RecordingError: all of them exist, or the file cannot be written.
    """
    for number in range(1, MAX_NAMES):
        path = folder / f"{stem}{'' if number == 1 else f'-{number}'}{suffix}"
        try:
            descriptor = create(path)
            break
        except RecordingError:
            if number == MAX_NAMES - 1 or not os.path.lexists(path):
                raise
    try:
        _write(descriptor, content)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()
        raise RecordingError(f"{path}: {reason_of(error)}") from error
    finally:
        os.close(descriptor)
    return path


def _write(descriptor: int, content: Iterable[bytes]) -> None:
    for piece in content:
        left = memoryview(piece)
        while left:
            left = left[os.write(descriptor, left) :]
    os.fsync(descriptor)


def _stem(segments: Sequence[Segment]) -> str:
    nodes = frozenset[str]().union(*(segment.nodes for segment in segments))
    name = next(iter(nodes)) if len(nodes) == 1 else f"{len(nodes)}-nodes"
    return f"trntop-{_UNSAFE.sub('_', name)[:64]}-{stamp(segments[-1].end)}"


class CriticalSaver:
    """Writes the black box when a critical incident opens; a subscriber of a session.

    It writes at once, because a broken node may be gone a minute later.

    Args:
        box: the black box.
        folder: the directory; created if missing.
        report: receives the file written, or the error, on another thread.
        loading: whether a view is of the backfill, whose readings the black box does not have.
    """

    def __init__(
        self,
        box: BlackBox,
        folder: Path,
        report: Callable[[str], None],
        loading: Callable[[], bool] = lambda: False,
    ) -> None:
        self._box = box
        self._folder = folder
        self._report = report
        self._loading = loading
        self._known: frozenset[str] = frozenset()
        """Critical incidents that are open."""
        self._written_at = -math.inf
        """Stream time of the last recording."""
        self._failed = ""
        self._writing: threading.Thread | None = None

    def __call__(self, view: View) -> None:
        """Checks a view; does not block."""
        if self._writing is not None and self._writing.is_alive():
            return
        critical = [
            incident for incident in view.open_incidents if incident.severity is Severity.CRITICAL
        ]
        opened = next((incident for incident in critical if incident.id not in self._known), None)
        self._known = frozenset(incident.id for incident in critical)
        due = view.time >= self._written_at + MIN_INTERVAL
        if opened is not None and due and not self._loading():
            self._written_at = view.time
            self._writing = threading.Thread(
                target=self._save, args=(opened,), name="black-box", daemon=True
            )
            self._writing.start()

    def wait(self) -> None:
        """Returns when nothing is being written."""
        if self._writing is not None:
            self._writing.join()

    def _save(self, incident: Incident) -> None:
        try:
            self._make_room()
            note = f"{incident.kind}: {incident.summary}"
            path = save(self._box, self._folder, note=note).path
        except RecordingError as error:
            if self._failed != str(error):  # a full disk stays full for a while
                self._report(f"black box: {error}")
            self._failed = str(error)
            self._written_at = -math.inf
            return
        self._failed = ""
        self._report(f"{incident.kind} is critical: the last minutes are in {path}")

    def _make_room(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            old = sorted(self._folder.glob(f"trntop-*{SUFFIX}"), key=_modified)
            for path in old[: max(0, len(old) - MAX_FILES + 1)]:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise RecordingError(f"{self._folder}: {reason_of(error)}") from error


def _modified(path: Path) -> float:
    """When it was; -inf where another dashboard has removed it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return -math.inf
