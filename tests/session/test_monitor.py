import pytest

from tests.reports import monitor_reading, report, runtime, step_reading
from trntop.catalog import AGENT
from trntop.core.model import Reading, Sample, State
from trntop.core.settings import Settings
from trntop.pipeline.jobs import job_mean
from trntop.remote.node import RemoteNode
from trntop.session.monitor import MAX_CATCH_UP, Monitor, play
from trntop.sources import DECODERS


def test_a_stream_is_ticked_by_its_own_time() -> None:
    stream = [monitor_reading(report(runtime()), 100.25 + t) for t in range(5)]
    views = list(play(stream, Monitor(Settings())))
    assert [view.time for view in views] == [101.25, 102.25, 103.25, 104.25, 104.25]
    assert [view.generation for view in views] == [1, 2, 3, 4, 5]
    assert [view.ended for view in views] == [False] * 4 + [True]
    assert views[-1].cluster.nodes["n"].state is State.ENDED


def test_an_ended_stream_holds_its_last_values() -> None:
    stream = [monitor_reading(report(runtime()), 0.0), monitor_reading(report(runtime()), 50.0)]
    last = list(play(stream[:1], Monitor(Settings())))[-1]
    assert last.cluster.nodes["n"].frame.value("node_devices") == 1
    assert list(play([], Monitor(Settings()))) == []


def test_what_was_stale_at_the_end_does_not_return() -> None:
    stream = [monitor_reading(report(runtime()), 0.0, "a")]
    stream += [monitor_reading(report(runtime()), float(t), "b") for t in range(60)]
    *_, view = play(stream, Monitor(Settings()))
    assert view.cluster.nodes["a"].state is State.STALE
    assert view.cluster.nodes["a"].frame.columns == {}
    assert view.cluster.nodes["b"].state is State.ENDED


def test_fault_21_the_clock_set_back_leaves_nothing_that_looks_fresh() -> None:
    stream = [monitor_reading(report(runtime()), 2000.0 + t, "a") for t in range(10)]
    stream += [monitor_reading(report(runtime()), 2000.0 + t, "b") for t in range(10)]
    stream.sort(key=lambda reading: reading.time)
    stream += [monitor_reading(report(runtime()), 1000.0 + t, "b") for t in range(10)]
    *_, view = play(stream, Monitor(Settings()))
    assert view.time == 1009.0
    assert view.cluster.nodes["a"].frame.columns == {}
    assert view.cluster.nodes["b"].frame.value("node_devices") == 1


def test_a_defect_of_a_decoder_costs_one_payload(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(data: bytes) -> Sample:
        raise OverflowError("a defect")

    monitor = Monitor(Settings())
    monitor.feed(monitor_reading(report(runtime()), 0.0))
    monkeypatch.setitem(DECODERS, "neuron-monitor", broken)
    monitor.feed(monitor_reading(report(runtime()), 1.0))
    (source,) = monitor.tick(1.0).cluster.nodes["n"].frame.sources
    assert "OverflowError" in source.reason
    assert source.counts["undecodable"] == 1


def test_fault_55_a_defect_in_reading_an_agent_costs_one_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: RemoteNode, reading: Reading) -> None:
        raise RecursionError("a defect")

    monitor = Monitor(Settings())
    monkeypatch.setattr(RemoteNode, "feed", broken)
    monitor.feed(Reading("n", AGENT, 1.0, b""))
    (source,) = monitor.tick(1.0).cluster.nodes["n"].frame.sources
    assert "RecursionError" in source.reason


def test_fault_22_a_long_gap_is_one_gap_not_a_burst() -> None:
    stream = [
        monitor_reading(report(runtime()), 0.0),
        monitor_reading(report(runtime()), MAX_CATCH_UP * 100),
    ]
    assert len(list(play(stream, Monitor(Settings())))) == 2


def test_jobs_span_nodes() -> None:
    monitor = Monitor(Settings())
    monitor.feed(step_reading(0.0, node="a", rank=0, comm=1.0))
    monitor.feed(step_reading(0.0, node="b", rank=1, comm=0.6))
    cluster = monitor.tick(1.0).cluster
    assert cluster.jobs == {"job": ("a", "b")}
    assert job_mean(cluster, "job", "job_comm_share_ratio") == 0.2
    assert job_mean(cluster, "other", "job_comm_share_ratio") is None
    assert monitor.history.scalar("job/job_comm_share_ratio", 1)[1][0] > 0


def test_simulated_values_are_marked() -> None:
    monitor = Monitor(Settings())
    reading = monitor_reading(report(runtime()), 0.0)
    monitor.feed(type(reading)("n", reading.source, 0.0, reading.data, simulated=True))
    assert monitor.tick(0.0).cluster.simulated


@pytest.mark.parametrize("tick_at", [90.0, 100.25, 103.0, 2000.0])
def test_ticks_are_at_a_steady_interval(tick_at: float) -> None:
    stream = [monitor_reading(report(runtime()), 100.25 + t) for t in range(5)]
    *views, last = play(stream, Monitor(Settings()), tick_at=tick_at)
    start = 101.25 if tick_at == 100.25 else 101.0
    assert [view.time for view in views] == [start + t for t in range(4)]
    assert last.ended


def test_after_a_reset_nothing_is_known() -> None:
    stream = [monitor_reading(report(runtime()), 100.0 + t) for t in range(5)]
    monitor = Monitor(Settings(), period=0.5)
    *_, view = play(stream, monitor)
    fresh = monitor.blank_copy()
    again = fresh.tick(50.0)
    assert not again.cluster.nodes
    assert fresh.period == 0.5
    assert again.generation == view.generation + 1
    assert len(monitor.history.node("node_neuroncore_utilization_mean_ratio", "n", 99)[0])
