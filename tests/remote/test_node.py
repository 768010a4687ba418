"""A node that an agent speaks for: its age, its sources, and what others say beside it."""

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


def said(view: NodeView, arrival: float, speaker: FrameEncoder, node: str = "n") -> list[Reading]:
    """The readings that a view of an agent gives."""
    before, frame = speaker.messages(view)
    return [Reading(node, AGENT, arrival, one, view.frame.simulated) for one in (*before, frame)]


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
    monitor = fed(*said(at(-300), NOON, FrameEncoder("n", 1.0)))
    states = {
        seconds: node_of(monitor, NOON + seconds).frame.sources[0].state
        for seconds in (0.5, 3.0, 4.0)
    }
    assert states == {0.5: State.FRESH, 3.0: State.LATE, 4.0: State.STALE}
    stale = node_of(monitor, NOON + 4)
    assert stale.frame.columns == {}
    assert stale.inventory.of(Entity.DEVICE) == (0, 1)


def test_what_is_stale_is_not_kept_and_a_frame_brings_it_back() -> None:
    speaker = FrameEncoder("n", 1.0)
    view = at(1)
    moved = {name: values + 1 for name, values in view.frame.columns.items()}
    view = dataclasses.replace(view, frame=dataclasses.replace(view.frame, columns=moved))
    monitor = fed(*said(at(0), NOON, speaker), *said(view, NOON + 1, speaker))
    columns = node_of(monitor, NOON + 1).frame.columns
    assert isinstance(columns, wire._Columns)
    numbers = weakref.ref(columns._tables[0])
    del columns
    assert numbers() is not None
    stale = node_of(monitor, NOON + 9)
    assert stale.frame.sources[0].state is State.STALE
    assert stale.inventory.of(Entity.DEVICE)
    assert numbers() is None
    monitor.feed(said(at(10), NOON + 10, speaker)[-1])
    assert node_of(monitor, NOON + 10).frame.columns


def test_frames_that_cannot_be_read_are_no_sign_of_life() -> None:
    monitor = fed(*said(at(0), NOON, FrameEncoder("n", 1.0)))
    assert node_of(monitor, NOON).frame.sources[0].state is State.FRESH
    other = FrameEncoder("n", 1.0)
    said(at(0), NOON, other)
    for seconds in range(1, 6):  # of another layout, which was not heard
        monitor.feed(said(at(seconds, linked("a", "b")), NOON + seconds, other)[-1])
        shown = node_of(monitor, NOON + seconds)
    assert shown.frame.sources[0].state is State.STALE
    assert shown.frame.columns == {}


def test_a_node_may_count_its_versions_anew() -> None:
    speaker = FrameEncoder("n", 1.0)
    monitor = fed(*said(at(0, linked("a")), NOON, speaker))
    assert node_of(monitor, NOON).inventory.of(Entity.LINK) == ("a",)
    for one in said(at(1, linked("a", "b")), NOON + 1, speaker):
        monitor.feed(one)
    shown = node_of(monitor, NOON + 1)
    assert shown.inventory.of(Entity.LINK) == ("a", "b")
    assert shown.frame.columns["link_latency_seconds"].tolist() == [0.5, 0.5]


def test_what_lives_is_the_node_and_not_its_agent() -> None:
    dead = make_node(0, state=State.STALE)
    shown = node_of(fed(*said(at(0, dead), NOON, FrameEncoder("n", 1.0))), NOON + 0.5)
    assert shown.frame.sources[0].state is State.FRESH
    assert shown.state is State.STALE


def test_of_several_frames_the_newest_counts() -> None:
    speaker = FrameEncoder("n", 1.0)
    monitor = fed(*(one for n in range(5) for one in said(at(n), NOON + n, speaker)))
    shown = node_of(monitor, NOON + 4.5)
    assert shown.frame.sources[0].counts["readings"] == 5


@pytest.mark.parametrize("damage", ["frame", "head"])
def test_a_damaged_frame_is_counted_and_the_one_before_stands(damage: str) -> None:
    speaker = FrameEncoder("n", 1.0)
    readings = said(at(0), NOON, speaker)
    monitor = fed(*readings)
    before = node_of(monitor, NOON + 0.5)
    *_, frame = said(at(1), NOON + 1, speaker)
    data = frame.data[: len(frame.data) - 1] if damage == "frame" else b"\x80"
    monitor.feed(dataclasses.replace(frame, data=data))
    after = node_of(monitor, NOON + 1.2)
    assert after.frame.columns.keys() == before.frame.columns.keys()
    assert after.frame.sources[0].counts["undecodable"] == 1
    assert "not a message of a trntop agent" in after.frame.sources[0].reason


def test_a_time_that_is_none() -> None:
    view = at(0)
    frame = dataclasses.replace(view.frame, time=float("inf"))
    readings = said(dataclasses.replace(view, frame=frame), NOON, FrameEncoder("n", 1.0))
    shown = node_of(fed(*readings), NOON)
    assert shown.state is State.DOWN
    assert "`$.time`" in shown.frame.sources[0].reason


