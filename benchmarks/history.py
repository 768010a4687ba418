"""Handing over 15 minutes of the past: bytes, and seconds until a dashboard that connects has it.

Nodes are simulated trn2.48xlarge in one job, 16 of them; of larger fleets, several share their
values. The server is the exporter's, on loopback; the client plays what it receives through its own
analyzer, as a dashboard does before its first view. Server and client share one process, so a real
client is quicker than this.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.figure import Figure
from benchmarks.payloads import readings
from tests.serving import served
from trntop.collectors.fleet import backfill as client
from trntop.collectors.fleet import connection
from trntop.core.model import Cluster, View
from trntop.core.settings import Settings
from trntop.exporters.metrics.pages import Exposition
from trntop.exporters.web.history import HistoryBuffer
from trntop.exporters.web.server import build_app
from trntop.remote import backfill
from trntop.session.monitor import Monitor, play, play_backfill

SIMULATED = 16
SIZES = (16, 256, 1000)
BUDGET = 3.0
"""Seconds for 16 nodes."""


def run(*, quick: bool) -> list[Figure]:
    seconds = 120.0 if quick else backfill.SECONDS
    pasts = {nodes: HistoryBuffer(1.0) for nodes in SIZES}
    view = None
    for view in play(readings(SIMULATED, seconds / 60.0), Monitor(Settings())):
        for nodes, kept in pasts.items():
            if nodes == SIMULATED:
                kept.append(view)
            elif int(view.time) % backfill.STEP == 0:
                kept.append(_larger(view, nodes))
    assert view is not None
    figures = []
    for nodes, kept in pasts.items():
        size, received, played, frames = asyncio.run(_hand_over(kept, nodes, view.time))
        figures.append(
            Figure(
                f"history of {nodes:,} nodes, {seconds / 60:.0f} min: until it is played",
                received + played,
                "s",
                BUDGET if nodes == SIMULATED else None,
                f"{size / 2**20:.1f} MiB kept; {received:.2f} s to receive, {frames:,} frames",
            )
        )
    return figures


def _larger(view: View, nodes: int) -> View:
    """The same view of more nodes."""
    known = list(view.cluster.nodes.values())
    made = {}
    for index in range(nodes):
        node = known[index % len(known)]
        name = f"n{index:04}"
        inventory = replace(node.inventory, node=name)
        made[name] = replace(node, inventory=inventory, frame=replace(node.frame, node=name))
    return replace(view, cluster=Cluster(view.time, made))


async def _hand_over(kept: HistoryBuffer, nodes: int, now: float) -> tuple[int, float, float, int]:
    """Bytes kept, seconds to receive and to play them, and the frames that were played."""
    size = sum(len(block) for block in kept.blocks(None, backfill.SECONDS))
    begin = time.perf_counter()
    app = build_app(lambda: None, Exposition(20_000), history=kept)
    async with served(app) as port, connection.session(Settings().fleet) as session:
        address = f"http://127.0.0.1:{port}"
        found = await client.fetch(session, address, nodes, lambda: now)
    assert found is not None
    blocks, ahead = found
    received = time.perf_counter() - begin
    frames = 0

    def counted(name: str) -> Iterator[object]:
        nonlocal frames
        for reading in client.readings(name, blocks[name], ahead, now):
            frames += 1
            yield reading

    begin = time.perf_counter()
    for _ in play_backfill(map(counted, blocks), Monitor(Settings()), now):  # type: ignore[arg-type]
        pass
    return size, received, time.perf_counter() - begin, frames
