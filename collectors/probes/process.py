"""A tool's process with a deadline of its own, what it said kept up to a limit."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from ..child import Child, LastLine

KEPT_BYTES = 64 << 10
"""Of standard output from its beginning, and of standard error to its end."""
GUARD = ("setpriv", "--pdeathsig", "KILL", "--")
GRACE = 0.5
"""Seconds between asking a process to end and killing it."""


class Ended(NamedTuple):
    """How a process ended and what it said."""

    code: int | None
    """The return code (negative: the signal); None for one that was ended at its deadline."""
    out: str
    errors: str
    seconds: float
    """How long it ran, or until its deadline."""


class _Tail(LastLine):
    MAX_BYTES = KEPT_BYTES

    @property
    def said(self) -> bytes:
        return self._tail


class _Process(Child):
    def __init__(self, take: Callable[[bytes], None]) -> None:
        super().__init__(take)
        self.errors: _Tail = _Tail()
        self.heard = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        super().pipe_data_received(fd, data)
        self.heard.set()

    @property
    def pid(self) -> int:
        return self._transport.get_pid()


class Process:
    """A running tool, leader of its own process group; use `start`.

    Whoever started it awaits `wait` or `end`, which leave no process of the group behind. Should
    the thread that started it end, or the whole program be killed, the kernel kills the tool: a
    server that nobody connects to would wait for ever.
    """

    def __init__(self, child: _Process, out: bytearray, seconds: float) -> None:
        self._child = child
        self._out = out
        self._started = time.monotonic()
        self._until = self._started + seconds
        self._cut = False
        self._stopped: float | None = None

    @classmethod
    async def start(cls, argv: Sequence[str], seconds: float) -> Self:
        """Starts `argv`, which has `seconds` from now.

        Raises:
            OSError: there is no setpriv (util-linux), or no more processes may be started.
        """
        out = bytearray()

        def keep(chunk: bytes) -> None:
            out.extend(chunk[: KEPT_BYTES - len(out)])

        return cls(await _Process.start([*GUARD, *argv], keep), out, seconds)

    @property
    def pid(self) -> int:
        """Of the leader of its group."""
        return self._child.pid

    async def says(self, phrase: str, seconds: float) -> bool:
        """Whether it says `phrase`, on either output, within `seconds` and before it ends."""
        wanted = phrase.encode()
        child = self._child
        until = min(time.monotonic() + seconds, self._until)
        while wanted not in self._out and wanted not in child.errors.said:
            left = until - time.monotonic()
            if left <= 0 or child.ended.done():
                return False
            child.heard.clear()
            news = asyncio.create_task(child.heard.wait())
            either: list[asyncio.Future[Any]] = [news, child.ended]
            try:
                await asyncio.wait(either, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
        return True

    async def over(self) -> bool:
        """Waits for its end; False when the deadline comes first, and it still runs."""
        left = max(self._until - time.monotonic(), 0)
        done, _ = await asyncio.wait([self._child.ended], timeout=left)
        return bool(done)

    async def wait(self) -> Ended:
        """How it ended, by itself or at its deadline; cancelled, it ends the process too."""
        try:
            await self.over()
        finally:
            await self.end()
        return self._ended

    async def end(self) -> None:
        """Ends its whole group now, if it still runs; whoever waits for it hears of it."""
        self._cut |= not self._child.ended.done()
        self._stopped = self._stopped or time.monotonic()
        await self._child.end(GRACE)

    @property
    def _ended(self) -> Ended:
        child = self._child
        return Ended(
            None if self._cut else child.ended.result(),
            self._out.decode(errors="replace"),
            child.errors.said.decode(errors="replace"),
            (self._stopped or time.monotonic()) - self._started,
        )


async def run(argv: Sequence[str], seconds: float) -> Ended:
    """Runs `argv` to its end, or for `seconds`.

    Raises:
        OSError: it cannot be started.
    """
    return await (await Process.start(argv, seconds)).wait()
