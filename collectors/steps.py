"""Step telemetry of the training processes on this machine; `trntop.steps` is the other end.

Records are messages on a Unix socket, or the lines of files that are followed. The socket takes
connections (SOCK_SEQPACKET), so that each rank has a buffer of its own: the queue of a datagram
socket holds ten messages where the network namespace is a container's, and all ranks of a job
end their steps at once.

Training jobs run as other users and in containers, so everybody on the machine may send: the
socket has mode 0666 and its folder, where it is made here, 0755. What can be sent is the numbers
of a job; the node's name is not among them, and a flood is throttled. Whoever wants a closer
circle names a socket in a folder that only some may enter.

The socket is the agent's. Dashboards and the like are guests: they have a socket of their own
beside it, and only while no agent listens. Training processes prefer the agent's, and a guest
that sees an agent closes its own, so that they go there.
"""

import asyncio
import contextlib
import errno
import os
import select
import socket
import stat
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path

from trntop.catalog import STEPS
from trntop.core.model import Reading, State, Status
from trntop.core.settings import Collect
from trntop.core.text import clean
from trntop.session.collector import Examination, Sink
from trntop.steps import GUEST, sockets

from .local_source import LocalSource
from .pace import rest
from .tail import PERIOD, Hung, Tail, following, look, watch

MAX_BYTES = 4096
"""Longest message that is taken."""
BEAT = 0.2
"""Seconds between two looks at what the ranks have sent. Were the agent woken by each record, the
training loop would pay for it: some 30 µs a step, three times as much as for all the rest.
"""
BATCH = 64
"""Messages taken of a rank at a time."""
BURST = 0.05
"""Seconds of work at a time; the loop has other work too."""
MAX_SENDERS = 512
"""Connections at a time, far more than a node has ranks; further ones are turned away."""
BACKLOG = 512
MAX_LINES = 256
"""Lines of a file that are taken at a time, the newest."""
RECHECK = 30.0
"""Seconds between two looks at the socket."""
GUEST_RECHECK = 1.0
"""The same for a guest, who must not keep an agent waiting."""
RESPITE = 1.0
"""Seconds in which nobody is let in after the system had no descriptor left."""

SOCKET_REMEDY = "set collect.steps_socket to a path that can be written"
TAKEN_REMEDY = "end it, or set collect.steps_socket here and TRNTOP_STEPS in the training job"


class NoPlaceError(Exception):
    """There is no place for the socket.

    Args:
        found: what is in the way.
        remedy: what to do; empty where all is well.
    """

    def __init__(self, found: str, remedy: str = SOCKET_REMEDY) -> None:
        super().__init__(f"{found}; {remedy}" if remedy else found)
        self.found = found
        self.remedy = remedy


