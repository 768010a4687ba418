"""What a backend reports of the whole cluster, as the monitor receives it."""

import asyncio
import time
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOON, make_node
from trntop.catalog import AGENT, PROMETHEUS
from trntop.core.errors import DecodeError
from trntop.core.model import Cluster, Reading, Severity, State, Status, View
from trntop.core.settings import Settings
from trntop.pipeline.history import History
from trntop.remote import summary as tracker
from trntop.remote.summary import (
    VERSION,
    Backfill,
    ClusterSummary,
    RemoteIncident,
    SummaryTracker,
    encode,
)
from trntop.remote.wire import FrameEncoder
from trntop.session.collector import Sink
from trntop.session.monitor import Monitor
from trntop.session.runner import Session

UTILIZATION = "node_neuroncore_utilization_mean_ratio"
DOWN = RemoteIncident("efa_down", Severity.CRITICAL, NOON - 60, None, "trn-001", "efa:rdmap16s27")


def summary(
    roster: Sequence[str] = ("trn-000", "trn-001"),
    incidents: tuple[RemoteIncident, ...] | None = (),
    newest: float | None = NOON,
    **more: object,
) -> ClusterSummary:
    return ClusterSummary(
        v=VERSION, period=15.0, nodes=31250, roster=tuple(roster), newest=newest,
        incidents=incidents, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def backend_reading(message: ClusterSummary | Backfill, at: float = NOON) -> Reading:
    return Reading("prom:9090", PROMETHEUS, at, encode(message))


def agent(index: int, at: float = NOON) -> list[Reading]:
    view = make_node(index, time=at)
    before, frame = FrameEncoder(view.name, 15.0).messages(view)
    return [Reading(view.name, AGENT, at, message) for message in (*before, frame)]


def monitor(*readings: Reading) -> Monitor:
    found = Monitor(Settings())
    for reading in readings:
        found.feed(reading)
    return found


def test_nodes_no_longer_shown_are_evicted() -> None:
    found = monitor(*agent(0), *agent(1), backend_reading(summary()))
    assert list(found.tick(NOON).cluster.nodes) == ["trn-000", "trn-001"]
    found.feed(backend_reading(summary(["trn-001"])))
    view = found.tick(NOON + 1)
    assert list(view.cluster.nodes) == ["trn-001"]
    assert view.cluster.whole is not None
    assert view.cluster.whole.nodes == 31250


def test_incidents_open_close_and_come_back() -> None:
    found = monitor(backend_reading(summary(incidents=(DOWN,))))
    (incident,) = found.tick(NOON).incidents
    assert (incident.kind, incident.node, incident.opened_at) == ("efa_down", "trn-001", NOON - 60)
    assert incident.summary == "trn-001 efa:rdmap16s27: efa down"
    found.feed(backend_reading(summary(), NOON + 15))
    (incident,) = found.tick(NOON + 15).incidents
    assert incident.closed_at == NOON + 15
    found.feed(backend_reading(summary(incidents=(DOWN,)), NOON + 30))
    (incident,) = found.tick(NOON + 30).incidents
    assert incident.open
    assert incident.returns == 1


def test_without_reports_the_last_known_value_is_kept() -> None:
    found = monitor(backend_reading(summary(incidents=(DOWN,))))
    found.feed(backend_reading(summary(incidents=None), NOON + 15))
    view = found.tick(NOON + 15)
    assert len(view.open_incidents) == 1
    assert view.cluster.whole is not None
    assert not view.cluster.whole.judged


@pytest.mark.parametrize("newest", [NOON, None], ids=["reported", "unknown"])
def test_old_samples_are_no_present(newest: float | None) -> None:
    """Nor are values of a backend without a sample, from the time of the response."""
    found = monitor(
        backend_reading(summary(newest=newest, incidents=(DOWN,), values={UTILIZATION: 0.9}))
    )
    view = found.tick(NOON + 20)
    assert view.cluster.whole is not None
    assert (view.cluster.whole.old, view.cluster.whole.values) == (False, {UTILIZATION: 0.9})
    view = found.tick(NOON + 300)
    assert view.cluster.whole is not None
    assert (view.cluster.whole.old, view.cluster.whole.values) == (True, {})
    assert "as of 5 min ago" in view.incidents[0].summary


def test_of_very_many_incidents_the_worst_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "MAX_INCIDENTS", 3)
    many = [
        RemoteIncident("slow", Severity.INFO, NOON - 300),
        RemoteIncident("late", Severity.WARNING, NOON - 5),
        RemoteIncident("b", Severity.WARNING, NOON - 9, node="trn-2"),
        RemoteIncident("b", Severity.WARNING, NOON - 9, node="trn-1"),
        RemoteIncident("down", Severity.CRITICAL, NOON),
    ]
    expected = ["down///", "b//trn-1/", "b//trn-2/"]
    for some in (many, many[::-1]):
        found = monitor(backend_reading(summary(incidents=tuple(some))))
        assert [incident.id for incident in found.tick(NOON).incidents] == expected


