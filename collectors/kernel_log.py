"""Kernel messages about Neuron and EFA devices.

From `/dev/kmsg` (format: the kernel's ABI documentation) or, without permission, from systemd's
journal.
"""

import asyncio
import contextlib
import os
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import msgspec

from trntop.catalog import KERNEL_LOG
from trntop.core.model import Reading, State, Status
from trntop.recording.framing import Framer
from trntop.session.collector import Examination, Sink
from trntop.sources.kernel_log import KINDS, MAX_LINES, relevant

from .child import GRACE, Child, exit_reason
from .local_source import LocalSource
from .throttle import pause_after

HEARTBEAT = 10.0
"""Seconds between readings without a relevant message."""
GATHER = 1.0
"""Least seconds between readings: a burst becomes one reading."""
RETRY_INTERVAL = 60.0
"""Seconds between attempts to read the log."""
FIRST_MESSAGE = 5.0
"""Seconds for the first message of journalctl."""
MAX_RECORD = 16_384
"""Bytes; twice the kernel's longest record."""
MAX_TEXT = 1024
MAX_BATCH = 256
"""Records read at a time."""
JOURNAL = ("journalctl", "-k", "-f", "-n", "1", "-o", "json")
"""Starts with the newest message: without one, journalctl may not see any, and is silent."""
REMEDY = (
    "run as root or with CAP_SYSLOG, set kernel.dmesg_restrict=0,"
    " or join the group systemd-journal or adm"
)

Append = Callable[[bytes], None]
Opener = Callable[[Path], int]


class UnreadableError(Exception):
    """The log cannot be read, or has ended; the text is the reason."""


def open_kmsg(path: Path) -> int:
    """A descriptor behind the newest record.

    Raises:
        OSError: the device is missing, or there is no permission.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.lseek(descriptor, 0, os.SEEK_END)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_record(descriptor: int) -> bytes:
    """The next record; EPIPE if the kernel has overwritten some."""
    return os.read(descriptor, MAX_RECORD)


class KernelLog:
    """The collector of kernel messages.

    Args:
        node: name of this machine.
        root: directory of `/dev`.
        journal: arguments that make journalctl follow the kernel's messages.
        heartbeat: seconds between readings without a relevant message.
        gather: least seconds between readings.
        retry_interval: seconds between attempts to read the log.
        first_message: seconds for the first message of journalctl.
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
        retry_interval: float = RETRY_INTERVAL,
        first_message: float = FIRST_MESSAGE,
        opener: Opener = open_kmsg,
    ) -> None:
        self.node = node
        self._device = root / "dev/kmsg"
        self._journal = journal
        self._heartbeat = heartbeat
        self._gather = gather
        self._retry_interval = retry_interval
        self._first_message = first_message
        self._opener = opener

    async def run(self, sink: Sink) -> None:
        """Follows the log until cancelled."""
        self._report(sink, State.STARTING, "opening the kernel log")
        while True:
            reasons = []
            device, journal = _Messages(sink.now), _Messages(sink.now)
            for messages, via, opened in (
                (device, str(self._device), _device(self._device, device.record, self._opener)),
                (
                    journal,
                    "journalctl",
                    _journal(self._journal, journal.entry, self._first_message),
                ),
            ):
                try:
                    async with opened as ended:
                        await self._follow(sink, messages, via, ended)
                except UnreadableError as error:
                    reasons.append(str(error))
            self._report(sink, State.DOWN, "; ".join([*reasons, REMEDY]))
            await asyncio.sleep(self._retry_interval)

    async def _follow(
        self, sink: Sink, messages: "_Messages", via: str, ended: asyncio.Future[str]
    ) -> None:
        """Passes on messages until the log has ended.

        Raises:
            UnreadableError: it has ended.
        """
        ended.add_done_callback(lambda _: messages.news.set())
        while True:
            await asyncio.sleep(self._gather)
            over = ended.done()
            payload = messages.payload(self._heartbeat, via)
            sink.reading(Reading(self.node, self.source, sink.now(), payload))
            self._report(sink, State.FRESH)
            if over:
                raise UnreadableError(ended.result())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat - self._gather):
                    await messages.news.wait()

    def _report(self, sink: Sink, state: State, reason: str = "") -> None:
        sink.status(Status(self.node, self.source, state, reason))


class _Entry(msgspec.Struct):
    MESSAGE: str | list[int] | None = None
    """Text, or its bytes if they are not UTF-8."""


_decoder = msgspec.json.Decoder(_Entry)


