"""Every expression of every dashboard, asked of a real Prometheus that scraped the pages.

All input is made up: the demo, and a node that has what the demo has not.
"""

import dataclasses
import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.builders import NOON, make_incident, make_node, view_of
from tests.exporters.test_dashboards import FOLDER, NAMES, expressions, panels, substituted
from tests.prometheus_server import PrometheusServer, Scrape, needs_prometheus, prometheus
from trntop.analysis.rulebook import RULEBOOK
from trntop.catalog import COLLECTIVES, NEURON_MONITOR, STEPS, Entity, Page
from trntop.collectors.simulator import parse, simulate
from trntop.core.model import Allocation, Severity, State, View
from trntop.core.settings import Settings
from trntop.exporters.metrics.exposition import Format
from trntop.exporters.metrics.pages import Exposition
from trntop.session.monitor import Monitor, play

DEMO = "sim:demo?nodes=3&type=trn1.32xlarge&minutes=2.5"
SCRAPES = 5
INTERVAL = 0.5
WINDOW = "8s"

pytestmark = [needs_prometheus, pytest.mark.xdist_group("servers")]


def demo() -> Sequence[View]:
    """The last seconds of two and a half minutes, in which an EFA device is degraded."""
    views = list(play(simulate(parse(DEMO), time.time() - 150), Monitor(Settings())))
    return views[-4 * SCRAPES :]


def rare() -> Sequence[View]:
    """A node without step telemetry on which counters rise that should not."""
    return [_rare(index) for index in range(4 * SCRAPES)]


def _rare(index: int) -> View:
    rising = [10.0 * index, 0.0]
    node = make_node(
        7,
        states={STEPS: State.DOWN},
        columns={
            "efa_rx_drops_total": rising,
            "efa_unresponsive_remote_events_total": rising,
            "efa_impaired_remote_conn_events_total": rising,
            "device_mem_ecc_uncorrected_events": [1.0, 0.0],
            "job_samples_per_second": [20.0],
            "job_logged_step_seconds": [4.1],
            "link_latency_seconds": [15e-6],
            "node_nfs_read_bytes_total": rising[:1],
            "node_nfs_written_bytes_total": rising[:1],
            **{
                f"job_{kind}_{name}": [value]
                for kind in COLLECTIVES
                for name, value in (("share_ratio", 0.1), ("busbw_bytes_per_second", 9e9))
            },
        },
    )
    inventory = dataclasses.replace(
        node.inventory,
        keys={**node.inventory.keys, Entity.LINK: ("rdmap16s27>trn-002",)},
        allocations=(Allocation(namespace="train", pod="run-7", container="main", cores=(0, 1)),),
    )
    sources = tuple(
        dataclasses.replace(source, counts={**source.counts, "problems": index})
        if source.name == NEURON_MONITOR
        else source
        for source in node.frame.sources
    )
    frame = dataclasses.replace(node.frame, sources=sources)
    rule = make_incident("efa_own_rule", severity=Severity.INFO, job="pretrain-13b", node=node.name)
    return view_of(
        dataclasses.replace(node, inventory=inventory, frame=frame),
        incidents=[
            rule,
            dataclasses.replace(rule, kind="latency_regression", severity=Severity.WARNING),
        ],
        time=NOON + index,
    )


