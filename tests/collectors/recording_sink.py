"""A sink that records, and helpers on processes."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

from trntop.core.model import Reading, State, Status
from trntop.remote.names import NodeNames
from trntop.session.collector import Collector

FAKE = Path(__file__).parent.parent / "fakes" / "neuron_monitor.py"
COMMAND = [sys.executable, "-S", "-E", str(FAKE)]
"""The fake neuron-monitor, quick to start."""


class RecordingSink:
    """Takes what a collector gives and lets a test wait for it."""

    def __init__(self) -> None:
        self.aggregator = False
        self.records = False
        self.readings: list[Reading] = []
        self.statuses: list[Status] = []
        self.removed: list[str] = []
        self.warnings: list[str] = []
        self.node_names = NodeNames()
        self.wants_backfill = False
        self.backfills: list[list[Reading]] = []
        self._news = asyncio.Event()

    def now(self) -> float:
        return time.monotonic()

    def reading(self, reading: Reading) -> None:
        self.readings.append(reading)
        self._news.set()

    def status(self, status: Status) -> None:
        self.statuses.append(status)
        self._news.set()

    def register(self, node: str, owner: str, *sources: str) -> str:
        return self.node_names.register(node, owner, *sources)

    def remove(self, node: str, owner: str = "") -> None:
        if self.node_names.drop(node, owner) is None:
            self.removed.append(node)
            self._news.set()

    def backfill(self, readings: Iterable[Reading]) -> None:
        self.backfills.append(list(readings))
        self._news.set()

    def warn(self, text: str) -> None:
        self.warnings.append(text)
        self._news.set()

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.statuses[-1].counts)

    def reasons(self, state: State) -> list[str]:
        return [status.reason for status in self.statuses if status.state is state]

    async def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        """Waits until `condition` holds; it is evaluated at each reading and status."""
        async with asyncio.timeout(seconds):
            while not condition():
                await self._news.wait()
                self._news.clear()


@contextlib.asynccontextmanager
async def running(collector: Collector, sink: RecordingSink) -> AsyncIterator[asyncio.Task[None]]:
    """Runs a collector for the length of a block."""
    task = asyncio.create_task(collector.run(sink))
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def alive(pid: int) -> bool:
    """Whether a process runs, or is dead but not reaped by us."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    state, parent = stat.rpartition(")")[2].split()[:2]
    # An orphan's corpse is the business of whoever adopted it.
    return state != "Z" or int(parent) == os.getpid()


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits for another process."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def pids(path: Path) -> list[int]:
    """Process ids the fake has noted."""
    return [int(line) for line in path.read_text().split()] if path.exists() else []
