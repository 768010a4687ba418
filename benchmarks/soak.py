"""An hour of the demo at accelerated time, its pages rendered in both formats: the memory that the
last two thirds of it add, what 10,000 names of jobs leave behind, and what a million scrapes do.
Then a day in which everything changes: an agent, a dashboard that streams from it, and a dashboard
of a real Prometheus that has the day's pages, at accelerated time.

The rings of the history fill within the first minutes; what grows later is a leak.
"""

import asyncio
import dataclasses
import gc
import itertools
import shutil
import statistics
import subprocess
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.payloads import START, readings
from benchmarks.prometheus import _free_port, _process, _QuerySink
from trntop.analysis.rulebook import rules
from trntop.catalog import AGENT, Entity, Page
from trntop.collectors import simulator
from trntop.collectors.prometheus.address import parse
from trntop.collectors.prometheus.client import Client
from trntop.collectors.prometheus.publisher import Publisher
from trntop.collectors.prometheus.queries import probe
from trntop.collectors.prometheus.refresh import Refresher
from trntop.core.model import Cluster, NodeView, Reading, View
from trntop.core.settings import Fleet, Settings
from trntop.exporters.metrics.exposition import Format
from trntop.exporters.metrics.pages import Exposition
from trntop.exporters.web.history import HistoryBuffer
from trntop.exporters.web.server import build_app
from trntop.remote import wire
from trntop.session.incident_log import IncidentLog, Journal
from trntop.session.monitor import Monitor, play
from trntop.tui.view_history import ViewHistory

NAMES = 10_000
SCRAPES, EACH_VIEW = 1_000_000, 1000
"""Scrapes of the application, and how many of them are of the same view."""
DAY, RUN, JOB = 24.0, 3600, 300
"""Hours, seconds from one start of the agent to the next, and seconds of a job."""
SCRAPE = 15
"""Seconds."""
LOOKS = 120
"""How often the memory of a run is sampled."""


