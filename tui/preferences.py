"""How the user left the fleet table: kept in a small file from one start to the next.

The file, `trntop/screen.json` in `$XDG_STATE_HOME` (`~/.local/state`), is
`{"v":1,"sort":"util","reverse":false,"columns":["util","te"],"faults":false}`. It holds taste and
nothing else: what is wrong with it is ignored, and settings that say how it shall be come first.
"""

import contextlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import structs

from trntop.core.folders import state_folder
from trntop.core.settings import Screen

MAX_BYTES = 1 << 16


class Arrangement(msgspec.Struct, frozen=True, kw_only=True):
    """Order, columns and choice of rows."""

    v: int = 1
    sort: str = ""
    """A column's name; empty for the standard order."""
    reverse: bool = False
    columns: tuple[str, ...] = ()
    """Names; none for the standard ones."""
    faults: bool = False
    """Whether only nodes with a fault are shown."""


def default_path(environ: Mapping[str, str]) -> Path | None:
    state = state_folder(environ)
    return None if state is None else state / "screen.json"


class TablePreferences:
    """Reads and writes it.

    Args:
        path: the file; None keeps nothing.
        wanted: what the settings say of it.
    """

    def __init__(self, path: Path | None = None, wanted: Screen | None = None) -> None:
        self._path = path
        self._wanted = wanted
        self._next: Arrangement | None = None
        self._lock = threading.Lock()
        self._writing: threading.Thread | None = None

    def load(self) -> Arrangement:
        """As it was left, but for what the settings say."""
        found = self._read()
        if self._wanted is None:
            return found
        if self._wanted.sort:
            found = structs.replace(found, sort=self._wanted.sort, reverse=False)
        if self._wanted.columns:
            found = structs.replace(found, columns=self._wanted.columns)
        return found

    def save(self, arrangement: Arrangement) -> None:
        """Writes it in a thread: a home directory may hang, the screen may not."""
        if self._path is None:
            return
        with self._lock:
            self._next = arrangement
            if self._writing is None or not self._writing.is_alive():
                self._writing = threading.Thread(target=self._write, name="screen", daemon=True)
                self._writing.start()

    def wait(self, seconds: float) -> None:
        """Returns when all is written, or after that time."""
        if self._writing is not None:
            self._writing.join(seconds)

    def _read(self) -> Arrangement:
        if self._path is None:
            return Arrangement()
        try:
            # Without O_NONBLOCK, opening a FIFO would wait for a writer.
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                found = msgspec.json.decode(file.read(MAX_BYTES), type=Arrangement)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Arrangement()
        return found if found.v == 1 else Arrangement()

    def _write(self) -> None:
        assert self._path is not None
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        while True:
            with self._lock:
                arrangement, self._next = self._next, None
                if arrangement is None:
                    self._writing = None
                    return
            with contextlib.suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                try:
                    with open(draft, "xb", opener=_private) as file:
                        file.write(msgspec.json.encode(arrangement) + b"\n")
                    draft.replace(self._path)
                finally:
                    draft.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
