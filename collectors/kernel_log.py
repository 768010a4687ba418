"""What the kernel says of Neuron devices and EFA cards, as it says it.

From `/dev/kmsg` (format: the kernel's ABI documentation), or where that is not allowed from
systemd's journal.
"""

import asyncio
import contextlib
import json
import os
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from trntop.catalog import KERNEL_LOG
from trntop.core.model import Reading, State, Status
from trntop.recording.framing import Framer
from trntop.session.collector import Examination, Sink
from trntop.sources.kernel_log import KINDS, MAX_LINES, relevant

from .child import Child, obituary
from .local_source import LocalSource
from .pace import rest

HEARTBEAT = 10.0
"""Seconds between readings when there is nothing to tell."""
GATHER = 1.0
"""Least seconds between two readings: what comes in one burst is told at once."""
RECHECK = 60.0
"""Seconds between tries when the log cannot be read."""
FIRST_WORD = 5.0
"""Seconds for journalctl to show that it sees the kernel's messages."""
GRACE = 0.2
"""Seconds journalctl gets to end by itself."""
MAX_RECORD = 16_384
"""Bytes; the kernel's longest record, with what belongs to it, has half of that."""
MAX_TEXT = 1024
"""Characters kept of a line."""
MAX_BATCH = 256
"""Records read at one go."""
JOURNAL = ("journalctl", "-k", "-f", "-n", "1", "-o", "json")
"""The newest message comes first: where none does, journalctl may see none, and does not say so."""
REMEDY = (
    "run as root or with CAP_SYSLOG, set kernel.dmesg_restrict=0,"
    " or join the group systemd-journal or adm"
)


class UnreadableError(Exception):
    """Why the log cannot be read, or no longer."""


class Records(Protocol):
    """`/dev/kmsg`, opened and placed behind its newest record."""

    def fileno(self) -> int:
        """What to wait on."""
        ...

    def read(self) -> bytes:
        """The next record.

        Raises:
            BlockingIOError: there is none yet.
            BrokenPipeError: the kernel has overwritten some; the next call goes on behind them.
            OSError: there will be none.
        """
        ...

    def close(self) -> None:
        """Closes it."""
        ...


class Kmsg:
    """The kernel's own records.

    Args:
        path: of the device.

    Raises:
        OSError: it is not there, or may not be read.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError:
            self.close()
            raise

    def fileno(self) -> int:
        """What to wait on."""
        return self._descriptor

    def read(self) -> bytes:
        """The next record, as `Records` says."""
        return os.read(self._descriptor, MAX_RECORD)

    def close(self) -> None:
        """Closes it."""
        os.close(self._descriptor)


class KernelLog:
    """The collector that follows the kernel log.

    Args:
        node: name of this machine.
        root: where `/dev` hangs.
        journal: the argument list that makes journalctl follow the kernel's messages.
        heartbeat: seconds between readings when there is nothing to tell.
        gather: least seconds between two readings.
        recheck: seconds between tries when the log cannot be read.
        first_word: seconds for journalctl to show that it sees the kernel's messages.
        opener: opens `/dev/kmsg`.
    """

    source = KERNEL_LOG

    def __init__(
        self,
        node: str,
        root: Path = Path("/"),
        *,
        journal: Sequence[str] = JOURNAL,
        heartbeat: float = HEARTBEAT,
        gather: float = GATHER,
        recheck: float = RECHECK,
        first_word: float = FIRST_WORD,
        opener: Callable[[Path], Records] = Kmsg,
    ) -> None:
        self.node = node
        self._device = root / "dev/kmsg"
        self._command = journal
        self._heartbeat = heartbeat
        self._gather = gather
        self._recheck = recheck
        self._first_word = first_word
        self._opener = opener

    async def run(self, sink: Sink) -> None:
        """Follows the log until cancelled, then ends what it started."""
        self._say(sink, State.STARTING, "opening the kernel log")
        while True:
            reasons = []
            for follow in (self._follow_device, self._follow_journal):
                try:
                    await follow(sink)
                except UnreadableError as error:
                    reasons.append(str(error))
            self._say(sink, State.DOWN, "; ".join([*reasons, REMEDY]))
            await asyncio.sleep(self._recheck)

    async def _follow_device(self, sink: Sink) -> None:
        gathered = _Gathered(sink.now)
        with _device(self._opener, self._device, gathered.record) as ended:
            await self._tell(sink, gathered, str(self._device), ended)

    async def _follow_journal(self, sink: Sink) -> None:
        gathered = _Gathered(sink.now)
        async with _journal(self._command, gathered.entry, self._first_word) as ended:
            await self._tell(sink, gathered, "journalctl", ended)

    async def _tell(
        self, sink: Sink, gathered: "_Gathered", via: str, ended: asyncio.Future[str]
    ) -> None:
        """Gives readings: soon after a line that matters, and with each heartbeat.

        Raises:
            UnreadableError: the log has ended.
        """
        ended.add_done_callback(lambda _: gathered.news.set())
        while True:
            await asyncio.sleep(self._gather)
            over = ended.done()
            payload = gathered.payload(self._heartbeat, via)
            sink.reading(Reading(self.node, self.source, sink.now(), payload))
            self._say(sink, State.FRESH)
            if over:
                raise UnreadableError(ended.result())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat - self._gather):
                    await gathered.news.wait()

    def _say(self, sink: Sink, state: State, reason: str = "") -> None:
        sink.status(Status(self.node, self.source, state, reason))


class _Gathered:
    """What the next reading will tell."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.news = asyncio.Event()
        """Set when there is a line that matters."""
        self._now = now
        self._lines: deque[dict[str, Any]] = deque(maxlen=MAX_LINES)
        self._counts = Counter[str]()
        self._lost = 0
        self._next: int | None = None
        """Number of the next record."""

    def record(self, data: bytes) -> None:
        """Takes a record: `priority,number,microseconds,flags;text`, then lines about it."""
        head, _, tail = data.partition(b";")
        with contextlib.suppress(ValueError, IndexError):
            number = int(head.split(b",")[1])
            if self._next is not None:
                self._lost += max(0, number - self._next)
            self._next = number + 1
        self.text(tail.partition(b"\n")[0].decode(errors="replace"))

    def entry(self, data: bytes) -> None:
        """Takes an entry of the journal, and counts one that cannot be read as lost."""
        try:
            self.text(_message(data))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self._lost += 1

    def text(self, text: str) -> None:
        """Takes a line, and keeps it if it matters."""
        text = text[:MAX_TEXT]
        if kind := relevant(text):
            self._counts[kind] += 1
            self._lines.append({"time": self._now(), "text": text})
            self.news.set()

    def payload(self, period: float, via: str) -> bytes:
        """What has come since the last call."""
        told = {
            "period": period,
            "via": via,
            "lines": list(self._lines),
            "counts": {kind: self._counts[kind] for kind in KINDS},
            "lost": self._lost,
        }
        self._lines.clear()
        self._counts.clear()
        self._lost = 0
        self.news.clear()
        return json.dumps(told, separators=(",", ":")).encode()


