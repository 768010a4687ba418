"""The incidents of the last day, in memory and in a journal that outlives the program.

The journal is JSON Lines: an incident each time it changes, `{"at":…,"incident":{…}}`, or the id of
one that became part of another, `{"at":…,"gone":"…"}`; the last line about an id counts. It is
rewritten at each start and when it has grown.
"""

import contextlib
import fcntl
import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from trntop.core.model import Incident, View

KEPT_SECONDS = 86_400.0
MAX_CLOSED = 1000
"""Closed incidents that are kept."""
MAX_BYTES = 8 << 20
"""Limit of a journal after it was rewritten: the oldest closed incidents are left out."""
GROWTH = 1 << 20
"""Bytes appended before it is rewritten."""
LATE_SECONDS = 30.0
"""How long a late tick counts."""
RETRY_SECONDS = 10.0
"""After a failure, until it is written again."""
CLOSE_SECONDS = 1.0
"""How long `close` waits for a hung file system."""


class _Line(msgspec.Struct, omit_defaults=True):
    at: float
    incident: Incident | None = None
    gone: str = ""


_decoder = msgspec.json.Decoder(_Line)
_encoder = msgspec.json.Encoder(enc_hook=str)


class JournalError(Exception):
    """Why a journal cannot be used; one sentence."""


class Journal:
    """The file. `append` never blocks: a thread of its own writes.

    Args:
        path: the file; it and its directory are created if missing.
        warn: receives what is lost and why, on any thread.

    Raises:
        JournalError: the file cannot be used, or another program uses it.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn = warn
        self._failed = ""
        self._size = 0
        """Bytes appended since it was rewritten."""
        self._lines: list[bytes] = []
        self._all: Callable[[], Sequence[bytes]] = tuple
        self._wake = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._descriptor = _locked(path)
        except BlockingIOError:
            raise JournalError(
                f"{path} is in use by another trntop export; give one of them --state DIRECTORY"
            ) from None
        except OSError as error:
            raise JournalError(f"{path}: {error.strerror}") from error

    def read(self) -> tuple[list[Incident], float]:
        """The newest state of each incident, and the time of the last line.

        Damaged lines are reported and skipped.
        """
        found: dict[str, Incident] = {}
        damaged, end = 0, 0.0
        with open(self._descriptor, "rb", closefd=False) as file:
            file.seek(0)
            data = file.read(MAX_BYTES + GROWTH)
        for raw in data.splitlines():
            try:
                line = _decoder.decode(raw)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                damaged += 1
                continue
            end = max(end, line.at)
            if line.incident is not None:
                subjects = tuple((_hashable(key), node) for key, node in line.incident.subjects)
                incident = replace(line.incident.cleaned(), subjects=subjects)
                found[incident.id] = incident
            found.pop(line.gone, None)
        if damaged:
            self._warn(f"{self._path}: {damaged} damaged lines were skipped")
        return list(found.values()), end

    def start(self, everything: Callable[[], Sequence[bytes]]) -> None:
        """Begins to write.

        Args:
            everything: the lines of the whole log, for a new file; called on the writer's thread.
        """
        self._all = everything
        self._size = GROWTH  # rewritten first: the end of the file may be damaged
        self._thread = threading.Thread(target=self._run, name="incidents", daemon=True)
        self._thread.start()

    def append(self, lines: Sequence[bytes]) -> None:
        with self._wake:
            self._lines += lines
            self._wake.notify()

    def close(self) -> None:
        """Writes what is left, within `CLOSE_SECONDS`."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
        if self._thread is None or not self._thread.is_alive():
            os.close(self._descriptor)

    def _run(self) -> None:
        closing = False
        while not closing:
            with self._wake:
                if self._failed:
                    self._wake.wait_for(lambda: self._closing, RETRY_SECONDS)
                else:
                    self._wake.wait_for(lambda: self._lines or self._closing or self._due)
                lines, self._lines, closing = self._lines, [], self._closing
            if not lines and not self._due:
                continue
            try:
                self._write(lines)
                if self._failed:
                    self._warn(f"{self._path}: incidents are kept again")
                self._failed = ""
            except OSError as error:
                self._size = GROWTH
                reason = f"{self._path}: {error.strerror}; incidents are not kept for a restart"
                if reason != self._failed:
                    self._warn(reason)
                self._failed = reason

    @property
    def _due(self) -> bool:
        """Whether it is to be rewritten."""
        return self._size >= GROWTH

    def _write(self, lines: Sequence[bytes]) -> None:
        data = b"".join(lines)
        if not self._due and self._size + len(data) <= GROWTH:
            _write(self._descriptor, data)
            self._size += len(data)
            return
        fresh = self._path.with_suffix(".new")
        descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write(descriptor, b"".join(self._all()))
            os.fsync(descriptor)
            fresh.replace(self._path)
        except OSError:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise
        os.close(self._descriptor)
        self._descriptor, self._size = descriptor, 0


