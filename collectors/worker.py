"""A thread for reads that may block in the kernel.

A faulty driver can hold a reader in uninterruptible sleep. Such a read can neither be cancelled nor
awaited, so each source has one thread, and never a second.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class StuckError(Exception):
    """A read has not returned in time; its thread still waits for it."""


class Caller(Protocol):
    """Calls reads, one at a time."""

    async def call(self, read: Callable[[], T], seconds: float) -> T:
        """Calls `read` and returns its result.

        Raises:
            StuckError: it, or the one before it, has not returned after `seconds`.
        """
        ...

    def close(self) -> None:
        """Ends it."""
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
    """A daemon thread for reads that may block in the kernel, one at a time.

    The first call starts it. The interpreter waits for the threads of an executor at exit, but not
    for a daemon.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] | None = None
        self._free = asyncio.Lock()
        """Held until the read returns, even if its caller has given up."""

    async def call(self, read: Callable[[], T], seconds: float) -> T:
        """Calls `read` in the thread and returns its result.

        Raises:
            StuckError: `read`, or the one before it, has not returned after `seconds`.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                await self._free.acquire()
                outcome: _Outcome = await self._begin(read, loop)
        except TimeoutError:
            raise StuckError(f"{self._name}: no response for {seconds:g} s") from None
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
        except BaseException as error:  # raised in the caller
            outcome = _Outcome(None, error)
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            job.loop.call_soon_threadsafe(job.settle, outcome)
        del job, outcome  # releases the payload
