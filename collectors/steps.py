"""Step telemetry of the training processes on this machine, sent by `trntop.steps`.

Records are messages on a Unix socket with connections (SOCK_SEQPACKET), so that each rank has a
buffer: the queue of a datagram socket has ten messages in a container, and all ranks of a job end
their steps at once. Training jobs run as other users and in containers: the socket has mode 0666,
its directory 0755. A record holds nothing but the numbers of a job, and reading is throttled.

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
import struct
from collections import Counter
from pathlib import Path

import msgspec

from trntop.catalog import STEPS
from trntop.core.model import Reading, State, Status
from trntop.core.settings import Collect
from trntop.core.text import clean
from trntop.session.collector import Examination, Sink
from trntop.steps import OBSERVER, sockets

from .local_source import LocalSource
from .throttle import pause_after

MAX_BYTES = 4096
"""Longest record."""
READ_INTERVAL = 0.2
"""Seconds between two reads. A wakeup per record would cost the training loop some 30 µs a step,
three times the rest.
"""
BATCH = 64
"""Records read from a rank at a time."""
BURST = 0.05
"""Seconds of reading without a pause."""
MAX_SENDERS = 512
"""Connections, far more than a node has ranks."""
RETRY_INTERVAL = 30.0
"""Seconds between two checks of the socket."""
OBSERVER_RETRY = 1.0
"""The same for an observer, which must not delay an agent."""

SOCKET_REMEDY = "set collect.steps_socket to a path that can be written"
IN_USE_REMEDY = "end it, or set collect.steps_socket here and TRNTOP_STEPS in the training job"


class SocketUnavailableError(Exception):
    """The socket cannot be created.

    Args:
        found: the reason.
        remedy: the action; empty if nothing is wrong.
    """

    def __init__(self, found: str, remedy: str = SOCKET_REMEDY) -> None:
        super().__init__(f"{found}; {remedy}" if remedy else found)
        self.found = found
        self.remedy = remedy


class StepsSocket:
    """The Unix socket for step telemetry, which every user on the machine can write to.

    Args:
        path: path of the socket. A missing directory is created, and the socket of an agent that
            has ended is replaced.

    Raises:
        SocketUnavailableError: the path is not a socket.
        OSError: the socket cannot be created; EADDRINUSE if another process listens on it.
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
        """Whether the path still refers to this socket."""
        return _identity(self.path) == self._identity

    def close(self) -> None:
        """Closes the socket and removes its path."""
        self.socket.close()
        if self.is_current:
            with contextlib.suppress(OSError):
                self.path.unlink()


def open_steps_socket(path: Path | None, *, observer: bool = False) -> StepsSocket:
    """The socket at `path`, or at the first default path that works.

    Args:
        path: path of the agent's socket; None for the default paths.
        observer: create a socket next to it instead, if there is no agent.

    Raises:
        SocketUnavailableError: no socket can be created.
    """
    paths = _paths(path)
    if observer:
        if agent := _agent(path):
            found = (
                f"an agent receives step telemetry at {clean(str(agent))}; "
                "see its page or recording"
            )
            raise SocketUnavailableError(found, "")
        paths = [agent_path.parent / OBSERVER for agent_path in paths]
    failures = []
    for candidate in paths:
        shown = clean(str(candidate))
        try:
            return StepsSocket(candidate)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and observer:
                found = f"another dashboard receives step telemetry at {shown}"
                raise SocketUnavailableError(found, "") from None
            if error.errno == errno.EADDRINUSE:
                found = f"another agent listens on {shown}"
                raise SocketUnavailableError(found, IN_USE_REMEDY) from None
            failures.append(f"{shown} ({error.strerror or error})")
    raise SocketUnavailableError(f"cannot listen on {', '.join(failures)}")


def _paths(path: Path | None) -> list[Path]:
    return [Path(default) for default in sockets()] if path is None else [path]


