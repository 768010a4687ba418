"""What the contract of collectors is tried with: a loop, a sink and sources that do harm.

A `Row` has how one collector is made for a source that is missing, that hangs, or that holds a
hostile payload. `stage` runs one, and checks what it leaves behind.
"""

import asyncio
import contextlib
import gc
import os
import shlex
import signal
import socket
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.collectors.recording_sink import RecordingSink
from trntop.core.errors import DecodeError
from trntop.core.model import Reading, State, Status
from trntop.core.settings import Settings
from trntop.core.text import clean
from trntop.session.collector import Collector
from trntop.session.monitor import Monitor
from trntop.sources import DECODERS

CANCEL_LIMIT = 0.5
"""Seconds that a collector may wait once it is cancelled."""
TIMEOUT = 30.0
"""Seconds after which nothing more is expected; only a test that fails waits so long."""
TURNS = 10
"""Turns of the loop in which tasks end that were cancelled, or close a library's generators."""
HOUR = 3600.0

_ROOT = Path(__file__).resolve().parents[2]
_PRODUCT = (f"{_ROOT / 'collectors'}{os.sep}", f"{_ROOT / 'trntop'}{os.sep}")


class BlockingError(BaseException):
    """A call on the loop's thread that may block it. No `except Exception` hides it."""


class Guard:
    """Refuses blocking calls of collectors on the loop's thread, before they can block."""

    def __init__(self) -> None:
        self.source: Path | None = None
        """What lies below may hang."""
        self.thread = 0
        self.calls: list[str] = []
        sys.addaudithook(self._audit)  # for good: there is no way to remove one

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.source is None or event not in _EVENTS or threading.get_ident() != self.thread:
            return
        if _EVENTS[event](self.source, *arguments) and _of_product(sys._getframe(1)):
            stack = traceback.extract_stack(sys._getframe(1))
            where = next(frame for frame in reversed(stack) if _is_product(frame.filename))
            self.calls.append(f"{event} in {where.filename}:{where.lineno}")
            raise BlockingError(self.calls[-1])


def _is_product(file: str) -> bool:
    return file.startswith(_PRODUCT)


def _of_product(frame: FrameType | None) -> bool:
    while frame is not None:
        if _is_product(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False


def _below(source: Path, path: object = None, *_: object) -> bool:
    return isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path).startswith(f"{source}")


def _opens(source: Path, path: object, mode: object, flags: int) -> bool:
    return _below(source, path) and not flags & os.O_NONBLOCK


def _connects(_: Path, connection: socket.socket, *__: object) -> bool:
    return connection.gettimeout() != 0.0


def _spawns(*_: object) -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith("asyncio/unix_events.py"):
            return False
        frame = frame.f_back
    return True


def _always(*_: object) -> bool:
    return True


_EVENTS: dict[str, Callable[..., bool]] = {
    "open": _opens,
    "os.listdir": _below,
    "os.scandir": _below,
    "glob.glob": _below,
    "time.sleep": _always,
    "os.system": _always,
    "subprocess.Popen": _spawns,
    "socket.connect": _connects,
    "socket.getaddrinfo": _always,
    "socket.getnameinfo": _always,
    "socket.gethostbyname": _always,
}
"""Python's audit events → whether a call may block."""

GUARD = Guard()


