import errno
import json
import os
import random
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trntop.core.errors import RecordingError
from trntop.core.model import Reading
from trntop.recording.reader import open_recording
from trntop.recording.writer import Recorder

RANDOM = random.Random(10)
SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")


def reading(number: int, *, node: str = "trn-000", size: int = 0) -> Reading:
    data = json.dumps({"number": number, "pad": "x" * size}, separators=(",", ":")).encode()
    return Reading(node, "neuron-monitor", 1000.0 + number, data)


def record(path: Path, readings: Iterable[Reading]) -> None:
    with Recorder(path, created=1.0) as recorder:
        for each in readings:
            recorder.write(each)
    assert not recorder.failed


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_recorded_can_be_replayed(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"run{suffix}"
    readings = [reading(i, node=f"trn-{i % 3:03}", size=i) for i in range(300)]
    with Recorder(path, created=999.5, note="why") as recorder:
        for each in readings:
            recorder.write(each)
    assert recorder.readings == 300
    assert recorder.bytes == path.stat().st_size
    assert path.stat().st_mode & 0o777 == 0o600
    recording = open_recording(path)
    assert recording.header is not None
    assert (recording.header.created, recording.header.note) == (999.5, "why")
    assert recording.header.by.startswith("trntop ")
    assert list(recording) == readings
    assert recording.damage.note() == ""


def test_the_suffix_decides_the_compression(tmp_path: Path) -> None:
    for suffix, magic in ((".jsonl", b"{"), (".gz", b"\x1f\x8b"), (".ZST", b"\x28\xb5\x2f\xfd")):
        record(tmp_path / f"run{suffix}", [reading(0)])
        assert (tmp_path / f"run{suffix}").read_bytes().startswith(magic)


def test_lines_hold_payloads_verbatim(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    payload = b'{ "n":1.50, "s":"\\n" }'
    pretty = b' {\r\n  "a": [1.0,\n 2]\n}\n'
    record(
        path,
        [
            Reading("n", "s", 1.25, payload, simulated=True),
            Reading("n", "s", 2.0, pretty),
            Reading("n", "log", 3.0, b'he said "no"\n'),
            Reading("n", "log", 4.0, b"\xff\n"),
        ],
    )
    lines = path.read_bytes().splitlines()[1:]
    assert [line[:-18] + b"}" for line in lines] == [
        b'{"v":1,"t":1.25,"node":"n","source":"s","simulated":true,"data":' + payload + b"}",
        b'{"v":1,"t":2.0,"node":"n","source":"s","data":{    "a": [1.0,  2] }}',
        b'{"v":1,"t":3.0,"node":"n","source":"log","text":"he said \\"no\\"\\n"}',
        b'{"v":1,"t":4.0,"node":"n","source":"log","base64":"/wo="}',
    ]
    for line in lines:
        assert line[-18:] == b',"crc":"%08x"}' % zlib.crc32(line[:-18])
    assert [each.data for each in open_recording(path)][2:] == [b'he said "no"\n', b"\xff\n"]


_TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=5,
)
_PAYLOADS = (
    _JSON.map(lambda value: json.dumps(value).encode())
    | _JSON.map(lambda value: json.dumps(value, ensure_ascii=False).encode())
    | st.binary(max_size=30)
)
_READINGS = st.builds(
    Reading,
    node=st.sampled_from(["trn-000", "trn-001", "ü"]),
    source=st.sampled_from(["neuron-monitor", "efa", "steps", "unheard-of"]),
    time=st.floats(0, 2e9),
    data=_PAYLOADS,
    simulated=st.booleans(),
)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(readings=st.lists(_READINGS, max_size=8))
def test_any_readings_survive_the_round_trip(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, readings: list[Reading]
) -> None:
    path = tmp_path_factory.mktemp("run") / f"run{suffix}"
    record(path, readings)
    found = list(open_recording(path))
    assert [(r.node, r.source, r.time, r.simulated) for r in found] == [
        (r.node, r.source, r.time, r.simulated) for r in readings
    ]
    for new, old in zip(found, readings, strict=True):
        # Blanks around JSON, and line breaks in it, are all that may change.
        assert new.data == old.data or json.loads(new.data) == json.loads(old.data)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_flush_leaves_a_readable_recording(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"run{suffix}"
    with Recorder(path, created=1.0) as recorder:
        assert open_recording(path).header is not None
        for number in range(10):
            recorder.write(reading(number))
            recorder.flush()
            recording = open_recording(path)
            assert len(list(recording)) == number + 1
            assert not recording.damage.framer.partial
            assert bool(recording.damage.error) == (suffix != ".jsonl")


def test_a_recorder_flushes_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with Recorder(path, created=1.0) as recorder:
        recorder.write(reading(0))
        recorder.write(reading(1))
        assert len(list(open_recording(path))) == 0
        recorder.write(reading(2))  # two seconds of stream time
        assert len(list(open_recording(path))) == 3
        for _ in range(64):
            recorder.write(reading(2))
        assert len(list(open_recording(path))) == 67
        recorder.write(reading(2, size=2 << 20))
        assert len(list(open_recording(path))) == 68


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_size_cap_holds(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"run{suffix}"
    cap = 5000
    with Recorder(path, created=1.0, max_bytes=cap) as recorder:
        for number in range(2000):
            recorder.write(Reading("n", "s", number / 100, RANDOM.randbytes(40).hex().encode()))
            if recorder.full:
                break
        count = recorder.readings
        recorder.write(reading(0))
        assert recorder.readings == count
    assert recorder.full
    assert not recorder.failed
    assert cap - 400 < path.stat().st_size <= cap + 16
    recording = open_recording(path)
    assert len(list(recording)) == count
    assert recording.damage.note() == ""


def test_the_time_cap_holds(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with Recorder(path, created=1.0, max_seconds=5.0) as recorder:
        for number in range(20):
            recorder.write(reading(number))
    assert recorder.full
    assert [each.time for each in open_recording(path)] == [1000.0 + i for i in range(6)]


def test_fault_54_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("precious" * 1000)
    with pytest.raises(RecordingError, match=r"run\.jsonl already exists; use --overwrite"):
        Recorder(path, created=1.0)
    assert path.read_text() == "precious" * 1000
    with Recorder(path, created=1.0, overwrite=True) as recorder:
        recorder.write(reading(0))
    assert list(open_recording(path)) == [reading(0)]


def test_fault_54_links_and_special_files_are_never_written(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    link = tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises(RecordingError, match="already exists"):
        Recorder(link, created=1.0)
    with pytest.raises(RecordingError, match="a symbolic link"):
        Recorder(link, created=1.0, overwrite=True)
    assert target.read_text() == "precious"
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(RecordingError, match="cannot write"):
        Recorder(fifo, created=1.0, overwrite=True)
    with pytest.raises(RecordingError, match="a pipe, socket or device"):
        Recorder("/dev/null", created=1.0, overwrite=True)
    with pytest.raises(RecordingError, match=r"cannot write .*: Is a directory"):
        Recorder(tmp_path, created=1.0, overwrite=True)
    with pytest.raises(RecordingError, match=r"directory .* does not exist"):
        Recorder(tmp_path / "no" / "run.jsonl", created=1.0)
    with pytest.raises(RecordingError, match="is not a path"):
        Recorder("a\0b", created=1.0)


class FullDisk:
    """Replaces `os.write` on a disk that takes so many bytes more."""

    def __init__(self, room: int, error: int) -> None:
        self.room = room
        self.error = error
        self.write = os.write

    def __call__(self, descriptor: int, data: memoryview) -> int:
        if not self.room:
            raise OSError(self.error, os.strerror(self.error))
        written = self.write(descriptor, data[: min(self.room, 100)])
        self.room -= written
        return written


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EDQUOT"])
def test_fault_51_a_failing_disk_ends_the_recording_not_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, error: str
) -> None:
    code = getattr(errno, error)
    path = tmp_path / f"run{suffix}"
    monkeypatch.setattr(os, "write", FullDisk(2000, code))
    with Recorder(path, created=1.0) as recorder:
        for number in range(2000):
            recorder.write(Reading("n", "s", number / 10, RANDOM.randbytes(40).hex().encode()))
            if recorder.failed:
                break
        recorder.write(reading(1))
        recorder.flush()
    recorder.close()
    assert recorder.failed == os.strerror(code)
    recording = open_recording(path)
    found = len(list(recording))
    assert 0 < found <= recorder.readings
    assert not recording.damage.framer.partial
    assert recording.damage.skipped == 0
    assert path.stat().st_size == recorder.bytes <= 2000


def test_a_disk_that_is_full_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "write", FullDisk(0, errno.ENOSPC))
    with Recorder(tmp_path / "run.jsonl", created=1.0) as recorder:
        assert recorder.failed == "No space left on device"
        recorder.write(reading(0))
        assert recorder.readings == 0
