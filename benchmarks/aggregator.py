"""An aggregator of thousands of agents, and one above aggregators: cost, and the culprit named.

A generator serves the streams of one job's nodes, simulated trn2.48xlarge of which one becomes
slow: 4,000 agents, each at a loopback address, with the columns of rules each second; or 8
aggregators of 3,908 nodes each. The messages are made beforehand by the programs' own code; nodes
share those of a few simulated ones. Those of the aggregators are what two of them judge and send,
of which one has the slow node; the others are copies of the second. The aggregator that reads them
is the real program.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure
from benchmarks.streams import _free_port, _hosts
from benchmarks.terminal import TRNTOP, cpu_seconds, rss_mib
from tests.levels import Lower
from trntop.analysis.rule_inputs import rule_columns, rule_inputs
from trntop.collectors import simulator
from trntop.collectors.fleet.agent import LEAST_SHOWN, MAX_SHOWN
from trntop.core import descriptors
from trntop.core.model import Reading, View
from trntop.core.settings import Settings
from trntop.remote import wire
from trntop.session.monitor import Monitor, play

SIMULATED = 6
"""Nodes that are simulated: one of them is the culprit, the others are in all other places."""
ONSET = 170.0
SECONDS = 270.0
PREPARED = 45.0, 150.0
"""Seconds to make the messages: of agents, and of aggregators."""
CONNECTED = 30
"""Seconds within which the aggregator connects to aggregators."""
NAMED = "trn-"
"""The names of simulated nodes begin with it."""
PHASES = 20
"""Groups of agents that tick together."""
CPU, AGE = 100.0, 2.0
_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: " + wire.CONTENT_TYPE.encode()
    + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fleet:
    """The streams that the generator serves."""

    streams: int
    each: int
    """Nodes of a stream: one of an agent, more of an aggregator."""

    @property
    def nodes(self) -> int:
        return self.streams * self.each


AGENTS = Fleet(4000, 1)
AGGREGATORS = Fleet(8, 3908)


def run(*, quick: bool) -> list[Figure]:
    if quick:
        return measure(Fleet(500, 1), 20.0)
    return [*measure(AGENTS, 40.0), *measure(AGGREGATORS, 60.0)]


def measure(fleet: Fleet, seconds: float) -> list[Figure]:
    """The cost in `seconds` before the fault, and what is found after it."""
    port, own = _free_port(), _free_port()
    start = time.time() + PREPARED[fleet.each > 1]
    serve = (
        sys.executable,
        "-m",
        "benchmarks.aggregator",
        "--serve",
        f"{fleet.streams}",
        f"{fleet.each}",
    )
    generator = subprocess.Popen((*serve, f"{port}", f"{start}"), stdout=subprocess.PIPE)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stack.callback(_end, generator)
        assert generator.stdout is not None
        generator.stdout.readline()  # it listens
        time.sleep(max(0.0, start - time.time()))
        options = ["--set", "fleet.columns=rules"]
        sources = [f"http://{host}:{port}" for host in _hosts(fleet.streams).split(",")]
        aggregator = subprocess.Popen(
            (*TRNTOP, "export", *sources, *options, "--listen", f"127.0.0.1:{own}",
             "--state", folder),
            stderr=(Path(folder) / "log").open("wb"),
        )  # fmt: skip
        stack.callback(_end, aggregator)
        time.sleep(start + ONSET - seconds - time.time())
        busy, began = cpu_seconds(aggregator.pid), time.monotonic()
        time.sleep(max(0.0, start + ONSET - time.time()))
        share = 100 * (cpu_seconds(aggregator.pid) - busy) / (time.monotonic() - began)
        memory = rss_mib(aggregator.pid)
        inventory, nodes = _get(own, "/v1/inventory"), _get(own, "/v1/incidents")["nodes"]
        ages = [
            source["age_seconds"]
            for node in inventory["nodes"]
            for source in node["sources"]
            if source["source"] == "agent" and source["age_seconds"] is not None
        ]
        found: list[dict[str, Any]] = []
        while not found and time.time() < start + SECONDS - 10.0:
            time.sleep(2.0)
            day = _get(own, "/v1/incidents")
            found = [incident for incident in day["incidents"] if incident["kind"] == "straggler"]
        named = ", ".join(f"{incident['node']}" for incident in found) or "none"
        delay = found[0]["detected_at"] - start - ONSET if found else float("nan")
        shown = f"{nodes:,} nodes, {len(ages):,} of them with values"
        beside = f"{shown}; generator {cpu_seconds(generator.pid):.0f} s of CPU time"
        return [
            Figure(f"{fleet.nodes:,} nodes in {fleet.streams:,} streams: CPU", share, "%", CPU,
                   beside),
            Figure("  resident memory", memory, "MiB", None),
            Figure("  oldest frame", max(ages, default=float("nan")), "s", AGE,
                   f"behind {day['behind_seconds'] or 0:g} s"),
            Figure("  culprit named after", delay, "s", None,
                   f"{named}; expected {_culprit(fleet)}; incidents {len(day['incidents'])}"),
        ]  # fmt: skip


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def _get(port: int, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as response:
        document: dict[str, Any] = json.load(response)
    return document


# The generator.

CULPRIT = 7
"""Index of the node that becomes slow."""


def _culprit(fleet: Fleet) -> str:
    return _address(CULPRIT) if fleet.each == 1 else _simulated_culprit(2 * SIMULATED)


def _address(index: int) -> str:
    return f"127.1.{index // 250}.{index % 250 + 1}"


def _name(index: int) -> str:
    return f"n{index:06}"


@dataclass(slots=True)
class Template:
    """The messages of one simulated node."""

    prefaces: list[bytes]
    """At each frame: the schema and keyframe that it needs."""
    changes: list[bytes]
    """The new ones among them."""
    frames: list[bytes]


def _simulation(nodes: int) -> simulator.Simulation:
    minutes = SECONDS / 60 + 0.5
    return simulator.parse(
        f"sim:slow-node?nodes={nodes}&onset={ONSET}&duration=600&minutes={minutes:g}"
    )


def _simulated_culprit(nodes: int) -> str:
    (fault,) = simulator.truth(_simulation(nodes), 0.0)
    assert fault.node is not None
    return fault.node


def _templates(start: float) -> list[Template]:
    """Of the culprit, then of the others."""
    simulation, columns = _simulation(SIMULATED), rule_columns()
    culprit = _simulated_culprit(SIMULATED)
    made: dict[str, tuple[wire.FrameEncoder, Template]] = {}
    # What rules read is computed; a node has about as many columns of its own again.
    views = play(simulator.simulate(simulation, start), Monitor(Settings(), wanted=rule_inputs()))
    for view in views:
        for name, node in view.cluster.nodes.items():
            encoder, template = made.setdefault(
                name, (wire.FrameEncoder(name, 1.0), Template([], [], []))
            )
            changed, frame = encoder.messages(wire.only(node, columns))
            template.prefaces.append(b"".join(map(wire.framed, encoder.preface)))
            template.changes.append(b"".join(map(wire.framed, changed)))
            template.frames.append(wire.framed(frame))
    _, first = made.pop(culprit)
    return [
        _renamed(first, culprit),
        *(_renamed(recorded, name) for name, (_, recorded) in made.items()),
    ]


def _renamed(template: Template, name: str) -> Template:
    """With a name that each node's name replaces: all have seven characters."""
    old, new = name.encode(), _name(0).encode()
    assert len(old) == len(new)
    return Template(*([part.replace(old, new) for part in parts] for parts in (
        template.prefaces, template.changes, template.frames
    )))  # fmt: skip


