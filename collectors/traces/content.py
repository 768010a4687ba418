"""The members of a trace file, expanded and bounded."""

import os
import re
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
SPARE = 16 << 20
RATIO = 200
"""A compressed trace has at most `SPARE` bytes and `RATIO` for each of the file: real ones have 14.
An empty event takes 3 bytes, and 70 in memory.
"""
T = TypeVar("T")

_DAMAGE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_LIST = re.compile(rb"\s*\[")
_BARE = re.compile(rb"([:\[,]\s*)-?(?:inf(?:inity)?|nan)\b", re.IGNORECASE)


class Members(msgspec.Struct):
    """The members of a trace that are used."""

    traceEvents: Raw = Raw()  # noqa: N815
    distributedInfo: Raw = Raw()  # noqa: N815
    baseTimeNanoseconds: Raw = Raw()  # noqa: N815
    hostname: Raw = Raw()
    events: Raw = Raw()


_members = msgspec.json.Decoder(Members)


def read(path: Path) -> Members:
    """The members of a trace file, plain or compressed.

    Raises:
        RecordingError: it cannot be read, or is not a JSON object.
    """
    content = bytearray()
    try:
        if path.exists() and not path.is_file():  # opening a FIFO would wait for a writer
            raise RecordingError(f"{path}: not a regular file")
        with path.open("rb") as file:
            codec = detect(file.read(8))
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            expected = SPARE + RATIO * size
            for block in blocks(file, codec):
                if not content and envelope.parse(block.partition(b"\n")[0]):
                    raise RecordingError(f"{path}: this is a recording: trntop replay {path}")
                content += block
                if codec is not None and len(content) > expected:
                    raise RecordingError(
                        f"{path}: not a trace: it expands to more than {RATIO} times its size"
                    )
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


def _parse(path: Path, content: bytearray) -> Members:
    try:
        return _decode(content)
    except _DAMAGE as first:
        # Profilers write an infinite bandwidth as a bare `inf`.
        try:
            return _decode(_BARE.sub(rb"\1null", content))
        except _DAMAGE:
            raise RecordingError(f"{path}: {_reason(first)}") from None


def items(path: Path, data: Raw, kind: type[T]) -> Iterator[T | None]:
    """The items of a list, one at a time; None for each of another type.

    Raises:
        RecordingError: it is not a list.
    """
    try:
        pieces = msgspec.json.decode(data, type=list[Raw])
    except _DAMAGE as error:
        raise RecordingError(f"{path}: not a trace: its events are not a list") from error
    decoder = msgspec.json.Decoder(kind)
    for piece in pieces:
        try:
            yield decoder.decode(piece)
        except _DAMAGE:
            yield None


def present(data: Raw) -> bool:
    return memoryview(data).nbytes > 0


def value(data: Raw, kind: type[T]) -> T | None:
    """A member of this type; None if it is missing or of another type."""
    try:
        return msgspec.json.decode(data, type=kind)
    except _DAMAGE:
        return None


def _decode(content: bytes | bytearray) -> Members:
    if _LIST.match(content):
        # Chrome's format without an object around the events.
        return Members(traceEvents=msgspec.json.decode(content, type=Raw))
    return _members.decode(content)


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "not a trace: nested too deeply"
    if isinstance(error, msgspec.ValidationError):
        return "not a trace: no JSON object with events in it"
    if "truncated" in str(error):
        return "its JSON is incomplete: cut off, or still being written"
    return f"not a trace: {error}"
