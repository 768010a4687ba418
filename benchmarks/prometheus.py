"""A Prometheus backend with a whole cluster, and what the cluster screen costs it and us.

A generator serves what simulated agents serve, under as many names: 1,000 nodes with all their
pages, and 31,250 nodes with their roll-ups, of which one target serves 125, as an aggregator does.
A real Prometheus scrapes it, with the rules of `trntop rules prometheus`; VictoriaMetrics scrapes
the same, and vmalert evaluates the recording rules. Then the screen's queries run as a
dashboard runs them, the responses are decoded and fed to a monitor, which ticks.

`python -m benchmarks.prometheus --list` prints the single queries too.
"""

import argparse
import asyncio
import itertools
import json
import math
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import msgspec

from benchmarks.figure import Figure
from benchmarks.terminal import rss_mib
from trntop.analysis.rulebook import RULEBOOK
from trntop.catalog import Page
from trntop.collectors import simulator
from trntop.collectors.prometheus.address import parse
from trntop.collectors.prometheus.client import SECONDS, BackendError, Client, Result
from trntop.collectors.prometheus.publisher import Publisher
from trntop.collectors.prometheus.queries import Queries, probe
from trntop.collectors.prometheus.refresh import Refresher
from trntop.core.model import Cluster, Reading, Status, View
from trntop.core.settings import Fleet, Settings
from trntop.exporters.metrics.exposition import Format
from trntop.exporters.metrics.pages import Exposition
from trntop.exporters.rules import recording_groups, rule_file
from trntop.session import interpreter
from trntop.session.monitor import Monitor, play

FULL, ROLLUPS = 1000, 31_250
"""Nodes with all their series, and with the roll-ups that a global server keeps."""
REFRESH, DRILL = 2.0, 0.3
"""Budgets, seconds."""
QUESTIONS = 10
"""In one refresh, at most."""
MODELS = 8
"""Simulated nodes; all others are theirs by another name."""
STEPS, STEP = 6, 15.0
"""Pages of each that are served in turn, and the seconds between them."""
INTERVAL = 15
DETAIL_INTERVAL = 30
RULES_INTERVAL = {"full": 15, "rollups": 120}
"""Seconds: some eighty rules over 31,250 nodes take long on two busy cores."""
BLOCK = 125
"""Nodes that one target serves."""
REFRESHES, DRILLS = 20, 20
PAUSE = 5.0
"""Seconds between refreshes, as a dashboard has them: some coincide with an evaluation of rules."""
DEAREST = 8
"""Rules that are listed."""
START_SECONDS = 600.0
_NODE = re.compile(rb'node="(trn-\d+)"')
_ROLLUP = re.compile(rb"^trn_(node_|job_|instance_info|incident)")
"""What is kept of a node's `/metrics` in the large cluster."""


def name_of(number: int) -> str:
    return f"n-{number:05d}"


def run(*, quick: bool) -> list[Figure]:
    sizes = ((200, "full"), (2500, "rollups")) if quick else ((FULL, "full"), (ROLLUPS, "rollups"))
    figures = []
    for nodes, kind in sizes:
        if shutil.which("prometheus"):
            figures += measure("Prometheus", nodes, kind)
    if shutil.which("victoria-metrics"):
        figures += measure("VictoriaMetrics", *sizes[1])
    return figures


def measure(
    backend: str, nodes: int, kind: str, *, rules: bool = True, listed: bool = False
) -> list[Figure]:
    """The figures of one backend with one cluster in it."""
    with tempfile.TemporaryDirectory() as folder:
        make = _prometheus if backend == "Prometheus" else _victoria
        with make(Path(folder), nodes, kind, rules=rules) as (url, pid):
            return asyncio.run(_measure(backend, url, pid, nodes, kind, rules=rules, listed=listed))


class _QuerySink:
    """Feeds a monitor, as a session does."""

    def __init__(self) -> None:
        self.monitor = Monitor(Settings())

    def now(self) -> float:
        return time.time()

    def reading(self, reading: Reading) -> None:
        self.monitor.feed(reading)

    def status(self, status: Status) -> None:
        self.monitor.status(status)

    def register(self, node: str, owner: str, *sources: str) -> str:
        return owner

    def remove(self, node: str, owner: str = "") -> None:
        self.monitor.remove(node)

    wants_backfill = False

    def backfill(self, readings: Iterable[Reading]) -> None:
        raise AssertionError

    def warn(self, text: str) -> None:
        print(text, file=sys.stderr)


class _Rule(msgspec.Struct):
    name: str
    seconds: float = msgspec.field(name="evaluationTime", default=0.0)


class _Group(msgspec.Struct):
    rules: list[_Rule]
    seconds: float = msgspec.field(name="evaluationTime", default=0.0)


class _Rules(msgspec.Struct):
    data: dict[str, list[_Group]]


