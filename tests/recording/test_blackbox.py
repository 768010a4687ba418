"""The black box: what it keeps, what it writes, and what it does when it cannot."""

import asyncio
import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import NOON, make_incident, make_node, view_of
from tests.reports import monitor_reading, report, runtime
from trntop.catalog import AGENT
from trntop.cli import opening
from trntop.core.errors import RecordingError
from trntop.core.model import Incident, Reading, Severity, View
from trntop.core.settings import Blackbox, Settings
from trntop.core.source_spec import parse_all
from trntop.recording import blackbox
from trntop.recording.blackbox import MAX_FILES, SUFFIX, BlackBox, CriticalSaver, save, stamp
from trntop.recording.reader import open_recording
from trntop.session.collector import Sink
from trntop.session.monitor import Monitor
from trntop.session.runner import Session

LARGE = 1 << 30


def reading(time: float, node: str = "trn-007") -> Reading:
    return monitor_reading(report(runtime()), NOON + time, node)


def filled(seconds: int, *, keep: float = 900.0, max_bytes: int = LARGE) -> BlackBox:
    box = BlackBox(keep, max_bytes)
    for second in range(seconds):
        box.append(reading(second))
    return box


def times(path: Path) -> list[float]:
    recording = open_recording(path)
    found = [reading.time - NOON for reading in recording]
    assert not recording.damage.note()
    return found


def test_what_was_taken_is_written_as_a_recording(tmp_path: Path) -> None:
    box = filled(150)
    saved = save(box, tmp_path, note="before the crash", created=NOON)
    assert saved.path.name == f"trntop-trn-007-{stamp(NOON + 149)}.jsonl.zst"
    assert (saved.readings, saved.seconds) == (150, 149.0)
    assert saved.bytes == saved.path.stat().st_size
    assert stat.S_IMODE(saved.path.stat().st_mode) == 0o600
    assert times(saved.path) == list(range(150))
    recording = open_recording(saved.path)
    assert recording.header is not None
    assert (recording.header.note, recording.header.created) == ("before the crash", NOON)
    assert next(iter(recording)) == reading(0)


def test_the_same_time_again_is_another_file(tmp_path: Path) -> None:
    box = filled(3)
    first, second = save(box, tmp_path), save(box, tmp_path)
    assert second.path.name == first.path.name.replace(".jsonl", "-2.jsonl")
    assert times(first.path) == times(second.path) == [0, 1, 2]


def test_it_forgets_what_is_older_than_its_time() -> None:
    box = filled(1000, keep=300.0)
    segments = box.segments()
    assert segments[-1].end - segments[0].start == pytest.approx(300, abs=blackbox.SEGMENT_SECONDS)


def test_it_takes_no_more_than_it_may() -> None:
    unbounded = filled(400).segments()
    whole = sum(segment.size for segment in unbounded)
    box = filled(400, max_bytes=whole // 2)
    kept = box.segments()
    assert box.bytes <= whole // 2
    assert kept[-1].end == unbounded[-1].end
    assert kept[0].start > unbounded[0].start


def test_of_too_many_streams_nothing_is_kept(tmp_path: Path) -> None:
    box = filled(1, max_bytes=3 * blackbox.STREAM_BYTES)
    for name in "abc":
        box.append(Reading(name, AGENT, NOON, b"x"))
    assert sum(segment.readings for segment in box.segments()) == 4
    box.append(Reading("d", AGENT, NOON + 1, b"x"))
    assert box.drops_streams
    with pytest.raises(RecordingError, match="streams of more than 3 nodes are not kept here"):
        save(box, tmp_path)
    box.append(reading(2))  # what is not streamed is kept all the same
    box.append(Reading("a", AGENT, NOON + 3, b"x"))
    assert save(box, tmp_path).readings == 1


def test_a_clock_that_goes_back_begins_a_new_segment() -> None:
    box = BlackBox(900, LARGE)
    for second in (100.0, 101.0, 50.0, 51.0):
        box.append(reading(second))
    assert [(segment.start - NOON, segment.end - NOON) for segment in box.segments()] == [
        (100, 101),
        (50, 51),
    ]


def test_fault_54_several_nodes_and_strange_names_make_a_safe_file_name(tmp_path: Path) -> None:
    box = BlackBox(900, LARGE)
    box.append(reading(0, "../../etc/x y"))
    assert save(box, tmp_path).path.name.startswith("trntop-.._.._etc_x_y-")
    box.append(reading(1, "b"))
    assert save(box, tmp_path).path.name.startswith("trntop-2-nodes-")


def test_nothing_is_written_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no readings yet"):
        save(BlackBox(900, LARGE), tmp_path)
    assert not list(tmp_path.iterdir())


def full_disk(after: int) -> Callable[[int, memoryview], int]:
    """`os.write` on a disk with so many bytes left."""
    write, left = os.write, [after]

    def limited(descriptor: int, data: memoryview) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = write(descriptor, data[: left[0]])
        left[0] -= done
        return done

    return limited


def test_a_full_disk_leaves_nothing_behind_and_the_box_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = filled(5)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_disk(100))
        with pytest.raises(RecordingError, match="No space left on device"):
            save(box, tmp_path)
    assert not list(tmp_path.iterdir())
    assert times(save(box, tmp_path).path) == list(range(5))


