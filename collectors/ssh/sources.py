"""The sources of a node over its connection: the collectors of this machine, reading dumps."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TypeVar

from trntop.catalog import (
    EFA_SOURCE,
    HOST,
    NEURON_LS,
    NEURON_MONITOR,
    NEURON_SYSFS,
    TENSOR_ENGINE,
)
from trntop.core.settings import Collect
from trntop.core.text import clean
from trntop.session.collector import Collector

from ..child import LastLine, Output
from ..efa import EfaReader
from ..executable import NEURON_TOOLS, REMEDY, NotRunnableError
from ..neuron_ls import DEADLINE, FailedError, NeuronLs
from ..neuron_monitor import NeuronMonitor
from ..neuron_sysfs import NeuronSysfsReader
from ..polled import Polled
from ..tensor_engine import TensorEngineReader
from ..worker import StuckError
from .connection import Connection
from .dump import Dump
from .host import RemoteHostReader

T = TypeVar("T")

START_SECONDS = 5.0
"""For the script to start a program."""
KILL_SECONDS = 3.0
"""For a killed program to end."""
SIGNALS = range(129, 193)
"""A shell's exit status of a program that a signal ended: 128 and the signal's number."""

SOURCES = (NEURON_MONITOR, NEURON_SYSFS, TENSOR_ENGINE, NEURON_LS, EFA_SOURCE, HOST)


def sources(node: str, connection: Connection, settings: Collect) -> list[Collector]:
    """The collectors of a node, without those that the settings disable.

    Args:
        node: its name.
        connection: to the node; ready.
        settings: sources and periods.
    """
    efa, engines, sysfs, host = Dump(), Dump(), Dump(), Dump()
    period, slow = settings.period, settings.sysfs_period
    monitor = RemoteMonitor(connection, settings.neuron_monitor)
    collectors: list[Collector] = [
        NeuronMonitor(node, settings.neuron_monitor, period, launch=monitor.launch),
        Polled(
            node,
            NEURON_SYSFS,
            NeuronSysfsReader(sysfs, slow),
            slow,
            # Some of its files ask the firmware, which may be slow.
            deadline=slow,
            worker=RemoteReads(connection, NEURON_SYSFS, sysfs),
        ),
        Polled(
            node,
            TENSOR_ENGINE,
            TensorEngineReader(engines),
            period,
            worker=RemoteReads(connection, TENSOR_ENGINE, engines),
        ),
        NeuronLs(node, run=partial(run_neuron_ls, connection, settings.neuron_ls)),
        Polled(
            node,
            EFA_SOURCE,
            EfaReader(efa),
            period,
            worker=RemoteReads(connection, EFA_SOURCE, efa),
        ),
        Polled(
            node,
            HOST,
            RemoteHostReader(host, settings.host_period),
            settings.host_period,
            worker=RemoteReads(connection, HOST, host),
        ),
    ]
    return [each for each in collectors if each.source not in settings.disabled]


class RemoteReads:
    """Calls readers of a dump, which it requests each time: a `Caller`.

    Args:
        connection: to the node.
        source: name of the dump.
        dump: read by the readers.
    """

    def __init__(self, connection: Connection, source: str, dump: Dump) -> None:
        self._connection = connection
        self._source = source
        self._dump = dump
        self._free = asyncio.Lock()
        """Held from a request to its response, however long the caller waits."""

    async def call(self, read: Callable[[], T], seconds: float) -> T:
        """See `Caller`."""
        try:
            async with asyncio.timeout(seconds):
                await self._free.acquire()
                response = self._connection.request(self._source)
                response.add_done_callback(lambda _: self._free.release())
                payload = await asyncio.shield(response)
        except TimeoutError:
            raise StuckError(f"{self._source}: no response for {seconds:g} s") from None
        self._dump.load(payload)
        try:
            return read()
        finally:
            self._dump.clear()

    def close(self) -> None:
        """See `Caller`."""


class RemoteMonitor:
    """Starts neuron-monitor on the node.

    Args:
        connection: to the node.
        command: its name or path there.
    """

    def __init__(self, connection: Connection, command: str) -> None:
        self._connection = connection
        self._command = command

    @contextlib.asynccontextmanager
    async def launch(self, on_output: Callable[[bytes], None]) -> AsyncIterator["RemoteProcess"]:
        """A `Launch` for the collector of neuron-monitor."""
        process = RemoteProcess(self._connection)
        self._connection.take_output = on_output
        self._connection.send("start\n")
        try:
            async with asyncio.timeout(START_SECONDS):
                state = await process.started
        except TimeoutError:
            raise OSError(f"no response within {START_SECONDS:g} s") from None
        if state == "busy":
            raise OSError("the previous neuron-monitor has not ended")
        if state in ("absent", "forbidden"):
            raise _not_runnable(state, self._command)
        yield process


class RemoteProcess:
    """neuron-monitor on the node: a `Process`."""

    def __init__(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        self._connection = connection
        self.ended: asyncio.Future[int] = loop.create_future()
        self.errors = LastLine()
        self.started: asyncio.Future[str] = loop.create_future()
        connection.on_monitor = self._update

    async def end(self, grace: float) -> None:
        """See `Process`; without the connection, the script ends it."""
        for request, seconds in (("stop", grace), ("kill", KILL_SECONDS)):
            if self.ended.done() or self._connection.closed:
                return
            self._connection.send(f"{request} monitor\n")
            await asyncio.wait(
                [self.ended, self._connection.ended],
                timeout=seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )

    def _update(self, words: Sequence[str]) -> None:
        match words:
            case ["ended", code, *error]:
                self.errors.feed(" ".join(error).encode() + b"\n" * bool(error))
                if not self.ended.done():
                    self.ended.set_result(_code(code))
            case [state, *_] if not self.started.done():
                self.started.set_result(state)


async def run_neuron_ls(connection: Connection, command: str, arguments: Sequence[str]) -> Output:
    """Runs neuron-ls on the node: a `neuron_ls.Run`."""
    response = connection.request(NEURON_LS, *arguments)
    try:
        async with asyncio.timeout(DEADLINE):
            payload = await asyncio.shield(response)
    except TimeoutError:
        connection.send(f"kill {NEURON_LS}\n")
        raise FailedError(f"neuron-ls did not answer within {DEADLINE:g} s") from None
    output, _, verdict = payload.rpartition(f"\n#{connection.tag} ".encode())
    match verdict.decode(errors="replace").split(maxsplit=2):
        case ["exited", code, *error]:
            return Output(_code(code), output, clean(" ".join(error), 160))
        case [state, *_]:
            raise _not_runnable(state, command)
    raise _not_runnable("absent", command)


def _not_runnable(state: str, command: str) -> NotRunnableError:
    name = clean(command)
    if state == "forbidden":
        return NotRunnableError(f"{name} is not executable by this user", REMEDY)
    places = "" if "/" in command else f": neither on PATH nor in {NEURON_TOOLS}"
    return NotRunnableError(f"{name} is not installed there{places}", REMEDY)


def _code(word: str) -> int:
    """A shell's exit status as a return code: negative for a signal."""
    code = int(word) if word.isdigit() else 1
    return 128 - code if code in SIGNALS else code