class Pages:
    """A stream of views, the next one at each scrape of its first page."""

    def __init__(self, views: Sequence[View]) -> None:
        exposition = Exposition(rules=RULEBOOK)
        self._bodies = []
        for view in views:
            rendered = exposition.render(view)
            self._bodies.append({page.path: rendered.body(page, Format.TEXT) for page in Page})
        self._scrapes = dict.fromkeys((page.path for page in Page), 0)

    def body(self, path: str) -> bytes:
        """The page as it is at this scrape; the last one stays."""
        at = min(self._scrapes[path], len(self._bodies) - 1)
        self._scrapes[path] += 1
        return self._bodies[at][path]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    streams = {"demo": Pages(demo()), "rare": Pages(rare())}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _, name, rest = self.path.split("/", 2)
            body = streams[name].body(f"/{rest}")
            self.send_response(200)
            self.send_header("Content-Type", Format.TEXT.content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Prometheus keeps its own."""

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.daemon_threads = True
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        scrapes = [
            Scrape(f"{name}-{page}", [f"127.0.0.1:{web.server_port}"], f"/{name}{page.path}")
            for name in streams
            for page in Page
        ]
        folder = tmp_path_factory.mktemp("prometheus")
        with prometheus(folder, scrapes, interval=INTERVAL) as running:
            each = f"min(count_over_time(up[1m])) >= {SCRAPES} and count(up) == {len(scrapes)}"
            running.until(each)
            assert [series.value for series in running.query("up")] == [1.0] * len(scrapes)
            yield running
    finally:
        web.shutdown()
        thread.join()
        web.server_close()


def concrete(expr: str) -> str:
    return substituted(expr.replace("$__rate_interval", WINDOW))


@pytest.mark.parametrize("name", NAMES)
def test_every_expression_gives_data_with_the_labels_of_its_legend(
    server: PrometheusServer, name: str
) -> None:
    board: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    empty = [expr for expr in expressions(board) if not server.query(concrete(expr))]
    unlabelled = []
    for panel in panels(board):
        for target in panel["targets"]:
            wanted = set(re.findall(r"{{(\w+)}}", target.get("legendFormat", "")))
            found = server.query(concrete(target["expr"]))
            if any(not wanted <= series.labels.keys() for series in found):
                unlabelled.append((panel["title"], wanted))
    assert not empty
    assert not unlabelled
    assert server.complaints() == []


@pytest.mark.parametrize("name", NAMES)
def test_the_labels_that_tables_show_are_there(server: PrometheusServer, name: str) -> None:
    board: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    for panel in panels(board):
        if panel["type"] != "table":
            continue
        found: set[str] = set()
        for target in panel["targets"]:
            for series in server.query(concrete(target["expr"])):
                found |= series.labels.keys()
        *_, organize = panel["transformations"]
        shown = {
            label for label in organize["options"]["renameByName"] if not label.startswith("Value")
        }
        assert shown - found <= ABSENT.keys(), panel["title"]


ABSENT = {
    "instance_name": "neuron-monitor reports it only if it may read the instance's tags",
    "region": "as instance_name",
    "ultraserver_id": "of UltraServers alone",
    "serial": "only from drivers that report it",
}
"""Labels of tables that neither stream has → why."""


def test_the_incidents_are_those_of_the_view(server: PrometheusServer) -> None:
    board = json.loads((FOLDER / "cluster.json").read_text("utf-8"))
    (panel,) = [
        panel
        for panel in panels(board)
        if panel["title"] == "Open incidents" and panel["type"] == "table"
    ]
    ranks, since = (server.query(concrete(target["expr"])) for target in panel["targets"])
    assert {(rank.labels["kind"], rank.value) for rank in ranks} == {
        ("efa_degraded", 3.0), ("latency_regression", 2.0), ("efa_own_rule", 1.0),
    }  # fmt: skip
    (opened,) = [rank.value for rank in since if rank.labels["kind"] == "efa_own_rule"]
    assert opened == 1000 * (NOON - 60)


def test_healthy_and_unknown_are_distinguished(server: PrometheusServer) -> None:
    board = json.loads((FOLDER / "cluster.json").read_text("utf-8"))
    (panel,) = [
        panel for panel in panels(board) if panel["title"] == "Rules and their open incidents"
    ]
    (target,) = panel["targets"]
    found = {
        series.labels["kind"]: series.value for series in server.query(concrete(target["expr"]))
    }
    assert found.keys() == {rule.kind for rule in RULEBOOK} | {"efa_own_rule"}
    assert found["efa_degraded"] == 1
    assert found["hang"] == 0
    only_rare = concrete(target["expr"]).replace('job=~".+"', 'job=~"no such"')
    assert {series.value for series in server.query(only_rare)} == {-1.0}
