"""A thousand agents that stream into one dashboard, and what the dashboard costs.

A server process listens on as many loopback addresses, each of which answers as an agent does: with
the agent's own application. It sends one simulated trn2.48xlarge of 64 logical cores, whose
views are made beforehand and sent as if they came now; groups of agents tick at different times,
as a cluster's do. The dashboard is the real one, in a terminal, with collection, history and
analysis. Then some of the agents hang, some vanish, some answer garbage.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.payloads import START
from benchmarks.terminal import Terminal, rss_mib
from trntop.catalog import AGENT
from trntop.cli import opening
from trntop.collectors import simulator
from trntop.core import descriptors
from trntop.core.model import Cluster, NodeView, State, View
from trntop.core.settings import Settings
from trntop.core.source_spec import parse_all
from trntop.exporters.metrics.pages import Exposition
from trntop.exporters.web import stream
from trntop.exporters.web.server import Server, build_app
from trntop.remote import wire
from trntop.session.monitor import Monitor, play
from trntop.tui.app import run as show

NODES, SECONDS = 1000, 300.0
CPU, MEMORY, AGE, KEY = 50.0, 400.0, 2.0, 50.0
"""Budgets: % of a core, MiB, seconds, milliseconds."""
GROUPS = 20
"""Of agents that tick together."""
PARTS = (0.3, 0.1, 0.1)
"""Parts of the nodes that go wrong later: they hang, vanish, or answer garbage."""
VIEWS = 30
"""That are sent in turn."""
SETTLE = 40.0
"""Seconds until the dashboard has data of all, and what is reported once has been reported."""
KEYS = 200
CURSOR = "▸".encode()


def run(*, quick: bool) -> list[Figure]:
    nodes, seconds = (200, 20.0) if quick else (NODES, SECONDS)
    return measure(nodes, seconds)


def measure(nodes: int, seconds: float) -> list[Figure]:
    """Both phases, each of so many seconds."""
    with watched(nodes) as (terminal, server, notes):
        return _phases(terminal, server, notes, nodes, seconds)


@contextlib.contextmanager
def watched(nodes: int) -> Iterator[tuple[Terminal, "subprocess.Popen[bytes]", Path]]:
    """So many agents and a dashboard on them: its terminal, their process, and its notes."""
    port = _free_port()
    server = subprocess.Popen(
        (sys.executable, "-m", "benchmarks.streams", "--serve", str(port), "--nodes", str(nodes)),
        stdout=subprocess.PIPE,
    )
    try:
        assert server.stdout is not None
        server.stdout.readline()  # all listen
        with tempfile.TemporaryDirectory() as folder:
            notes = Path(folder) / "notes.jsonl"
            watch = ("--watch", str(port), "--notes", str(notes), "--nodes", str(nodes))
            terminal = Terminal(sys.executable, "-m", "benchmarks.streams", *watch)
            try:
                yield terminal, server, notes
            finally:
                terminal.close()
    finally:
        server.kill()
        server.wait()


def _phases(
    terminal: Terminal, server: "subprocess.Popen[bytes]", notes: Path, nodes: int, seconds: float
) -> list[Figure]:
    terminal.until(b"SIMULATED", 120.0)
    terminal.drain(SETTLE)
    label = f"{nodes:,} streams, {seconds:g} s"
    good = _phase(terminal, notes, seconds, label)
    server.send_signal(signal.SIGUSR1)
    terminal.drain(SETTLE)
    bad = _phase(terminal, notes, seconds, "the same, half of them faulty")
    for reason, count in sorted(_last(notes)["reasons"].items(), key=lambda item: -item[1]):
        print(f"  {count:4} × {reason}")
    return good + bad


def _phase(terminal: Terminal, notes: Path, seconds: float, label: str) -> list[Figure]:
    count = len(notes.read_bytes().splitlines())
    cpu, started = terminal.cpu_seconds(), time.perf_counter()
    chance = random.Random(1)
    times = []
    for number in range(KEYS):
        terminal.drain(chance.uniform(0.05, 0.15))
        times.append(1000 * terminal.answer("jk"[number % 2].encode(), CURSOR))
    terminal.drain(max(0.0, seconds - (time.perf_counter() - started)))
    share = 100 * (terminal.cpu_seconds() - cpu) / (time.perf_counter() - started)
    reports = [json.loads(line) for line in notes.read_bytes().splitlines()[count:]]
    oldest = max(report["oldest"] for report in reports)
    fresh = Counter(report["fresh"] for report in reports).most_common(1)[0][0]
    times.sort()
    return [
        Figure(f"{label}: CPU", share, "%", CPU, f"{fresh:,} fresh"),
        Figure("  resident memory", rss_mib(terminal.process.pid), "MiB", MEMORY),
        Figure("  oldest frame", oldest, "s", AGE, f"of {len(reports):,} ticks"),
        Figure(
            "  a key that moves the cursor to paint, p95", times[int(0.95 * len(times))], "ms", KEY,
            f"median {times[len(times) // 2]:.1f}, longest {times[-1]:.0f} of {len(times)}",
        ),
    ]  # fmt: skip


def _last(notes: Path) -> dict[str, dict[str, int]]:
    reports: dict[str, dict[str, int]] = json.loads(notes.read_bytes().splitlines()[-1])
    return reports


def _hosts(nodes: int) -> str:
    """A host list of loopback addresses, 250 to a third number."""
    whole, rest = divmod(nodes, 250)
    parts = [f"127.1.[0-{whole - 1}].[1-250]"] if whole else []
    parts += [f"127.1.{whole}.[1-{rest}]"] if rest else []
    return ",".join(parts)


def _address(index: int) -> str:
    return f"127.1.{index // 250}.{index % 250 + 1}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# The dashboard's process.


def watch(port: int, notes: Path, nodes: int) -> int:
    """The dashboard on all of them; notes each tick how old what it knows is."""
    settings = Settings()
    sources = parse_all([f"http://{host}:{port}" for host in _hosts(nodes).split(",")])
    session = opening.session(sources, settings, lasting=True)
    with notes.open("ab", buffering=0) as file:

        def note(view: View) -> None:
            file.write(json.dumps(_noted(view)).encode() + b"\n")

        session.subscribe(note)
        return show(session, settings=settings)


def _noted(view: View) -> dict[str, object]:
    """The age of the oldest frame of nodes that stream, and why the others do not."""
    agents = [
        source
        for node in view.cluster.nodes.values()
        for source in node.frame.sources
        if source.name == AGENT
    ]
    up = [agent for agent in agents if agent.state in (State.FRESH, State.LATE)]
    ages = [view.time - agent.time for agent in up if agent.time is not None]
    reasons = Counter(agent.reason for agent in agents if agent.state is State.DOWN)
    return {
        "oldest": max(ages, default=0.0),
        "fresh": sum(agent.state is State.FRESH for agent in up),
        "reasons": reasons,
        "lag": view.lag,
    }


# The agents' process.


class Agents:
    """Agents that tick together: one application on many addresses."""

    def __init__(self, views: Sequence[View], sockets: list[socket.socket], delay: float) -> None:
        self._views = itertools.cycle(views)
        self._view = self._next()
        self._sockets = sockets
        self._delay = delay
        self._streams = stream.Streams(lambda: self._view, 1.0)
        self._server = Server(build_app(lambda: self._view, Exposition(20_000), self._streams))

    async def run(self) -> None:
        """Serves and ticks until it is cancelled or stopped."""
        ticking = asyncio.create_task(self._tick())
        try:
            await self._server.serve(sockets=self._sockets)
        finally:
            ticking.cancel()

    def stop(self) -> None:
        self._server.stop()

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + self._delay
        while True:
            await asyncio.sleep(max(0.0, due - loop.time()))
            self._view = self._next()
            self._streams.publish(self._view)
            due += 1.0

    def _next(self) -> View:
        """The next view, as if it came now."""
        view, now = next(self._views), time.time()
        nodes = {name: _moved(node, now - view.time) for name, node in view.cluster.nodes.items()}
        return dataclasses.replace(view, time=now, cluster=Cluster(now, nodes))


def _moved(node: NodeView, by: float) -> NodeView:
    frame = node.frame
    sources = tuple(
        source if source.time is None else dataclasses.replace(source, time=source.time + by)
        for source in frame.sources
    )
    return NodeView(
        node.inventory, dataclasses.replace(frame, time=frame.time + by, sources=sources)
    )


class Faulty(asyncio.Protocol):
    """Answers each request with the same bytes, if any, and then sends nothing more."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(self._answer)


