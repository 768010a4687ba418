"""A thousand agents of which 300 hang: how late the frames of the other 700 arrive.

The agents are those of `benchmarks.streams`; the collector of remote nodes reads them all. The
delay of a frame is from its time at the agent to its arrival at the sink, of the same 700 agents in
both phases.
"""

import asyncio
import signal
import subprocess
import sys
import time
from collections import defaultdict

from benchmarks.figure import Figure
from benchmarks.streams import _free_port, _hosts
from tests.collectors.recording_sink import RecordingSink, running
from trntop.collectors.fleet import agents
from trntop.core.model import Reading, State, Status
from trntop.core.settings import Settings
from trntop.core.source_spec import parse
from trntop.remote import wire

NODES, HANGING = 1000, 0.3
SECONDS, SETTLE = 60.0, 30.0
CHANGE = 20.0
"""Budget, %: by how much the 99th percentile of the delays may change."""


class Delays(RecordingSink):
    """Keeps the delays of frames instead of readings, and which nodes are down."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, list[float]] = defaultdict(list)
        self.down: set[str] = set()

    def reading(self, reading: Reading) -> None:
        head = wire.head(reading.data)
        if head.type == wire.FRAME:
            self.of[reading.node].append(time.time() - head.time)
            self.down.discard(reading.node)

    def status(self, status: Status) -> None:
        if status.state is State.DOWN:
            self.down.add(status.node)


def run(*, quick: bool) -> list[Figure]:
    nodes, seconds = (200, 15.0) if quick else (NODES, SECONDS)
    port = _free_port()
    server = subprocess.Popen(
        (sys.executable, "-m", "benchmarks.streams", "--serve", str(port), "--nodes", str(nodes),
         "--parts", str(HANGING), "0", "0"),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        server.stdout.readline()  # all listen
        return asyncio.run(_measure(server, port, nodes, seconds))
    finally:
        server.kill()
        server.wait()


async def _measure(
    server: "subprocess.Popen[bytes]", port: int, nodes: int, seconds: float
) -> list[Figure]:
    source = parse(",".join(f"http://{host}:{port}" for host in _hosts(nodes).split(",")))
    (collector,) = agents.collectors(source, Settings())
    sink = Delays()
    async with running(collector, sink):
        await asyncio.sleep(SETTLE)
        before = await _phase(sink, seconds)
        server.send_signal(signal.SIGUSR1)
        await asyncio.sleep(SETTLE)  # at least as long as a stream may be silent
        after = await _phase(sink, seconds)
        down = len(sink.down)
    healthy = before.keys() & after.keys()
    first, count = _percentile(before, healthy)
    last, _ = _percentile(after, healthy)
    return [
        Figure(f"{nodes:,} agents: p99 of the delay of frames", 1000 * first, "ms", None,
               f"{count:,} frames of {len(healthy)} agents"),
        Figure(f"  the same agents while {down} hang", 1000 * last, "ms", None),
        Figure("  change", 100 * abs(last / first - 1), "%", CHANGE),
    ]  # fmt: skip


async def _phase(sink: Delays, seconds: float) -> dict[str, list[float]]:
    sink.of.clear()
    await asyncio.sleep(seconds)
    return dict(sink.of)


def _percentile(delays: dict[str, list[float]], names: set[str]) -> tuple[float, int]:
    pooled = sorted(delay for name in names for delay in delays[name])
    return pooled[int(0.99 * len(pooled))], len(pooled)
