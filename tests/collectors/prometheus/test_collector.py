"""A Prometheus backend watched by a monitor: what is shown of its nodes, and its age."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import pytest

from tests.collectors.prometheus.fake_prometheus import (
    Answer,
    Cluster,
    FakePrometheus,
    Request,
    failure,
    fake_backend,
    matrix,
    vector,
)
from trntop.collectors.prometheus import queries
from trntop.collectors.prometheus.address import parse
from trntop.collectors.prometheus.collector import PrometheusCollector
from trntop.core.model import ClusterTotals, Reading, Severity, State, Status, View
from trntop.core.settings import Fleet, Settings
from trntop.recording.envelope import line
from trntop.recording.envelope import parse as parse_envelope
from trntop.session.monitor import Monitor, play

UTILIZATION = "node_neuroncore_utilization_mean_ratio"


class Watched:
    """A monitor that a collector feeds."""

    def __init__(self, collector: PrometheusCollector) -> None:
        self.monitor = Monitor(Settings())
        self.collector = collector
        self.readings: list[Reading] = []

    def now(self) -> float:
        return time.time()

    def reading(self, reading: Reading) -> None:
        self.readings.append(reading)
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
        raise AssertionError(text)

    @property
    def view(self) -> View:
        return self.monitor.tick(time.time())

    @property
    def whole(self) -> ClusterTotals:
        return self.view.cluster.whole or ClusterTotals()

    async def until(self, condition: Callable[[View], object], seconds: float = 10.0) -> View:
        deadline = time.monotonic() + seconds
        while not condition(view := self.view):
            assert time.monotonic() < deadline, view.cluster.whole
            await asyncio.sleep(0.02)
        return view


@asynccontextmanager
async def watching(server: FakePrometheus, query: str = "", **fleet: str) -> AsyncIterator[Watched]:
    """The monitor of a server that is asked twenty times a second."""
    address = parse(f"prometheus+{server.url}{query}")
    collector = PrometheusCollector(address, Fleet(**fleet), min_refresh=0.05)  # type: ignore[arg-type]
    watched = Watched(collector)
    task = asyncio.create_task(collector.run(watched))
    try:
        yield watched
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def most_at_once(server: FakePrometheus) -> int:
    """The most questions that were asked for one moment, after the first refresh."""
    times = [request.form["time"] for request in server.requests if "time" in request.form]
    return max(Counter(times[20:]).values(), default=0)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trntop.collectors.prometheus.queries.DEFAULT_INTERVAL", 0.1)


def run(cluster: Callable[[Request], Answer], use: Callable[[Watched, FakePrometheus], object],
        query: str = "") -> None:  # fmt: skip
    async def main() -> None:
        with fake_backend(cluster) as server:
            async with watching(server, query) as watched:
                await use(watched, server)  # type: ignore[misc]

    asyncio.run(asyncio.wait_for(main(), 30))


def test_nodes_come_with_their_values_and_ages() -> None:
    cluster = Cluster(["trn-001", "trn-002"])
    cluster.age = 0.0

    async def use(watched: Watched, server: FakePrometheus) -> None:
        view = await watched.until(lambda view: len(view.cluster.nodes) == 2)
        node = view.cluster.nodes["trn-001"]
        assert node.frame.value(UTILIZATION) == pytest.approx(0.9)
        assert node.inventory.instance_type == "trn2.48xlarge"
        assert node.inventory.lnc == 2
        assert view.cluster.whole is not None
        assert view.cluster.whole.values[UTILIZATION] == pytest.approx(0.9)
        # All of a refresh are asked for the same moment.
        await watched.until(lambda _: most_at_once(server) >= 8)
        assert most_at_once(server) <= 10
        assert not view.cluster.simulated

    run(cluster, use)


def test_fault_35_old_samples_are_marked_old_also_in_incidents() -> None:
    """A backend that lags: the newest sample is five minutes old, within its lookback."""
    cluster = Cluster(["trn-001"])
    cluster.age = 300.0
    cluster.incidents = [
        ({"kind": "efa_degraded", "severity": "critical", "node": "trn-001",
          "component": "efa:rdmap16s27"}, time.time() - 400.0),
    ]  # fmt: skip

    async def use(watched: Watched, _server: FakePrometheus) -> None:
        view = await watched.until(lambda view: view.cluster.nodes)
        node = view.cluster.nodes["trn-001"]
        assert node.state is State.STALE
        assert node.frame.value(UTILIZATION) is None
        assert node.age() == pytest.approx(300, abs=5)
        whole = watched.whole
        assert whole.old
        assert whole.values == {}
        (incident,) = watched.view.open_incidents
        assert "as of 5 min ago" in incident.summary

    run(cluster, use)


def test_incidents_are_those_that_agents_report() -> None:
    cluster = Cluster(["trn-001", "trn-002"])
    cluster.age = 0.0
    cluster.incidents = [
        ({"kind": "comm_bound", "severity": "warning", "training_job": "run7"}, time.time() - 9),
        ({"kind": "efa_down", "severity": "critical", "node": "trn-002"}, time.time() - 5),
        ({"kind": "odd", "severity": "no severity"}, 1.0),
    ]

    async def use(watched: Watched, _server: FakePrometheus) -> None:
        view = await watched.until(lambda view: len(view.open_incidents) == 2)
        first, second = view.open_incidents
        assert (first.kind, first.severity, first.node) == (
            "efa_down", Severity.CRITICAL, "trn-002",
        )  # fmt: skip
        assert (second.job, second.node) == ("run7", None)
        assert first.opened_at == pytest.approx(time.time() - 5, abs=2)
        cluster.incidents = cluster.incidents[:1]
        view = await watched.until(lambda view: len(view.open_incidents) == 1)
        assert [incident.kind for incident in view.incidents] == ["comm_bound", "efa_down"]
        # A query that fails gives nothing: previous values are kept, and that is reported.
        cluster.other["min by (kind"] = failure(503, "timeout", "query timed out")
        await watched.until(lambda view: view.cluster.whole and not view.cluster.whole.judged)
        assert len(watched.view.open_incidents) == 1
        assert any("incidents" in note for note in watched.whole.notes)

    run(cluster, use)


def test_a_node_that_cannot_be_scraped_is_down() -> None:
    cluster = Cluster(["trn-001", "trn-002"])
    cluster.age = 0.0

    async def use(watched: Watched, _server: FakePrometheus) -> None:
        await watched.until(lambda view: len(view.cluster.nodes) == 2)
        cluster.nodes.remove("trn-002")
        cluster.down = ["trn-002", "trn-003"]
        view = await watched.until(
            lambda view: (
                "trn-003" in view.cluster.nodes
                and view.cluster.nodes["trn-002"].frame.sources[0].state is State.DOWN
            )
        )
        for name in ("trn-002", "trn-003"):
            source = view.cluster.nodes[name].frame.sources[0]
            assert source.state is State.DOWN
            assert source.reason == f"its agent at {name}:10042 cannot be scraped"
        assert view.cluster.nodes["trn-001"].state is State.FRESH

    run(cluster, use)


def test_a_failure_keeps_previous_data_and_reports_the_reason() -> None:
    cluster = Cluster(["trn-001"])
    cluster.age = 0.0

    async def use(watched: Watched, _server: FakePrometheus) -> None:
        await watched.until(lambda view: view.cluster.nodes)
        cluster.other["trn_node_devices"] = Answer(429, b"", {"Retry-After": "1"})
        view = await watched.until(lambda view: view.cluster.whole and view.cluster.whole.problem)
        assert view.cluster.whole is not None
        assert view.cluster.whole.problem == "429: too many queries (retry in 1 s)"
        assert view.cluster.nodes["trn-001"].frame.value(UTILIZATION) is not None
        cluster.other.clear()
        await watched.until(lambda view: view.cluster.whole and not view.cluster.whole.problem)

    run(cluster, use)


def test_a_recording_of_it_replays() -> None:
    cluster = Cluster(["trn-001", "trn-002"])
    cluster.age = 0.0
    cluster.incidents = [
        ({"kind": "efa_down", "severity": "critical", "node": "trn-002"}, time.time() - 5),
    ]

    async def use(watched: Watched, _server: FakePrometheus) -> None:
        await watched.until(lambda view: len(view.cluster.nodes) == 2 and view.open_incidents)
        kept = [parse_envelope(line(reading)) for reading in watched.readings]
        assert None not in kept
        *_, last = play(
            (item.reading for item in kept if item and item.reading), Monitor(Settings())
        )
        assert list(last.cluster.nodes) == ["trn-001", "trn-002"]
        assert last.cluster.nodes["trn-001"].frame.value(UTILIZATION) == pytest.approx(0.9)
        assert [incident.kind for incident in last.open_incidents] == ["efa_down"]

    run(cluster, use)


def test_a_server_without_trntop_metrics_is_reported() -> None:
    cluster = Cluster([])
    cluster.names = ["up", "go_goroutines"]

    async def use(watched: Watched, _server: FakePrometheus) -> None:
        view = await watched.until(lambda view: view.cluster.whole and view.cluster.whole.problem)
        assert view.cluster.whole is not None
        assert "none of trntop" in view.cluster.whole.problem

    run(cluster, use)


def test_without_the_times_of_samples_nothing_is_called_fresh() -> None:
    cluster = Cluster(["trn-001", "trn-002"])
    cluster.age = 0.0

    async def use(watched: Watched, _server: FakePrometheus) -> None:
        await watched.until(lambda view: len(view.cluster.nodes) == 2)
        # One node has no time: it may be as old as the server remembers.
        cluster.other["timestamp("] = vector([(cluster.row("trn-001"), time.time())])
        view = await watched.until(
            lambda view: view.cluster.nodes["trn-002"].state is not State.FRESH
        )
        (source,) = view.cluster.nodes["trn-002"].frame.sources
        assert source.state is State.DOWN
        assert source.reason == "the server does not report the time of its samples"
        assert view.cluster.nodes["trn-001"].state is State.FRESH
        # There is no answer: the refresh is none.
        cluster.other["timestamp("] = failure(503, "timeout", "query timed out")
        view = await watched.until(lambda view: watched.whole.problem)
        assert "query timed out" in watched.whole.problem

    run(cluster, use)


def test_header_sums_omit_nodes_that_do_not_report() -> None:
    cluster = Cluster(["trn-001", "trn-002"])
    cluster.values = {"trn_node_efa_tx_bytes_per_second": 5.0}
    now = [(cluster.row("trn-001"), time.time() + 60.0), (cluster.row("trn-002"), 1.0)]
    cluster.other["timestamp("] = vector(now)

    async def use(watched: Watched, _server: FakePrometheus) -> None:
        view = await watched.until(lambda view: len(view.cluster.nodes) == 2)
        assert view.cluster.nodes["trn-002"].state is State.STALE
        assert watched.whole.values["node_efa_tx_bytes_per_second"] == 5.0
        assert watched.whole.nodes == 2

    run(cluster, use)


def test_a_server_with_changed_metrics_or_interval_is_not_probed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trntop.collectors.prometheus.collector.PROBE_INTERVAL", 0.0)
    cluster = Cluster(["trn-001"])
    cluster.age = 0.0

    def reply(request: Request) -> Answer:
        query = request.form.get("query", "")
        if request.path.endswith("/values"):
            cluster.names.append(f"go_metric_{len(cluster.names)}")
        if query.endswith("[5m]"):
            gap = 0.1 + 0.1 * (len(cluster.names) % 2)
            return matrix([(cluster.row("trn-001"), [(1.0, 1), (1.0 + gap, 1)])])
        if query.startswith("topk(1,"):
            return vector([(cluster.row("trn-001"), 1)])
        return cluster(request)

    async def use(watched: Watched, server: FakePrometheus) -> None:
        await watched.until(lambda _: len(cluster.names) > 8)
        counts = [text for text in server.queries if text.startswith("count(")]
        assert len(counts) == 1, "a fresh start counts the nodes first"
        cluster.names.append("cluster:trn_instance_info:count")
        await watched.until(
            lambda _: len([text for text in server.queries if text.startswith("count(")]) > 1
        )

    run(reply, use)


def test_a_large_cluster_needs_recording_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if `match` selects by a label that recorded values do not have."""
    monkeypatch.setattr("trntop.collectors.prometheus.refresh.MAX_ALL", 1)
    cluster = Cluster(["trn-001", "trn-002"])
    cluster.names += queries.RECORDED
    cluster.other["cluster:trn_instance_info"] = vector([])

    async def use(watched: Watched, _server: FakePrometheus) -> None:
        view = await watched.until(lambda view: watched.whole.problem)
        assert not view.cluster.nodes
        assert "more than 1 nodes need the recording rules" in watched.whole.problem

    run(cluster, use, '?match=instance=~"rack7.*"')


