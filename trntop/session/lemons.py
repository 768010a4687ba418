"""Which nodes were to blame before: a small file that outlives restarts.

A node that fails, recovers and fails again next week is a lemon; within one run nobody notices.
Live sessions note each incident of trntop's own rules that names a node, once; recordings and
simulations never do. The file, `trntop/lemons.json` in `$XDG_STATE_HOME` (`~/.local/state`), is
`{"v":1,"nodes":{"trn-007":[["efa_degraded","efa:rdmap96s27",1763650000.0,1763650060.0]]}}`: kind,
component, unix seconds from and to. Several processes may keep it at a time.
"""

import contextlib
import errno
import fcntl
import logging
import os
import stat
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trntop.core.custom_rule import KINDS
from trntop.core.model import Incident, View
from trntop.core.text import clean

MAX_BYTES = 4 << 20
MAX_NODES = 2000
MAX_BLAMES = 100
"""Of one node; the oldest give way."""
MAX_PENDING = 1000
"""Notes that wait for a file that cannot be written."""
DAY = 86_400.0
MAX_AGE = 90 * DAY
RECENT_DAYS = 30
REOPEN = 300.0
"""Seconds within which the same kind and component is the same incident: seen by two processes, or
by one that was restarted meanwhile.
"""
SETTLED = 60.0
"""Seconds after which an open incident is noted; before, another cause may yet be found."""
LOCK_SECONDS = 2.0

log = logging.getLogger(__name__)

Warn = Callable[[str], None]
Note = tuple[str, "Blame"]
"""Node, and what it was to blame for."""