def _answer(kind: str, chunk: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head.encode() + b"%x\r\n" % len(chunk) + chunk


def _answers() -> tuple[list[bytes], list[bytes]]:
    """What hanging agents send: nothing, or half a message; and what babbling ones send."""
    half = _answer(wire.CONTENT_TYPE, wire.framed(bytes(50_000))[:9000])
    babble = [
        _answer(wire.CONTENT_TYPE, wire.framed(random.randbytes(9000))),
        _answer("text/html", b"<!DOCTYPE html>"),
        random.randbytes(400) + b"\r\n\r\n",
    ]
    return [b"", half], babble


async def serve(port: int, nodes: int, parts: Sequence[float] = PARTS) -> None:
    """Serves as so many agents; on SIGUSR1 these parts of them go wrong."""
    views = _views()
    stream.MAX_STREAMS = nodes
    hanging, vanishing, talking = (int(nodes * part) for part in parts)
    hang, babble = _answers()
    roles: list[bytes | None] = [hang[n % len(hang)] for n in range(hanging)]
    roles += [None] * vanishing
    roles += [babble[n % len(babble)] for n in range(talking)]
    chance = random.Random(1)
    order = list(range(nodes))
    chance.shuffle(order)
    faulty, healthy = order[: len(roles)], order[len(roles) :]
    groups = []
    for many in (faulty, healthy):
        for number in range(GROUPS):
            sockets = [socket.create_server((_address(n), port)) for n in many[number::GROUPS]]
            groups.append(Agents(views, sockets, chance.random()))
    running = [asyncio.create_task(group.run()) for group in groups]
    turn = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, turn.set)
    print("listening", flush=True)
    await turn.wait()
    for group in groups[:GROUPS]:
        group.stop()
    await asyncio.gather(*running[:GROUPS])
    for index, role in zip(faulty, roles, strict=True):
        if role is not None:
            await loop.create_server(partial(Faulty, role), _address(index), port)
    await asyncio.Event().wait()


def _views() -> list[View]:
    simulation = simulator.parse("sim:healthy?nodes=1")
    views = play(simulator.simulate(simulation, START), Monitor(Settings()))
    return list(islice(views, 120, 120 + VIEWS))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--serve", type=int)
    parser.add_argument("--parts", type=float, nargs=3, default=PARTS)
    parser.add_argument("--watch", type=int)
    parser.add_argument("--notes", type=Path)
    args = parser.parse_args()
    if args.serve:
        descriptors.reserve(2 * args.nodes)
        asyncio.run(serve(args.serve, args.nodes, args.parts))
    if args.watch:
        return watch(args.watch, args.notes, args.nodes)
    for figure in measure(args.nodes, args.seconds):
        print(figure.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
