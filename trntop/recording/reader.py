"""Recordings: what sources gave, verbatim, one envelope a line; read and written.

The format is a promise, stated in `docs/recording.md`. Reading is for files that were cut off,
damaged or malicious: whatever can be read is delivered, the rest is counted in `Damage`, and
a file that is not a recording is rejected before the first reading.
"""

import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import BinaryIO

from trntop.core.errors import RecordingError
from trntop.core.model import Reading
from trntop.core.text import clean
from trntop.recording.compression import BLOCK, BrokenStreamError, Codec, blocks, detect
from trntop.recording.envelope import (
    FORMAT,
    Envelope,
    Header,
    is_report,
    longest_period,
    newer_format,
    parse,
)
from trntop.recording.framing import MAX_BYTES, Framer, is_object
from trntop.recording.writer import Recorder

__all__ = [
    "DEFAULT_LIMITS",
    "Damage",
    "Header",
    "Limits",
    "Recorder",
    "Recording",
    "open_recording",
]

_SUFFIXES = (".gz", ".zst", ".json", ".jsonl", ".ndjson", ".log", ".txt")
_FOREIGN = (
    (0, b"PK\x03\x04", "a zip archive"),
    (0, b"\xfd7zXZ\x00", "xz data"),
    (0, b"BZh", "bzip2 data"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"PAR1", "a Parquet file"),
    (0, b"SQLite format 3\x00", "an SQLite database"),
    (0, b"\x7fELF", "a program"),
    (257, b"ustar", "a tar archive"),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a recording may cost at most; more is dropped and said in `Damage`."""

    line: int = MAX_BYTES
    """Bytes of one line or object; also how far a file is searched for its first object."""
    decoded: int = 16 << 30
    """Bytes read in all, after decompression."""
    nodes: int = 4096
    """Different nodes; readings of further ones are left out."""


DEFAULT_LIMITS = Limits()


class Damage:
    """What one pass over a recording could not read; grows while the pass goes on."""

    def __init__(self, limits: Limits) -> None:
        self.framer = Framer(limits.line)
        """Cuts the lines of this pass, and counts what it cannot use."""
        self.rejected = 0
        """Objects that are no readings: not an envelope, or one with wrong or missing fields."""
        self.rejected_bytes = 0
        self.surplus = 0
        """Readings left out because of `Limits.nodes`."""
        self.cut = False
        """Whether `Limits.decoded` ended the pass."""
        self.error = ""
        """What else ended the pass early."""
        self._limits = limits

    @property
    def skipped(self) -> int:
        """Lines and objects that held no reading."""
        return self.framer.skipped + self.rejected

    @property
    def oversize(self) -> int:
        """Lines longer than the limit."""
        return self.framer.oversize

    @property
    def lost_bytes(self) -> int:
        """Bytes of everything that was skipped, too long or unfinished."""
        return self.framer.lost_bytes + self.framer.partial + self.rejected_bytes

    @property
    def truncated(self) -> bool:
        """Whether the file ends in the middle of a line."""
        return self.framer.partial > 0

    def reject(self, frame: bytes) -> None:
        """Counts an object that is no reading."""
        self.rejected += 1
        self.rejected_bytes += len(frame)

    def note(self) -> str:
        """One line for the user, empty when nothing was lost."""
        limits = self._limits
        parts = []
        if self.truncated:
            lost = _count(self.framer.partial, "byte")
            parts.append(f"the file ends in the middle of a line: {lost} lost")
        if self.skipped:
            parts.append(f"{_count(self.skipped, 'damaged line')} skipped")
        if self.oversize:
            parts.append(f"{_count(self.oversize, 'line')} over {_size(limits.line)} skipped")
        if self.surplus:
            left = _count(self.surplus, "reading")
            parts.append(f"{left} dropped: more than {limits.nodes:,} nodes")
        if self.cut:
            parts.append(f"reading stopped after {_size(limits.decoded)}")
        if self.error:
            parts.append(self.error)
        return "; ".join(parts)


def open_recording(path: str | Path, limits: Limits = DEFAULT_LIMITS) -> "Recording":
    """Looks into a file and returns it as a recording.

    Raises:
        RecordingError: it cannot be read, or is not a recording; names the file and the reason.
    """
    path = Path(path)
    with _open(path) as file:
        head = file.read(512)
        if not head:
            raise RecordingError(f"{path} is not a recording: the file is empty")
        codec = detect(head)
        file.seek(0)
        header, plain = _introduction(path, blocks(file, codec), limits)
        size = os.fstat(file.fileno()).st_size
    return Recording(path, limits, codec, header, plain, size)


class Recording:
    """A file of readings, to be iterated as often as wanted.

    What is written to the file after it was opened is not read: all passes give the same.

    Readings come in the order of the file; where its times go back (concatenated files, a
    clock that was set) they are delivered as they are.

    A plain file of neuron-monitor output has no clock and no node name: the node is named after
    the file, the first report is given the file's modification time, and each further report
    moves the time on by the longest period among its groups.
    """

    def __init__(
        self,
        path: Path,
        limits: Limits,
        codec: Codec | None,
        header: Header | None,
        plain: bool,
        size: int,
    ) -> None:
        self.path = path
        self.header = header
        """What the file says about itself before its first reading, if it does."""
        self.plain = plain
        """Whether it is neuron-monitor output instead of envelopes."""
        self.damage = Damage(limits)
        """What the latest iteration has lost so far."""
        self._limits = limits
        self._codec = codec
        self._size = size

    def __iter__(self) -> Iterator[Reading]:
        """All readings, from the beginning.

        Raises:
            RecordingError: the file can no longer be opened.
        """
        self.damage = Damage(self._limits)
        return self._read(0, self.damage)

    @property
    def node(self) -> str:
        """The node of a plain file, which names none: the file's name without its suffixes."""
        path = self.path
        while path.suffix.lower() in _SUFFIXES:
            path = path.with_suffix("")
        return clean(path.name)

    def iter_from(self, time: float) -> Iterator[Reading]:
        """The readings from the first one at or after `time` on.

        An uncompressed file of envelopes is searched by bisection, which takes its times to
        ascend; any other is read up to the place.
        """
        offset = self._offset(time) if self._seekable else 0
        self.damage = Damage(self._limits)
        return dropwhile(lambda reading: reading.time < time, self._read(offset, self.damage))

    def span(self) -> tuple[float, float] | None:
        """Times of the first and the last reading.

        None where only a pass over the file could tell: compressed files, plain files, files
        without a reading near their end.
        """
        if not self._seekable:
            return None
        first = next(self._read(0, Damage(self._limits)), None)
        last = self._last()
        return (first.time, last.time) if first and last else None

    @property
    def _seekable(self) -> bool:
        return self._codec is None and not self.plain

    def _read(self, offset: int, damage: Damage) -> Iterator[Reading]:
        with _open(self.path) as file:
            file.seek(offset)
            frames = _frames(
                blocks(file, self._codec, self._size - offset), self._limits.decoded, damage
            )
            if self.plain:
                yield from self._of_reports(frames, os.fstat(file.fileno()).st_mtime, damage)
            else:
                yield from self._of_envelopes(frames, damage)

    def _of_envelopes(self, frames: Iterator[bytes], damage: Damage) -> Iterator[Reading]:
        nodes: set[str] = set()
        parser = _Parser()
        damage.framer.whole = parser.whole
        for frame in frames:
            envelope = parser.envelope(frame)
            reading = envelope.reading if envelope else None
            if envelope is None or not (reading or envelope.recording):
                damage.reject(frame)
            elif reading is None:
                continue
            elif reading.node not in nodes and len(nodes) >= self._limits.nodes:
                damage.surplus += 1
            else:
                nodes.add(reading.node)
                yield reading

    def _of_reports(
        self, frames: Iterator[bytes], time: float, damage: Damage
    ) -> Iterator[Reading]:
        node = self.node
        first = True
        for frame in frames:
            if not is_report(frame):
                damage.reject(frame)
                continue
            if not first:
                time += longest_period(frame)
            first = False
            yield Reading(node, "neuron-monitor", time, frame)

    def _last(self) -> Reading | None:
        """The last reading, looked for in ever larger pieces of the file's end."""
        with _open(self.path) as file:
            size = file.seek(0, os.SEEK_END)
            window = BLOCK
            while True:
                file.seek(max(0, size - window))
                framer = Framer(self._limits.line)
                frames = framer.feed(file.read(window)) + framer.close()
                for frame in reversed(frames):
                    if (envelope := parse(frame)) and (reading := envelope.reading):
                        return reading
                if window >= min(size, 2 * self._limits.line):
                    return None
                window *= 8

    def _offset(self, time: float) -> int:
        """Start of a line before the first reading at `time` or later, at most a block before."""
        with _open(self.path) as file:
            low, high = 0, file.seek(0, os.SEEK_END)
            while high - low > BLOCK:
                middle = (low + high) // 2
                found = self._next(file, middle, high)
                if found is None or found[1] >= time:
                    high = middle
                else:
                    low = found[0]
            return low

    def _next(self, file: BinaryIO, offset: int, end: int) -> tuple[int, float] | None:
        """Start and time of the first reading whose line begins in `[offset, end)`."""
        # One byte earlier, so that a line that begins at the offset is not passed over.
        file.seek(offset - 1)
        while (line := file.readline(BLOCK)) and not line.endswith(b"\n"):
            pass
        while (start := file.tell()) < end:
            line = file.readline(self._limits.line)
            if (envelope := parse(line)) and (reading := envelope.reading):
                return start, reading.time
        return None


class _Parser:
    """Parses each line once: the framer's result is reused by the reader."""

    def __init__(self) -> None:
        self._parsed: deque[tuple[bytes, Envelope]] = deque()

    def whole(self, text: bytes) -> bool:
        """Whether a line is one object."""
        envelope = parse(text)
        if envelope is None:
            return is_object(text)
        self._parsed.append((text, envelope))
        return True

    def envelope(self, frame: bytes) -> Envelope | None:
        """The envelope in a frame, of all that the framer gives, in order."""
        if self._parsed and self._parsed[0][0] is frame:
            return self._parsed.popleft()[1]
        return parse(frame)


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    """Opens a regular file; never a FIFO or a device, which could block or never end.

    Raises:
        RecordingError: it cannot be opened or read.
    """
    if "\0" in str(path):
        raise RecordingError(f"{str(path)!r} is not a path")
    try:
        # Looked at before it is opened, which may already do something to a device.
        _refuse_special(path, path.stat().st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            _refuse_special(path, os.fstat(descriptor).st_mode)
            yield file
    except OSError as error:
        raise RecordingError(f"cannot read {path}: {error.strerror or error}") from error


def _refuse_special(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise RecordingError(f"{path} is not a recording: it is a directory")
    if not stat.S_ISREG(mode):
        raise RecordingError(f"{path} is not a recording: it is a pipe, socket or device")


def _introduction(
    path: Path, content: Iterator[bytes], limits: Limits
) -> tuple[Header | None, bool]:
    """The header, if one comes before the first reading, and whether the file is a plain one."""
    damage = Damage(limits)
    header = None
    objects = False
    # A first line as long as allowed may follow a header.
    for frame in _frames(_native(path, content), limits.line + BLOCK, damage):
        objects = True
        if version := newer_format(frame):
            raise RecordingError(
                f"{path} was written by a newer trntop (format {version}); "
                f"this version reads format {FORMAT}"
            )
        envelope = parse(frame)
        if envelope and envelope.recording:
            header = header or envelope.header
        elif envelope or is_report(frame):
            return header, envelope is None and header is None
    if header is not None:
        return header, False
    if objects:
        reason = "it contains neither readings nor neuron-monitor reports"
    elif damage.cut:
        reason = f"no JSON object in the first {_size(limits.line)}"
    else:
        reason = damage.error or "it contains no JSON object"
    raise RecordingError(f"{path} is not a recording: {reason}")


def _native(path: Path, content: Iterator[bytes]) -> Iterator[bytes]:
    """`content`, unless it begins like a file of another kind."""
    first = next(content, b"")
    for offset, magic, kind in _FOREIGN:
        if first.startswith(magic, offset):
            raise RecordingError(f"{path} is not a recording: it is {kind}")
    yield first
    yield from content


def _frames(content: Iterator[bytes], limit: int, damage: Damage) -> Iterator[bytes]:
    """The objects in the first `limit` bytes; what goes wrong is noted, not raised."""
    framer = damage.framer
    total = 0
    try:
        for block in content:
            yield from framer.feed(block[: limit - total])
            total += len(block)
            if total > limit:
                damage.cut = True
                return
    except BrokenStreamError as error:
        damage.error = str(error)
    except OSError as error:
        damage.error = f"read error: {error.strerror or error}"
    yield from framer.close()


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _size(count: int) -> str:
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << shift:
            return f"{count / (1 << shift):.4g} {unit}"
    return _count(count, "byte")
