"""A page of metrics as a file, for node_exporter's textfile collector.

node_exporter reads every `*.prom` in a folder at each scrape and publishes what it finds beside
its own series (https://github.com/prometheus/node_exporter#textfile-collector). It must never
meet half a file: the page is written beside it, forced to disk and moved into place.
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
EVERY = 5.0
"""Seconds between two writings; scrapes of a node exporter are usually 15 s apart."""
_MODE = 0o644
"""node_exporter runs as a user of its own."""


class TextfileError(TrntopError):
    """The file cannot be written; the one before stands."""


class Textfile:
    """A file that is replaced whole.

    Args:
        path: the file. What a killed run left beside it is removed.

    Raises:
        UsageError: node_exporter would not read a file of that name.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix != SUFFIX or path.name.startswith("."):
            raise UsageError(
                f"{clean(str(path))}: node_exporter reads files that end in {SUFFIX} only"
            )
        self.path = path
        self._beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._clear()

    def write(self, body: bytes) -> None:
        """Replaces the file by one that holds `body`.

        Raises:
            TextfileError: it cannot; nothing has changed.
        """
        try:
            self._fill(body)
            self._beside.replace(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._beside.unlink(missing_ok=True)
            raise TextfileError(f"{clean(str(self.path))}: {_why(error, self.path)}") from error

    def remove(self) -> None:
        """Takes the file away: node_exporter would show its last values for ever."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _fill(self, body: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(self._beside, flags, _MODE), "wb") as file:  # noqa: PTH123
            os.fchmod(file.fileno(), _MODE)  # whatever the umask says
            file.write(body)
            file.flush()
            os.fsync(file.fileno())

    def _clear(self) -> None:
        with contextlib.suppress(OSError):
            for name in os.listdir(self.path.parent):  # noqa: PTH208
                if name.startswith(f".{self.path.name}.") and name.endswith(".tmp"):
                    (self.path.parent / name).unlink(missing_ok=True)


def run(file: Textfile, render: Callable[[], bytes], tell: Callable[[str], None]) -> None:
    """Keeps the file written until SIGTERM or SIGINT, on the main thread; see `keep_writing`."""
    asyncio.run(_until_signal(file, render, tell))


async def _until_signal(
    file: Textfile, render: Callable[[], bytes], tell: Callable[[str], None]
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await keep_writing(file, render, tell, stop)


async def keep_writing(
    file: Textfile,
    render: Callable[[], bytes],
    tell: Callable[[str], None],
    stop: asyncio.Event,
    every: float = EVERY,
) -> None:
    """Writes until `stop` is set; however it ends, the file is removed.

    A failure does not end it: the next period tries again.

    Args:
        file: the file.
        render: gives the page in Prometheus' text format.
        tell: is given a sentence when writing fails, fails otherwise, or works again.
        stop: ends it, at once.
        every: seconds between two writings.
    """
    told = ""
    try:
        while not stop.is_set():
            try:
                file.write(render())
                problem = ""
            except TextfileError as error:
                problem = str(error)
            if problem != told:
                tell(problem or f"{clean(str(file.path))}: written again")
                told = problem
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), every)
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