def test_one_that_is_pushed_out_is_not_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "MAX_INCIDENTS", 1)
    late = RemoteIncident("late", Severity.WARNING, NOON - 5)
    down = RemoteIncident("down", Severity.CRITICAL, NOON)
    found = monitor(backend_reading(summary(incidents=(late,))))
    steps = (
        ((late, down), [("down///", True)]),
        ((late,), [("late///", True), ("down///", False)]),
        ((down, late), [("down///", True)]),
        ((down,), [("down///", True)]),
    )
    for second, (incidents, expected) in enumerate(steps, start=1):
        found.feed(backend_reading(summary(incidents=incidents), NOON + second))
        assert [
            (incident.id, incident.open) for incident in found.tick(NOON + second).incidents
        ] == expected


def test_a_failure_is_reported_and_cleared() -> None:
    found = monitor(backend_reading(summary()))
    found.status(Status("prom:9090", PROMETHEUS, State.DOWN, "503: not available now"))
    whole = found.tick(NOON).cluster.whole
    assert whole is not None
    assert whole.problem == "503: not available now"
    found.feed(backend_reading(summary(), NOON + 5))
    whole = found.tick(NOON + 5).cluster.whole
    assert whole is not None
    assert whole.problem == ""


def test_sums_of_jobs_count_over_those_of_the_shown_nodes() -> None:
    job = {"job_step_seconds": 7.5, "nodes": 31250.0}
    found = monitor(*agent(0), backend_reading(summary(jobs={"pretrain-13b": job})))
    found.tick(NOON)
    _, values = found.history.scalar("pretrain-13b/job_step_seconds", 5)
    assert values.tolist() == [7.5]


def test_history_comes_before_the_first_tick_and_between_samples() -> None:
    past = Backfill(
        v=VERSION,
        times=(NOON - 30, NOON - 15),
        scalars={f"/{UTILIZATION}": (0.5, None)},
        nodes={"trn-000": {UTILIZATION: (0.6, 0.7)}},
    )
    found = monitor(*agent(0), backend_reading(past))
    times, values = found.history.node(UTILIZATION, "trn-000", 900)
    assert times.tolist() == [NOON - 30 + second for second in range(16)]
    assert values[0] == np.float32(0.6)
    assert values[-1] == np.float32(0.7)
    _, values = found.history.scalar(f"/{UTILIZATION}", 900)
    assert values[0] == np.float32(0.5)
    assert np.isnan(values[-1])
    found.tick(NOON)
    assert found.history.node(UTILIZATION, "trn-000", 900)[0][-1] == NOON


def test_a_node_focused_later_gets_its_history_too() -> None:
    history = History(seconds=60, coarse=10, step=10)
    for second in range(5):
        history.append(Cluster(NOON + second, {}))
    times = (NOON - 5, NOON, NOON + 2)
    history.fill(times, {}, {"trn-007": {UTILIZATION: (0.1, 0.2, 0.3)}}, 1.0)
    at, values = history.node(UTILIZATION, "trn-007", 60)
    assert at.tolist() == [NOON + second for second in range(-5, 5)]
    assert values[5:8].tolist() == [np.float32(0.2), np.float32(0.2), np.float32(0.3)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"[" * 50_000,
        b'{"of":"cluster","v":1}',
        encode(msgspec.structs.replace(summary(), v=2)),
        encode(Backfill(v=VERSION, times=(1.0, 2.0), scalars={"/x": (1.0,)})),
        encode(msgspec.structs.replace(summary(), roster=("n",) * 40_001)),
    ],
)
def test_what_is_no_message_is_refused_in_words(data: bytes) -> None:
    tracker = SummaryTracker(History(60), 1.0)
    with pytest.raises(DecodeError):
        tracker.add(Reading("prom", PROMETHEUS, NOON, data))
    whole = monitor(Reading("prom", PROMETHEUS, NOON, data)).tick(NOON).cluster.whole
    assert whole is not None
    assert whole.problem


@given(st.binary(max_size=200), st.integers(0, 300))
def test_damaged_messages_raise_nothing_else(noise: bytes, position: int) -> None:
    data = encode(summary(incidents=(DOWN,)))
    damaged = data[:position] + noise + data[position + len(noise) :]
    monitor(Reading("prom", PROMETHEUS, NOON, damaged)).tick(NOON)


class _Attentive:
    """Reports more of the focused node."""

    node, source = "prom", PROMETHEUS

    def __init__(self) -> None:
        self.looked_at: list[str | None] = []
        self._turned = asyncio.Event()

    def set_focus(self, node: str | None) -> None:
        self.looked_at.append(node)
        self._turned.set()

    async def run(self, sink: Sink) -> None:
        for reading in agent(0, sink.now()):
            sink.reading(reading)
        while True:
            await self._turned.wait()
            self._turned.clear()
            for reading in agent(0, sink.now()):
                sink.reading(reading)


def test_data_of_the_focused_node_is_shown_before_the_next_tick() -> None:
    settings = Settings(collect=msgspec.structs.replace(Settings().collect, period=30.0))
    collector = _Attentive()
    session = Session(Monitor(settings, 30.0), collectors=[collector])
    views: list[View] = []
    session.subscribe(views.append)
    session.start()
    try:
        deadline = time.monotonic() + 10
        while not views:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        session.set_focus("trn-000")
        while not views[-1].cluster.nodes:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert views[-1].generation > views[0].generation
        assert collector.looked_at[-1] == "trn-000"
        session.set_focus("trn-000")
        session.set_focus(None)
        while collector.looked_at[-1] is not None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert collector.looked_at.count("trn-000") == 1
    finally:
        session.stop()
