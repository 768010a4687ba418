"""Child processes that are drained while they live and leave nothing behind.

Works on any thread's event loop. A child whose parent is killed outright ends by itself: its
next write to standard output fails, because nobody else holds the pipe.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self, cast

from trntop.core.text import clean

from .pace import rest

STDIN, STDOUT, STDERR = 0, 1, 2
LINGER = 0.1
"""Seconds for the last output of a dead child, whose pipes a grandchild may hold open."""
REAP = 0.1
"""Seconds for the kernel to end a killed child; one that hangs in a driver may take longer."""


class LastLine:
    """What a process said last on standard error, however much it says."""

    MAX_BYTES = 4096

    def __init__(self) -> None:
        self.lines = 0
        self._tail = b""

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        self.lines += chunk.count(b"\n")
        self._tail = (self._tail + chunk[-self.MAX_BYTES :])[-self.MAX_BYTES :]

    def text(self, limit: int = 160) -> str:
        """The last line that is not blank, cleaned; empty when nothing was said."""
        lines = self._tail.decode(errors="replace").split("\n")
        return next((clean(line.strip(), limit) for line in reversed(lines) if line.strip()), "")


class Process(Protocol):
    """A program that runs, here or elsewhere."""

    ended: "asyncio.Future[int]"
    """The return code (negative: the signal), once it is dead and its output read."""
    errors: LastLine

    async def end(self, grace: float) -> None:
        """Ends it with all it started: asks, and after `grace` seconds kills."""
        ...


class Child(asyncio.SubprocessProtocol):
    """A running child process, leader of its own session and process group.

    Use `start`; whoever started it awaits `end`.
    """

    def __init__(self, take: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._take = take
        self.ended: asyncio.Future[int] = loop.create_future()
        """The return code (negative: the signal), once the child is dead and its output read."""
        self.errors = LastLine()
        self._closed: asyncio.Future[None] = loop.create_future()

    @classmethod
    async def start(cls, argv: Sequence[str], take: Callable[[bytes], None]) -> Self:
        """Starts `argv` with empty standard input; `take` gets what it writes, as it comes.

        Raises:
            OSError: the program cannot be executed.
        """
        return await cls._started(lambda: cls(take), argv, asyncio.subprocess.DEVNULL)

    @classmethod
    async def _started(
        cls,
        make: Callable[[], Self],
        argv: Sequence[str],
        stdin: int,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """Starts a child. Cancelled meanwhile, it ends the child that has just started.

        asyncio's own cancellation waits forever for pipes that were never connected, and ends
        the child without its process group (python/cpython, asyncio.base_subprocess).

        Raises:
            OSError: the program cannot be executed.
        """
        starting = asyncio.ensure_future(
            asyncio.get_running_loop().subprocess_exec(
                make,
                *argv,
                stdin=stdin,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                env=environ,
            )
        )
        try:
            return (await asyncio.shield(starting))[1]
        except asyncio.CancelledError:
            await asyncio.wait([starting])
            if starting.exception() is None:
                await starting.result()[1].end(0.0)
            raise

    async def end(self, grace: float) -> None:
        """Ends the whole process group: asks, and after `grace` seconds kills.

        Takes `grace` + 0.2 s at most, and 0.2 s once cancelled. May be called again.
        """
        if self._transport.is_closing():
            return
        try:
            if self._transport.get_returncode() is None:
                self._signal(signal.SIGTERM)
                await asyncio.wait([self.ended], timeout=grace)
        finally:
            # Also when the leader is gone: its children may not be.
            self._signal(signal.SIGKILL)
            # Closing the transport of a dead child that is not yet reaped races with the reaper. A
            # cancelled call waits too: nothing else closes the transport.
            await asyncio.wait([self.ended], timeout=REAP)
            self._transport.close()
            await asyncio.wait([self._closed], timeout=REAP)

    def _signal(self, number: signal.Signals) -> None:
        # A program that changed its user is beyond reach; the closed pipe ends it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), number)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Called by asyncio."""
        started = self._loop.time()
        if fd == STDOUT:
            self._take(data)
        else:
            self.errors.feed(data)
        pipe = cast(asyncio.ReadTransport, self._transport.get_pipe_transport(fd))
        pipe.pause_reading()
        self._loop.call_later(rest(self._loop.time() - started), pipe.resume_reading)

    def process_exited(self) -> None:
        """Called by asyncio."""
        self._loop.call_later(LINGER, self._conclude)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio when the child is dead and all its pipes are closed."""
        self._conclude()
        if not self._closed.done():
            self._closed.set_result(None)

    def _conclude(self) -> None:
        code = self._transport.get_returncode()
        if code is not None and not self.ended.done():
            self.ended.set_result(code)


def obituary(code: int) -> str:
    """A return code in words: `exited with code 3`, `was ended by SIGKILL`."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
