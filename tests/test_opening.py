"""Streams of several sources: one after the other by time, from any time on."""

from itertools import islice
from pathlib import Path

import pytest

from tests.reports import monitor_reading, report, runtime
from trntop.cli import opening
from trntop.model import Reading
from trntop.recording import Recorder
from trntop.settings import Settings
from trntop.sources import parse_all

BOUNDED = "sim:healthy?nodes=1&minutes=0.2&seed=3"


def recording(path: Path, node: str, start: float, count: int = 20) -> str:
    with Recorder(path, created=start) as recorder:
        for second in range(count):
            recorder.write(monitor_reading(report(runtime()), start + second, node))
    return str(path)


def streams(*sources: str) -> opening.Streams:
    return opening.Streams(parse_all(list(sources)))


def times(readings: list[Reading]) -> list[tuple[float, str]]:
    return [(one.time, one.node) for one in readings]


def test_streams_from_a_time_on(tmp_path: Path) -> None:
    one = recording(tmp_path / "a.jsonl", "a", 1000)
    other = recording(tmp_path / "b.jsonl.gz", "b", 1005)
    both = streams(one, other)
    whole = times(list(both()))
    assert whole == sorted(whole)
    assert times(list(both.since(1008.0))) == [one for one in whole if one[0] >= 1008]
    assert times(list(both())) == whole


def test_the_span_is_told_where_all_sources_tell_theirs(tmp_path: Path) -> None:
    one = recording(tmp_path / "a.jsonl", "a", 1000)
    other = recording(tmp_path / "b.jsonl", "b", 1005)
    assert streams(one, other).span() == (1000, 1024)
    packed = recording(tmp_path / "c.jsonl.gz", "c", 1000)
    assert streams(one, packed).span() is None


def test_a_simulation_that_ends_may_be_moved_in() -> None:
    stream = streams(BOUNDED)
    span = stream.span()
    assert span is not None
    assert span[1] - span[0] == pytest.approx(12)
    later = span[0] + 6
    assert times(list(stream.since(later))) == [
        (one.time, one.node) for one in stream() if one.time >= later
    ]


def test_an_endless_simulation_has_no_end_to_move_to() -> None:
    assert streams("sim:demo?nodes=1").span() is None
    assert list(islice(streams("sim:demo?nodes=1")(), 1))
    assert not opening.session(parse_all(["sim:demo?nodes=1"]), Settings()).seekable
    assert opening.session(parse_all([BOUNDED]), Settings()).seekable