def test_a_node_without_complete_data_is_marked() -> None:
    cluster = Cluster(["trn-001"])
    cluster.age = 0.0
    cluster.other['trn_.+|trntop_source_up"'] = failure(422, "execution", "too many samples")

    async def use(watched: Watched, _server: FakePrometheus) -> None:
        await watched.until(lambda view: view.cluster.nodes)
        watched.collector.set_focus("trn-001")

        def is_shown(view: View) -> object:
            return view.cluster.nodes["trn-001"].frame.sources[0].reason

        view = await watched.until(is_shown)
        source = view.cluster.nodes["trn-001"].frame.sources[0]
        assert source.reason.startswith("only its roll-ups: the server reports an error")
        assert source.state is State.FRESH
        assert not watched.whole.problem, "the others are complete"

    run(cluster, use)


def test_foreign_names_cannot_harm() -> None:
    hostile = 'a"} or up{x="\x1b]0;title\x07'
    cluster = Cluster([hostile])
    cluster.age = 0.0

    async def use(watched: Watched, server: FakePrometheus) -> None:
        view = await watched.until(lambda view: view.cluster.nodes)
        (name,) = view.cluster.nodes
        assert "\x1b" not in name
        watched.collector.set_focus(name)
        await watched.until(lambda _: any(text.endswith("s]") for text in server.queries[8:]))
        query = next(text for text in server.queries[8:] if text.endswith("s]"))
        assert 'node=~"a\\"\\\\} or up\\\\{x=\\"' in query

    run(cluster, use)


