"""Child processes: their output is always read, and their process groups are ended.

A child whose parent was killed ends at its next write: the pipe is closed.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, Self, cast

from trntop.core.text import clean

from .throttle import pause_after

STDIN, STDOUT, STDERR = 0, 1, 2
LINGER = 0.1
"""Seconds for the last output of a dead child; a grandchild may keep its pipes open."""
REAP = 0.1
"""Seconds for the kernel to end a killed child; in a driver call it may take longer."""
GRACE = 0.2
"""Seconds between SIGTERM and SIGKILL for a program whose output is no longer needed."""
MAX_OUTPUT = 4 << 20


class LastLine:
    """The last line of a stream such as standard error."""

    MAX_BYTES = 4096

    def __init__(self) -> None:
        self.lines = 0
        self._tail = b""

    def feed(self, chunk: bytes) -> None:
        self.lines += chunk.count(b"\n")
        self._tail = (self._tail + chunk[-self.MAX_BYTES :])[-self.MAX_BYTES :]

    def text(self, limit: int = 160) -> str:
        """The last line that is not blank, cleaned; empty if there is none."""
        lines = self._tail.decode(errors="replace").split("\n")
        return next((clean(line.strip(), limit) for line in reversed(lines) if line.strip()), "")


class Process(Protocol):
    """A running program, on this machine or a remote one."""

    ended: "asyncio.Future[int]"
    """The return code (negative: the signal), once it is dead and its output read."""
    errors: LastLine

    async def end(self, grace: float) -> None:
        """Ends its process group: SIGTERM, after `grace` seconds SIGKILL."""
        ...


class Child(asyncio.SubprocessProtocol):
    """A running child process, leader of its own session and process group.

    Create it with `start`, then await `end`.
    """

    def __init__(self, on_output: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._on_output = on_output
        self.ended: asyncio.Future[int] = loop.create_future()
        """The return code (negative: the signal), once the child is dead and its output read."""
        self.errors = LastLine()
        self._closed: asyncio.Future[None] = loop.create_future()

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        on_output: Callable[[bytes], None],
        stdin: int = asyncio.subprocess.DEVNULL,
    ) -> Self:
        """Starts `argv`; `on_output` receives its output, `stdin` is its standard input.

        Raises:
            OSError: the program cannot be executed.
        """
        return await cls._started(lambda: cls(on_output), argv, stdin)

    @classmethod
    async def _started(
        cls,
        make: Callable[[], Self],
        argv: Sequence[str],
        stdin: int,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """Starts a child; if it is cancelled meanwhile, it ends the child.

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
        """Ends the process group: SIGTERM, after `grace` seconds SIGKILL.

        Takes at most `grace` + 0.2 s, and 0.2 s once cancelled. May be called again.
        """
        if self._transport.is_closing():
            return
        try:
            if self._transport.get_returncode() is None:
                self._signal(signal.SIGTERM)
                await asyncio.wait([self.ended], timeout=grace)
        finally:
            # Also if only the leader has ended.
            self._signal(signal.SIGKILL)
            try:
                # Closing the transport of a child that is not yet reaped races with the reaper.
                await asyncio.wait([self.ended], timeout=REAP)
            finally:
                self._transport.close()
            await asyncio.wait([self._closed], timeout=REAP)

    def _signal(self, number: signal.Signals) -> None:
        # A program that changed its user cannot be signaled; the closed pipe ends it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), number)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        started = self._loop.time()
        if fd == STDOUT:
            self._on_output(data)
        else:
            self.errors.feed(data)
        pipe = cast(asyncio.ReadTransport, self._transport.get_pipe_transport(fd))
        pipe.pause_reading()
        self._loop.call_later(pause_after(self._loop.time() - started), pipe.resume_reading)

    def process_exited(self) -> None:
        self._loop.call_later(LINGER, self._conclude)

    def connection_lost(self, exc: Exception | None) -> None:
        self._conclude()
        if not self._closed.done():
            self._closed.set_result(None)

    def _conclude(self) -> None:
        code = self._transport.get_returncode()
        if code is not None and not self.ended.done():
            self.ended.set_result(code)


class Output(NamedTuple):
    """The result of a program that has ended."""

    code: int
    """Return code; negative: the signal."""
    data: bytes
    error: str
    """Last line of standard error, cleaned."""


class OutputError(Exception):
    """A program did not end in time, or wrote too much."""


async def output(argv: Sequence[str], seconds: float) -> Output:
    """Runs a program to its end.

    Raises:
        OSError: the program cannot be executed.
        OutputError: it did not end in time, or wrote too much.
    """
    data = bytearray()
    full: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def append(chunk: bytes) -> None:
        if len(data) + len(chunk) <= MAX_OUTPUT:
            data.extend(chunk)
        elif not full.done():
            full.set_result(0)

    child = await Child.start(argv, append)
    try:
        await asyncio.wait(
            [child.ended, full], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        ended = child.ended.done()
        await child.end(GRACE)
    if full.done():
        raise OutputError(f"wrote more than {MAX_OUTPUT >> 20} MiB")
    if not ended:
        raise OutputError(f"did not answer within {seconds:g} s")
    return Output(child.ended.result(), bytes(data), child.errors.text())


def exit_reason(code: int) -> str:
    """`exited with code 3`, `was ended by SIGKILL`."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
