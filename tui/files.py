"""Files written by a key: the newest readings, the shift report, a screenshot.

They are written in a thread, because a disk may hang.
"""

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from trntop.core import units
from trntop.core.errors import TrntopError
from trntop.core.folders import user_folder
from trntop.core.model import Cluster, View
from trntop.recording.blackbox import save, stamp, write_new
from trntop.session.monitor import MAX_CATCH_UP
from trntop.session.runner import Session

Report = Callable[[View, View, float, Mapping[str, float]], str]
"""Returns the report of the first and the newest view, the seconds watched, and when incidents were
acknowledged (id → unix seconds).
"""


class Watched:
    """The time for which a session was watched."""

    def __init__(self) -> None:
        self.first: View | None = None
        """The first view, without its nodes."""
        self.seconds = 0.0
        """Stream time without gaps."""
        self._time = 0.0

    def append(self, view: View) -> None:
        if self.first is None:
            self.first = View(view.generation, view.time, Cluster(view.time))
        elif 0 <= view.time - self._time <= MAX_CATCH_UP:
            self.seconds += view.time - self._time
        self._time = view.time


class Files:
    """Writes one file at a time.

    Args:
        folder: the directory; empty means the current one.
        notify: called on any thread with the result, and whether it succeeded.
        report: returns the shift report.
    """

    def __init__(
        self, folder: str, notify: Callable[[str, bool], None], report: Report | None
    ) -> None:
        self._folder = folder
        self._notify = notify
        self._report = report
        self._thread: threading.Thread | None = None

    def recording(self, session: Session) -> None:
        """Writes the content of the black box."""
        box = session.black_box
        if box is None:
            self._notify(_why_no_box(session), False)
            return

        def write() -> str:
            saved = save(box, self._path())
            count = f"{saved.readings:,} readings, {units.bytes_iec(saved.bytes)}"
            return f"saved the last {units.span(saved.seconds)} ({count}) to {saved.path}"

        self._start(write)

    def report(self, watched: Watched, last: View, acknowledged: Mapping[str, float]) -> None:
        first, report, seconds = watched.first, self._report, watched.seconds
        if first is None or report is None:
            self._notify("nothing to report yet", False)
            return

        def write() -> str:
            text = report(first, last, seconds, acknowledged).encode()
            path = write_new(self._path(), f"trntop-report-{stamp(last.time)}", ".md", [text])
            return f"saved the report of {units.span(seconds)} to {path}"

        self._start(write)

    def screenshot(self, svg: str, time: float) -> None:
        """To the user's pictures, unless a directory is set."""

        def write() -> str:
            pictures = user_folder(os.environ, "XDG_PICTURES_DIR", "Pictures")
            folder = self._path() if self._folder or pictures is None else pictures
            folder.mkdir(parents=True, exist_ok=True)
            path = write_new(folder, f"trntop-{stamp(time)}", ".svg", [svg.encode()])
            return f"saved the screenshot to {path}"

        self._start(write)

    def wait(self) -> None:
        """Waits until the file is written."""
        if self._thread is not None:
            self._thread.join()

    def _path(self) -> Path:
        return Path(self._folder).expanduser().absolute()

    def _start(self, write: Callable[[], str]) -> None:
        if self._thread is not None and self._thread.is_alive():
            self._notify("the previous file is still being written", False)
            return

        def guarded() -> None:
            try:
                self._notify(write(), True)
            except TrntopError as error:
                self._notify(f"not written: {error}", False)
            except Exception as error:
                self._notify(f"not written: internal error: {type(error).__name__}", False)

        self._thread = threading.Thread(target=guarded, name="files", daemon=True)
        self._thread.start()


def _why_no_box(session: Session) -> str:
    if session.playback is None:
        return "no raw readings are kept: blackbox.seconds is 0"
    if session.view.cluster.simulated:
        return f"not saved: use trntop record {session.description} -o FILE for a simulation"
    return f"not saved: this is already a recording: {session.description}"
