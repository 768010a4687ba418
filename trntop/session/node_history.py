"""Incidents per node, kept across restarts: a node that fails again next week needs replacement.

Live sessions append each incident of trntop's own rules that names a node to
`trntop/incidents.jsonl` in `$XDG_STATE_HOME` (`~/.local/state`), one
`{"node","kind","component","opened_at"}` per line; recordings and simulations are not logged. The
shift report counts the lines. Several processes may append at the same time.
"""

import contextlib
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from trntop.analysis.rulebook import KINDS
from trntop.core.model import View
from trntop.core.text import clean

FILE = "incidents.jsonl"
MAX_AGE = 90 * 86_400.0
MAX_BYTES = 1 << 20
"""Size at which the file becomes `incidents.jsonl.1`, in place of an older one."""
SAME = 3600.0
"""Incidents of the same node, kind and component are one if they open within this time: two
processes logged it, or one that was restarted.
"""
SETTLED = 60.0
"""Seconds after which an open incident is logged: before, it may still become a consequence."""

log = logging.getLogger(__name__)


class Entry(msgspec.Struct, frozen=True):
    node: str
    kind: str
    component: str | None
    opened_at: float


class IncidentLog:
    """Appends the incidents of a live session to the file; subscribe it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._logged: set[str] = set()
        self._failed = False

    def __call__(self, view: View) -> None:
        if view.cluster.simulated:
            return
        settled = {
            incident.id: Entry(incident.node, incident.kind, incident.component, incident.opened_at)
            for incident in view.incidents
            if incident.node is not None
            and incident.kind in KINDS
            and (not incident.open or view.time >= incident.opened_at + SETTLED)
        }
        new = [entry for id_, entry in settled.items() if id_ not in self._logged]
        self._logged = set(settled)
        if new:
            # A home directory on a network may hang; the session must not.
            threading.Thread(target=self.append, args=(new,), daemon=True).start()

    def append(self, entries: list[Entry]) -> None:
        lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(self._path, "ab", buffering=0, opener=_opener(flags)) as file:
                if file.tell() + len(lines) > MAX_BYTES:
                    self._path.replace(_older(self._path))
                file.write(lines)
        except OSError as error:
            if not self._failed:
                log.warning("cannot write %s: %s", self._path, error.strerror or error)
            self._failed = True


def counts(path: Path, before: float) -> dict[str, Counter[str]]:
    """Node → kind → number of incidents in the 90 days before a time."""
    found: dict[str, Counter[str]] = {}
    last: dict[tuple[str, str, str | None], float] = {}
    entries = [*_read(_older(path)), *_read(path)]
    for entry in sorted(entries, key=lambda entry: entry.opened_at):
        if not before - MAX_AGE <= entry.opened_at < before:
            continue
        key = (entry.node, entry.kind, entry.component)
        if entry.opened_at >= last.get(key, 0.0) + SAME:
            found.setdefault(clean(entry.node), Counter())[clean(entry.kind)] += 1
            last[key] = entry.opened_at
    return found


def _read(path: Path) -> Iterator[Entry]:
    """The entries of a file; lines that are damaged and files that are missing have none."""
    with (
        contextlib.suppress(OSError),
        open(path, "rb", opener=_opener(os.O_RDONLY)) as file,
    ):
        for line in file.read(2 * MAX_BYTES).splitlines():
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                yield msgspec.json.decode(line, type=Entry)


def _older(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


def _opener(flags: int) -> Callable[[str, int], int]:
    # Without O_NONBLOCK, opening a FIFO would wait for the other end.
    safe = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return lambda path, _: os.open(path, flags | safe, 0o600)
