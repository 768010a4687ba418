"""A page of metrics as a file, for node_exporter's textfile collector.

node_exporter reads every `*.prom` in a directory at each scrape
(https://github.com/prometheus/node_exporter#textfile-collector). It must never read an incomplete
file: the page is written to a temporary file, synced to disk and renamed.
"""

import asyncio
import contextlib
import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

from trntop.core.errors import TrntopError, UsageError
from trntop.core.text import clean

SUFFIX = ".prom"
INTERVAL = 5.0
"""Seconds between two writes; node_exporter is usually scraped each 15 s."""
_MODE = 0o644
"""node_exporter runs as another user."""


class TextfileError(TrntopError):
    """The file cannot be written; its previous content is kept."""


class Textfile:
    """A file that is replaced completely.

    Args:
        path: the file. Temporary files of a killed run are removed.

    Raises:
        UsageError: node_exporter would not read a file of that name.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix != SUFFIX or path.name.startswith("."):
            raise UsageError(
                f"{clean(str(path))}: node_exporter reads only files such as trntop{SUFFIX}"
            )
        self.path = path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._clear()

    def write(self, body: bytes) -> None:
        """Replaces the content of the file.

        Raises:
            TextfileError: it cannot be written.
        """
        try:
            self._fill(body)
            self._temporary.replace(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._temporary.unlink(missing_ok=True)
            raise TextfileError(f"{clean(str(self.path))}: {_why(error, self.path)}") from error

    def remove(self) -> None:
        """Deletes the file: node_exporter would export its last values forever."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _fill(self, body: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(self._temporary, flags, _MODE), "wb") as file:  # noqa: PTH123
            os.fchmod(file.fileno(), _MODE)  # independent of the umask
            file.write(body)
            file.flush()
            os.fsync(file.fileno())

    def _clear(self) -> None:
        with contextlib.suppress(OSError):
            for name in os.listdir(self.path.parent):  # noqa: PTH208
                if name.startswith(f".{self.path.name}.") and name.endswith(".tmp"):
                    (self.path.parent / name).unlink(missing_ok=True)


def run(file: Textfile, render: Callable[[], bytes], report: Callable[[str], None]) -> None:
    """Keeps the file up to date until SIGTERM or SIGINT, on the main thread."""

    async def until_signal() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await keep_writing(file, render, report, stop)

    asyncio.run(until_signal())


async def keep_writing(
    file: Textfile,
    render: Callable[[], bytes],
    report: Callable[[str], None],
    stop: asyncio.Event,
    interval: float = INTERVAL,
) -> None:
    """Writes until `stop` is set; in the end, the file is removed.

    After a failure, the next period tries again.

    Args:
        file: the file.
        render: returns the page in Prometheus' text format.
        report: receives a message when writing fails or works again.
        stop: ends it.
        interval: seconds between two writes.
    """
    problem = ""
    try:
        while not stop.is_set():
            before, problem = problem, ""
            try:
                file.write(render())
            except TextfileError as error:
                problem = str(error)
            if problem != before:
                report(problem or f"{clean(str(file.path))}: written again")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), interval)
    finally:
        file.remove()


def _why(error: OSError, path: Path) -> str:
    if error.errno == errno.ENOENT and not path.parent.is_dir():
        return f"directory {path.parent} does not exist"
    if error.errno == errno.EISDIR:
        return "is a directory"
    if error.errno == errno.ENOSPC:
        return "no space left on device; the previous content is kept"
    return f"cannot be written: {error.strerror or error}"