class IncidentLog:
    """The incidents of the last day, open ones first; subscribe it to a session.

    Args:
        period: seconds between ticks.
        journal: keeps them for a restart; by default nothing does.
    """

    def __init__(self, period: float, journal: Journal | None = None) -> None:
        self._period = period
        self._journal = journal
        self._known: dict[str, Incident] = {}
        self._late: tuple[float, float] | None = None
        """Time and seconds of the newest late tick."""
        self._time = 0.0
        """Of the newest view."""
        self._floor = -math.inf
        """Incidents that closed earlier are dropped."""
        self.earlier: tuple[list[Incident], float] = [], 0.0
        """Those of the run before, and its end."""
        self.since: float | None = None
        """Time of the first view; what an earlier run did not see is unknown."""
        self.incidents: tuple[Incident, ...] = ()
        """Replaced as a whole when one changes; read it on any thread."""
        self.behind = 0.0
        """Seconds by which a tick of the last `LATE_SECONDS` was late by more than a period, or by
        which an aggregator was that is read here.
        """
        if journal is not None:
            self.earlier = journal.read()
            self._time = self.earlier[1]
            self.incidents = tuple(sorted(self.earlier[0], key=_end, reverse=True))
            self._known = {incident.id: incident for incident in self.incidents}
            journal.start(self._lines)

    def __call__(self, view: View) -> None:
        """Adds a view."""
        known, now = self._known, view.time
        if now < self.earlier[1]:
            return  # the clock was set back; what was open then is not recovered yet
        self.since, self._time = now if self.since is None else self.since, now
        self._note_lag(view)
        self._floor = max(self._floor, now - KEPT_SECONDS)
        recent = {
            incident.id: incident for incident in view.incidents if _end(incident) >= self._floor
        }
        changed = [incident for incident in recent.values() if known.get(incident.id) != incident]
        gone = [name for name, incident in known.items() if incident.open and name not in recent]
        old = any(_end(incident) < self._floor for incident in known.values())
        if not changed and not gone and not old:
            return
        every = {
            name: incident
            for name, incident in (known | recent).items()
            if name not in gone and _end(incident) >= self._floor
        }
        closed = sorted(
            (incident for incident in every.values() if not incident.open), key=_end, reverse=True
        )
        for incident in closed[MAX_CLOSED:]:
            self._floor = max(self._floor, math.nextafter(_end(incident), math.inf))
            del every[incident.id]
        self._known = every
        self.incidents = (*view.open_incidents, *closed[:MAX_CLOSED])
        if self._journal is not None:
            lines = [_line(now, incident=incident) for incident in changed]
            self._journal.append([*lines, *(_line(now, gone=name) for name in gone)])

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()

    def _note_lag(self, view: View) -> None:
        lag = max([view.lag, *(judge.behind for judge in view.cluster.judges)])
        if lag > self._period:
            self._late = view.time, lag
        recent = self._late is not None and 0 <= view.time - self._late[0] < LATE_SECONDS
        self.behind = self._late[1] if recent and self._late is not None else 0.0

    def _lines(self) -> list[bytes]:
        """All incidents for a new journal, up to its limit."""
        lines: list[bytes] = []
        left = MAX_BYTES
        for incident in self.incidents:
            line = _line(self._time, incident=incident)
            left -= len(line)
            if left < 0:
                break
            lines.append(line)
        return lines


def _line(at: float, incident: Incident | None = None, gone: str = "") -> bytes:
    return _encoder.encode(_Line(at, incident, gone)) + b"\n"


def _end(incident: Incident) -> float:
    return math.inf if incident.closed_at is None else incident.closed_at


def _locked(path: Path) -> int:
    """A descriptor of the file at this path, locked.

    Raises:
        BlockingIOError: another program has it locked.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its owner may have put a rewritten file in its place before we got the lock.
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except FileNotFoundError:
            pass
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _hashable(key: Any) -> Any:
    return tuple(map(_hashable, key)) if isinstance(key, list) else key
