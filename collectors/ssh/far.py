"""The sources of a node over its connection: the collectors of this machine, with other hands."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
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

from ..child import LastLine
from ..efa import EfaReader
from ..executable import NEURON_TOOLS, REMEDY, NotRunnableError
from ..neuron_ls import DEADLINE, MAX_BYTES, Answer, FailedError, NeuronLs, too_long
from ..neuron_monitor import NeuronMonitor
from ..neuron_sysfs import NeuronSysfsReader
from ..polled import Polled
from ..tensor_engine import TensorEngineReader
from ..worker import StuckError
from .dump import Dump
from .link import Link
from .machine import MachineReader

T = TypeVar("T")

ANSWER_SECONDS = 5.0
"""In which the script says whether it could start a program."""
LAST_SECONDS = 3.0
"""For a killed program to be gone."""
SIGNALS = range(129, 193)
"""What a shell says of a program that a signal ended: the signal's number and 128."""


SOURCES = (NEURON_MONITOR, NEURON_SYSFS, TENSOR_ENGINE, NEURON_LS, EFA_SOURCE, HOST)
"""What a node brings over its connection."""


def sources(node: str, link: Link, settings: Collect) -> list[Collector]:
    """The collectors of a node, without those that the settings disable.

    Args:
        node: its name.
        link: the connection, which is ready.
        settings: what is read and how often.
    """
    efa, engines, sysfs, machine = Dump(), Dump(), Dump(), Dump()
    period, slow = settings.period, settings.sysfs_period
    monitor = FarMonitor(link, settings.neuron_monitor)
    collectors: list[Collector] = [
        NeuronMonitor(node, settings.neuron_monitor, period, launch=monitor.launch),
        Polled(
            node,
            NEURON_SYSFS,
            NeuronSysfsReader(sysfs, slow),
            slow,
            # Some of its nodes ask the firmware, which may take its time.
            deadline=slow,
            worker=FarReads(link, NEURON_SYSFS, sysfs),
        ),
        Polled(
            node,
            TENSOR_ENGINE,
            TensorEngineReader(engines),
            period,
            worker=FarReads(link, TENSOR_ENGINE, engines),
        ),
        NeuronLs(node, runner=FarRunner(link, settings.neuron_ls)),
        Polled(node, EFA_SOURCE, EfaReader(efa), period, worker=FarReads(link, EFA_SOURCE, efa)),
        Polled(
            node,
            HOST,
            MachineReader(machine, settings.host_period),
            settings.host_period,
            worker=FarReads(link, HOST, machine),
        ),
    ]
    return [one for one in collectors if one.source not in settings.disabled]


class FarReads:
    """Calls reads of a dump, which it asks for anew each time: a `Caller`.

    Args:
        link: the connection.
        source: what is asked for.
        dump: what the reads read.
    """

    def __init__(self, link: Link, source: str, dump: Dump) -> None:
        self._link = link
        self._source = source
        self._dump = dump
        self._free = asyncio.Lock()
        """Held from a request until it is answered, however long its caller waits."""

    async def call(self, read: Callable[[], T], seconds: float) -> T:
        """See `Caller`."""
        try:
            async with asyncio.timeout(seconds):
                await self._free.acquire()
                answer = self._link.ask(self._source)
                answer.add_done_callback(lambda _: self._free.release())
                payload = await asyncio.shield(answer)
        except TimeoutError:
            raise StuckError(f"{self._source}: no answer for {seconds:g} s") from None
        self._dump.take(payload)
        try:
            return read()
        finally:
            self._dump.clear()

    def close(self) -> None:
        """See `Caller`."""


class FarMonitor:
    """Starts neuron-monitor on the node.

    Args:
        link: the connection.
        command: its name or path there.
    """

    def __init__(self, link: Link, command: str) -> None:
        self._link = link
        self._command = command

    @contextlib.asynccontextmanager
    async def launch(self, take: Callable[[bytes], None]) -> AsyncIterator["FarProcess"]:
        """A `Launch` of the collector of neuron-monitor."""
        process = FarProcess(self._link)
        self._link.take_output = take
        self._link.send("start\n")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await process.started
        except TimeoutError:
            raise OSError(f"no answer within {ANSWER_SECONDS:g} s") from None
        match answer:
            case "absent":
                raise _missing(self._command)
            case "forbidden":
                raise NotRunnableError(
                    f"{clean(self._command)} is not executable by this user", REMEDY
                )
            case "busy":
                raise OSError("the one before has not ended")
        yield process


class FarProcess:
    """neuron-monitor on the node: a `Process`."""

    def __init__(self, link: Link) -> None:
        loop = asyncio.get_running_loop()
        self._link = link
        self.ended: asyncio.Future[int] = loop.create_future()
        self.errors = LastLine()
        self.started: asyncio.Future[str] = loop.create_future()
        link.on_monitor = self._hear

    async def end(self, grace: float) -> None:
        """See `Process`; what a connection leaves running ends with it."""
        for order, seconds in (("stop", grace), ("kill", LAST_SECONDS)):
            if self.ended.done() or self._link.closed:
                return
            self._link.send(f"{order} monitor\n")
            await asyncio.wait(
                [self.ended, self._link.ended], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )

    def _hear(self, words: Sequence[str]) -> None:
        match words:
            case ["ended", code, *said]:
                self.errors.feed(" ".join(said).encode() + b"\n" * bool(said))
                if not self.ended.done():
                    self.ended.set_result(_code(code))
            case [answer, *_] if not self.started.done():
                self.started.set_result(answer)


class FarRunner:
    """Runs neuron-ls on the node: a `Runner`.

    Args:
        link: the connection.
        command: its name or path there.
    """

    def __init__(self, link: Link, command: str) -> None:
        self._link = link
        self._command = command

    async def run(self, arguments: Sequence[str]) -> Answer:
        """See `Runner`."""
        answer = self._link.ask(NEURON_LS, *arguments)
        try:
            async with asyncio.timeout(DEADLINE):
                payload = await asyncio.shield(answer)
        except TimeoutError:
            self._link.send(f"kill {NEURON_LS}\n")
            raise FailedError(f"neuron-ls did not answer within {DEADLINE:g} s") from None
        output, _, verdict = payload.rpartition(f"\n#{self._link.tag} ".encode())
        words = verdict.decode(errors="replace").split(maxsplit=2)
        match words:
            case ["exited", code, *said]:
                if len(output) > MAX_BYTES:
                    raise too_long()
                return Answer(_code(code), output, clean(" ".join(said), 160))
            case ["forbidden", *_]:
                raise NotRunnableError(
                    f"{clean(self._command)} is not executable by this user", REMEDY
                )
            case _:
                raise _missing(self._command)


def _missing(command: str) -> NotRunnableError:
    places = "" if "/" in command else f": neither on PATH nor in {NEURON_TOOLS}"
    return NotRunnableError(f"{clean(command)} is not installed there{places}", REMEDY)


def _code(word: str) -> int:
    """A shell's exit status as a return code: negative for a signal."""
    code = int(word) if word.isdigit() else 1
    return 128 - code if code in SIGNALS else code
