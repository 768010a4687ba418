"""A tool's process with its own deadline; its output is kept up to a limit."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self, cast

from ..child import STDIN, Child, LastLine

KEPT_BYTES = 64 << 10
"""Of standard output from its beginning, and of standard error to its end."""
GUARD = ("setpriv", "--pdeathsig", "KILL", "--")
GRACE = 0.5
"""Seconds between asking a process to end and killing it."""


class Ended(NamedTuple):
    """How a process ended, and its output."""

    code: int | None
    """The return code (negative: the signal); None at its deadline."""
    out: str
    errors: str
    seconds: float
    """Duration, at most until its deadline."""


class _Tail(LastLine):
    MAX_BYTES = KEPT_BYTES

    @property
    def content(self) -> bytes:
        return self._tail


class _Process(Child):
    def __init__(self, on_output: Callable[[bytes], None]) -> None:
        super().__init__(on_output)
        self.errors: _Tail = _Tail()
        self.output = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        super().pipe_data_received(fd, data)
        self.output.set()

    @property
    def pid(self) -> int:
        return self._transport.get_pid()

    def write(self, stdin: str) -> None:
        pipe = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(STDIN))
        pipe.write(stdin.encode())
        pipe.write_eof()


class Process:
    """A running tool, leader of its own process group; use `start`.

    The caller awaits `wait` or `end`, which leave no process of the group behind. If the thread
    that started it ends, or the whole program is killed, the kernel kills the tool: a server
    without a client would wait forever.
    """

    def __init__(self, child: _Process, out: bytearray, seconds: float) -> None:
        self._child = child
        self._out = out
        self._started = time.monotonic()
        self._until = self._started + seconds
        self._cut = False
        self._stopped: float | None = None

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        seconds: float,
        *,
        stdin: str = "",
        environ: Mapping[str, str] | None = None,
        kept_bytes: int = KEPT_BYTES,
    ) -> Self:
        """Starts `argv`, which has `seconds` from now.

        Args:
            argv: the command.
            seconds: until its deadline.
            stdin: its standard input.
            environ: its environment, if not that of trntop.
            kept_bytes: limit of its output.

        Raises:
            OSError: there is no setpriv (util-linux), or no more processes can be started.
        """
        out = bytearray()

        def keep(chunk: bytes) -> None:
            out.extend(chunk[: kept_bytes - len(out)])

        child = await _Process._started(
            lambda: _Process(keep), [*GUARD, *argv], asyncio.subprocess.PIPE, environ
        )
        child.write(stdin)
        return cls(child, out, seconds)

    @property
    def pid(self) -> int:
        return self._child.pid

    async def prints(self, phrase: str, seconds: float) -> bool:
        """Whether it prints `phrase`, on either output, within `seconds` and before it ends."""
        wanted = phrase.encode()
        child = self._child
        until = min(time.monotonic() + seconds, self._until)
        while wanted not in self._out and wanted not in child.errors.content:
            left = until - time.monotonic()
            if left <= 0 or child.ended.done():
                return False
            child.output.clear()
            output = asyncio.create_task(child.output.wait())
            either: list[asyncio.Future[Any]] = [output, child.ended]
            try:
                await asyncio.wait(either, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                output.cancel()
        return True

    async def wait(self) -> Ended:
        """Waits until it ends or its deadline; if cancelled, ends the process too."""
        left = max(self._until - time.monotonic(), 0)
        try:
            await asyncio.wait([self._child.ended], timeout=left)
        finally:
            await self.end()
        child = self._child
        return Ended(
            None if self._cut else child.ended.result(),
            self._out.decode(errors="replace"),
            child.errors.content.decode(errors="replace"),
            (self._stopped or time.monotonic()) - self._started,
        )

    async def end(self) -> None:
        """Ends its whole group now, if it still runs."""
        self._cut |= not self._child.ended.done()
        self._stopped = self._stopped or time.monotonic()
        await self._child.end(GRACE)


async def run(argv: Sequence[str], seconds: float) -> Ended:
    """Runs `argv` to its end, or for `seconds`.

    Raises:
        OSError: it cannot be started.
    """
    return await (await Process.start(argv, seconds)).wait()