class _Messages:
    """The relevant messages since the last reading."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.news = asyncio.Event()
        self._now = now
        self._lines: deque[dict[str, object]] = deque(maxlen=MAX_LINES)
        self._counts = Counter[str]()
        self._lost = 0
        self._next: int | None = None
        """Number of the next record."""

    def record(self, data: bytes) -> None:
        """A record of the device: `priority,number,microseconds,flags;text`, then properties."""
        head, _, tail = data.partition(b";")
        with contextlib.suppress(ValueError, IndexError):
            number = int(head.split(b",")[1])
            if self._next is not None:
                self._lost += max(0, number - self._next)
            self._next = number + 1
        self._add(tail.partition(b"\n")[0].decode(errors="replace"))

    def entry(self, data: bytes) -> None:
        """An entry of the journal; one that cannot be decoded counts as lost."""
        try:
            message = _decoder.decode(data).MESSAGE
            if isinstance(message, list):
                message = bytes(message).decode(errors="replace")
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self._lost += 1
        else:
            self._add(message or "")

    def _add(self, text: str) -> None:
        text = text[:MAX_TEXT]
        if kind := relevant(text):
            self._counts[kind] += 1
            self._lines.append({"time": self._now(), "text": text})
            self.news.set()

    def payload(self, period: float, via: str) -> bytes:
        """The payload of the next reading."""
        data = msgspec.json.encode(
            {
                "period": period,
                "via": via,
                "lines": list(self._lines),
                "counts": {kind: self._counts[kind] for kind in KINDS},
                "lost": self._lost,
            }
        )
        self._lines.clear()
        self._counts.clear()
        self._lost = 0
        self.news.clear()
        return data


@contextlib.asynccontextmanager
async def _device(path: Path, append: Append, opener: Opener) -> AsyncIterator[asyncio.Future[str]]:
    """Passes records to `append`; the result of the future is the reason of their end.

    Raises:
        UnreadableError: the device is missing, or there is no permission.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[str] = loop.create_future()
    pause: asyncio.TimerHandle | None = None
    try:
        descriptor = opener(path)
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from None

    def resume() -> None:
        loop.add_reader(descriptor, drain)

    def drain() -> None:
        nonlocal pause
        started = loop.time()
        try:
            for _ in range(MAX_BATCH):
                # The numbers of the records show how many were overwritten.
                with contextlib.suppress(BrokenPipeError):
                    append(read_record(descriptor))
        except BlockingIOError:
            return
        except OSError as error:
            ended.set_result(f"{path}: {error.strerror}")
        loop.remove_reader(descriptor)
        if not ended.done():
            pause = loop.call_later(pause_after(loop.time() - started), resume)

    try:
        try:
            resume()
        except OSError:  # a file, or /dev/null
            raise UnreadableError(f"{path} is not the kernel log") from None
        yield ended
    finally:
        if pause:
            pause.cancel()
        loop.remove_reader(descriptor)
        os.close(descriptor)


@contextlib.asynccontextmanager
async def _journal(
    command: Sequence[str], append: Append, first_message: float = FIRST_MESSAGE
) -> AsyncIterator[asyncio.Future[str]]:
    """Runs journalctl and passes entries to `append`; the future is as of `_device`.

    Raises:
        UnreadableError: journalctl is missing, or sees no kernel message.
    """
    loop = asyncio.get_running_loop()
    framer = Framer()
    first: asyncio.Future[int] = loop.create_future()

    def feed(chunk: bytes) -> None:
        for entry in framer.feed(chunk):
            if first.done():
                append(entry)
            else:
                first.set_result(0)

    try:
        child = await Child.start(command, feed)
    except OSError as error:
        raise UnreadableError(f"journalctl: {error.strerror}") from None
    try:
        await asyncio.wait(
            [first, child.ended], timeout=first_message, return_when=asyncio.FIRST_COMPLETED
        )
        if not first.done():
            why = child.errors.text()
            raise UnreadableError(f"journalctl shows no kernel messages{why and f': {why}'}")
        ended: asyncio.Future[str] = loop.create_future()
        child.ended.add_done_callback(
            lambda code: ended.set_result(f"journalctl {exit_reason(code.result())}")
        )
        yield ended
    finally:
        await child.end(GRACE)


def examine(root: Path = Path("/"), journal: Sequence[str] = JOURNAL) -> Examination:
    """Whether the kernel log can be read, and how.

    Args:
        root: directory of `/dev`.
        journal: arguments that make journalctl follow the kernel's messages.
    """
    device = root / "dev/kmsg"
    try:
        os.close(open_kmsg(device))
        return Examination(KERNEL_LOG, True, f"{device} can be read")
    except OSError as error:
        refusal = f"{device}: {error.strerror}"

    async def try_journal() -> None:
        async with _journal(journal, lambda _: None):
            pass

    try:
        asyncio.run(try_journal())
    except UnreadableError as error:
        return Examination(KERNEL_LOG, False, f"{refusal}; {error}", REMEDY)
    return Examination(KERNEL_LOG, True, f"{refusal}; journalctl shows the kernel messages")


LOCAL = LocalSource(
    lambda context: KernelLog(context.node, context.root),
    lambda settings: examine(Path(settings.root)),
)
