"""The running dashboard: processor, bytes to the terminal, and the time from a key to its paint.

It shows views that were made beforehand, one a second, in the process that is measured: painting,
history and whatever else belongs to the screen, but neither collection nor analysis, which other
benchmarks measure. For few nodes it also measures: streams of as many agents, and a replay of a
recording, which decodes here what the agents of several nodes each decode for themselves. A
simulation is nowhere counted. btop and glances, where they are installed, watch this machine.
"""

import dataclasses
import random
import shutil
import sys
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path

from benchmarks import streams
from benchmarks.figure import Figure
from benchmarks.payloads import START, readings
from benchmarks.terminal import TRNTOP, Terminal, rss_mib
from trntop.collectors import simulator
from trntop.core.model import Cluster, View
from trntop.core.settings import Settings
from trntop.pipeline.jobs import job_means
from trntop.recording.writer import Recorder
from trntop.session.monitor import Monitor, play
from trntop.session.runner import Session
from trntop.tui.app import run as show

CPU_BUDGETS = {1: 2.0, 16: 5.0, 256: None, 1000: 50.0}
"""Nodes → % of a core."""
TRAFFIC_BUDGET, KEY_BUDGET = 30.0, 50.0
"""KiB/s and ms."""
FEW = 16
"""Nodes up to which streams are received and a recording is replayed: larger ones are measured by
`benchmarks.streams`, and their recordings are large.
"""
VIEWS = 6
"""That are made beforehand, and shown in turn."""
PAST = 180
"""Seconds of history before the first."""
SETTLE = 5.0
SCREENS = {
    "3": b"blocking the job", "4": b"needs attention", "5": b"evidence", "6": b"last 5 min",
    "1": b"nodes \xc2\xb7",
}  # fmt: skip
"""Keys and what is only to be seen on their screens."""
CURSOR = "▸".encode()
OTHERS = {
    "btop, each 2 s": ("btop", "--utf-force"), "glances, each 1 s": ("glances", "--time", "1"),
}  # fmt: skip
"""As they come, but glances, whose default interval is 3 s."""


def run(*, quick: bool) -> list[Figure]:
    seconds = 10 if quick else 40
    figures: list[Figure] = []
    for nodes, budget in CPU_BUDGETS.items():
        figures += _dashboard(nodes, budget, seconds, quick=quick)
    for name, command in OTHERS.items():
        if shutil.which(command[0]) is None:
            print(f"  {command[0]} is not installed")
            continue
        cpu, rate, memory = _cost(Terminal(*command), b"", SETTLE, seconds)
        figures.append(Figure(f"{name} on this machine: CPU", cpu, "%", None, memory))
        figures.append(Figure("  to the terminal", rate, "KiB/s"))
    return figures


def _dashboard(nodes: int, budget: float | None, seconds: int, *, quick: bool) -> list[Figure]:
    label = f"dashboard, {nodes:,} node{'s' * (nodes > 1)}, {seconds} s"
    whole = []
    if nodes <= FEW:
        with streams.watched(nodes) as (terminal, _, _):
            cpu, rate, memory = _running(terminal, b"SIMULATED", SETTLE, seconds)
        beside = f"{memory}; {rate:.1f} KiB/s"
        whole.append(Figure("  on streams, with analysis: CPU", cpu, "%", budget, beside))
        cpu, rate, memory = _replay(nodes, seconds)
        beside = f"{memory}; {rate:.1f} KiB/s"
        # Of one node it is what the dashboard does besides its collectors.
        limit = budget if nodes == 1 else None
        whole.append(Figure("  on a recording, with decoding: CPU", cpu, "%", limit, beside))
    terminal = Terminal(sys.executable, "-m", "benchmarks.dashboard", str(nodes))
    try:
        # Its memory is that of the prepared views; see `benchmarks.streams`.
        cpu, rate, _ = _running(terminal, b"SIMULATED", SETTLE, seconds)
        moves = _keys(terminal, 60 if quick else 300) if nodes > 1 else []
        turns = _turns(terminal, 4 if quick else 20)
    finally:
        terminal.close()
    return [
        Figure(f"{label}: CPU", cpu, "%", budget),
        *whole,
        Figure("  to the terminal", rate, "KiB/s", TRAFFIC_BUDGET),
        *(
            Figure(f"  {what} to paint, p95", _p95(times), "ms", limit, _median(times))
            for what, times, limit in (
                ("a key that moves the cursor", moves, KEY_BUDGET),
                ("one that changes the whole screen", turns, None),
            )
            if times
        ),
    ]


