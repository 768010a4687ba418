"""Reads recordings: the output of sources, verbatim, one envelope per line.

The format is a promise, stated in `docs/recording.md`. Files may be cut off, damaged or malicious:
everything readable is delivered, losses are counted in `Damage`, and a file that is not a recording
is rejected before the first reading.
"""

import os
import stat
import sys
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
    Header,
    longest_period,
    newer_format,
    parse,
    reports_in,
)
from trntop.recording.framing import MAX_BYTES, Framer

_SUFFIXES = (".gz", ".zst", ".json", ".jsonl", ".ndjson", ".log", ".txt")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one recording; what exceeds them is dropped and noted in `Damage`."""

    line: int = MAX_BYTES
    """Bytes of one line or object; a file is searched this far for its first object."""
    decoded: int = 16 << 30
    """Bytes read in total, decompressed."""
    nodes: int = 4096
    barren: int = 32 << 20
    """Bytes without a reading after which reading stops: newlines expand 30,000 times."""
    spare_objects: int = 10_000
    """Objects read in addition to one for each byte of the file: a reading with its own time takes
    more than that, however it is compressed.
    """
    spare_bytes: int = 1 << 30
    ratio: int = 1000
    """Bytes read from a compressed file: `spare_bytes`, and `ratio` for each of its bytes."""


DEFAULT_LIMITS = Limits()


class Damage:
    """Losses of one pass over a recording; grows during the pass."""

    def __init__(self, limits: Limits) -> None:
        self.framer = Framer(limits.line)
        """Cuts the lines of this pass."""
        self.rejected = 0
        """Objects that are not readings."""
        self.surplus = 0
        """Readings dropped because of `Limits.nodes`."""
        self.read = 0
        """Bytes read so far."""
        self.fruitful = 0
        """Bytes read when the newest reading was found."""
        self.cut_after = 0
        """Bytes after which a limit ended the pass; 0 if none did."""
        self.error = ""
        """Another reason that ended the pass early."""
        self.limits = limits

    @property
    def skipped(self) -> int:
        """Lines and objects without a reading."""
        return self.framer.skipped + self.rejected

    def note(self) -> str:
        """One line for the user, empty without losses."""
        limits = self.limits
        parts = []
        if self.framer.partial:
            lost = _count(self.framer.partial, "byte")
            parts.append(f"the file ends in the middle of a line: {lost} lost")
        if self.skipped:
            parts.append(f"{_count(self.skipped, 'damaged line')} skipped")
        if oversize := self.framer.oversize:
            parts.append(f"{_count(oversize, 'line')} over {_size(limits.line)} skipped")
        if self.surplus:
            dropped = _count(self.surplus, "reading")
            parts.append(f"{dropped} dropped: more than {limits.nodes:,} nodes")
        if self.cut_after:
            parts.append(f"reading stopped after {_size(self.cut_after)}")
        if self.error:
            parts.append(self.error)
        return "; ".join(parts)


def open_recording(path: str | Path, limits: Limits = DEFAULT_LIMITS) -> "Recording":
    """Opens a file as a recording.

    Raises:
        RecordingError: it cannot be read, or is not a recording.
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
    """A file of readings; can be iterated repeatedly.

    Data appended to the file after it was opened is not read: all passes give the same.

    Readings have the order and the times of the file, even if its times go back (concatenated
    files, a clock that was set).

    A plain file of neuron-monitor output has no times and no node name: the node is named after
    the file, the first report gets the file's modification time, and each further report advances
    the time by the longest period among its groups.
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
        """The header before the first reading, if any."""
        self.plain = plain
        """Whether it contains neuron-monitor reports instead of envelopes."""
        self.damage = Damage(limits)
        """Losses of the latest iteration so far."""
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
        """The node of a plain file: the file's name without its suffixes."""
        path = self.path
        while path.suffix.lower() in _SUFFIXES:
            path = path.with_suffix("")
        return clean(path.name)

    def note(self) -> str:
        """Losses of the latest iteration so far, after the name of the file; empty without any."""
        note = self.damage.note()
        return note and f"{clean(self.path.name)}: {note}"

    def iter_from(self, time: float) -> Iterator[Reading]:
        """The readings from the first one at or after `time` on.

        An uncompressed file of envelopes is searched by bisection, which assumes ascending times;
        any other file is read up to that reading.
        """
        offset = self._offset(time) if self._seekable else 0
        self.damage = Damage(self._limits)
        return dropwhile(lambda reading: reading.time < time, self._read(offset, self.damage))

    def span(self) -> tuple[float, float] | None:
        """Times of the first and the last reading.

        None for compressed and plain files, and files without a reading near their end.
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
            limits = self._limits
            most = limits.decoded
            if self._codec is not None:
                most = min(most, limits.spare_bytes + limits.ratio * self._size)
            content = blocks(file, self._codec, self._size - offset)
            frames = _frames(content, most, damage, limits.spare_objects + self._size)
            if self.plain:
                yield from self._of_reports(frames, os.fstat(file.fileno()).st_mtime, damage)
            else:
                yield from self._of_envelopes(frames, damage)

    def _of_envelopes(self, frames: Iterator[bytes], damage: Damage) -> Iterator[Reading]:
        nodes: set[str] = set()
        checksums = False
        for frame in frames:
            envelope = parse(frame)
            reading = envelope.reading if envelope else None
            if envelope is not None and envelope.recording is not None:
                checksums = envelope.recording.checksums  # of a file that was appended
            elif envelope is None or reading is None or (checksums and not envelope.crc):
                damage.rejected += 1
            elif reading.node not in nodes and len(nodes) >= self._limits.nodes:
                damage.surplus += 1
                damage.fruitful = damage.read
            else:
                nodes.add(reading.node)
                damage.fruitful = damage.read
                yield reading

    def _of_reports(
        self, frames: Iterator[bytes], time: float, damage: Damage
    ) -> Iterator[Reading]:
        node = self.node
        first = True
        for frame in frames:
            reports = reports_in(frame)
            damage.rejected += not reports
            for report in reports:
                if not first:
                    time += longest_period(report)
                first = False
                damage.fruitful = damage.read
                yield Reading(node, "neuron-monitor", time, report)

    def _last(self) -> Reading | None:
        """The last reading, searched in larger and larger pieces of the end of the file."""
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
        """Start of a line at most a block before the first reading at or after `time`."""
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
        """Start and time of the first reading whose line starts in `[offset, end)`."""
        # One byte earlier, to include a line that starts at the offset.
        file.seek(offset - 1)
        while (line := file.readline(BLOCK)) and not line.endswith(b"\n"):
            pass
        while (start := file.tell()) < end:
            line = file.readline(self._limits.line)
            if (envelope := parse(line)) and (reading := envelope.reading):
                return start, reading.time
        return None


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    """Opens a regular file; not a FIFO or a device, which could block or never end.

    Raises:
        RecordingError: it cannot be opened or read.
    """
    if "\0" in str(path):
        raise RecordingError(f"{str(path)!r} is not a path")
    try:
        # Before it is opened: that alone may affect a device.
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
    """The header before the first reading, if any, and whether the file is plain."""
    damage = Damage(limits)
    header = None
    objects = False
    # The first line after a header may have the maximum length.
    for frame in _frames(content, limits.line + BLOCK, damage):
        objects = True
        if version := newer_format(frame):
            raise RecordingError(
                f"{path} was written by a newer trntop (format {version}); "
                f"this version reads format {FORMAT}"
            )
        envelope = parse(frame)
        if envelope and envelope.recording:
            header = header or envelope.header
        elif envelope or reports_in(frame):
            return header, envelope is None and header is None
    if header is not None:
        return header, False
    if objects:
        reason = "it contains neither readings nor neuron-monitor reports"
    elif damage.cut_after:
        reason = f"no JSON object in the first {_size(limits.line)}"
    else:
        reason = damage.error or "it contains no JSON object"
    raise RecordingError(f"{path} is not a recording: {reason}")


def _frames(
    content: Iterator[bytes], limit: int, damage: Damage, objects: int = sys.maxsize
) -> Iterator[bytes]:
    """The objects in the first `limit` bytes, at most so many; errors are noted, not raised."""
    framer, limits = damage.framer, damage.limits
    try:
        for block in content:
            frames = framer.feed(block[: limit - damage.read])
            damage.read += len(block)
            objects -= len(frames)
            yield from frames
            if damage.read > limit:
                damage.cut_after = limit
                return
            if objects < 0:
                damage.error = "reading stopped: more readings than a file of its size can have"
                return
            if damage.read - damage.fruitful > limits.barren:
                damage.error = f"reading stopped: no reading in {_size(limits.barren)}"
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