def test_a_clock_that_is_set_back_is_known_at_once() -> None:
    speaker = FrameEncoder("n", 1.0)
    ahead = [one for n in range(5) for one in said(at(100 + n), NOON + n, speaker)]
    back = said(at(5), NOON + 5, speaker)
    shown = node_of(fed(*ahead, *back), NOON + 5)
    assert shown.frame.value("node_clock_offset_seconds") == 0


def test_the_collector_says_why_it_is_down() -> None:
    monitor = fed(*said(at(0), NOON, FrameEncoder("n", 1.0)))
    monitor.status(Status("n", AGENT, State.DOWN, "connection refused"))
    shown = node_of(monitor, NOON + 0.5)
    assert (shown.state, shown.frame.sources[0].reason) == (State.DOWN, "connection refused")
    assert shown.frame.columns == {}
    monitor.feed(said(at(1), NOON + 1, FrameEncoder("n", 1.0))[-1])
    assert node_of(monitor, NOON + 1).frame.sources[0].state is State.FRESH


def test_a_relay_tells_what_it_hears_of_the_agent_behind_it() -> None:
    """Relayed, a node that is down stays down, and clocks that are off add up."""
    near = fed(*said(at(10), NOON, FrameEncoder("n", 1.0)))
    speaker = FrameEncoder("n", 1.0)
    far = fed(*said(node_of(near, NOON + 0.5), NOON - 4.5, speaker))
    shown = node_of(far, NOON - 4)
    assert shown.frame.value("node_clock_offset_seconds") == pytest.approx(15)
    assert [one.name for one in shown.frame.sources].count(AGENT) == 1
    assert shown.state is State.FRESH
    near.status(Status("n", AGENT, State.DOWN, "connection refused"))
    for one in said(node_of(near, NOON + 1), NOON - 4, speaker):
        far.feed(one)
    shown = node_of(far, NOON - 3.9)
    assert (shown.state, shown.frame.sources[0].reason) == (State.DOWN, "connection refused")
    assert shown.frame.columns == {}


def test_other_sources_fill_the_gaps() -> None:
    agent = said(
        at(0, make_node(0, states={NEURON_MONITOR: State.DOWN})), NOON, FrameEncoder("n", 1.0)
    )
    facts = Reading("n", FLEET, NOON, b'{"facts": {"capacity_block": "cb-1"}, "period": 30}')
    beside = [facts, monitor_reading(report(runtime()), NOON, "n")]
    shown = node_of(fed(*agent, *beside), NOON + 0.5)
    assert shown.inventory.facts["capacity_block"] == "cb-1"
    assert [one.name for one in shown.frame.sources][-2:] == [NEURON_MONITOR, FLEET]


def test_a_node_that_is_forgotten_is_gone() -> None:
    monitor = fed(
        *said(at(0), NOON, FrameEncoder("n", 1.0)), *said(at(0), NOON, FrameEncoder("m", 1.0), "m")
    )
    monitor.tick(NOON)
    monitor.remove("n")
    assert list(monitor.tick(NOON + 1).cluster.nodes) == ["m"]


def test_a_recording_of_streams_is_played_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl.zst"
    speaker = FrameEncoder("n", 1.0)
    view = make_node(0, simulated=True)
    with Recorder(path, created=NOON) as recorder:
        for second in range(70):
            columns = {**view.frame.columns, "node_vcpu_user_ratio": np.array([second / 100])}
            frame = dataclasses.replace(view.frame, columns=columns)
            told = at(second - 30, dataclasses.replace(view, frame=frame))
            for reading in said(told, NOON + second, speaker):
                recorder.write(reading)
    *_, last = play(iter(open_recording(str(path))), Monitor(Settings()))
    node = last.cluster.nodes["n"]
    assert node.state is State.ENDED
    assert node.frame.simulated
    assert node.frame.value("node_vcpu_user_ratio") == pytest.approx(0.69)
    assert node.frame.value("node_clock_offset_seconds") == pytest.approx(-30)
    # Taken up in the middle it is there once its announcement is said again.
    *_, last = play(open_recording(str(path)).iter_from(NOON + 30), Monitor(Settings()))
    assert last.cluster.nodes["n"].frame.value("node_vcpu_user_ratio") == pytest.approx(0.69)


def test_the_layout_of_nodes_that_are_alike_is_shared() -> None:
    listeners = []
    for node in make_view(3).cluster.nodes.values():
        listener = wire.FrameDecoder(node.name)
        before, frame = FrameEncoder(node.name, 1.0).messages(node)
        for message in (*before, frame):
            listener.decode(message)
        listeners.append(listener)
    assert len({id(one._layout) for one in listeners}) == 1