@contextlib.contextmanager
def _device(
    opener: Callable[[Path], Records], path: Path, take: Callable[[bytes], None]
) -> Iterator[asyncio.Future[str]]:
    """Passes records to `take` as they come; gives what becomes the reason when they end.

    Raises:
        UnreadableError: there is no such device, or it may not be read.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[str] = loop.create_future()
    try:
        records = opener(path)
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from None
    number = records.fileno()
    pause: asyncio.TimerHandle | None = None

    def resume() -> None:
        loop.add_reader(number, drain)

    def drain() -> None:
        nonlocal pause
        started = loop.time()
        try:
            for _ in range(MAX_BATCH):
                # The kernel has overwritten some: the gap in their numbers tells how many.
                with contextlib.suppress(BrokenPipeError):
                    take(records.read())
        except BlockingIOError:
            return
        except OSError as error:
            ended.set_result(f"{path}: {error.strerror}")
        loop.remove_reader(number)
        if not ended.done():
            pause = loop.call_later(rest(loop.time() - started), resume)

    try:
        resume()
    except OSError:  # a file, or /dev/null, in its place
        records.close()
        raise UnreadableError(f"{path} is not the kernel's log") from None
    try:
        yield ended
    finally:
        if pause:
            pause.cancel()
        loop.remove_reader(number)
        records.close()


@contextlib.asynccontextmanager
async def _journal(
    command: Sequence[str], take: Callable[[bytes], None], first_word: float
) -> AsyncIterator[asyncio.Future[str]]:
    """Runs journalctl and passes entries to `take`; gives what becomes the reason at its end.

    Raises:
        UnreadableError: there is no journalctl, or it sees no message of the kernel.
    """
    loop = asyncio.get_running_loop()
    framer = Framer()
    seen: asyncio.Future[None] = loop.create_future()

    def feed(chunk: bytes) -> None:
        for entry in framer.feed(chunk):
            if seen.done():
                take(entry)
            else:  # an old one
                seen.set_result(None)

    try:
        child = await Child.start(command, feed)
    except OSError as error:
        raise UnreadableError(f"journalctl: {error.strerror}") from None
    try:
        either: list[asyncio.Future[Any]] = [seen, child.ended]
        await asyncio.wait(either, timeout=first_word, return_when=asyncio.FIRST_COMPLETED)
        if not seen.done():
            said = child.errors.text()
            raise UnreadableError(f"journalctl shows no kernel messages{said and f': {said}'}")
        ended: asyncio.Future[str] = loop.create_future()
        child.ended.add_done_callback(
            lambda code: ended.set_result(f"journalctl {obituary(code.result())}")
        )
        yield ended
    finally:
        await child.end(GRACE)


class _Entry(msgspec.Struct):
    MESSAGE: str | list[int] | None = None
    """Text, or its bytes where they are no UTF-8."""


_decoder = msgspec.json.Decoder(_Entry)


def _message(entry: bytes) -> str:
    """The text of a journal entry, empty when it has none.

    Raises:
        MsgspecError, ValueError, RecursionError: it is no entry.
    """
    message = _decoder.decode(entry).MESSAGE
    if isinstance(message, list):
        return bytes(message).decode(errors="replace")
    return message or ""


def examine(root: Path = Path("/"), journal: Sequence[str] = JOURNAL) -> Examination:
    """Whether the kernel log can be read, and how.

    Args:
        root: where `/dev` hangs.
        journal: the argument list that makes journalctl follow the kernel's messages.
    """
    device = root / "dev/kmsg"
    try:
        Kmsg(device).close()
        return Examination(KERNEL_LOG, True, f"{device} can be read")
    except OSError as error:
        refusal = f"{device}: {error.strerror}"

    async def look() -> None:
        async with _journal(journal, lambda _: None, FIRST_WORD):
            pass

    try:
        asyncio.run(look())
    except UnreadableError as error:
        return Examination(KERNEL_LOG, False, f"{refusal}; {error}", REMEDY)
    return Examination(KERNEL_LOG, True, f"{refusal}; journalctl shows the kernel's messages")


LOCAL = LocalSource(
    lambda context: KernelLog(context.node, context.root),
    lambda settings: examine(Path(settings.root)),
)
