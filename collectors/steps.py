"""Step telemetry of the training processes on this machine, sent by `trntop.steps`.

Records are messages on a Unix socket with connections (SOCK_SEQPACKET), so that each rank has a
buffer: the queue of a datagram socket has ten messages in a container, and all ranks of a job end
their steps at once. Training jobs run as other users and in containers: the socket has mode 0666,
its directory 0755. A record only has numbers of a job, and a flood is throttled.

The socket belongs to the agent. A dashboard (an observer) has a socket next to it, and only while
there is no agent; training processes prefer the agent's.
"""

import asyncio
import contextlib
import errno
import os
import select
import socket
import stat
from pathlib import Path

from trntop.catalog import STEPS
from trntop.core.model import Reading, State, Status
from trntop.core.settings import Collect
from trntop.core.text import clean
from trntop.session.collector import Examination, Sink
from trntop.steps import OBSERVER, sockets

from .local_source import LocalSource
from .throttle import rest

MAX_BYTES = 4096
"""Longest record."""
BEAT = 0.2
"""Seconds between two reads. A wakeup per record would cost the training loop some 30 µs a step,
three times the rest.
"""
BATCH = 64
"""Records read of a rank at a time."""
BURST = 0.05
"""Seconds of work at a time."""
MAX_SENDERS = 512
"""Connections, far more than a node has ranks."""
RETRY_INTERVAL = 30.0
"""Seconds between two checks of the socket."""
OBSERVER_RETRY = 1.0
"""The same of an observer, which must not delay an agent."""

SOCKET_REMEDY = "set collect.steps_socket to a path that can be written"
TAKEN_REMEDY = "end it, or set collect.steps_socket here and TRNTOP_STEPS in the training job"


class NoPlaceError(Exception):
    """The socket cannot be created.

    Args:
        found: the reason.
        remedy: the action; empty if nothing is wrong.
    """

    def __init__(self, found: str, remedy: str = SOCKET_REMEDY) -> None:
        super().__init__(f"{found}; {remedy}" if remedy else found)
        self.found = found
        self.remedy = remedy