def _replay(nodes: int, seconds: int) -> tuple[float, float, str]:
    """% of a core, KiB/s and memory of `trntop replay`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        with Recorder(path, created=START) as recorder:
            for reading in readings(nodes, (seconds + 3 * SETTLE) / 60):
                recorder.write(reading)
        return _cost(Terminal(*TRNTOP, "replay", str(path)), b"SIMULATED", SETTLE, seconds)


def _cost(
    terminal: Terminal, until: bytes, settle: float, seconds: float
) -> tuple[float, float, str]:
    try:
        return _running(terminal, until, settle, seconds)
    finally:
        terminal.close()


def _running(
    terminal: Terminal, until: bytes, settle: float, seconds: float
) -> tuple[float, float, str]:
    """% of a core, KiB/s and memory of a program that shows what it shows."""
    terminal.until(until, 600.0)
    terminal.drain(settle)
    cpu, written, started = terminal.cpu_seconds(), terminal.output, time.perf_counter()
    terminal.drain(seconds)
    passed = time.perf_counter() - started
    share = 100 * (terminal.cpu_seconds() - cpu) / passed
    rate = (terminal.output - written) / passed / 1024
    return share, rate, f"{rss_mib(terminal.process.pid):.0f} MiB"


def _keys(terminal: Terminal, count: int) -> list[float]:
    """Milliseconds from keys that move the cursor to the cursor's paint, at any time of a tick."""
    chance = random.Random(1)
    times = []
    for number in range(count):
        terminal.drain(chance.uniform(0.05, 0.15))
        times.append(1000 * terminal.answer("jk"[number % 2].encode(), CURSOR))
    return times


def _turns(terminal: Terminal, rounds: int) -> list[float]:
    """Milliseconds from keys to their screens, each of which has been there before."""
    chance = random.Random(1)
    times = []
    for number in range(rounds + 1):
        for key, seen in SCREENS.items():
            terminal.drain(chance.uniform(0.3, 0.6))
            passed = 1000 * terminal.answer(key.encode(), seen)
            times += [passed] * (number > 0)
    return times


def _p95(times: list[float]) -> float:
    return sorted(times)[int(0.95 * len(times))]


def _median(times: list[float]) -> str:
    return f"median {sorted(times)[len(times) // 2]:.1f} of {len(times)}"


class Prepared(Session):
    """Shows views that are there already, as if they came now."""

    def __init__(self, nodes: int) -> None:
        settings = Settings()
        self._made = Monitor(settings)
        simulation = simulator.parse(f"sim:demo?nodes={nodes}")
        views = play(simulator.simulate(simulation, START), self._made)
        # The first ticks have no rates yet.
        self._views = list(islice(views, 3, 3 + VIEWS))
        super().__init__(Monitor(settings), description=f"{nodes} nodes, made beforehand")
        self._over_now = threading.Event()
        self._count = 0
        for _ in range(PAST):
            self._next()

    def _next(self) -> View:
        view = self._views[self._count % VIEWS]
        self._count += 1
        now = START + self._count
        cluster = Cluster(now, view.cluster.nodes)
        self.history.append(cluster, job_means(cluster))
        return dataclasses.replace(view, time=now, cluster=cluster, generation=self._count)

    def start(self) -> None:
        threading.Thread(target=self._show, name="views", daemon=True).start()

    def _show(self) -> None:
        while not self._over_now.wait(1.0):
            self._publish(self._next())

    def stop(self) -> None:
        self._over_now.set()


if __name__ == "__main__":
    sys.exit(show(Prepared(int(sys.argv[1])), settings=Settings()))
