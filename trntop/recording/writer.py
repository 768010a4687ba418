"""Writes recordings."""

import contextlib
import errno
import math
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

from trntop.core.errors import RecordingError
from trntop.core.model import Reading
from trntop.recording import envelope
from trntop.recording.compression import by_suffix

FLUSH_READINGS = 64
"""A recorder flushes after so many readings,"""
FLUSH_SECONDS = 2.0
"""after so many seconds of stream time"""
FLUSH_BYTES = 1 << 20
"""and after so many bytes, whichever is first."""


class Recorder:
    """Writes a recording; to be used from one thread.

    After each flush the file is a readable recording. After a write error or at a limit, readings
    are ignored: monitoring continues.

    Args:
        path: the file, compressed if it ends in `.gz` or `.zst`; readable by its owner only.
        created: unix seconds, for the header.
        note: for the header.
        overwrite: whether to replace an existing file.
        max_bytes: limit of the file, except for the few bytes that end a compressed one.
        max_seconds: limit of the stream time after the first reading.

    Raises:
        RecordingError: the file cannot be created.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        created: float,
        note: str = "",
        overwrite: bool = False,
        max_bytes: int | None = None,
        max_seconds: float | None = None,
    ) -> None:
        self.path = Path(path)
        self.failed = ""
        """Why writing stopped; empty without an error."""
        self.full = False
        """Whether a limit was reached."""
        self.bytes = 0
        """In the file."""
        self.readings = 0
        """Readings written; after an error, those since the last flush may be lost."""
        self._max_bytes = math.inf if max_bytes is None else max_bytes
        self._max_seconds = math.inf if max_seconds is None else max_seconds
        self._codec = by_suffix(self.path)
        self._encoder = self._codec.encoder() if self._codec else None
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._begun: float | None = None
        self._flushed = 0.0
        self._descriptor: int | None = create(self.path, overwrite=overwrite)
        self._append(envelope.header_line(created, note))
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def write(self, reading: Reading) -> None:
        """Adds one reading. Write errors are not raised: see `failed` and `full`."""
        if self._descriptor is None or self.failed or self.full:
            return
        if self._begun is None:
            self._begun = self._flushed = reading.time
        line = envelope.line(reading)
        if self.bytes + self._pending_bytes + len(line) > self._max_bytes:
            # Pending data may be small after compression.
            self.flush()
        if (
            self.bytes + len(line) > self._max_bytes
            or reading.time - self._begun > self._max_seconds
        ):
            self.full = True
            self.flush()
            return
        self._append(line)
        self.readings += 1
        if (
            len(self._pending) >= FLUSH_READINGS
            or self._pending_bytes >= FLUSH_BYTES
            or abs(reading.time - self._flushed) >= FLUSH_SECONDS
        ):
            self._flushed = reading.time
            self.flush()

    def flush(self) -> None:
        """Writes everything so far to the file, in readable form."""
        if self._pending:
            content = b"".join(self._pending)
            self._pending.clear()
            self._pending_bytes = 0
            if self._encoder and self._codec:
                content = self._encoder.compress(content) + self._encoder.flush(self._codec.sync)
            self._put(content)

    def close(self) -> None:
        """Ends the file; idempotent."""
        if self._descriptor is None:
            return
        self.flush()
        if self._encoder and self._codec:
            self._put(self._encoder.flush(self._codec.finish))
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            self.failed = self.failed or reason_of(error)
        finally:
            os.close(self._descriptor)
            self._descriptor = None

    def _append(self, line: bytes) -> None:
        self._pending.append(line)
        self._pending_bytes += len(line)

    def _put(self, content: bytes) -> None:
        if self._descriptor is None or self.failed:
            return
        written = 0
        try:
            while written < len(content):
                written += os.write(self._descriptor, memoryview(content)[written:])
        except OSError as error:
            self.failed = reason_of(error)
            # The file ends with its last complete line or, compressed, its last complete flush.
            self.bytes += 0 if self._codec else content.rfind(b"\n", 0, written) + 1
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self.bytes)
        else:
            self.bytes += written


def check_creatable(path: Path, *, overwrite: bool = False) -> None:
    """Rejects a file that `create` would reject, before any work is done.

    Raises:
        RecordingError: the file exists, or its directory does not.
    """
    if not path.parent.is_dir():
        raise RecordingError(f"directory {path.parent} does not exist")
    if os.path.lexists(path) and not overwrite:
        raise RecordingError(f"{path} already exists; use --overwrite")


def create(path: Path, *, overwrite: bool = False) -> int:
    """A descriptor of a new or emptied regular file, never through a symbolic link.

    Raises:
        RecordingError: the file cannot be made there.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags if overwrite else flags | os.O_EXCL, 0o600)
    except OSError as error:
        check_creatable(path, overwrite=overwrite)
        reason = "it is a symbolic link" if error.errno == errno.ELOOP else reason_of(error)
        raise RecordingError(f"cannot write {path}: {reason}") from error
    except ValueError as error:
        raise RecordingError(f"{str(path)!r} is not a path") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise RecordingError(f"cannot write {path}: it is a pipe, socket or device")
        os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def reason_of(error: OSError) -> str:
    """The system's error message, without the path."""
    return error.strerror or str(error)
