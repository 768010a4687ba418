"""Several processes give what one gives."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from trntop.analysis.rule_inputs import rule_inputs
from trntop.cli import main
from trntop.collectors import simulator
from trntop.core.custom_rule import CustomRule
from trntop.core.errors import RecordingError, TrntopError
from trntop.core.model import Reading, View
from trntop.core.settings import Settings
from trntop.recording.writer import Recorder
from trntop.session import parallel
from trntop.session.monitor import Monitor, play

START = 1.76e9

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")


@cache
def stream(text: str = "ecc?nodes=3&onset=60&minutes=1.5") -> tuple[Reading, ...]:
    simulation = simulator.parse(f"sim:{text}&type=trn1.32xlarge")
    return tuple(simulator.simulate(simulation, START))


@pytest.fixture(scope="module")
def one_process() -> list[View]:
    return list(play(iter(stream()), Monitor(Settings())))


def shares(
    readings: Callable[[], Iterator[Reading]],
    workers: int = 2,
    notes: Callable[[], list[str]] = list,
) -> parallel.Shares:
    return parallel.Shares(readings, notes, Settings(), (), workers)


def same(view: View, other: View) -> None:
    assert (view.time, view.generation, view.ended) == (other.time, other.generation, other.ended)
    assert view.incidents == other.incidents
    assert view.cluster.names == other.cluster.names
    for node, theirs in zip(view.cluster.nodes.values(), other.cluster.nodes.values(), strict=True):
        frame, expected = node.frame, theirs.frame
        assert frame.columns.keys() == expected.columns.keys()
        for name, values in expected.columns.items():
            assert np.array_equal(frame.columns[name], values, equal_nan=True), name
        for name in ("node", "time", "sources", "simulated", "reasons", "phase"):
            assert getattr(frame, name) == getattr(expected, name)
        for name in ("version", "facts", "keys", "runtimes", "efa_links", "processes", "stages"):
            assert getattr(node.inventory, name) == getattr(theirs.inventory, name)


def test_the_views_are_those_of_one_process(one_process: list[View]) -> None:
    made = list(shares(lambda: iter(stream()), workers=3))
    assert len(made) == len(one_process)
    for view, other in zip(made, one_process, strict=True):
        same(view, other)
    assert one_process[-1].incidents


def test_what_is_not_wanted_is_left_out(one_process: list[View]) -> None:
    own = CustomRule(name="loaded", when="node_load1 >= 0", hold=0.0)
    settings = replace(Settings(), rules=(own,))
    wanted = rule_inputs(settings.rules)
    made = list(parallel.Shares(lambda: iter(stream()), list, settings, (), 2, wanted))
    assert [view.time for view in made] == [view.time for view in one_process]
    columns = made[-2].cluster.nodes["trn-000"].frame.columns
    assert {"node_load1", "job_step"} <= columns.keys() <= wanted
    kinds = {incident.kind for incident in one_process[-1].incidents}
    assert {incident.kind for incident in made[-1].incidents} == kinds | {"loaded"}


def test_a_defect_is_an_error() -> None:
    def readings() -> Iterator[Reading]:
        yield from stream("healthy?nodes=1&minutes=1")[:40]
        raise ZeroDivisionError("a defect")

    with pytest.raises(TrntopError, match="ZeroDivisionError: a defect"):
        list(shares(readings))


def test_a_clock_that_is_set_back() -> None:
    readings = stream("healthy?nodes=2&minutes=1")
    again = tuple(
        Reading(reading.node, reading.source, reading.time - 7200, reading.data, reading.simulated)
        for reading in readings
    )
    expected = list(play(readings + again, Monitor(Settings())))
    made = list(shares(lambda: iter(readings + again)))
    for view, other in zip(made, expected, strict=True):
        same(view, other)


def test_losses_are_reported() -> None:
    made = shares(lambda: iter(stream("healthy?nodes=1&minutes=1")), notes=lambda: ["2 lines"])
    assert list(made)
    assert made.notes() == ["2 lines"]


def test_no_readings_no_views() -> None:
    assert list(shares(lambda: iter(()))) == []


def test_a_recording_that_cannot_be_read_any_more() -> None:
    def readings() -> Iterator[Reading]:
        yield from stream("healthy?nodes=1&minutes=1")[:40]
        raise RecordingError("a.jsonl: gone")

    with pytest.raises(RecordingError, match=r"a\.jsonl: gone"):
        list(shares(readings))


def test_a_process_that_dies_is_an_error_and_leaves_none_behind() -> None:
    first = os.getpid()

    def readings() -> Iterator[Reading]:
        yield from stream("healthy?nodes=1&minutes=1")[:40]
        assert os.getpid() != first
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(TrntopError, match="died"):
        list(shares(readings))
    assert not multiprocessing.active_children()


def test_stopping_early_leaves_no_process_behind() -> None:
    views = iter(shares(lambda: iter(stream())))
    next(views)
    assert len(multiprocessing.active_children()) == 2
    views.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()


def test_analyze_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.jsonl.zst"
    with Recorder(path, created=START) as recorder:
        for reading in stream():
            recorder.write(reading)
    warnings = []
    monkeypatch.setattr(parallel, "WORTHWHILE", 0)
    for cpus in ({0}, {0, 1}):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cpus=cpus: cpus)
        assert main(["analyze", str(path), "--json"]) == 0
        warnings.append(capfd.readouterr())
    assert warnings[0] == warnings[1]
    assert '"kind"' in warnings[0].out


def test_small_recordings_stay_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    small, large, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "c.jsonl.zst"
    for path, size in ((small, 1 << 20), (large, 64 << 20), (packed, 8 << 20)):
        with path.open("wb") as file:
            file.truncate(size)
    assert parallel.workers_for([str(small)]) == 1
    assert parallel.workers_for([str(large)]) == 3
    assert parallel.workers_for([str(packed)]) == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert parallel.workers_for([str(large)]) == 1