class Mailbox:
    """A Unix socket that every user on the machine can write to.

    Args:
        path: of the socket. A missing directory is created, and the socket of an agent that has
            ended is replaced.

    Raises:
        NoPlaceError: the path is not a socket.
        OSError: it cannot be created; EADDRINUSE if another process listens.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _make_directory(path.parent)
        with contextlib.suppress(FileNotFoundError):
            if _has_listener(path):
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
            path.unlink()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.socket.setblocking(False)
            self.socket.bind(str(path))
            path.chmod(0o666)
            self.socket.listen(MAX_SENDERS)
            self._identity = _identity(path)
        except BaseException:
            self.socket.close()
            raise

    @property
    def is_current(self) -> bool:
        """Whether its path still leads to it."""
        return _identity(self.path) == self._identity

    def close(self) -> None:
        """Removes it."""
        self.socket.close()
        if self.is_current:
            with contextlib.suppress(OSError):
                self.path.unlink()


def open_mailbox(path: Path | None, *, observer: bool = False) -> Mailbox:
    """The mailbox at `path`, or at the first default path that works.

    Args:
        path: of the agent's socket; None is the default paths.
        observer: open the one next to it, if there is no agent.

    Raises:
        NoPlaceError: there is none.
    """
    paths = _paths(path)
    if observer:
        if agent := _agent(path):
            found = f"an agent receives it at {clean(str(agent))}; see its page or recording"
            raise NoPlaceError(found, "")
        paths = [agent_path.parent / OBSERVER for agent_path in paths]
    failures = []
    for candidate in paths:
        shown = clean(str(candidate))
        try:
            return Mailbox(candidate)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and observer:
                raise NoPlaceError(f"another dashboard receives it at {shown}", "") from None
            if error.errno == errno.EADDRINUSE:
                raise NoPlaceError(f"another agent listens on {shown}", TAKEN_REMEDY) from None
            failures.append(f"{shown} ({error.strerror or error})")
    raise NoPlaceError(f"cannot listen on {', '.join(failures)}")


def _paths(path: Path | None) -> list[Path]:
    return [Path(default) for default in sockets()] if path is None else [path]


def _agent(path: Path | None) -> Path | None:
    """The path on which an agent listens.

    Raises:
        NoPlaceError: a path is not a socket.
    """
    for candidate in _paths(path):
        with contextlib.suppress(OSError):
            if _has_listener(candidate):
                return candidate
    return None


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(0o755)
        path.chmod(0o755)  # independent of the umask
    except FileExistsError:
        # In a directory that every user can write to, another user may have created it.
        public = path.parent.stat().st_mode & stat.S_IWOTH
        if public and path.lstat().st_uid not in (0, os.getuid()):
            raise PermissionError(0, "its directory belongs to another user") from None


def _has_listener(path: Path) -> bool:
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise NoPlaceError(f"{clean(str(path))} is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except BlockingIOError:  # its queue of connections is full
            return True
    return True


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class StepsCollector:
    """The collector of step telemetry.

    Args:
        node: name of this machine.
        path: of the socket; None is the first of `trntop.steps.sockets` that works.
        observer: listen next to the socket of an agent, while there is none.
        retry_interval: seconds between two checks of the socket.
    """

    source = STEPS

    def __init__(
        self,
        node: str,
        path: Path | None = None,
        *,
        observer: bool = False,
        retry_interval: float | None = None,
    ) -> None:
        self.node = node
        self._path = path
        self._observer = observer
        self._retry_interval = retry_interval or (OBSERVER_RETRY if observer else RETRY_INTERVAL)
        self._counts = {"oversize": 0, "pauses": 0, "turned_away": 0}
        self._received = False

    async def run(self, sink: Sink) -> None:
        """Receives until cancelled, then removes the socket."""
        while True:
            try:
                # On the loop: a socket is not on a network file system.
                box = open_mailbox(self._path, observer=self._observer)
            except NoPlaceError as error:
                self._report(sink, State.DOWN, str(error))
                await asyncio.sleep(self._retry_interval)
                continue
            receiver = _Receiver(box.socket)
            receiving = asyncio.create_task(self._receive(receiver, sink))
            try:
                while box.is_current and not (self._observer and _agent(self._path)):
                    state = State.FRESH if self._received else State.STARTING
                    waiting = (
                        f"listening on {clean(str(box.path))}; no training process reports yet"
                    )
                    reason = receiver.problem or ("" if self._received else waiting)
                    self._report(sink, state, reason)
                    await asyncio.wait([receiving], timeout=self._retry_interval)
                    if receiving.done():
                        receiving.result()
            except NoPlaceError:
                pass  # reported by the next round
            finally:
                receiving.cancel()
                await asyncio.wait([receiving])
                receiver.close()
                box.close()

    async def _receive(self, receiver: "_Receiver", sink: Sink) -> None:
        """Reads on a beat, and never for more than a fifth of the time."""
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            receiver.accept(self._counts)
            more = True
            while more and loop.time() - started < BURST:
                records, more = receiver.read(self._counts)
                for record in records:
                    self._received = True
                    sink.reading(Reading(self.node, STEPS, sink.now(), record))
            pause = rest(loop.time() - started)
            self._counts["pauses"] += pause > BEAT
            await asyncio.sleep(max(BEAT, pause))

    def _report(self, sink: Sink, state: State, reason: str) -> None:
        sink.status(Status(self.node, STEPS, state, reason, dict(self._counts)))


class _Receiver:
    """The connections of the training processes."""

    def __init__(self, listener: socket.socket) -> None:
        self.problem = ""
        self._listener = listener
        self._senders: dict[int, socket.socket] = {}
        self._ready = select.epoll()

    def close(self) -> None:
        for sender in self._senders.values():
            sender.close()
        self._ready.close()

    def accept(self, counts: dict[str, int]) -> None:
        self.problem = ""
        while True:
            try:
                sender, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # no descriptor is left
                self.problem = f"no connection is accepted: {error.strerror}"
                return
            if len(self._senders) >= MAX_SENDERS:
                counts["turned_away"] += 1
                sender.close()
                continue
            sender.setblocking(False)
            self._ready.register(sender, select.EPOLLIN)
            self._senders[sender.fileno()] = sender

    def read(self, counts: dict[str, int]) -> tuple[list[bytes], bool]:
        """A few records of some senders, and whether there may be more."""
        records: list[bytes] = []
        ready = self._ready.poll(0, 16)
        for descriptor, _ in ready:
            sender = self._senders[descriptor]
            try:
                for _ in range(BATCH):
                    record = sender.recv(MAX_BYTES + 1)
                    if not record:
                        raise ConnectionResetError
                    if len(record) <= MAX_BYTES:
                        records.append(record)
                    else:
                        counts["oversize"] += 1
            except BlockingIOError:
                continue
            except OSError:
                del self._senders[descriptor]
                sender.close()
        return records, bool(ready)


def examine(path: Path | None = None) -> Examination:
    """Whether training processes can report here.

    Args:
        path: of the agent's socket; None is the default paths.
    """
    try:
        # As an observer: an agent that starts now must find its path free.
        box = open_mailbox(path, observer=True)
    except NoPlaceError as error:
        return Examination(STEPS, not error.remedy, error.found, error.remedy)
    box.close()
    agent = next(candidate for candidate in _paths(path) if candidate.parent == box.path.parent)
    found = f"training processes that use trntop.steps can report to {clean(str(agent))}"
    return Examination(STEPS, True, found)


def _path(settings: Collect) -> Path | None:
    return Path(settings.steps_socket) if settings.steps_socket else None


LOCAL = LocalSource(
    lambda context: StepsCollector(
        context.node, _path(context.settings), observer=context.observer
    ),
    lambda settings: examine(_path(settings)),
)