class Loop(asyncio.SelectorEventLoop):
    """A loop whose clock can be moved on, and that counts what is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead = 0.0
        self._leaving_since: float | None = None
        self.waited = 0.0
        """Seconds by the timers that were waited out since `leave`, however late they came."""

    def time(self) -> float:
        return super().time() + self._ahead

    def jump(self, seconds: float) -> None:
        """Makes it later."""
        self._ahead += seconds

    def leave(self) -> None:
        """From now on waits count."""
        self._leaving_since = self.time()

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        began = self.time()

        def fire(*args: Any) -> None:
            if self._leaving_since is not None:
                self.waited += max(0.0, when - max(began, self._leaving_since))
            callback(*args)

        return super().call_at(when, fire, *args, context=context)


class DecodingSink(RecordingSink):
    """A sink that decodes what it gets, as a session does, and keeps every text."""

    def __init__(self) -> None:
        super().__init__()
        self.monitor = Monitor(Settings())
        self.problems: list[str] = []
        """What is wrong with payloads."""
        self.names: set[str] = set()

    def reading(self, reading: Reading) -> None:
        self.names |= {reading.node, reading.source}
        self.monitor.feed(reading)
        if decoder := DECODERS.get(reading.source):
            try:
                sample = decoder(reading.data)
                self.problems += sample.problems
                self.names |= {
                    allocation.holder for allocation in sample.facts.get("allocations", ())
                }
            except DecodeError as error:
                self.problems.append(str(error))
        super().reading(reading)

    def status(self, status: Status) -> None:
        self.names |= {status.node, status.source}
        self.monitor.status(status)
        super().status(status)

    def remove(self, node: str, owner: str = "") -> None:
        self.names.add(node)
        super().remove(node, owner)

    def is_down(self) -> bool:
        return any(status.state is State.DOWN for status in self.statuses)

    def is_fresh(self) -> bool:
        return any(status.state is State.FRESH for status in self.statuses) or bool(self.readings)

    def refused(self) -> bool:
        """Whether the payload of the source is reported as unusable."""
        return self.is_down() or bool(self.problems)

    @property
    def entries(self) -> int:
        """How often something was reported."""
        return len(self.statuses) + len(self.readings)

    def check_texts(self) -> None:
        """Whatever came, each text is one clean line, and what is not fresh has a reason."""
        texts = [
            *(status.reason for status in self.statuses),
            *self.warnings,
            *self.problems,
            *self.names,
        ]
        for text in texts:
            assert text == clean(text, len(text) + 1), f"not cleaned: {text!r}"
            assert "internal error" not in text
        for status in self.statuses:
            assert status.state in (State.FRESH, State.ENDED) or status.reason.strip(), status


class Sandbox:
    """Where one collector is tried.

    Args:
        folder: for its files.
        patch: takes back what is set for it.
        payload: what the source gives.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, payload: bytes = b"") -> None:
        self.source = folder / "source"
        self.source.mkdir(parents=True)
        self.patch = patch
        self.payload = payload
        self.sink = DecodingSink()
        self.stack = contextlib.AsyncExitStack()
        self.inside: Callable[[], object] = lambda: True
        """Whether the collector is in the source that hangs."""
        self.release: Callable[[], None] = lambda: None
        """Releases calls that hang in the source; called until none does."""

    def script(self, text: str, name: str = "tool") -> str:
        """A program of these lines, whose process group is remembered."""
        path = self.source / name
        notes = shlex.quote(f"{self.source}/groups")
        path.write_text(f"#!/bin/sh\necho $$ >>{notes}\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def started(self) -> list[int]:
        """Process groups of scripts."""
        notes = self.source / "groups"
        return [int(line) for line in notes.read_text().split()] if notes.exists() else []

    def payload_file(self) -> str:
        """A file that holds the payload, quoted for a script."""
        path = self.source / "payload"
        path.write_bytes(self.payload)
        return shlex.quote(f"{path}")

    def hang_call(self, owner: object, name: str) -> None:
        """Has a function hang until the collector was cancelled, as on a file system that hangs."""
        entered, released = threading.Event(), threading.Event()
        self.stack.callback(released.set)
        self.inside = entered.is_set

        def hang(*_: object, **__: object) -> Any:
            entered.set()
            released.wait()
            raise OSError(5, "Input/output error")

        self.patch.setattr(owner, name, hang)

    def hang_files(self) -> None:
        """Replaces all files of the source by FIFOs without a writer."""
        fifos = [path for path in self.source.rglob("*") if path.is_file()]
        for path in fifos:
            path.unlink()
            os.mkfifo(path)
        opened: list[int] = []

        def touch(keep: bool) -> bool:
            for path in fifos:
                with contextlib.suppress(OSError):  # without a reader
                    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                    opened.append(descriptor)
                    if not keep:
                        close()
            return bool(opened)

        def close() -> None:
            while opened:
                os.close(opened.pop())

        self.stack.callback(close)
        self.inside = lambda: opened or touch(True) or self.sink.statuses
        self.release = lambda: close() or (touch(False) and None)


Setup = Callable[[Sandbox], Awaitable[Collector]]


@dataclass(frozen=True)
class Row:
    """One collector, or one kind of source of it.

    Args:
        kind: its class.
        missing: made for a source that is not there.
        hangs: for one that neither answers nor ends.
        hostile: for one that gives the sandbox's payload.
        appears: makes the missing source work.
        quiet: it reports nothing by itself.
        refused: whether a hostile payload was taken note of.
    """

    name: str
    kind: type[Collector]
    missing: Setup
    hangs: Setup
    hostile: Setup
    appears: Callable[[Sandbox], Awaitable[None]] | None = None
    quiet: bool = False
    refused: Callable[[Sandbox], object] = lambda sandbox: sandbox.sink.refused()


async def until(
    condition: Callable[[], object], what: str = "", task: "asyncio.Task[None] | None" = None
) -> None:
    """Polls a condition until it holds, or until a task ends."""
    end = asyncio.get_running_loop().time() + TIMEOUT
    while not condition() and not (task and task.done()):
        if asyncio.get_running_loop().time() > end:
            pytest.fail(f"waited in vain: {what}")
        await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def stage(sandbox: Sandbox, setup: Setup) -> AsyncIterator["asyncio.Task[None]"]:
    """Runs a collector for the length of a block, cancels it, and checks what it leaves."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    threads, files = set(threading.enumerate()), _files()
    children = _children()
    GUARD.calls.clear()
    try:
        collector: Collector | None = await setup(sandbox)
        assert collector is not None
        GUARD.thread, GUARD.source = threading.get_ident(), sandbox.source
        tasks = asyncio.all_tasks()
        task = asyncio.create_task(collector.run(sandbox.sink))
        yield task
        over = task.done()
        loop.leave()
        task.cancel()
        await asyncio.wait({task}, timeout=TIMEOUT)
        assert task.done(), f"it ignores being cancelled: {asyncio.all_tasks()}"
        if not over:
            assert task.cancelled(), f"it swallows being cancelled: {task}"
        assert loop.waited <= CANCEL_LIMIT, f"cancelled, it waits {loop.waited:g} s"
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() <= tasks, f"tasks are left: {asyncio.all_tasks() - tasks}"
        left = set(threading.enumerate()) - threads
        assert all(thread.daemon for thread in left), f"the interpreter would wait for {left}"
        del task
    finally:
        GUARD.source = None
        collector = None
        await sandbox.stack.aclose()
    assert GUARD.calls == []

    def no_threads() -> bool:
        sandbox.release()
        return not set(threading.enumerate()) - threads

    await until(no_threads, "threads are left")
    await until(lambda: _children() <= children, "children are left")
    await until(lambda: not _alive(sandbox.started()), "processes of a child are left")

    def no_files() -> bool:
        if _files() <= files:
            return True
        gc.collect()  # what readers hold open goes with them
        return _files() <= files

    await until(no_files, f"descriptors are left: {_files() - files}")


def _files() -> set[tuple[str, str]]:
    """Open descriptors: their numbers, and what they are of."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(FileNotFoundError):
            found.add((descriptor, os.readlink(f"/proc/self/fd/{descriptor}")))  # noqa: PTH115
    return {entry for entry in found if not entry[1].endswith("/fd")}


def _children() -> set[str]:
    """Processes that this one has started, also those that are not reaped."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended
            found.update((task / "children").read_text().split())
    return found


def _alive(groups: list[int]) -> list[int]:
    """Those of these process groups of which anything runs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat") if groups else ():
        with contextlib.suppress(OSError):
            state, _, group = path.read_text().rpartition(")")[2].split()[:3]
            if int(group) in groups and state != "Z":
                found.append(int(group))
    return found


@contextlib.contextmanager
def watchdog(seconds: int = 120) -> Iterator[None]:
    """Fails what blocks the loop in a way without an audit event."""

    def bark(*_: object) -> None:
        raise BlockingError(f"the loop did not go on for {seconds} s")

    before = signal.signal(signal.SIGALRM, bark)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