class _Timed(Client):
    """Notes the queries of a refresh, and how long each takes."""

    def __init__(self, url: str) -> None:
        super().__init__(parse(f"prometheus+{url}"), Fleet())
        self.url = url
        self.spent: dict[str, tuple[float, int]] = {}
        self.asked: dict[str, str] = {}

    async def rules(self) -> Sequence["_Group"]:
        """What the server evaluates; nothing where it has no rules."""
        async with httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=60.0) as http:
            answer = await http.get("/api/v1/rules")
        if answer.status_code != 200:
            return ()
        return msgspec.json.decode(answer.content, type=_Rules).data["groups"]

    async def instant(self, query: str, at: float, seconds: float = SECONDS) -> Result:
        began = time.perf_counter()
        found = await super().instant(query, at, seconds)
        self.spent[query] = time.perf_counter() - began, len(found.series)
        return found

    async def refresh(
        self, queries: Mapping[str, str], at: float, required: tuple[str, ...] = ()
    ) -> dict[str, Result]:
        self.asked |= queries
        return await super().refresh(queries, at, required)


async def _measure(
    backend: str, url: str, pid: int, nodes: int, kind: str, *, rules: bool, listed: bool
) -> list[Figure]:
    interpreter.prepare()  # as every session does
    client, sink = _Timed(url), _QuerySink()
    try:
        found = await _ready(client, nodes, kind, rules=rules)
        publisher = Publisher("backend", client, sink)
        publisher.interval, publisher.pause = found.interval, max(found.interval, 5.0)
        refresher = Refresher(client, publisher, found)
        first, _ = await _timed(refresher.refresh, sink, client.now(), None)
        sampled, cpu, failed = [], [], ""
        for _ in range(REFRESHES):
            await asyncio.sleep(PAUSE)
            began = time.perf_counter()
            try:
                client.asked.clear()
                _, processor = await _timed(refresher.refresh, sink, client.now(), None)
                cpu.append(processor)
            except BackendError as error:
                failed = f"; not each was answered: {error}"
            sampled.append(time.perf_counter() - began)
        asked = dict(client.asked)
        spent = [
            (key, query, *client.spent.get(query, (math.nan, 0))) for key, query in asked.items()
        ]
        view = sink.monitor.tick(time.time())
        # The first query of a node asks for its history too.
        drills: tuple[list[float], list[float]] = [], []
        for node in list(publisher.nodes.values())[:DRILLS]:
            for walls in drills:
                wall, _ = await _timed(refresher.refresh_node, sink, node, client.now())
                walls.append(wall)
        groups = await client.rules()
    finally:
        await client.close()
    whole = view.cluster.whole
    shown = f"{len(view.cluster.nodes):,} of {whole.nodes if whole else 0:,} nodes shown"
    judging = sum(group.seconds for group in groups)
    recorded = ", recorded" if found.recorded else ""
    if listed:
        _list(spent, groups)
    what = f"{backend}, {nodes:,} nodes, {kind}{recorded}"
    return [
        Figure(
            f"{what}: refresh", statistics.median(sampled), "s", REFRESH,
            f"at most {max(sampled):.2f} s, the first {first:.2f} s{failed}; {shown}; own "
            f"processor {1e3 * statistics.median(cpu):.0f} ms; the engine holds "
            f"{rss_mib(pid):,.0f} MiB, its rules took {judging:.1f} s",
        ),
        Figure("  questions in it", len(asked), "", QUESTIONS, ", ".join(asked)),
        Figure(
            "  all of one node", statistics.median(drills[1]), "s", DRILL,
            f"at most {max(drills[1]):.2f} s; the first time, with its past, "
            f"{statistics.median(drills[0]):.2f} s and at most {max(drills[0]):.2f} s",
        ),
    ]  # fmt: skip


async def _timed(
    call: Callable[..., Awaitable[None]], sink: _QuerySink, *arguments: object
) -> tuple[float, float]:
    """Seconds until it can be painted, and of this process's time."""
    began, busy = time.perf_counter(), time.process_time()
    await call(*arguments)
    sink.monitor.tick(time.time())
    return time.perf_counter() - began, time.process_time() - busy


async def _ready(client: "_Timed", nodes: int, kind: str, *, rules: bool) -> Queries:
    """The queries of the backend, once it has all series."""
    deadline = time.monotonic() + START_SECONDS
    wanted = {"count(trn_instance_info)": nodes}
    if kind == "full":
        wanted["count(group by (node) (trn_neuroncore_utilization_ratio))"] = nodes
    if rules:
        wanted["sum(cluster:trn_instance_info:count)"] = nodes
        wanted['count({__name__=~"training_job:trn_job_info:count|node:.+:topk"})'] = 1
    for query, count in wanted.items():
        while True:
            rows = (await client.instant(query, client.now(), 60.0)).series
            if rows and rows[0].value and float(rows[0].value[1]) >= count:
                break
            assert time.monotonic() < deadline, f"{query} gives {rows}"
            await asyncio.sleep(2.0)
    await asyncio.sleep(2 * INTERVAL)  # rates need a second refresh
    return await probe(client, "", client.now())


