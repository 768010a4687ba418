"""A trace file's content: expanded, bounded, and taken apart into its members."""

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Raw

from trntop.core.errors import RecordingError
from trntop.recording import envelope
from trntop.recording.compression import BrokenStreamError, blocks, detect

MAX_DECODED = 4 << 30
"""Bytes of one trace, expanded."""
MAX_RATIO = 250
"""How many times larger than its file a trace may be once expanded; real ones are 10 to 40."""
FREE = 64 << 20
"""Expanded bytes to which `MAX_RATIO` does not apply."""

T = TypeVar("T")

_DAMAGE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_LIST = re.compile(rb"\s*\[")
_BARE = re.compile(rb"([:\[,]\s*)-?(?:inf(?:inity)?|nan)\b", re.IGNORECASE)


class Members(msgspec.Struct):
    """The members of a trace that anything is read from, each as it stands."""

    traceEvents: Raw = Raw()  # noqa: N815
    distributedInfo: Raw = Raw()  # noqa: N815
    baseTimeNanoseconds: Raw = Raw()  # noqa: N815
    hostname: Raw = Raw()
    events: Raw = Raw()
    trace_event: Raw = Raw()


_members = msgspec.json.Decoder(Members)


def read(path: Path) -> Members:
    """The members of a trace file, plain or compressed.

    Raises:
        RecordingError: it cannot be read or is no JSON object; names the file and the reason.
    """
    content = bytearray()
    try:
        for block in _blocks(path):
            # The first line of a recording is one whole object.
            if not content and envelope.parse(block.partition(b"\n")[0]):
                raise RecordingError(f"{path}: this is a recording: trntop replay {path}")
            content += block
            if len(content) > MAX_DECODED:
                raise RecordingError(f"{path}: larger than {MAX_DECODED >> 30} GiB expanded")
    except BrokenStreamError as error:
        raise RecordingError(f"{path}: {error}") from error
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise RecordingError(f"{str(path)!r} is not a path") from error
    if not content or content.isspace():
        raise RecordingError(f"{path}: not a trace: it is empty")
    return _parse(path, content)


def _blocks(path: Path) -> Iterator[bytes]:
    status = path.stat()
    # Looked at before it is opened: opening a FIFO would wait for a writer.
    if not stat.S_ISREG(status.st_mode):
        raise RecordingError(f"{path}: not a regular file")
    with path.open("rb") as file:
        codec = detect(file.read(8))
        file.seek(0)
        expanded = 0
        for block in blocks(file, codec):
            expanded += len(block)
            if expanded > max(FREE, MAX_RATIO * status.st_size):
                raise RecordingError(
                    f"{path}: expands to more than {MAX_RATIO} times its size, as no trace does"
                )
            yield block


def _parse(path: Path, content: bytearray) -> Members:
    try:
        return _decode(content)
    except _DAMAGE as first:
        # Profilers write the bandwidth of a copy that took no time as a bare `inf`.
        try:
            return _decode(_BARE.sub(rb"\1null", content))
        except _DAMAGE:
            raise RecordingError(f"{path}: {_reason(first)}") from None


def items(path: Path, data: Raw, kind: type[T]) -> Iterator[T | None]:
    """The items of a list, None for each that is not of its kind.

    One at a time: a trace has millions, of which few are kept.

    Raises:
        RecordingError: it is no list.
    """
    try:
        pieces = msgspec.json.decode(data, type=list[Raw])
    except _DAMAGE as error:
        raise RecordingError(f"{path}: not a trace: its events are no list") from error
    decoder = msgspec.json.Decoder(kind)
    for piece in pieces:
        try:
            yield decoder.decode(piece)
        except _DAMAGE:
            yield None


def present(data: Raw) -> bool:
    """Whether a trace has this member."""
    return memoryview(data).nbytes > 0


def value(data: Raw, kind: type[T]) -> T | None:
    """A member as what it should be; None where it is missing or something else."""
    try:
        return msgspec.json.decode(data, type=kind)
    except _DAMAGE:
        return None


def _decode(content: bytes | bytearray) -> Members:
    if _LIST.match(content):
        # Chrome's form without an object around the events.
        return Members(traceEvents=msgspec.json.decode(content, type=Raw))
    return _members.decode(content)


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "not a trace: nested too deeply"
    if isinstance(error, msgspec.ValidationError):
        return "not a trace: no JSON object with events in it"
    if "truncated" in str(error):
        return "its JSON stops before its end: cut off, or still being written"
    return f"not a trace: {error}"
