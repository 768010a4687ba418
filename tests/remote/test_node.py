"""A node of an agent: its age, its sources, and data of other sources."""

import dataclasses
import weakref
from pathlib import Path

import numpy as np
import pytest

from tests.builders import NOON, make_node, make_view
from tests.reports import monitor_reading, report, runtime
from trntop.catalog import AGENT, FLEET, NEURON_MONITOR, Entity
from trntop.core.model import NodeView, Reading, State, Status
from trntop.core.settings import Settings
from trntop.recording.reader import open_recording
from trntop.recording.writer import Recorder
from trntop.remote import wire
from trntop.remote.wire import FrameEncoder
from trntop.session.monitor import Monitor, play


def readings_of(
    view: NodeView, arrival: float, encoder: FrameEncoder, node: str = "n"
) -> list[Reading]:
    """The readings that a view of an agent gives."""
    before, frame = encoder.messages(view)
    return [
        Reading(node, AGENT, arrival, message, view.frame.simulated) for message in (*before, frame)
    ]


def at(seconds: float, view: NodeView | None = None) -> NodeView:
    """A node at some second."""
    view = make_node(0) if view is None else view
    return dataclasses.replace(view, frame=dataclasses.replace(view.frame, time=NOON + seconds))


def linked(*peers: str) -> NodeView:
    """A node with probed links; its inventory has the same version whichever they are."""
    view = make_node(0)
    keys = {**view.inventory.keys, Entity.LINK: peers}
    columns = {**view.frame.columns, "link_latency_seconds": np.full(len(peers), 0.5)}
    return NodeView(
        dataclasses.replace(view.inventory, keys=keys),
        dataclasses.replace(view.frame, columns=columns),
    )


def fed(*readings: Reading) -> Monitor:
    monitor = Monitor(Settings())
    for reading in readings:
        monitor.feed(reading)
    return monitor


def node_of(monitor: Monitor, time: float, name: str = "n") -> NodeView:
    return monitor.cluster(time).nodes[name]


def test_it_ages_by_our_clock() -> None:
    monitor = fed(*readings_of(at(-300), NOON, FrameEncoder("n", 1.0)))
    states = {
        seconds: node_of(monitor, NOON + seconds).frame.sources[0].state
        for seconds in (0.5, 3.0, 4.0)
    }
    assert states == {0.5: State.FRESH, 3.0: State.LATE, 4.0: State.STALE}
    stale = node_of(monitor, NOON + 4)
    assert stale.frame.columns == {}
    assert stale.inventory.of(Entity.DEVICE) == (0, 1)


def test_what_is_stale_is_not_kept_and_a_frame_brings_it_back() -> None:
    encoder = FrameEncoder("n", 1.0)
    view = at(1)
    moved = {name: values + 1 for name, values in view.frame.columns.items()}
    view = dataclasses.replace(view, frame=dataclasses.replace(view.frame, columns=moved))
    monitor = fed(*readings_of(at(0), NOON, encoder), *readings_of(view, NOON + 1, encoder))
    columns = node_of(monitor, NOON + 1).frame.columns
    assert isinstance(columns, wire._Columns)
    numbers = weakref.ref(columns._tables[0])
    del columns
    assert numbers() is not None
    stale = node_of(monitor, NOON + 9)
    assert stale.frame.sources[0].state is State.STALE
    assert stale.inventory.of(Entity.DEVICE)
    assert numbers() is None
    monitor.feed(readings_of(at(10), NOON + 10, encoder)[-1])
    assert node_of(monitor, NOON + 10).frame.columns


def test_frames_that_cannot_be_read_are_no_sign_of_life() -> None:
    monitor = fed(*readings_of(at(0), NOON, FrameEncoder("n", 1.0)))
    assert node_of(monitor, NOON).frame.sources[0].state is State.FRESH
    other = FrameEncoder("n", 1.0)
    readings_of(at(0), NOON, other)
    for seconds in range(1, 6):  # of another layout, which was not received
        monitor.feed(readings_of(at(seconds, linked("a", "b")), NOON + seconds, other)[-1])
        shown = node_of(monitor, NOON + seconds)
    assert shown.frame.sources[0].state is State.STALE
    assert shown.frame.columns == {}


def test_a_node_may_restart_its_versions() -> None:
    encoder = FrameEncoder("n", 1.0)
    monitor = fed(*readings_of(at(0, linked("a")), NOON, encoder))
    assert node_of(monitor, NOON).inventory.of(Entity.LINK) == ("a",)
    for reading in readings_of(at(1, linked("a", "b")), NOON + 1, encoder):
        monitor.feed(reading)
    shown = node_of(monitor, NOON + 1)
    assert shown.inventory.of(Entity.LINK) == ("a", "b")
    assert shown.frame.columns["link_latency_seconds"].tolist() == [0.5, 0.5]


def test_what_lives_is_the_node_and_not_its_agent() -> None:
    dead = make_node(0, state=State.STALE)
    shown = node_of(fed(*readings_of(at(0, dead), NOON, FrameEncoder("n", 1.0))), NOON + 0.5)
    assert shown.frame.sources[0].state is State.FRESH
    assert shown.state is State.STALE


def test_of_several_frames_the_newest_counts() -> None:
    encoder = FrameEncoder("n", 1.0)
    monitor = fed(*(reading for n in range(5) for reading in readings_of(at(n), NOON + n, encoder)))
    shown = node_of(monitor, NOON + 4.5)
    assert shown.frame.sources[0].counts["readings"] == 5