class Agents:
    """The streams of agents."""

    def __init__(self, start: float) -> None:
        self._templates = _templates(start)

    def chunk(self, stream: int, number: int, *, first: bool) -> bytes:
        """The messages of a stream at a second.

        Args:
            stream: its number.
            number: the second, from the start.
            first: whether the stream begins.
        """
        others = self._templates[1:]
        template = self._templates[0] if stream == CULPRIT else others[stream % len(others)]
        number = min(number, len(template.frames) - 1)
        before = template.prefaces if first else template.changes
        return before[number] + template.frames[number]


class Aggregators:
    """The streams of aggregators: one that has the slow node, and copies of one that does not.

    Args:
        fleet: how many there are, and their nodes.
        start: when the streams begin.
    """

    period = 1.0
    sparse = None

    def __init__(self, fleet: Fleet, start: float) -> None:
        self._each = fleet.each
        most = max(LEAST_SHOWN, MAX_SHOWN // fleet.streams)
        self._lower = [Lower(f"{NAMED}run", most) for _ in range(2)]
        self._culprit = _simulated_culprit(2 * SIMULATED)
        self._firsts: list[list[bytes]] = [[], []]
        self._chunks: list[list[bytes]] = [[], []]
        for _ in play(simulator.simulate(_simulation(2 * SIMULATED), start), self):
            pass

    def feed(self, reading: Reading) -> None:
        index = 2 * int(reading.node.removeprefix(NAMED)) // (2 * SIMULATED)
        mine = int(self._culprit.removeprefix(NAMED)) * 2 // (2 * SIMULATED)
        self._lower[index != mine].monitor.feed(reading)

    def restart(self) -> None:
        pass

    def end(self, now: float) -> None:
        pass

    def tick(self, now: float) -> None:
        for index, lower in enumerate(self._lower):
            view = _larger(lower.monitor.tick(now), self._each)
            self._chunks[index].append(lower.chunk(view))
            if len(self._firsts[index]) < CONNECTED:
                self._firsts[index].append(lower.first_chunk(view))

    def chunk(self, stream: int, number: int, *, first: bool) -> bytes:
        """As of `Agents`."""
        index = int(stream > 0)
        data = self._firsts[index][number] if first else self._chunks[index][number]
        # Each has its own nodes and judges by itself.
        return data.replace(NAMED.encode(), b"r%02d-" % stream) if index else data


def _larger(view: View, nodes: int) -> View:
    """The same view of more nodes."""
    known = view.cluster.nodes
    some = list(known.values())
    made = dict(known)
    for index in range(nodes - len(known)):
        node, name = some[index % len(some)], f"{NAMED}c{index:04}"
        inventory = replace(node.inventory, node=name)
        made[name] = replace(node, inventory=inventory, frame=replace(node.frame, node=name))
    return replace(view, cluster=replace(view.cluster, nodes=dict(sorted(made.items()))))


class Generator:
    def __init__(self, fleet: Fleet, start: float) -> None:
        self._start = start
        self._streams = Agents(start) if fleet.each == 1 else Aggregators(fleet, start)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request; the address that it is for is the number of the stream."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            request = await reader.readuntil(b"\r\n\r\n")
            if not request.startswith(b"GET /v1/stream"):
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                writer.close()
                return
            _, _, high, low = writer.get_extra_info("sockname")[0].split(".")
            stream = int(high) * 250 + int(low) - 1
            writer.write(_HEAD)
            sent = False
            phase = stream % PHASES / PHASES
            for number in itertools.count(max(0, int(time.time() - self._start - phase))):
                due = self._start + number + 1.0 + phase
                await asyncio.sleep(max(0.0, due - time.time()))
                data = self._streams.chunk(stream, number, first=not sent)
                writer.write(b"%x\r\n%b\r\n" % (len(data), data))
                sent = True
                await writer.drain()


async def serve(fleet: Fleet, port: int, start: float) -> None:
    generator = Generator(fleet, start)
    # All addresses of the loopback device at once.
    server = await asyncio.start_server(generator.connected, "0.0.0.0", port, backlog=4096)
    print("listening", flush=True)
    await server.serve_forever()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", nargs=4, metavar=["STREAMS", "EACH", "PORT", "START"][0])
    parser.add_argument("--streams", type=int, default=AGENTS.streams)
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=40.0)
    args = parser.parse_args(arguments)
    if args.serve:
        streams, each, port = map(int, args.serve[:3])
        descriptors.reserve(2 * streams)
        asyncio.run(serve(Fleet(streams, each), port, float(args.serve[3])))
        return 0
    for figure in measure(Fleet(args.streams, args.each), args.seconds):
        print(figure.line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
