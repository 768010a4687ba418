"""A thread for reads that may block in the kernel.

A driver in trouble can hold a reader in uninterruptible sleep. Such a read can neither be
cancelled nor waited for, so it gets a thread of its own, and never a second one.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class StuckError(Exception):
    """A read has not returned in time; its thread still hangs in it."""


class Caller(Protocol):
    """What calls reads, one at a time, never a second while one hangs."""

    async def call(self, read: Callable[[], T], seconds: float) -> T:
        """What `read` returns or raises.

        Raises:
            StuckError: it, or the one before it, has not returned after `seconds`.
        """
        ...

    def close(self) -> None:
        """Nothing is called any more."""
        ...


class _Outcome(NamedTuple):
    value: Any
    error: BaseException | None


class _Job(NamedTuple):
    read: Callable[[], Any]
    settle: Callable[[_Outcome], None]
    """Takes the outcome, on the loop."""
    loop: asyncio.AbstractEventLoop


class Worker:
    """A thread of its own for reads that may block in the kernel: one at a time, never a second
    while one hangs.

    The thread is started by the first call. It is a daemon, and not one of an executor's, which
    the interpreter waits for at exit: a hanging read does not hold back quitting.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] | None = None
        self._free = asyncio.Lock()
        """Held from the start of a read until it returns, however long its caller waits."""

    async def call(self, read: Callable[[], T], seconds: float) -> T:
        """What `read` returns or raises, called in the thread.

        Raises:
            StuckError: `read`, or the one before it, has not returned after `seconds`.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                await self._free.acquire()
                outcome: _Outcome = await self._begin(read, loop)
        except TimeoutError:
            raise StuckError(f"{self._name}: no answer for {seconds:g} s") from None
        if outcome.error is not None:
            raise outcome.error
        value: T = outcome.value
        return value

    def close(self) -> None:
        """Lets the thread end once it is idle."""
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None

    def _begin(
        self, read: Callable[[], Any], loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[_Outcome]:
        """Hands `read` to the thread, which must be free."""
        done: asyncio.Future[_Outcome] = loop.create_future()

        def settle(outcome: _Outcome) -> None:
            self._free.release()
            if not done.done():
                done.set_result(outcome)

        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            threading.Thread(target=_work, args=(self._jobs,), name=self._name, daemon=True).start()
        self._jobs.put(_Job(read, settle, loop))
        return done


def _work(jobs: "queue.SimpleQueue[_Job | None]") -> None:
    while (job := jobs.get()) is not None:
        try:
            outcome = _Outcome(job.read(), None)
        except BaseException as error:  # whatever it is, it is the caller's
            outcome = _Outcome(None, error)
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            job.loop.call_soon_threadsafe(job.settle, outcome)
        del job, outcome  # a payload is not kept until the next call