@pytest.mark.parametrize("damage", ["frame", "head"])
def test_a_damaged_frame_is_counted_and_the_previous_one_is_kept(damage: str) -> None:
    encoder = FrameEncoder("n", 1.0)
    readings = readings_of(at(0), NOON, encoder)
    monitor = fed(*readings)
    before = node_of(monitor, NOON + 0.5)
    *_, frame = readings_of(at(1), NOON + 1, encoder)
    data = frame.data[: len(frame.data) - 1] if damage == "frame" else b"\x80"
    monitor.feed(dataclasses.replace(frame, data=data))
    after = node_of(monitor, NOON + 1.2)
    assert after.frame.columns.keys() == before.frame.columns.keys()
    assert after.frame.sources[0].counts["undecodable"] == 1
    assert "not a message of a trntop agent" in after.frame.sources[0].reason


def test_a_time_that_is_none() -> None:
    view = at(0)
    frame = dataclasses.replace(view.frame, time=float("inf"))
    readings = readings_of(dataclasses.replace(view, frame=frame), NOON, FrameEncoder("n", 1.0))
    shown = node_of(fed(*readings), NOON)
    assert shown.state is State.DOWN
    assert "`$.time`" in shown.frame.sources[0].reason


def test_a_clock_that_is_set_back_is_known_at_once() -> None:
    encoder = FrameEncoder("n", 1.0)
    ahead = [reading for n in range(5) for reading in readings_of(at(100 + n), NOON + n, encoder)]
    back = readings_of(at(5), NOON + 5, encoder)
    shown = node_of(fed(*ahead, *back), NOON + 5)
    assert shown.frame.value("node_clock_offset_seconds") == 0


def test_a_collector_that_is_down_has_a_reason() -> None:
    monitor = fed(*readings_of(at(0), NOON, FrameEncoder("n", 1.0)))
    monitor.status(Status("n", AGENT, State.DOWN, "connection refused"))
    shown = node_of(monitor, NOON + 0.5)
    assert (shown.state, shown.frame.sources[0].reason) == (State.DOWN, "connection refused")
    assert shown.frame.columns == {}
    monitor.feed(readings_of(at(1), NOON + 1, FrameEncoder("n", 1.0))[-1])
    assert node_of(monitor, NOON + 1).frame.sources[0].state is State.FRESH


def test_an_aggregator_reports_the_state_of_the_agent_behind_it() -> None:
    """Relayed, a node that is down stays down, and clocks that are off add up."""
    local = fed(*readings_of(at(10), NOON, FrameEncoder("n", 1.0)))
    encoder = FrameEncoder("n", 1.0)
    remote = fed(*readings_of(node_of(local, NOON + 0.5), NOON - 4.5, encoder))
    shown = node_of(remote, NOON - 4)
    assert shown.frame.value("node_clock_offset_seconds") == pytest.approx(15)
    assert [source.name for source in shown.frame.sources].count(AGENT) == 1
    assert shown.state is State.FRESH
    local.status(Status("n", AGENT, State.DOWN, "connection refused"))
    for reading in readings_of(node_of(local, NOON + 1), NOON - 4, encoder):
        remote.feed(reading)
    shown = node_of(remote, NOON - 3.9)
    assert (shown.state, shown.frame.sources[0].reason) == (State.DOWN, "connection refused")
    assert shown.frame.columns == {}


def test_other_sources_fill_the_gaps() -> None:
    agent = readings_of(
        at(0, make_node(0, states={NEURON_MONITOR: State.DOWN})), NOON, FrameEncoder("n", 1.0)
    )
    facts = Reading("n", FLEET, NOON, b'{"facts": {"capacity_block": "cb-1"}, "period": 30}')
    own = [facts, monitor_reading(report(runtime()), NOON, "n")]
    shown = node_of(fed(*agent, *own), NOON + 0.5)
    assert shown.inventory.facts["capacity_block"] == "cb-1"
    assert [source.name for source in shown.frame.sources][-2:] == [NEURON_MONITOR, FLEET]


def test_a_node_that_is_forgotten_is_gone() -> None:
    monitor = fed(
        *readings_of(at(0), NOON, FrameEncoder("n", 1.0)),
        *readings_of(at(0), NOON, FrameEncoder("m", 1.0), "m"),
    )
    monitor.tick(NOON)
    monitor.remove("n")
    assert list(monitor.tick(NOON + 1).cluster.nodes) == ["m"]


def test_a_recording_of_streams_is_played_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl.zst"
    encoder = FrameEncoder("n", 1.0)
    view = make_node(0, simulated=True)
    with Recorder(path, created=NOON) as recorder:
        for second in range(70):
            columns = {**view.frame.columns, "node_vcpu_user_ratio": np.array([second / 100])}
            frame = dataclasses.replace(view.frame, columns=columns)
            changed = at(second - 30, dataclasses.replace(view, frame=frame))
            for reading in readings_of(changed, NOON + second, encoder):
                recorder.write(reading)
    *_, last = play(iter(open_recording(str(path))), Monitor(Settings()))
    node = last.cluster.nodes["n"]
    assert node.state is State.ENDED
    assert node.frame.simulated
    assert node.frame.value("node_vcpu_user_ratio") == pytest.approx(0.69)
    assert node.frame.value("node_clock_offset_seconds") == pytest.approx(-30)
    # Joined in the middle, it is there once its announcement is sent again.
    *_, last = play(open_recording(str(path)).iter_from(NOON + 30), Monitor(Settings()))
    assert last.cluster.nodes["n"].frame.value("node_vcpu_user_ratio") == pytest.approx(0.69)


def test_equal_nodes_share_a_layout() -> None:
    decoders = []
    for node in make_view(3).cluster.nodes.values():
        decoder = wire.FrameDecoder(node.name)
        before, frame = FrameEncoder(node.name, 1.0).messages(node)
        for message in (*before, frame):
            decoder.decode(message)
        decoders.append(decoder)
    assert len({id(decoder._layout) for decoder in decoders}) == 1
