"""The file for what goes wrong while the screen belongs to the dashboard.

`trntop/trntop.log` in `$XDG_STATE_HOME` (`~/.local/state`). It holds messages and where in the
code they arose; no values of variables, no environment.
"""

import contextlib
import logging
from collections.abc import Callable, Mapping
from logging.handlers import RotatingFileHandler
from pathlib import Path

MAX_BYTES = 1 << 20
"""Length at which the file is begun anew; the one before is kept."""


def default_path(environ: Mapping[str, str]) -> Path | None:
    """Where the journal is; None without a home."""
    folder = environ.get("XDG_STATE_HOME", "")
    # The XDG specification has relative paths ignored.
    if not folder.startswith("/"):
        folder = f"{environ['HOME']}/.local/state" if environ.get("HOME") else ""
    return Path(folder, "trntop", "trntop.log") if folder else None


class Journal(logging.Handler):
    """Keeps warnings and worse, and tells the user once of each defect.

    Args:
        path: the file, made with the first message; None keeps nothing.
        tell: is told, on any thread, of what has a traceback.
    """

    def __init__(self, path: Path | None, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self.path = path
        self._tell = tell
        self._told: set[str] = set()
        self._file: RotatingFileHandler | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps one message; where that is impossible the program goes on."""
        with contextlib.suppress(OSError):
            self._keep(record)
        if record.exc_info and record.exc_info[0] is not None:
            defect = f"{record.getMessage()}: {record.exc_info[0].__name__}"
            if defect not in self._told:
                self._told.add(defect)
                self._tell(f"{defect}; details in {self.path}" if self.path else defect)

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
        super().close()

    def _keep(self, record: logging.LogRecord) -> None:
        if self.path is None:
            return
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = RotatingFileHandler(self.path, maxBytes=MAX_BYTES, backupCount=1)
            self._file.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
        self._file.emit(record)