class Blame(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One incident that a node was blamed for."""

    kind: str
    component: str | None
    since: float
    until: float
    """When it closed, or was last seen open."""


class _File(msgspec.Struct):
    v: int
    nodes: dict[str, list[Blame]]


@dataclass(frozen=True, slots=True)
class Record:
    """What a node was blamed for, oldest first."""

    node: str
    blames: tuple[Blame, ...] = ()

    @property
    def kinds(self) -> Counter[str]:
        """Kind → how often."""
        return Counter(blame.kind for blame in self.blames)

    @property
    def components(self) -> Counter[str]:
        """Component → how often."""
        return Counter(blame.component for blame in self.blames if blame.component)

    @property
    def last(self) -> float | None:
        """Unix seconds at which it was last to blame."""
        return max((blame.until for blame in self.blames), default=None)

    def between(self, start: float, end: float) -> "Record":
        """What began from `start` on and before `end`."""
        return Record(self.node, tuple(one for one in self.blames if start <= one.since < end))


def default_path(environ: Mapping[str, str]) -> Path | None:
    """`trntop/lemons.json` in `$XDG_STATE_HOME`, else in `~/.local/state`; None without a home."""
    folder = environ.get("XDG_STATE_HOME", "")
    # The XDG specification has relative paths ignored.
    if not folder.startswith("/"):
        folder = f"{environ['HOME']}/.local/state" if environ.get("HOME") else ""
    return Path(folder, "trntop", "lemons.json") if folder else None


class Lemons:
    """The history of nodes. What goes wrong with its file is told once and costs nothing else.

    Args:
        path: the file; made when there is something to keep.
        warn: is told what is wrong with the file.
        clock: unix seconds.
    """

    def __init__(
        self, path: Path, warn: Warn = log.warning, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._warn = warn
        self._clock = clock
        self._told: set[str] = set()
        self._memory = threading.Lock()
        self._nodes: dict[str, list[Blame]] | None = None
        """As last read, with what was noted since; None before the first look."""
        self._pending: deque[Note] = deque(maxlen=MAX_PENDING)
        self._saving: threading.Thread | None = None

    def note(self, incident: Incident, now: float) -> None:
        """Takes an incident that names a node; said again, the same one is only prolonged."""
        if incident.node is None:
            return
        until = now if incident.closed_at is None else incident.closed_at
        blame = Blame(incident.kind, incident.component, incident.opened_at, until)
        with self._memory:
            self._pending.append((incident.node, blame))
            if self._nodes is not None:
                _add(self._nodes, incident.node, blame)

    def of(self, node: str) -> Record:
        """What is known of a node."""
        nodes = self._known()
        with self._memory:
            return Record(node, tuple(nodes.get(node, ())))

    def all(self) -> list[Record]:
        """Every node that was to blame, the worst first."""
        nodes = self._known()
        with self._memory:
            records = [Record(node, tuple(blames)) for node, blames in nodes.items()]
        return sorted(records, key=lambda one: (-len(one.blames), -(one.last or 0.0), one.node))

    def phrase(self, node: str, now: float) -> str:
        """`blamed 4 times in 30 days`; empty where it was not."""
        count = len(self.of(node).between(now - RECENT_DAYS * DAY, now + DAY).blames)
        if not count:
            return ""
        return f"blamed {count} {'time' if count == 1 else 'times'} in {RECENT_DAYS} days"

    def save(self) -> bool:
        """Adds what was noted to the file; False if that must wait for another time."""
        with self._memory:
            pending = list(self._pending)
            self._pending.clear()
        if not pending or self._change(lambda nodes: _add_all(nodes, pending)):
            return True
        with self._memory:
            self._pending.extendleft(reversed(pending))
        return False

    def save_soon(self) -> None:
        """`save` in a thread, one at a time: a home directory may hang, the caller may not."""
        if self._saving is None or not self._saving.is_alive():
            self._saving = threading.Thread(target=self.save, name="lemons", daemon=True)
            self._saving.start()

    def forget(self, node: str) -> bool:
        """Drops what is known of a node; False if nothing is, or the file cannot be written."""
        return node in self._known() and self._change(lambda nodes: nodes.pop(node, None))

    # The file

    def _known(self) -> dict[str, list[Blame]]:
        if self._nodes is None:
            nodes = self._read_or_set_aside()
            with self._memory:
                self._nodes = _add_all(nodes or {}, self._pending)
        return self._nodes

    def _change(self, change: Callable[[dict[str, list[Blame]]], object]) -> bool:
        """Reads, changes and replaces the file, alone among all processes."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _alone(self._path.with_name(f"{self._path.name}.lock")):
                nodes = self._read_or_set_aside()
                if nodes is None:
                    return False
                change(nodes)
                nodes = _pruned(nodes, self._clock())
                self._write(nodes)
        except OSError as error:
            self._tell(f"{self._path}: cannot be written: {error.strerror or error}")
            return False
        with self._memory:
            self._nodes = _add_all(nodes, self._pending)
        return True

    def _read_or_set_aside(self) -> dict[str, list[Blame]] | None:
        """The nodes in the file, none where there is no file; None if it must be left alone."""
        try:
            data = _read(self._path)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._tell(f"{self._path}: left alone: {reason}")
            return None
        try:
            file = msgspec.json.decode(data, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            aside = self._path.with_name(f"{self._path.name}.damaged")
            self._tell(f"{self._path}: damaged, set aside as {aside.name}: {clean(str(error), 80)}")
            with contextlib.suppress(OSError):
                self._path.replace(aside)
            return {}
        if file.v != 1:
            self._tell(f"{self._path}: left alone: of version {file.v}, which is not known here")
            return None
        return {
            clean(node): [
                Blame(clean(one.kind), one.component and clean(one.component), one.since, one.until)
                for one in blames
            ]
            for node, blames in file.nodes.items()
        }

    def _write(self, nodes: dict[str, list[Blame]]) -> None:
        draft = self._path.with_name(f".{self._path.name}.draft")
        # Of a process that was ended while it wrote; nobody else writes now.
        draft.unlink(missing_ok=True)
        try:
            with open(draft, "xb", opener=_private) as file:
                file.write(msgspec.json.encode(_File(1, nodes)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
        finally:
            draft.unlink(missing_ok=True)

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._warn(text)


class Watch:
    """Notes the incidents of a live session; subscribe it."""

    def __init__(self, lemons: Lemons) -> None:
        self._lemons = lemons
        self._noted: dict[str, float] = {}
        """Incident → until when it is noted."""

    def __call__(self, view: View) -> None:
        """Takes a view; returns at once."""
        if view.cluster.simulated:
            return
        noted: dict[str, float] = {}
        changed = False
        for incident in view.incidents:
            if incident.node is None or incident.kind not in KINDS:
                continue
            until = view.time if incident.closed_at is None else incident.closed_at
            before = self._noted.get(incident.id)
            due = (incident.opened_at if before is None else before) + SETTLED
            if until != before and (until >= due or not incident.open):
                self._lemons.note(incident, view.time)
                noted[incident.id] = until
                changed = True
            elif before is not None:
                noted[incident.id] = before
        self._noted = noted
        if changed:
            self._lemons.save_soon()


def _add(nodes: dict[str, list[Blame]], node: str, blame: Blame) -> None:
    """Adds a blame, or prolongs the one that is the same incident."""
    blames = nodes.setdefault(node, [])
    for place, one in enumerate(blames):
        if (
            (one.kind, one.component) == (blame.kind, blame.component)
            and blame.since <= one.until + REOPEN
            and one.since <= blame.until + REOPEN
        ):
            blames[place] = Blame(
                one.kind, one.component, min(one.since, blame.since), max(one.until, blame.until)
            )
            return
    blames.append(blame)


def _add_all(nodes: dict[str, list[Blame]], pending: Iterable[Note]) -> dict[str, list[Blame]]:
    for node, blame in pending:
        _add(nodes, node, blame)
    return nodes


def _pruned(nodes: dict[str, list[Blame]], now: float) -> dict[str, list[Blame]]:
    """Without what is old; of too many nodes, those that were to blame last."""
    kept = {
        node: young[-MAX_BLAMES:]
        for node, blames in nodes.items()
        if (
            young := sorted(
                (one for one in blames if one.until > now - MAX_AGE), key=lambda one: one.since
            )
        )
    }
    newest = sorted(kept, key=lambda node: kept[node][-1].until, reverse=True)[:MAX_NODES]
    return {node: kept[node] for node in sorted(newest)}


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Holds a lock among processes.

    Raises:
        OSError: another one holds it for too long.
    """
    descriptor = _private(str(path), os.O_RDWR | os.O_CREAT)
    deadline = time.monotonic() + LOCK_SECONDS
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise OSError(errno.EAGAIN, f"{path.name} is held by another process") from None
            time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    # Without O_NONBLOCK, opening a FIFO would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a regular file")
        if status.st_size > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES >> 20} MiB")
        return file.read(MAX_BYTES)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