def _agent(path: Path | None) -> Path | None:
    """The path on which an agent listens; None without an agent.

    Raises:
        SocketUnavailableError: a path is not a socket.
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
        raise SocketUnavailableError(f"{clean(str(path))} is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except BlockingIOError:  # its connection queue is full
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
        path: path of the socket; None for the first of `trntop.steps.sockets` that works.
        observer: listen next to the socket of an agent, while there is no agent.
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
        self._counts = {"oversize": 0, "pauses": 0, "turned_away": 0, "foreign": 0}
        self._received = False

    async def run(self, sink: Sink) -> None:
        """Receives until cancelled, then removes the socket."""
        while True:
            try:
                # On the loop: a socket is not on a network file system.
                steps_socket = open_steps_socket(self._path, observer=self._observer)
            except SocketUnavailableError as error:
                self._report(sink, State.DOWN, str(error))
                await asyncio.sleep(self._retry_interval)
                continue
            receiver = _Receiver(steps_socket.socket)
            receiving = asyncio.create_task(self._receive(receiver, sink))
            try:
                while steps_socket.is_current and not (self._observer and _agent(self._path)):
                    state = State.FRESH if self._received else State.STARTING
                    waiting = f"listening on {clean(str(steps_socket.path))}; "
                    waiting += "no training process reports yet"
                    reason = receiver.problem or ("" if self._received else waiting)
                    self._report(sink, state, reason)
                    await asyncio.wait([receiving], timeout=self._retry_interval)
                    if receiving.done():
                        receiving.result()
            except SocketUnavailableError:
                pass  # reported by the next iteration
            finally:
                receiving.cancel()
                await asyncio.wait([receiving])
                receiver.close()
                steps_socket.close()

    async def _receive(self, receiver: "_Receiver", sink: Sink) -> None:
        """Reads at an interval, and for a fifth of the time at most."""
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
            pause = pause_after(loop.time() - started)
            self._counts["pauses"] += pause > READ_INTERVAL
            await asyncio.sleep(max(READ_INTERVAL, pause))

    def _report(self, sink: Sink, state: State, reason: str) -> None:
        sink.status(Status(self.node, STEPS, state, reason, dict(self._counts)))


class _Receiver:
    """The connections of the training processes."""

    def __init__(self, listener: socket.socket) -> None:
        self.problem = ""
        self._listener = listener
        self._senders: dict[int, socket.socket] = {}
        self._users: dict[int, int] = {}
        """The user of each sender."""
        self._owners: dict[str, int] = {}
        """Job → the user that reports it; others may not, except root."""
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
            except OSError as error:  # no file descriptor is left
                self.problem = f"cannot accept connections: {error.strerror}"
                return
            user = _user(sender)
            if len(self._senders) >= MAX_SENDERS:
                counts["turned_away"] += 1
                if (oldest := self._surplus(user)) is None:
                    sender.close()
                    continue
                self._close(oldest)
            sender.setblocking(False)
            self._ready.register(sender, select.EPOLLIN)
            self._senders[sender.fileno()] = sender
            self._users[sender.fileno()] = user

    def _surplus(self, user: int) -> int | None:
        """The oldest sender of the user with most, if those are more than another of this user."""
        senders = Counter(self._users.values())
        ((crowd, most),) = senders.most_common(1)
        if most <= senders[user] + 1:
            return None
        return next(sender for sender, owner in self._users.items() if owner == crowd)

    def _close(self, descriptor: int) -> None:
        self._senders.pop(descriptor).close()
        self._forget(self._users.pop(descriptor))

    def read(self, counts: dict[str, int]) -> tuple[list[bytes], bool]:
        """Some records of some senders, and whether there may be more."""
        records: list[bytes] = []
        ready = self._ready.poll(0, 16)
        for descriptor, _ in ready:
            sender = self._senders[descriptor]
            try:
                for _ in range(BATCH):
                    record = sender.recv(MAX_BYTES + 1)
                    if not record:
                        raise ConnectionResetError
                    if len(record) > MAX_BYTES:
                        counts["oversize"] += 1
                    elif self._may_report(descriptor, record):
                        records.append(record)
                    else:
                        counts["foreign"] += 1
            except BlockingIOError:
                continue
            except OSError:
                self._close(descriptor)
        return records, bool(ready)

    def _may_report(self, descriptor: int, record: bytes) -> bool:
        """Whether the job of a record is not that of another user."""
        user = self._users[descriptor]
        try:
            job = _jobs.decode(record).job
        except (msgspec.DecodeError, RecursionError):
            return True  # counted as damaged where it is decoded
        if user == 0 or len(self._owners) >= MAX_SENDERS:
            return user in (0, self._owners.get(job, user))
        return self._owners.setdefault(job, user) == user

    def _forget(self, user: int) -> None:
        """The jobs of a user without connections are free again."""
        if user not in self._users.values():
            self._owners = {job: owner for job, owner in self._owners.items() if owner != user}


class _Job(msgspec.Struct):
    job: str = ""


_jobs = msgspec.json.Decoder(_Job)


def _user(sender: socket.socket) -> int:
    """The user of the process at the other end."""
    credentials = sender.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    user: int = struct.unpack("3i", credentials)[1]
    return user


def examine(path: Path | None = None) -> Examination:
    """Whether training processes can report here.

    Args:
        path: path of the agent's socket; None for the default paths.
    """
    try:
        # As an observer: an agent that starts now must find its path free.
        steps_socket = open_steps_socket(path, observer=True)
    except SocketUnavailableError as error:
        return Examination(STEPS, not error.remedy, error.found, error.remedy)
    steps_socket.close()
    directory = steps_socket.path.parent
    agent = next(candidate for candidate in _paths(path) if candidate.parent == directory)
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