def _list(spent: Sequence[tuple[str, str, float, int]], groups: Sequence[_Group]) -> None:
    for key, query, seconds, rows in spent:
        text = query if len(query) < 90 else f"{query[:60]} … {query[-25:]}"
        print(f"    {key:<26} {1e3 * seconds:>6.0f} ms {rows:>7,} series  {text}")
    rules = sorted((rule.seconds, rule.name) for group in groups for rule in group.rules)
    for seconds, name in reversed(rules[-DEAREST:]):
        print(f"    rule {1e3 * seconds:>6.0f} ms {name}")


# --- the backends ------------------------------------------------------------------------------


@contextmanager
def _prometheus(folder: Path, nodes: int, kind: str, *, rules: bool) -> Iterator[tuple[str, int]]:
    port = _free_port()
    with _generator(kind) as address:
        jobs = [("trntop", Page.METRICS)]
        if kind == "full":
            jobs += [("trntop-detail", Page.DETAIL), ("trntop-cores", Page.CORES)]
        file = folder / "rules.yml"
        command = [sys.executable, "-m", "trntop", "rules", "prometheus"]
        file.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
        config = {
            "global": {
                "scrape_interval": f"{INTERVAL}s",
                "evaluation_interval": f"{RULES_INTERVAL[kind]}s",
            },
            "rule_files": [str(file)] * rules,
            "scrape_configs": [
                {
                    "job_name": job,
                    "honor_labels": kind == "rollups",
                    "scrape_interval":
                        f"{INTERVAL if page is Page.METRICS else DETAIL_INTERVAL}s",
                    "static_configs": list(_targets(address, nodes, kind, page)),
                }
                for job, page in jobs
            ],
        }  # fmt: skip
        settings = folder / "prometheus.yml"
        settings.write_text(json.dumps(config))
        arguments = (
            "prometheus", f"--config.file={settings}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        )  # fmt: skip
        with _process(arguments, folder, f"http://127.0.0.1:{port}", "/-/ready") as found:
            yield found


def _targets(address: str, nodes: int, kind: str, page: Page) -> Iterator[Mapping[str, object]]:
    if kind == "full":
        for number in range(nodes):
            path = f"/{name_of(number)}{page.path}"
            labels = {"__metrics_path__": path, "instance": f"{name_of(number)}:10042"}
            yield {"targets": [address], "labels": labels}
    else:
        for first in range(0, nodes, BLOCK):
            path = f"/block/{first}/{min(BLOCK, nodes - first)}"
            labels = {"__metrics_path__": path, "instance": f"relay-{first}"}
            yield {"targets": [address], "labels": labels}


@contextmanager
def _victoria(folder: Path, nodes: int, kind: str, *, rules: bool) -> Iterator[tuple[str, int]]:
    assert kind == "rollups"
    address = f"127.0.0.1:{_free_port()}"
    arguments = (
        "victoria-metrics", f"-storageDataPath={folder / 'data'}", f"-httpListenAddr={address}",
    )  # fmt: skip
    with ExitStack() as stack:
        found = stack.enter_context(_process(arguments, folder, f"http://{address}", "/health"))
        stack.enter_context(_ours("--feed", address, "--nodes", str(nodes)))
        if rules:
            file = folder / "rules.yml"
            file.write_text(rule_file(recording_groups()))
            port = _free_port()
            judge = (
                "vmalert", f"-rule={file}", f"-datasource.url=http://{address}",
                f"-remoteWrite.url=http://{address}", f"-httpListenAddr=127.0.0.1:{port}",
                f"-evaluationInterval={RULES_INTERVAL[kind]}s",
            )  # fmt: skip
            stack.enter_context(_process(judge, folder, f"http://127.0.0.1:{port}", "/health"))
        yield found


def _feed(address: str, nodes: int) -> None:
    """Gives it the cluster every interval, a block at a time, as scrapes would come."""
    models = _models("rollups")
    print("ready", flush=True)
    began = time.monotonic()
    pause = INTERVAL / (nodes / BLOCK)
    with httpx.Client(base_url=f"http://{address}", trust_env=False, timeout=60.0) as client:
        for turn in itertools.count():
            for first in range(0, nodes, BLOCK):
                body = _block(models, first, min(BLOCK, nodes - first), time.monotonic() - began)
                client.post(
                    "/api/v1/import/prometheus", params={"extra_label": "job=trntop"}, content=body
                )
                due = began + turn * INTERVAL + (first / BLOCK + 1) * pause
                time.sleep(max(0.0, due - time.monotonic()))


@contextmanager
def _process(
    arguments: Sequence[str], folder: Path, url: str, ready: str
) -> Iterator[tuple[str, int]]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            arguments, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=folder
        )
    try:
        deadline = time.monotonic() + 60
        with httpx.Client(base_url=url, trust_env=False) as client:
            while True:
                try:
                    if client.get(ready).status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                assert process.poll() is None, (folder / "log").read_text()[-2000:]
                assert time.monotonic() < deadline, "the backend does not get ready"
                time.sleep(0.1)
        yield url, process.pid
    finally:
        process.kill()
        process.wait(30)


