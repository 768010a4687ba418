"""Files that are traces, and files that are not: each refusal names the file and the reason."""

import gzip
import json
import os
from pathlib import Path

import pytest
import zstandard

from tests.collectors.traces.synthetic import gemm, kineto
from trntop.collectors.traces import content, load
from trntop.core.errors import RecordingError
from trntop.core.model import Reading
from trntop.recording import envelope
from trntop.recording.writer import Recorder

CUT = "its JSON is incomplete: cut off, or still being written"
NEITHER = "not a trace: it has neither `traceEvents` (torch.profiler) nor `events` (Neuron runtime)"


def refusal(path: Path, form: str = "auto") -> str:
    with pytest.raises(RecordingError) as caught:
        load([path], form)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".json.zst", ".odd"])
def test_compression_is_detected_by_the_first_bytes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"trace{suffix}"
    text = kineto(tmp_path / "plain", [gemm(0, 10)]).read_bytes()
    packers = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}
    path.write_bytes(packers.get(path.suffix, bytes)(text))
    assert len(load([path])) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a trace: it is empty"),
        (" \n", "not a trace: it is empty"),
        ("rank 0 started", "not a trace: JSON is malformed: invalid character (byte 0)"),
        ('{"traceEvents": [{"ph": "X"', CUT),
        ('"trace"', "not a trace: no JSON object with events in it"),
        ("{}", NEITHER),
        ('{"traceEvents": {"a": 1}}', "not a trace: its events are not a list"),
        ('{"events": 3}', "not a trace: its events are not a list"),
        ("[" * 100_000, "not a trace: nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_no_trace(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    assert refusal(path) == reason


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.zst"])
def test_a_recording_is_reported_with_its_replay_command(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with Recorder(path, created=1.0) as recorder:
        for time in range(9):
            recorder.write(Reading("n", "steps", float(time), b'{"step": 1}'))
    assert refusal(path) == f"this is a recording: trntop replay {path}"
    headless = tmp_path / "headless.jsonl"
    headless.write_bytes(envelope.line(Reading("n", "steps", 1.0, b'{"step": 1}')))
    assert refusal(headless) == f"this is a recording: trntop replay {headless}"


def test_a_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    text = kineto(tmp_path / "plain", [gemm(start, 1) for start in range(500)]).read_bytes()
    path.write_bytes(gzip.compress(text)[:-20])
    assert "truncated gzip file" in refusal(path)


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    packed = bytearray(gzip.compress(os.urandom(4096)))
    packed[2000:2010] = bytes(10)
    path.write_bytes(packed)
    assert refusal(path) == "damaged gzip file"


def test_a_trace_has_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MAX_DECODED", 100)
    path = kineto(tmp_path / "trace.json", [gemm(0, 1)])
    assert refusal(path) == "larger than 0 GiB expanded"


def test_fault_28_a_bomb_is_no_trace(tmp_path: Path) -> None:
    """60 MB of empty events, in 60 KB, took 1.5 GB of memory."""
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents":[' + b"{}," * 8_000_000 + b"{}]}"))
    with pytest.raises(RecordingError, match="it expands to more than 200 times its size"):
        content.read(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.json") == "No such file or directory"
    assert refusal(tmp_path) == "not a regular file"
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe") == "not a regular file"
    with pytest.raises(RecordingError, match="is not a path"):
        load([Path("a\0b")])


def test_invalid_utf8_costs_one_event(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    text = json.dumps({"traceEvents": [gemm(0, 1), {**gemm(5, 1), "name": "????"}]})
    path.write_bytes(text.encode().replace(b"????", b"\xff\xfe"))
    (capture,) = load([path])
    assert capture.notes[0] == "damaged events skipped: 1"