def test_the_focused_node_is_queried_completely_while_it_is_shown() -> None:
    cluster = Cluster(["trn-001", "trn-002"])
    cluster.age = 0.0
    all_of = 'trn_.+|trntop_source_up"'

    def reply(request: Request) -> Answer:
        query = request.form.get("query", "")
        if all_of in query:
            time.sleep(0.3 if "trn-002" in query else 0.0)
            node = "trn-001" if "trn-001" in query else "trn-002"
            cores = [
                (cluster.row(node, "trn_neuroncore_utilization_ratio", neuroncore=str(core),
                             neuron_device=str(core // 4)), 0.5)
                for core in range(8)
            ]  # fmt: skip
            return vector(cores)
        return cluster(request)

    async def use(watched: Watched, server: FakePrometheus) -> None:
        await watched.until(lambda view: len(view.cluster.nodes) == 2)
        assert not any(all_of in query for query in server.queries)
        began = time.monotonic()
        watched.collector.set_focus("trn-001")
        view = await watched.until(
            lambda view: (
                "neuroncore_utilization_ratio" in view.cluster.nodes["trn-001"].frame.columns
            )
        )
        assert time.monotonic() - began < 2.0
        node = view.cluster.nodes["trn-001"]
        assert node.inventory.core_device.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
        # A cursor that moves on takes its question with it.
        watched.collector.set_focus("trn-002")
        await watched.until(lambda _: any(all_of in text and "trn-002" in text
                                          for text in server.queries))  # fmt: skip
        watched.collector.set_focus(None)
        await asyncio.sleep(0.5)
        assert "neuroncore_utilization_ratio" not in (
            watched.view.cluster.nodes["trn-002"].frame.columns
        )
        count = len([text for text in server.queries if all_of in text])
        await asyncio.sleep(0.3)
        assert len([text for text in server.queries if all_of in text]) == count

    run(reply, use)


def test_of_a_large_cluster_the_worst_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trntop.collectors.prometheus.refresh.MAX_ALL", 5)
    cluster = Cluster([f"trn-{number:03d}" for number in range(20)])
    cluster.age = 0.0
    cluster.names += queries.RECORDED
    cluster.incidents = [
        ({"kind": "efa_down", "severity": "critical", "node": "trn-013"}, time.time() - 5),
    ]
    worst = "node:trn_node_neuroncore_utilization_mean_ratio:bottomk"
    recorded = [
        ({"__name__": "cluster:trn_instance_info:count", "job": "trntop", "simulated": "true"},
         31250),
        ({"__name__": "cluster:trn_node_neuroncores:sum", "job": "trntop"}, 2e6),
        ({"__name__": "cluster:trn_neuroncore_utilization:ratio", "job": "trntop"}, 0.87),
        ({"__name__": "cluster:trn_node_efa_tx_bytes_per_second:sum", "job": "trntop"}, 1e12),
        ({"__name__": "training_job:trn_job_step_seconds:avg", "training_job": "run7"}, 4.25),
        ({"__name__": "training_job:trn_job_comm_share:ratio", "training_job": "run7"}, 0.31),
        ({"__name__": "training_job:trn_job_info:count", "training_job": "run7"}, 31250),
    ]  # fmt: skip
    cluster.other["(cluster:trn_|training_job:trn_).+"] = vector(recorded)
    cluster.other[f"|{worst}"] = vector([(cluster.row("trn-007", worst), 0.01)])

    async def use(watched: Watched, server: FakePrometheus) -> None:
        view = await watched.until(lambda view: view.cluster.nodes)
        assert list(view.cluster.nodes) == ["trn-007", "trn-013"]
        whole = watched.whole
        assert (whole.nodes, whole.chosen) == (31250, True)
        assert whole.values[UTILIZATION] == pytest.approx(0.87)
        assert whole.jobs["run7"] == {
            "job_step_seconds": 4.25, "job_comm_share_ratio": 0.31, "nodes": 31250,
        }  # fmt: skip
        assert view.cluster.simulated, "one of those that are not shown is"
        assert most_at_once(server) <= 10

    run(cluster, use)