class Mailbox:
    """A Unix socket to which everybody on the machine may send.

    Args:
        path: of the socket. Its folder is made where it is missing, and a socket that a dead
            agent left is replaced.

    Raises:
        NoPlaceError: what is there is no socket.
        OSError: it cannot be made; EADDRINUSE where somebody else listens.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _make(path.parent)
        with contextlib.suppress(FileNotFoundError):
            if _listens(path):
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
            path.unlink()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.socket.setblocking(False)
            self.socket.bind(str(path))
            path.chmod(0o666)
            self.socket.listen(BACKLOG)
            self._identity = _identity(path)
        except BaseException:
            self.socket.close()
            raise

    @property
    def stands(self) -> bool:
        """Whether its name still leads to it."""
        return _identity(self.path) == self._identity

    def close(self) -> None:
        """Removes it."""
        self.socket.close()
        if self.stands:
            with contextlib.suppress(OSError):
                self.path.unlink()


def open_mailbox(path: Path | None, *, guest: bool = False) -> Mailbox:
    """The mailbox at `path`, or at the first place where training processes look for one.

    Args:
        path: of the agent's socket; None looks at all places.
        guest: take the one beside it, if no agent listens.

    Raises:
        NoPlaceError: there is none to be had.
    """
    places = _places(path)
    if guest:
        if agent := _agent(path):
            found = f"an agent receives it at {clean(str(agent))}; its page or recording has it"
            raise NoPlaceError(found, "")
        places = [place.parent / GUEST for place in places]
    failures = []
    for place in places:
        try:
            return Mailbox(place)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and guest:
                found = f"another dashboard receives it at {clean(str(place))}"
                raise NoPlaceError(found, "") from None
            if error.errno == errno.EADDRINUSE:
                found = f"another agent listens on {clean(str(place))}"
                raise NoPlaceError(found, TAKEN_REMEDY) from None
            failures.append(f"{clean(str(place))} ({error.strerror or error})")
    raise NoPlaceError(f"cannot listen on {', '.join(failures)}")


def _places(path: Path | None) -> list[Path]:
    return [Path(place) for place in sockets()] if path is None else [path]


def _agent(path: Path | None) -> Path | None:
    """Where an agent listens.

    Raises:
        NoPlaceError: there is something else than a socket.
    """
    for place in _places(path):
        with contextlib.suppress(OSError):
            if _listens(place):
                return place
    return None


def _make(folder: Path) -> None:
    try:
        folder.mkdir(0o755)
        folder.chmod(0o755)  # whatever the umask
    except FileExistsError:
        # Where everybody may make folders, somebody else may have made this one.
        everybody = folder.parent.stat().st_mode & stat.S_IWOTH
        if everybody and folder.lstat().st_uid not in (0, os.getuid()):
            raise PermissionError(0, "its folder belongs to another user") from None


def _listens(path: Path) -> bool:
    """Whether somebody listens on the socket that is there."""
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise NoPlaceError(f"{clean(str(path))} is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except BlockingIOError:  # many wait to be let in
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
        path: of the socket; None takes the first of `trntop.steps.sockets` that can be had.
        files: patterns of files that are followed.
        guest: leave the socket to agents; listen beside it while there is none.
        recheck: seconds between two looks at the socket; None is often enough.
        period: seconds between two looks at the files.
    """

    source = STEPS

    def __init__(
        self,
        node: str,
        path: Path | None = None,
        files: Sequence[str] = (),
        *,
        guest: bool = False,
        recheck: float | None = None,
        period: float = PERIOD,
    ) -> None:
        self.node = node
        self._path = path
        self._files = files
        self._guest = guest
        self._recheck = recheck or (GUEST_RECHECK if guest else RECHECK)
        self._period = period

    async def run(self, sink: Sink) -> None:
        """Receives and follows until cancelled, then removes the socket."""
        run = _Run(self.node, sink)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen(run))
            if self._files:
                tasks.create_task(self._follow(run))

    async def _listen(self, run: "_Run") -> None:
        """Keeps the socket there: a cleaner of old files may take it away."""
        while True:
            try:
                # On the loop: what lies on a network file system is no place for a socket.
                box = open_mailbox(self._path, guest=self._guest)
            except NoPlaceError as error:
                run.say("socket", trouble=str(error))
                await asyncio.sleep(self._recheck)
                continue
            senders = _Senders(box.socket, run)
            try:
                while box.stands and not (self._guest and _agent(self._path)):
                    run.say("socket", f"listening on {clean(str(box.path))}")
                    await asyncio.sleep(self._recheck)
            except NoPlaceError:
                pass  # there is something else than a socket now: the next round says so
            finally:
                senders.close()
                box.close()

    async def _follow(self, run: "_Run") -> None:
        names = clean(", ".join(self._files))
        tail = Tail(self._files)
        looks = watch(tail.poll, "trntop step files", period=self._period)
        async with aclosing(looks):
            async for news in looks:
                if isinstance(news, Hung):
                    seconds = f"{news.seconds:.0f} s (a read hangs)"
                    run.say("files", trouble=f"{names}: no answer for {seconds}")
                    continue
                for lines in news.lines.values():
                    run.counts["dropped"] += max(0, len(lines) - MAX_LINES)
                    for line in lines[-MAX_LINES:]:
                        run.take(line)
                    await asyncio.sleep(0)
                run.counts |= tail.counts
                if news.files:
                    run.say("files", following(news.files), news.trouble)
                else:
                    run.say("files", trouble=f"no file matches {names}")