def run(*, quick: bool) -> list[Figure]:
    minutes = 6 if quick else 60
    hours = [_hour(nodes, each, minutes) for nodes, each in ((1, 1), (16, 5))]
    part = 10 if quick else 1
    scrapes = asyncio.run(_scrapes(SCRAPES // part))
    found = [*hours, *_churn(NAMES // part), scrapes, *_day(1.0 if quick else DAY)]
    return [*found, _backend(3.0 if quick else DAY)] if shutil.which("promtool") else found


def _exposition() -> Exposition:
    settings = Settings()
    return Exposition(rules=rules(settings.analysis, settings.rules))


def _render(exposition: Exposition, view: View) -> None:
    """All pages of a view in both formats."""
    rendered = exposition.render(view)
    for page, written in itertools.product(Page, Format):
        rendered.body(page, written)


def _hour(nodes: int, each: int, minutes: int) -> Figure:
    """MiB that the process grows by per hour of data, rendering at each `each`-th tick.

    The median of the slopes between any two samples: the allocator takes a few MiB now and then and
    gives them back, which a straight line through all samples would take for growth.
    """
    exposition = _exposition()
    simulation = simulator.parse(f"sim:demo?nodes={nodes}&minutes={minutes}")
    views = play(simulator.simulate(simulation, START), Monitor(Settings()))
    samples: list[tuple[float, float]] = []
    pages = 0
    for tick, view in enumerate(views):
        if tick % each == 0:
            _render(exposition, view)
            pages += len(Page) * len(Format)
        if tick % (60 * minutes // LOOKS) == 0 and tick >= 20 * minutes:
            gc.collect()
            samples.append((view.time / 3600, _resident_mib()))
    slopes = [(size - was) / (time - then)
              for (then, was), (time, size) in itertools.combinations(samples, 2)]  # fmt: skip
    what = f"{minutes} minutes of the demo, {nodes} node{'s' * (nodes > 1)}: growth"
    beside = f"{samples[0][1]:.1f} → {samples[-1][1]:.1f} MiB resident, {pages:,} pages"
    budget = 1.0 if minutes >= 60 else None
    return Figure(what, statistics.median(slopes), "MiB/h", budget, beside)


def _churn(names: int) -> list[Figure]:
    """What names of jobs and pids that never come again add to the pages and to the memory."""
    *_, view, _ = play(readings(1, 0.5), Monitor(Settings()))
    ((name, node),) = view.cluster.nodes.items()
    exposition = _exposition()
    sizes = set()
    kept = 0
    tracemalloc.start()
    for number in range(names):
        inventory = dataclasses.replace(
            node.inventory,
            version=number,
            keys={
                **node.inventory.keys,
                Entity.JOB: (f"job-{number:06}",),
                Entity.RUNTIME: (number,),
            },
        )
        cluster = Cluster(view.time, {name: NodeView(inventory, node.frame)})
        rendered = exposition.render(dataclasses.replace(view, cluster=cluster))
        sizes.add(rendered.body(Page.METRICS, Format.TEXT).count(b"\n"))
        if number in (names // 10, names - 1):
            gc.collect()
            kept = tracemalloc.get_traced_memory()[0] - kept
    tracemalloc.stop()
    return [
        Figure(f"{names:,} names of jobs and pids: sizes of /metrics", len(sizes), "", 1),
        Figure("  traced memory that the last nine tenths add", kept / 1024, "KiB", 64),
    ]


def _jobs(hours: float) -> Iterator[Reading]:
    """One job after the other, each with names, processes and counters of its own."""
    for number in range(int(hours * 3600 / JOB)):
        scenario = f"comm-bound?nodes=1&type=trn1.2xlarge&onset=100&seed={number}"
        simulation = simulator.parse(f"sim:{scenario}&minutes={JOB / 60:g}")
        for reading in simulator.simulate(simulation, START + number * JOB):
            data = reading.data.replace(b"pretrain-13b", b"job-%06d" % number)
            yield dataclasses.replace(reading, data=data)


def _day(hours: float) -> list[Figure]:
    """Growth of agent and dashboard together, from the second hour on.

    Each hour the agent ends, and another one of another name takes its journal and address.
    """
    exposition = _exposition()
    dashboard, shown = Monitor(Settings()), ViewHistory()
    samples: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "incidents.jsonl"
        for run, group in itertools.groupby(_jobs(hours), lambda one: int(one.time - START) // RUN):
            node = f"trn-{run:03}"
            journal = Journal(path, print)
            log, history = IncidentLog(1.0, journal), HistoryBuffer(1.0)
            encoder = wire.FrameEncoder(node, 1.0)
            for tick, view in enumerate(play(group, Monitor(Settings()))):
                log(view)
                history.append(view)
                (sent,) = view.cluster.nodes.values()
                changed, frame = encoder.messages(sent)
                for message in (*changed, frame):
                    dashboard.feed(Reading(node, AGENT, view.time, message))
                shown.append(dashboard.tick(view.time))
                if tick % 10 == 0:
                    _render(exposition, view)
                if tick % 300 == 0 and run:
                    gc.collect()
                    samples.append((view.time / 3600, _resident_mib()))
            log.close()
            dashboard.remove(node)
        left = len(list(Path(folder).iterdir()))
    if not samples:
        return []
    middle = len(samples) // 2
    growth = statistics.median(size for _, size in samples[middle:]) - statistics.median(
        size for _, size in samples[:middle]
    )
    return [
        Figure(f"{hours:g} h, a job each 5 minutes, an agent each hour: growth", growth, "MiB",
               None, f"{samples[0][1]:.1f} → {samples[-1][1]:.1f} MiB, later half minus earlier"),
        Figure("  files in the state directory", left, "", 1),
    ]  # fmt: skip


def _backend(hours: float) -> Figure:
    """Growth of a dashboard of a Prometheus in which jobs come and go, from the first hour on."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        pages, data, config = root / "pages", root / "data", root / "prometheus.yml"
        config.write_text("{}")
        with pages.open("wb") as file:
            for number, page in enumerate(itertools.islice(_pages(), int(hours * 3600 / SCRAPE))):
                file.write(page.replace(b"\n", b" %d\n" % (START + number * SCRAPE)))
            file.write(b"# EOF\n")
        blocks = ("promtool", "tsdb", "create-blocks-from", "openmetrics", pages, data)
        subprocess.run(blocks, check=True, stdout=subprocess.DEVNULL)
        address = f"127.0.0.1:{_free_port()}"
        server = (
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={data}",
            f"--web.listen-address={address}", "--storage.tsdb.retention.time=50y",
        )  # fmt: skip
        with _process(server, root, f"http://{address}", "/-/ready") as (url, _):
            samples = asyncio.run(_refreshes(url, hours))
    growth = samples[-1] - samples[0]
    beside = f"{samples[0]:.1f} → {samples[-1]:.1f} MiB resident"
    return Figure(f"{hours:g} h of a Prometheus backend: growth", growth, "MiB", None, beside)


def _pages() -> Iterator[bytes]:
    """An hour's samples of two nodes, again and again with other jobs; one scrape in 40 is lost."""
    exposition = _exposition()
    simulation = simulator.parse("sim:demo?nodes=2&type=trn1.2xlarge&minutes=60")
    views = play(simulator.simulate(simulation, START), Monitor(Settings()))
    hour = []
    for view in itertools.islice(views, 60, None, SCRAPE):
        rendered = exposition.render(view)
        lines = b"".join(rendered.body(page, Format.TEXT) for page in Page).splitlines(True)
        hour.append(b"".join(line for line in lines if not line.startswith(b"#")))
    for number in itertools.count():
        page = hour[number % len(hour)].replace(b"pretrain-13b", b"job-%d" % (number // len(hour)))
        yield b"" if number % 40 == 39 else page


async def _refreshes(url: str, hours: float) -> list[float]:
    """MiB in each hour but the first."""
    now = START + 600.0

    class Accelerated(Client):
        def now(self) -> float:
            return now

    class Sink(_QuerySink):
        def now(self) -> float:
            return now

    sink, shown = Sink(), ViewHistory()
    client = Accelerated(parse(f"prometheus+{url}"), Fleet(), lambda: now)
    queries = await probe(client, "", now)
    publisher = Publisher("backend", client, sink)
    publisher.interval = publisher.pause = queries.interval
    refresher = Refresher(client, publisher, queries)
    samples = []
    while now < START + hours * 3600 - 60:
        now += SCRAPE
        await refresher.refresh(now, None)
        await refresher.refresh_node(publisher.nodes["trn-000"], now)
        shown.append(sink.monitor.tick(now))
        if (now - START) % 3600 == 0:
            gc.collect()
            samples.append(_resident_mib())
    await client.close()
    return samples


async def _scrapes(count: int) -> Figure:
    """Traced memory that the last nine tenths of the scrapes add, of each page in both formats."""
    *_, view, _ = play(readings(1, 0.5), Monitor(Settings()))
    shown = [view]
    app = build_app(lambda: shown[0], _exposition())
    accepts = (b"text/plain", b"application/openmetrics-text")
    requests = [
        {"type": "http", "http_version": "1.1", "method": "GET", "path": page.path,
         "query_string": b"", "headers": [(b"accept", accept)]}
        for page, accept in itertools.product(Page, accepts)
    ]  # fmt: skip
    body: dict[str, object] = {"type": "http.request", "body": b"", "more_body": False}

    async def receive() -> dict[str, object]:
        return body

    async def send(message: object) -> None:
        pass

    before = kept = 0
    tracemalloc.start()
    for number in range(count):
        if number % EACH_VIEW == 0:
            shown[0] = dataclasses.replace(view, generation=number)
        await app(dict(requests[number % len(requests)]), receive, send)
        if number in (count // 10 - 1, count - 1):
            gc.collect()
            before, kept = kept, tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return Figure(
        f"{count:,} scrapes: memory that the last nine tenths add",
        max(0, kept - before) / 1024, "KiB", 16, f"{kept / 1024:.0f} KiB traced in all",
    )  # fmt: skip


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / (1 << 20)
