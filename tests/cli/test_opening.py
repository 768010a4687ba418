"""Streams of several sources: one after the other by time, from any time on."""

import json
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from tests.reports import monitor_reading, report, runtime
from trntop.catalog import EFA_SOURCE, NEURON_MONITOR
from trntop.cli import main, opening
from trntop.collectors.simulator import parse, truth
from trntop.core.model import Reading, State
from trntop.core.settings import Settings
from trntop.core.source_spec import parse_all
from trntop.recording.writer import Recorder
from trntop.session.monitor import Monitor, play

FIXTURES = Path(__file__).parents[2] / "fixtures"
BOUNDED = "sim:healthy?nodes=1&minutes=0.2&seed=3"


def recording(path: Path, node: str, start: float, count: int = 20) -> str:
    with Recorder(path, created=start) as recorder:
        for second in range(count):
            recorder.write(monitor_reading(report(runtime()), start + second, node))
    return str(path)


def streams(*sources: str) -> opening.Streams:
    return opening.Streams(parse_all(list(sources)))


def times(readings: list[Reading]) -> list[tuple[float, str]]:
    return [(reading.time, reading.node) for reading in readings]


def test_streams_from_a_time_on(tmp_path: Path) -> None:
    first = recording(tmp_path / "a.jsonl", "a", 1000)
    other = recording(tmp_path / "b.jsonl.gz", "b", 1005)
    both = streams(first, other)
    whole = times(list(both()))
    assert whole == sorted(whole)
    assert times(list(both.since(1008.0))) == [entry for entry in whole if entry[0] >= 1008]
    assert times(list(both())) == whole


def test_the_span_is_known_if_all_sources_know_theirs(tmp_path: Path) -> None:
    first = recording(tmp_path / "a.jsonl", "a", 1000)
    other = recording(tmp_path / "b.jsonl", "b", 1005)
    assert streams(first, other).span() == (1000, 1024)
    packed = recording(tmp_path / "c.jsonl.gz", "c", 1000)
    assert streams(first, packed).span() is None


def test_a_simulation_that_ends_may_be_moved_in() -> None:
    stream = streams(BOUNDED)
    span = stream.span()
    assert span is not None
    assert span[1] - span[0] == pytest.approx(12)
    later = span[0] + 6
    assert times(list(stream.since(later))) == [
        (reading.time, reading.node) for reading in stream() if reading.time >= later
    ]


def test_an_endless_simulation_has_no_end_to_move_to() -> None:
    assert streams("sim:demo?nodes=1").span() is None
    assert list(islice(streams("sim:demo?nodes=1")(), 1))
    assert not opening.session(parse_all(["sim:demo?nodes=1"]), Settings()).seekable
    assert opening.session(parse_all([BOUNDED]), Settings()).seekable


def test_the_demo_names_its_first_incident_after_few_ticks() -> None:
    demo = streams("sim:demo")
    readings = list(opening.until(demo(), opening.WARM_UP))
    sources = Counter(reading.source for reading in readings)
    monitor = Monitor(Settings(), sparse=demo.sparse)
    *views, first_picture, ended = play(readings, monitor)
    assert len(views) < 20
    assert sources[NEURON_MONITOR] == sources[EFA_SOURCE] < 20 * 16

    (faulty,) = [fault for fault in truth(parse("sim:demo"), 0.0) if fault.kind == "efa_degraded"]
    (incident,) = first_picture.incidents
    assert (incident.kind, incident.node) == (faulty.kind, faulty.node)
    assert incident.component == faulty.component
    assert incident.opened_at - readings[0].time == pytest.approx(faulty.onset, abs=3.0)
    nodes = first_picture.cluster.nodes.values()
    assert {source.state for node in nodes for source in node.frame.sources} == {State.FRESH}

    times, sent = monitor.history.node("node_efa_tx_bytes_per_second", "trn-000", 900)
    assert ended.time - times[0] > 0.9 * opening.WARM_UP
    assert np.diff(times) == pytest.approx(1.0, abs=0.05)
    assert not np.isnan(sent[times > times[0] + 15.0]).any()


def test_only_a_simulation_without_end_begins_sparse(tmp_path: Path) -> None:
    assert streams(BOUNDED).sparse is None
    assert streams(recording(tmp_path / "a.jsonl", "a", 1000)).sparse is None


@pytest.mark.parametrize("content", [b"", b"{", b"\x00\xff", b"[]"])
def test_fault_34_damaged_profiles_are_reported_and_ignored(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: bytes,
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    file = tmp_path / "trntop" / "profiles.json"
    file.parent.mkdir()
    file.write_bytes(content)
    assert main(["snapshot", "--json", str(FIXTURES / "neuron-monitor-trn1.2xlarge.jsonl")]) == 0
    shown, output = capsys.readouterr()
    assert json.loads(shown)["nodes"]
    assert output.startswith(f"trntop: {file}: ")
    assert output.endswith("; going on without profiles\n")
