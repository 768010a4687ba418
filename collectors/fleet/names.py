"""The addresses of hosts.

A loop resolves names in the threads of its executor, which are few. The C library waits half a
minute for a name server that is silent, and cannot be stopped: so some dozens of names that nobody
answers for would hold up all others. Here each name gets a thread of its own, and one that failed
waits for its turn with its like.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Sequence
from time import monotonic

from .target import is_address

AT_ONCE = 256
"""Names that are looked up at a time."""
DOUBTFUL_AT_ONCE = 32
"""The same of those that could not be resolved the last time."""
FOUND_SECONDS = 60.0
"""For so long a name that had an address is not looked up again."""
REMEMBERED = 600.0
"""Seconds for which the last outcome is known."""

Addresses = Sequence[str]
Resolve = Callable[[str], Addresses]


def resolve(name: str) -> Addresses:
    """The addresses of a name, each once.

    Raises:
        OSError: there are none.
    """
    # In bytes: text would first be taken for an international name, and refused as such.
    found = socket.getaddrinfo(name.encode(), None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Names:
    """The names of the hosts that one client asks; used on one loop.

    Args:
        resolve: gives those of a name, and raises `OSError` where it has none; called in a thread.
    """

    def __init__(self, resolve: Resolve = resolve) -> None:
        self._resolve = resolve
        self._asked: dict[str, asyncio.Task[Addresses]] = {}
        """Names that are being looked up: never twice at a time."""
        self._outcomes: dict[str, tuple[float, Addresses]] = {}
        """Name → when it was looked up, and what was found, if anything; the newest last."""
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._late_turn = asyncio.Semaphore(DOUBTFUL_AT_ONCE)

    async def addresses(self, host: str) -> Addresses:
        """The addresses of a host, one at least.

        Raises:
            OSError: it has none.
        """
        if is_address(host):
            return (host,)
        looked_up, found = self._outcomes.get(host, (0.0, ()))
        if found and monotonic() < looked_up + FOUND_SECONDS:
            return found
        if host not in self._asked:
            task = self._asked[host] = asyncio.create_task(self._look_up(host))
            task.add_done_callback(lambda done: self._settle(host, done))
        # Whoever waits may give up: what a thread has begun goes on.
        return await asyncio.shield(self._asked[host])

    def close(self) -> None:
        """Cancels lookups that are under way."""
        for task in self._asked.values():
            task.cancel()

    async def _look_up(self, host: str) -> Addresses:
        failed = host in self._outcomes and not self._outcomes[host][1]
        async with self._late_turn if failed else self._turn:
            return await _in_thread(self._resolve, host)

    def _settle(self, host: str, done: asyncio.Task[Addresses]) -> None:
        del self._asked[host]
        if done.cancelled():
            return
        now = monotonic()
        self._outcomes.pop(host, None)
        self._outcomes[host] = now, () if done.exception() else done.result()
        while self._outcomes[oldest := next(iter(self._outcomes))][0] < now - REMEMBERED:
            del self._outcomes[oldest]


async def _in_thread(resolve: Resolve, host: str) -> Addresses:
    """Calls `resolve` in a thread for which nobody waits at exit."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Addresses] = loop.create_future()

    def settle(outcome: Addresses | Exception) -> None:
        if found.done():
            return
        if isinstance(outcome, Exception):
            found.set_exception(outcome)
        else:
            found.set_result(outcome)

    def work() -> None:
        outcome: Addresses | Exception
        try:
            outcome = resolve(host)
        except Exception as error:  # whatever it is, it is the caller's
            outcome = error
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle, outcome)

    try:
        threading.Thread(target=work, name=f"trntop resolving {host}", daemon=True).start()
    except RuntimeError as error:
        raise OSError("no thread is left to look up names") from error
    return await found
