"""What a key writes to a file: the newest readings, the report of a shift, or the screen.

It happens in a thread of its own: a disk may hang or be full, and the screen goes on.
"""

import threading
from collections.abc import Callable
from pathlib import Path

from trntop.core import units
from trntop.core.errors import TrntopError
from trntop.core.model import Cluster, View
from trntop.recording.blackbox import free_path, save, stamp, write_new
from trntop.session.monitor import MAX_CATCH_UP
from trntop.session.runner import Session

Report = Callable[[View, View, float], str]
"""Makes the report from the first and the newest view, and the seconds that were seen."""


class Watched:
    """How long a session has been watched."""

    def __init__(self) -> None:
        self.first: View | None = None
        """The first view, without its nodes."""
        self.seconds = 0.0
        """Of its time that were seen; gaps are not."""
        self._time = 0.0

    def append(self, view: View) -> None:
        """Takes the next view."""
        if self.first is None:
            self.first = View(view.generation, view.time, Cluster(view.time))
        elif 0 <= view.time - self._time <= MAX_CATCH_UP:
            self.seconds += view.time - self._time
        self._time = view.time


class Files:
    """Writes one file at a time.

    Args:
        folder: where; empty means the current one.
        tell: is told, on any thread, what was written; the flag says whether it went well.
        report: makes the report of a shift, if anything does.
    """

    def __init__(
        self, folder: str, tell: Callable[[str, bool], None], report: Report | None
    ) -> None:
        self._folder = folder
        self._tell = tell
        self._report = report
        self._thread: threading.Thread | None = None

    def recording(self, session: Session) -> None:
        """Writes what the black box holds, or says why there is none."""
        box = session.black_box
        if box is None:
            self._tell(_why_no_box(session), False)
            return

        def write() -> str:
            saved = save(box, self._path())
            count = f"{saved.readings:,} readings, {units.bytes_iec(saved.bytes)}"
            return f"the last {units.span(saved.seconds)} ({count}) are in {saved.path}"

        self._start(write)

    def report(self, watched: Watched, last: View) -> None:
        """Writes the report of a shift."""
        first, report, seconds = watched.first, self._report, watched.seconds
        if first is None or report is None:
            self._tell("there is nothing to report yet", False)
            return

        def write() -> str:
            path = free_path(self._path(), f"trntop-report-{stamp(last.time)}", ".md")
            write_new(path, [report(first, last, seconds).encode()])
            return f"the report of {units.span(seconds)} is in {path}"

        self._start(write)

    def picture(self, svg: str, time: float) -> None:
        """Writes a picture of the screen at a time."""

        def write() -> str:
            path = free_path(self._path(), f"trntop-{stamp(time)}", ".svg")
            write_new(path, [svg.encode()])
            return f"a picture of the screen is in {path}"

        self._start(write)

    def wait(self) -> None:
        """Returns when nothing is being written."""
        if self._thread is not None:
            self._thread.join()

    def _path(self) -> Path:
        return Path(self._folder).expanduser().absolute()

    def _start(self, write: Callable[[], str]) -> None:
        if self._thread is not None and self._thread.is_alive():
            self._tell("still writing the file before", False)
            return

        def guarded() -> None:
            try:
                self._tell(write(), True)
            except TrntopError as error:
                self._tell(f"not written: {error}", False)
            except Exception as error:
                # A defect here must not end without a word.
                self._tell(f"not written: internal error: {type(error).__name__}", False)

        self._thread = threading.Thread(target=guarded, name="files", daemon=True)
        self._thread.start()


def _why_no_box(session: Session) -> str:
    if session.playback is None:
        return "nothing is kept: blackbox.seconds is 0"
    if session.view.cluster.simulated:
        return f"a simulation is not kept; trntop record {session.description} -o FILE writes one"
    return f"this is a recording already: {session.description}"