class _Run:
    """What the socket and the files have in common."""

    def __init__(self, node: str, sink: Sink) -> None:
        self.counts = {"oversize": 0, "dropped": 0, "pauses": 0, "turned_away": 0}
        self._heard = False
        self._node = node
        self._sink = sink
        self._parts: dict[str, tuple[str, str]] = {}

    def take(self, record: bytes) -> None:
        self._heard = True
        self._sink.reading(Reading(self._node, STEPS, self._sink.now(), record))

    def say(self, part: str, works: str = "", trouble: str = "") -> None:
        """Says how the socket or the files are doing, and with them the source.

        Args:
            part: which of the two.
            works: what it does; empty when it does not.
            trouble: what is wrong with it.
        """
        self._parts[part] = works, trouble
        parts = self._parts.values()
        if not any(works for works, _ in parts):
            state = State.DOWN
        else:
            state = State.FRESH if self._heard else State.STARTING
        if state is State.STARTING:
            reasons = [trouble or works for works, trouble in parts]
            reasons.append("no training process has reported yet")
        else:
            reasons = [trouble for _, trouble in parts if trouble]
        reason = "; ".join(reasons)
        self._sink.status(Status(self._node, STEPS, state, reason, dict(self.counts)))


class _Senders:
    """Lets training processes in, and on a beat takes what they have sent."""

    def __init__(self, door: socket.socket, run: _Run) -> None:
        self._loop = asyncio.get_running_loop()
        self._door = door
        self._run = run
        self._inside: dict[int, socket.socket] = {}
        self._ready = select.epoll()
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._open()

    def close(self) -> None:
        """Closes all connections and lets nobody in."""
        self._loop.remove_reader(self._door)
        for timer in self._timers.values():
            timer.cancel()
        for sender in self._inside.values():
            sender.close()
        self._ready.close()

    def _open(self) -> None:
        self._loop.add_reader(self._door, self._admit)

    def _admit(self) -> None:
        try:
            sender, _ = self._door.accept()
        except BlockingIOError:
            return
        except OSError as error:  # no descriptor is left
            self._run.say("socket", "listening", f"nobody is let in: {error.strerror}")
            self._loop.remove_reader(self._door)
            self._later(RESPITE, self._open)
            return
        if len(self._inside) >= MAX_SENDERS:
            self._run.counts["turned_away"] += 1
            sender.close()
            return
        sender.setblocking(False)
        self._ready.register(sender, select.EPOLLIN)
        self._inside[sender.fileno()] = sender
        if len(self._inside) == 1:
            self._later(BEAT, self._beat)

    def _beat(self) -> None:
        """Takes what has come, but for a fifth of the time at most."""
        started = self._loop.time()
        worked = 0.0
        # A few at a time, so that who sends without end does not keep the others waiting.
        while worked < BURST and (ready := self._ready.poll(0, 16)):
            for descriptor, _ in ready:
                self._take(self._inside[descriptor])
            worked = self._loop.time() - started
        pause = rest(worked)
        self._run.counts["pauses"] += pause > BEAT
        if self._inside:
            self._later(max(BEAT, pause), self._beat)

    def _take(self, sender: socket.socket) -> None:
        try:
            for _ in range(BATCH):
                record = sender.recv(MAX_BYTES + 1)
                if not record:
                    break
                if len(record) <= MAX_BYTES:
                    self._run.take(record)
                else:
                    self._run.counts["oversize"] += 1
            else:
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        # It has closed its end, or died.
        del self._inside[sender.fileno()]
        sender.close()

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        self._timers[what] = self._loop.call_later(seconds, what)


def examine(path: Path | None = None, files: Sequence[str] = ()) -> Examination:
    """Whether training processes can report here.

    Args:
        path: of the agent's socket; None looks where an agent would.
        files: patterns of files that an agent would follow.
    """
    try:
        # As a guest: an agent that starts meanwhile must find its place free.
        box = open_mailbox(path, guest=True)
    except NoPlaceError as error:
        found, remedy = error.found, error.remedy
    else:
        box.close()
        place = next(one for one in _places(path) if one.parent == box.path.parent)
        found = f"training processes that use trntop.steps can report to {clean(str(place))}"
        remedy = ""
    if files:
        news = look(Tail(files).poll, "trntop step files")
        if isinstance(news, Hung):
            return Examination(STEPS, False, f"{found}; the step files' file system hangs", remedy)
        found += f"; {following(news.files)}"
    return Examination(STEPS, not remedy, found, remedy)


def _path(settings: Collect) -> Path | None:
    return Path(settings.steps_socket) if settings.steps_socket else None


LOCAL = LocalSource(
    lambda context: StepsCollector(
        context.node,
        _path(context.settings),
        context.settings.steps_files,
        guest=context.observer,
    ),
    lambda settings: examine(_path(settings), settings.steps_files),
)