def _free_port() -> int:
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


# --- the generator -----------------------------------------------------------------------------

Models = Sequence[Mapping[Page, Sequence[bytes]]]
"""Simulated node → page → its contents from step to step."""


def _models(kind: str) -> Models:
    """What the simulated agents serve; the node's name appears in it as `node="trn-…"`."""
    text = f"sim:efa-degraded?nodes={MODELS}&minutes={(60 + STEPS * STEP) / 60:g}&onset=40"
    views = list(
        play(
            simulator.simulate(simulator.parse(f"{text}&duration=600"), time.time() - 60.0),
            Monitor(Settings()),
        )
    )
    steps = views[60 :: int(STEP)][:STEPS]
    found = []
    for name in steps[0].cluster.nodes:
        exposition = Exposition(rules=RULEBOOK)
        pages: dict[Page, list[bytes]] = {}
        for view in steps:
            rendered = exposition.render(_of(view, name))
            for page in Page if kind == "full" else (Page.METRICS,):
                body = rendered.body(page, Format.TEXT)
                pages.setdefault(page, []).append(body if kind == "full" else _rolled_up(body))
        found.append(pages)
    return found


def _of(view: View, name: str) -> View:
    own = tuple(found for found in view.incidents if found.node == name)
    return View(
        view.generation, view.time, Cluster(view.time, {name: view.cluster.nodes[name]}), own
    )


def _rolled_up(body: bytes) -> bytes:
    return b"".join(line for line in body.splitlines(keepends=True) if _ROLLUP.match(line))


def _page(models: Models, number: int, page: Page, seconds: float) -> bytes:
    """What one node serves now. Only the first of those by one model keep its incidents."""
    bodies = models[number % len(models)][page]
    body = bodies[min(len(bodies) - 1, int(seconds / STEP))]
    if number >= len(models):
        body = re.sub(rb"(?m)^trn_incident_.*\n", b"", body)
    name = name_of(number).encode()
    return _NODE.sub(b'instance="%s:10042",node="%s"' % (name, name), body)


def _block(models: Models, first: int, count: int, seconds: float) -> bytes:
    """What an aggregator of so many nodes serves."""
    pages = (_page(models, first + index, Page.METRICS, seconds) for index in range(count))
    return b"".join(pages)


def _serve(kind: str, port: int) -> None:
    models = _models(kind)
    began = time.monotonic()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            seconds = time.monotonic() - began
            parts = self.path.split("/")
            if parts[1] == "block":
                body = _block(models, int(parts[2]), int(parts[3]), seconds)
            else:
                number = int(parts[1].partition("-")[2])
                page = next(
                    candidate for candidate in Page if candidate.path == f"/{'/'.join(parts[2:])}"
                )
                body = _page(models, number, page, seconds)
            self.send_response(200)
            self.send_header("Content-Type", Format.TEXT.content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    print("ready", flush=True)
    server.serve_forever()


@contextmanager
def _generator(kind: str) -> Iterator[str]:
    port = _free_port()
    with _ours("--serve", str(port), "--kind", kind):
        yield f"127.0.0.1:{port}"


@contextmanager
def _ours(*arguments: str) -> Iterator[None]:
    """Another process of this module, once it is ready."""
    process = subprocess.Popen(
        (sys.executable, "-m", "benchmarks.prometheus", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a scrape that is given up leaves a traceback
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline(), "the generator has ended"
        yield
    finally:
        process.kill()
        process.wait(10)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prometheus", description=__doc__)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--feed", help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=("full", "rollups"), default="full")
    parser.add_argument("--engine", choices=("Prometheus", "VictoriaMetrics"), default="Prometheus")
    parser.add_argument("--nodes", type=int, default=FULL)
    parser.add_argument("--no-rules", dest="rules", action="store_false", help="record nothing")
    parser.add_argument("--list", action="store_true", help="print the single questions")
    args = parser.parse_args()
    if args.serve:
        _serve(args.kind, args.serve)
        return
    if args.feed:
        _feed(args.feed, args.nodes)
    for figure in measure(args.backend, args.nodes, args.kind, rules=args.rules, listed=args.list):
        print(figure.line(), flush=True)


if __name__ == "__main__":
    main()