def test_a_name_that_another_dashboard_takes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = blackbox.create

    def late(path: Path) -> int:
        monkeypatch.setattr(blackbox, "create", create)
        path.write_text("of the other")
        return create(path)

    monkeypatch.setattr(blackbox, "create", late)
    path = save(filled(5), tmp_path).path
    assert path.name.endswith("-2.jsonl.zst")
    assert times(path) == list(range(5))


def test_a_missing_black_box_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="does not exist"):
        save(filled(1), tmp_path / "missing")


# By itself


class Run:
    """A box, its watch, and its warnings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.box = BlackBox(900, LARGE)
        self.warnings: list[str] = []
        self.watch = CriticalSaver(self.box, folder, self.warnings.append)

    def tick(self, second: float, *incidents: Incident) -> None:
        self.box.append(reading(second))
        self.watch(view_at(second, *incidents))
        self.watch.wait()

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*")) if self.folder.exists() else []


def view_at(second: float, *incidents: Incident) -> View:
    return view_of(make_node(0), incidents=incidents, time=NOON + second)


def critical(kind: str = "one") -> Incident:
    return make_incident(kind=kind, severity=Severity.CRITICAL)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    yield Run(tmp_path / "state" / "blackbox")


def test_a_critical_incident_writes_what_led_to_it(run: Run) -> None:
    for second in range(10):
        run.tick(second)
    assert not run.files
    run.tick(10, critical())
    (file,) = run.files
    assert times(file) == list(range(11))
    assert str(file) in run.warnings[0]
    assert stat.S_IMODE(run.folder.stat().st_mode) == 0o700
    for second in range(11, 75):
        run.tick(second, critical())
    assert run.files == [file]
    assert times(file) == list(range(11))
    assert len(run.warnings) == 1


def test_less_than_critical_writes_nothing(run: Run) -> None:
    run.tick(0, make_incident(severity=Severity.WARNING))
    assert not run.files
    assert not run.warnings


def test_another_one_is_written_after_a_while_only(run: Run) -> None:
    run.tick(0, critical())
    run.tick(100, critical(), critical("two"))
    assert len(run.files) == 1
    run.tick(1000, critical(), critical("two"))
    assert len(run.files) == 1
    run.tick(1001, critical(), critical("two"), critical("three"))
    assert len(run.files) == 2


def test_after_a_failure_the_next_one_is_written(run: Run) -> None:
    run.folder.parent.write_text("no directory")
    run.tick(0, critical())
    run.folder.parent.unlink()
    run.tick(10, critical(), critical("two"))
    assert len(run.files) == 1


def test_a_file_that_another_dashboard_removes_does_not_matter(run: Run) -> None:
    run.folder.mkdir(parents=True)
    (run.folder / f"trntop-gone{SUFFIX}").symlink_to("nowhere")
    run.tick(0, critical())
    assert len(run.files) == 2


def test_the_newest_few_stay(run: Run) -> None:
    run.folder.mkdir(parents=True)
    mine = run.folder / "notes.txt"
    mine.write_text("of somebody else")
    for number in range(MAX_FILES + 2):
        run.tick(1000 * number, critical(str(number)))
        written = max(run.folder.glob("trntop-*"), key=lambda path: path.name)
        os.utime(written, (NOON + number, NOON + number))
    assert len(run.files) == MAX_FILES + 1
    assert mine.exists()
    assert not (run.folder / f"trntop-n-{stamp(NOON)}.jsonl.zst").exists()


def test_a_folder_that_cannot_be_created_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = Run(tmp_path / "file" / "blackbox")
    run.tick(0, critical())
    run.tick(1000, critical("two"))
    (warnings,) = run.warnings
    assert warnings.startswith("black box: ")
    assert "Not a directory" in warnings or "File exists" in warnings


# In a session


class Ticking:
    node, source = "n", "neuron-monitor"

    async def run(self, sink: Sink) -> None:
        while True:
            sink.reading(monitor_reading(report(runtime()), sink.now()))
            await asyncio.sleep(0.01)


def test_a_session_fills_its_box() -> None:
    box = BlackBox(900, LARGE)
    session = Session(Monitor(Settings()), collectors=[Ticking()], black_box=box)
    arrived = threading.Event()
    session.subscribe(lambda view: arrived.set() if view.cluster.nodes else None)
    session.start()
    assert arrived.wait(5)
    session.stop()
    assert session.black_box is box
    assert box.segments()[0].nodes == {"n"}


@pytest.mark.parametrize(
    ("source", "requested", "kept"),
    [
        ("local", {"lasting": True}, True),
        ("local", {}, False),
        ("local", {"lasting": True, "observer": False}, False),
        ("local", {"lasting": True, "observer": False, "agent": True}, True),
        ("local", {"lasting": True, "seconds": 0}, False),
        ("sim:healthy?nodes=1&minutes=1", {"lasting": True}, False),
    ],
)
def test_sources_with_a_black_box(source: str, requested: dict[str, Any], kept: bool) -> None:
    names = ("agent", "seconds")
    chosen = {name: requested[name] for name in names if name in requested}
    settings = Settings(blackbox=Blackbox(**chosen))
    options = {name: value for name, value in requested.items() if name not in names}
    session = opening.session(parse_all([source]), settings, **options)
    assert (session.black_box is not None) == kept
