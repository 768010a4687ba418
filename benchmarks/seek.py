"""Opening a large recording, and moving about in it, as the dashboard does."""

import math
import random
import statistics
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.cold_start import first_frame
from benchmarks.figure import Figure
from benchmarks.payloads import START, readings
from benchmarks.terminal import TRNTOP
from trntop.cli import opening
from trntop.core.model import View
from trntop.core.settings import Settings
from trntop.core.source_spec import parse_all
from trntop.recording.writer import Recorder
from trntop.session.runner import Session

NODES = 4
ROUNDS = 3
SEEKS = 15


def run(*, quick: bool) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.jsonl"
        with Recorder(path, created=START) as recorder:
            for reading in readings(NODES, 4 if quick else 42):
                recorder.write(reading)
        size = f"{path.stat().st_size / 1e9:.2g} GB, {NODES} nodes"
        replay = (*TRNTOP, "replay", str(path))
        frame, data, demo = (
            statistics.median(first_frame(text, *command) for _ in range(ROUNDS))
            for text, command in (
                (b"fleet", replay),
                (b"SIMULATED", replay),
                (b"fleet", (*TRNTOP, "demo")),
            )
        )
        times = sorted(_seeks(path))
        return [
            Figure(
                f"replay of {size}, to its first frame",
                frame,
                "s",
                1.0,
                f"{frame / demo:.2f} × the demo's; {data:.2f} s to the first data in it",
            ),
            Figure(
                f"the same, from a seek to its view, median of {SEEKS}",
                statistics.median(times),
                "s",
                0.5,
                f"{times[0]:.2f} to {times[-1]:.2f} s",
            ),
        ]


def _seeks(path: Path) -> list[float]:
    """Seconds from asking for a moment to its view, at random places of the file."""
    session = opening.session(parse_all([str(path)]), Settings())
    assert session.playback is not None
    session.playback.paused = True
    shown = _Shown(session)
    session.start()
    shown.wait(-math.inf)
    assert session.span is not None
    first, last = session.span
    chance = random.Random(1)
    times = []
    for _ in range(SEEKS):
        moment = chance.uniform(first + 2, last - 2)
        started = time.perf_counter()
        session.seek(moment)
        shown.wait(moment)
        times.append(time.perf_counter() - started)
    session.stop()
    return times


class _Shown:
    """The newest view of a session that shows a node."""

    def __init__(self, session: Session) -> None:
        self._time: float | None = None
        self._news = threading.Condition()
        session.subscribe(self._came)

    def _came(self, view: View) -> None:
        if view.cluster.nodes:
            with self._news:
                self._time = view.time
                self._news.notify()

    def wait(self, moment: float) -> None:
        """Until the moment is shown; -inf is any."""
        with self._news:
            if not self._news.wait_for(lambda: self._is(moment), 20):
                raise RuntimeError("no view came")

    def _is(self, moment: float) -> bool:
        time = self._time
        return time is not None and (moment == -math.inf or abs(time - moment) < 0.5)
