"""Real servers with the pages of simulated agents in them: Prometheus scrapes, VictoriaMetrics is
given them.
"""

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import httpx
import pytest

from tests.pages_server import serving
from tests.prometheus_server import PrometheusServer, Scrape, _free_port, prometheus
from trntop.analysis.rulebook import RULEBOOK
from trntop.catalog import Page
from trntop.collectors import simulator
from trntop.core.model import Cluster, View
from trntop.core.settings import Settings
from trntop.exporters.metrics.exposition import Format
from trntop.exporters.metrics.pages import Exposition
from trntop.session.monitor import Monitor, play

NODES = 8
KEPT = 40
"""Seconds of pages, the newest of a run in which an EFA device degrades."""
JOBS = {
    Page.METRICS: "trntop",
    Page.DETAIL: "trntop-detail",
    Page.CORES: "trntop-cores",
}
needs_victoria = pytest.mark.skipif(
    shutil.which("victoria-metrics") is None, reason="victoria-metrics is not installed"
)


@cache
def pages(nodes: int = NODES) -> Mapping[str, Sequence[bytes]]:
    """`/NODE/PAGE` → what an agent of that node serves, second by second."""
    text = f"sim:efa-degraded?nodes={nodes}&minutes=1.5&onset=20&duration=600"
    simulation = simulator.parse(text)
    views = list(play(simulator.simulate(simulation, 1.76e9), Monitor(Settings())))[-KEPT:]
    found: dict[str, list[bytes]] = {}
    for name in views[0].cluster.nodes:
        exposition = Exposition(rules=RULEBOOK)
        for view in views:
            body = exposition.render(_of(view, name))
            for page in Page:
                found.setdefault(f"/{name}{page.path}", []).append(body.body(page, Format.TEXT))
    return found


def _of(view: View, name: str) -> View:
    """What the agent of one node sees."""
    cluster = Cluster(view.time, {name: view.cluster.nodes[name]})
    own = tuple(found for found in view.incidents if found.node == name)
    return View(view.generation, view.time, cluster, own)


@contextmanager
def scraped(folder: Path, rules: Sequence[Path] = ()) -> Iterator[PrometheusServer]:
    """A Prometheus that has seen the nodes for a few seconds."""
    with serving(pages()) as server:
        scrapes = [
            Scrape(
                job,
                options={
                    "static_configs": [
                        {
                            "targets": [server.address],
                            "labels": {"__metrics_path__": path, "instance": f"{node}:10042"},
                        }
                        for path, node in _paths(page)
                    ]
                },
            )
            for page, job in JOBS.items()
        ]
        with prometheus(folder, scrapes, rules) as real:
            real.until(
                "count_over_time(trn_efa_tx_bytes_total[1m]) > 2",
                lambda found: len(found) == NODES * 16,
            )
            yield real


def _paths(page: Page) -> list[tuple[str, str]]:
    return [
        (path, path.split("/")[1]) for path in pages() if path.partition("/metrics")[1:] == (
            "/metrics", page.path.removeprefix("/metrics"),
        )
    ]  # fmt: skip


@contextmanager
def imported(folder: Path) -> Iterator[str]:
    """The address of a VictoriaMetrics that is given the pages each second."""
    address = f"127.0.0.1:{_free_port()}"
    log = (folder / "victoria.log").open("wb")
    process = subprocess.Popen(
        ["victoria-metrics", f"-storageDataPath={folder / 'data'}", f"-httpListenAddr={address}"],
        stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    over = threading.Event()
    feeder = threading.Thread(target=_feed, args=(address, over), daemon=True)
    try:
        with httpx.Client(base_url=f"http://{address}", trust_env=False) as client:
            _until_ready(client)
            feeder.start()
            deadline = time.monotonic() + 120
            query = {"query": "count(count_over_time(trn_instance_info[1m]) > 3)", "nocache": "1"}
            while not client.get("/api/v1/query", params=query).json()["data"]["result"]:
                assert time.monotonic() < deadline, "nothing was imported"
                time.sleep(0.2)
        yield f"http://{address}"
    finally:
        over.set()
        if feeder.is_alive():
            feeder.join(5)
        process.kill()
        process.wait(10)
        log.close()


def _until_ready(client: httpx.Client) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, "victoria-metrics is not ready"
        time.sleep(0.05)


def _feed(address: str, over: threading.Event) -> None:
    with httpx.Client(base_url=f"http://{address}", trust_env=False) as client:
        for second in range(KEPT):
            for path, bodies in pages().items():
                node, job = path.split("/")[1], "trntop"
                labels = {"extra_label": [f"instance={node}:10042", f"job={job}"]}
                client.post("/api/v1/import/prometheus", params=labels, content=bodies[second])
            if over.wait(1.0):
                return
