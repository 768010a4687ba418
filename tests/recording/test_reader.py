import errno
import gzip
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from trntop.core.errors import RecordingError
from trntop.core.model import Reading
from trntop.recording.compression import Codec
from trntop.recording.envelope import Envelope, parse
from trntop.recording.reader import Limits, Recording, open_recording
from trntop.recording.writer import Recorder

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")

Pack = Callable[[bytes], bytes]


def same(data: bytes) -> bytes:
    return data


def zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


PACKS = pytest.mark.parametrize("pack", [same, gzip.compress, zst], ids=["plain", "gzip", "zstd"])

HEADER = (
    b'{"v":1,"recording":{"created":1763650000.0,"by":"trntop 0.1.0","note":"before the fix"}}\n'
)


def reading(number: int) -> Reading:
    return Reading("trn-000", "neuron-monitor", 1000.0 + number, b'{"number":%d}' % number)


def envelope(number: int, **changes: object) -> bytes:
    fields: dict[str, object] = {
        "v": 1,
        "t": 1000.0 + number,
        "node": "trn-000",
        "source": "neuron-monitor",
        "data": {"number": number},
    }
    fields |= changes
    kept = {key: value for key, value in fields.items() if value is not ...}
    return json.dumps(kept).encode() + b"\n"


def report(period: float, **changes: object) -> bytes:
    fields: dict[str, object] = {
        "neuron_runtime_data": [],
        "system_data": {
            "memory_info": {"period": period, "error": ""},
            "neuron_hw_counters": {"period": period / 2, "error": ""},
        },
    }
    return json.dumps(fields | changes).encode() + b"\n"


def write(path: Path, content: bytes | Iterable[bytes], **limits: int) -> Recording:
    path.write_bytes(content if isinstance(content, bytes) else b"".join(content))
    return open_recording(path, Limits(**limits))


def refusal(path: str | Path, limits: Limits = Limits()) -> str:  # noqa: B008
    with pytest.raises(RecordingError) as caught:
        open_recording(path, limits)
    text = str(caught.value)
    assert "\n" not in text
    return text.removeprefix(f"{path} ")


def record(path: Path, readings: Iterable[Reading]) -> None:
    with Recorder(path, created=1.0) as recorder:
        for each in readings:
            recorder.write(each)
    assert not recorder.failed


# Reading


@PACKS
def test_readings_come_as_they_were_written(tmp_path: Path, pack: Pack) -> None:
    path = tmp_path / "run"  # compression is detected by the content, not by the name
    lines = [HEADER, envelope(0), envelope(1, node="trn-001", simulated=True), b"\n", envelope(2)]
    recording = write(path, pack(b"".join(lines)))
    assert recording.header is not None
    assert recording.header.created == 1763650000.0
    assert recording.header.note == "before the fix"
    assert not recording.plain
    expected = [
        Reading("trn-000", "neuron-monitor", 1000.0, b'{"number": 0}'),
        Reading("trn-001", "neuron-monitor", 1001.0, b'{"number": 1}', simulated=True),
        Reading("trn-000", "neuron-monitor", 1002.0, b'{"number": 2}'),
    ]
    assert list(recording) == expected
    assert list(recording) == expected
    assert recording.damage.note() == ""


def test_payloads_are_verbatim(tmp_path: Path) -> None:
    data = b'{"n": 1.50,"big":18446744073709551616, "a":[1e5 ,2],"\\u00e9":"\xc3\xa9\xff"}'
    line = b'{"source":"x", "t":5, "extra":{"a":[]}, "node":"n","v":1 ,"data": ' + data + b" }\n"
    (only,) = write(tmp_path / "run", line)
    assert only == Reading("n", "x", 5.0, data)


@PACKS
def test_concatenated_recordings_are_one(tmp_path: Path, pack: Pack) -> None:
    first, two = pack(HEADER + envelope(5)), pack(HEADER + envelope(1))
    recording = write(tmp_path / "run", first + two)
    assert [each.time for each in recording] == [1005.0, 1001.0]
    assert recording.damage.note() == ""


def test_an_envelope_may_be_pretty_printed(tmp_path: Path) -> None:
    pretty = json.dumps(json.loads(envelope(1)), indent=2).encode()
    recording = write(tmp_path / "run", pretty + b"\n" + envelope(2))
    assert [each.time for each in recording] == [1001.0, 1002.0]


def test_names_are_cleaned(tmp_path: Path) -> None:
    line = envelope(1, node="trn\x1b[31m\n" + "n" * 900, source="s\u202e" + "s" * 200)
    (only,) = write(tmp_path / "run", line)
    assert only.node.startswith("trn\ufffd[31m ")
    assert len(only.node) == 256
    assert only.source.startswith("s\ufffds")
    assert len(only.source) == 64


def test_text_and_base64_payloads(tmp_path: Path) -> None:
    lines = [
        envelope(1, data=..., text='W1120 "x"\n\u00e9'),
        envelope(2, data=..., base64="AP8="),
        envelope(3, data=..., text=""),
    ]
    assert [each.data for each in write(tmp_path / "run", lines)] == [
        'W1120 "x"\n\u00e9'.encode(),
        b"\x00\xff",
        b"",
    ]


@pytest.mark.parametrize(
    "bad",
    [
        envelope(1, node=...),
        envelope(1, node=""),
        envelope(1, node=7),
        envelope(1, source=...),
        envelope(1, t=...),
        envelope(1, t="1001"),
        envelope(1, t=True),
        envelope(1, t=float("nan")),
        envelope(1, t=-1),
        envelope(1, t=1e300),
        b'{"v":1,"t":1e999,"node":"n","source":"s","data":{}}\n',
        envelope(1, data=...),
        envelope(1, data=..., base64="!"),
        envelope(1, v=...),
        envelope(1, v=0),
        envelope(1, v=2),
        envelope(1, v="1"),
        envelope(1, simulated="no"),
        envelope(1, recording={"note": 7}),
        b'{"v":1}\n',
        b'{"v":1,"t":1001,"node":"n","source":"s","data":{"a":}}\n',
        b'{"v":1,"t":1001,"node":"\\ud800","source":"s","data":{}}\n',
        b'{"v":1,"t":1001,"node":"n","source":"s","data":' + b'{"a":' * 9999 + b"\n",
        envelope(1).strip() * 2 + b"\n",
        b'{"v":1,"t":1001,"node":"n","source":"s","data":'
        + b'{"a":' * 99999
        + b"1"
        + b"}" * 100000
        + b"\n",
        b'"v"\n',
        b"[]\n",
        b"\x00\x00\x00\n",
        report(1.0),
    ],
)
def test_a_bad_line_is_counted_and_the_rest_delivered(tmp_path: Path, bad: bytes) -> None:
    recording = write(tmp_path / "run", [HEADER, envelope(0), bad, envelope(2)])
    assert [each.time for each in recording] == [1000.0, 1002.0]
    assert recording.damage.skipped == 1
    assert recording.damage.note() == "1 damaged line skipped"


def test_the_note_on_damage_is_complete(tmp_path: Path) -> None:
    lines = [
        envelope(0),
        b"garbage\n" * 3,
        envelope(1, data="x" * 2000),
        *(envelope(i, node=f"n{i}") for i in range(3)),
        b'{"v":1,"t":10',
    ]
    recording = write(tmp_path / "run", lines, line=1024, nodes=2)
    assert [each.node for each in recording] == ["trn-000", "n0"]
    assert recording.damage.note() == (
        "the file ends in the middle of a line: 13 bytes lost; 3 damaged lines skipped; "
        "1 line over 1 KiB skipped; 2 readings dropped: more than 2 nodes"
    )


def test_damage_is_that_of_the_latest_pass(tmp_path: Path) -> None:
    recording = write(tmp_path / "run", [envelope(0), b"garbage\n", envelope(1)])
    for _ in range(2):
        readings = iter(recording)
        next(readings)
        assert recording.damage.skipped <= 1
        next(readings)
        assert recording.damage.skipped == 1


@PACKS
def test_fault_53_a_bomb_is_cut_at_the_limit(tmp_path: Path, pack: Pack) -> None:
    bomb = pack(envelope(0) + b" " * (64 << 20) + b"\n" + envelope(1))
    recording = write(tmp_path / "run", bomb, decoded=1 << 20)
    assert [each.time for each in recording] == [1000.0]
    assert recording.damage.note().endswith("reading stopped after 1 MiB")


def test_fault_28_newlines_without_a_reading_end_the_pass(tmp_path: Path) -> None:
    """10 KB expand to 320 MB of newlines; 20 GiB of them kept `analyze` busy for minutes."""
    encoder = zstandard.ZstdCompressor().compressobj()
    bomb = encoder.compress(envelope(0))
    bomb += b"".join(encoder.compress(b"\n" * (1 << 20)) for _ in range(320)) + encoder.flush()
    recording = write(tmp_path / "run", bomb)
    assert [each.time for each in recording] == [1000.0]
    assert recording.damage.note() == "reading stopped: no reading in 32 MiB"
    assert recording.damage.read < 34 << 20


@PACKS
def test_fault_28_readings_that_are_all_the_same_end_the_pass(tmp_path: Path, pack: Pack) -> None:
    recording = write(tmp_path / "run", pack(envelope(0) * 200_000))
    found = sum(1 for _ in recording)
    if recording.path.stat().st_size < 200_000:
        assert found < 100_000
        assert "more readings than a file of its size can have" in recording.damage.note()
    else:
        assert found == 200_000, "it is not compressed"


def test_what_is_written_after_the_opening_is_not_read(tmp_path: Path) -> None:
    recording = write(tmp_path / "run", [envelope(0), envelope(1)])
    with recording.path.open("ab") as file:
        file.write(envelope(2))
    assert [each.time for each in recording] == [1000.0, 1001.0]
    assert not recording.damage.note()


def test_a_disk_that_fails_ends_the_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = write(tmp_path / "run", [envelope(0), envelope(1)])

    def failing(file: BinaryIO, codec: Codec | None, size: int | None) -> Iterator[bytes]:
        yield file.read(len(envelope(0)) + 9)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("trntop.recording.reader.blocks", failing)
    assert [each.time for each in recording] == [1000.0]
    assert recording.damage.note() == (
        "the file ends in the middle of a line: 9 bytes lost; read error: Input/output error"
    )


def test_a_file_that_vanishes_or_changes_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    recording = write(path, envelope(0))
    path.unlink()
    with pytest.raises(RecordingError, match="No such file"):
        list(recording)
    os.mkfifo(path)
    with pytest.raises(RecordingError, match="pipe"):
        list(recording)


# Plain neuron-monitor output


@pytest.mark.parametrize(
    ("name", "node"),
    [("trn-003.json", "trn-003"), ("a.b.jsonl.gz", "a.b"), ("trn-7", "trn-7"), (".json", ".json")],
)
def test_a_plain_file_is_a_recording_of_one_node(tmp_path: Path, name: str, node: str) -> None:
    path = tmp_path / name
    path.write_bytes(report(0.0005) + report(5.0) + report(4.0))
    os.utime(path, (500.0, 500.0))
    recording = open_recording(path)
    assert recording.plain
    assert recording.header is None
    assert [(each.node, each.source, each.time) for each in recording] == [
        (node, "neuron-monitor", 500.0),
        (node, "neuron-monitor", 505.0),
        (node, "neuron-monitor", 509.0),
    ]
    assert next(iter(recording)).data == report(0.0005).strip()
    assert recording.span() is None
    assert [each.time for each in recording.iter_from(505.0)] == [505.0, 509.0]


@pytest.mark.parametrize("period", ["-3", "1e999", "1e-999", '"5"', "null", "[]"])
def test_an_absurd_period_does_not_move_time_back_or_to_infinity(
    tmp_path: Path, period: str
) -> None:
    path = tmp_path / "trn-000.json"
    odd = b'{"system_data":{"memory_info":{"period":%s}}}\n' % period.encode()
    recording = write(path, report(1.0) + odd * 2)
    times = [each.time for each in recording]
    assert len(times) == 3
    assert times == sorted(times)
    assert times[-1] - times[0] <= 7200.0


def test_numbered_reports_are_accepted(tmp_path: Path) -> None:
    first, second = (json.loads(report(period)) for period in (1.0, 2.0))
    numbered = json.dumps({"1": first, "2": second}).encode()
    readings = list(write(tmp_path / "run", numbered))
    assert [json.loads(reading.data) for reading in readings] == [first, second]
    assert readings[1].time - readings[0].time == 2.0


def test_a_pretty_printed_report_is_accepted(tmp_path: Path) -> None:
    pretty = json.dumps(json.loads(report(1.0)), indent=4).encode()
    recording = write(tmp_path / "trn-000.json", pretty + b"\n" + pretty)
    assert [each.data for each in recording] == [pretty, pretty]
    assert recording.damage.note() == ""


def test_other_objects_in_a_plain_file_are_counted(tmp_path: Path) -> None:
    recording = write(tmp_path / "n", [report(1.0), b'{"other":1}\n', envelope(1), report(1.0)])
    assert len(list(recording)) == 2
    assert recording.damage.skipped == 2


# What is refused


def test_fault_53_what_cannot_be_a_recording_is_refused_with_a_reason(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert refusal(missing) == f"cannot read {missing}: No such file or directory"
    assert refusal(tmp_path) == "is not a recording: it is a directory"
    assert refusal("/dev/zero") == "is not a recording: it is a pipe, socket or device"
    assert refusal("a\0b") == "'a\\x00b' is not a path"
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert refusal(fifo) == "is not a recording: it is a pipe, socket or device"
    link = tmp_path / "link"
    link.symlink_to("/dev/zero")
    assert refusal(link) == "is not a recording: it is a pipe, socket or device"
    link.unlink()
    link.symlink_to(link)
    assert "symbolic links" in refusal(link)


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # paths of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert refusal("socket") == "is not a recording: it is a pipe, socket or device"


def test_a_link_to_a_recording_is_followed(tmp_path: Path) -> None:
    write(tmp_path / "run", envelope(0))
    (tmp_path / "latest").symlink_to("run")
    assert len(list(open_recording(tmp_path / "latest"))) == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "it contains no JSON object"),
        (b"hello\n", "it contains no JSON object"),
        (b'{"a":', "it contains no JSON object"),
        (b"\x00" * 5000, "it contains no JSON object"),
        (b"[1,2]\n", "it contains no JSON object"),
        (b'{"a":1}\n', "it contains neither readings nor neuron-monitor reports"),
        (b'{"v":7}\n', "it contains neither readings nor neuron-monitor reports"),
        (b"PK\x03\x04\n\x00\x00", "it contains no JSON object"),
        (gzip.compress(b"", mtime=0), "it contains no JSON object"),
        (gzip.compress(HEADER, mtime=0)[:15], "truncated gzip file"),
        (b"\x1f\x8b garbage", "damaged gzip file"),
        (b"\x28\xb5\x2f\xfd\x08\xff\xff\xff\xff\xff\xff", "damaged Zstandard file"),
    ],
)
def test_content_that_is_no_recording_is_refused(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "run"
    path.write_bytes(content)
    assert refusal(path).startswith(f"is not a recording: {reason}")


@PACKS
def test_the_search_for_the_first_object_is_bounded(tmp_path: Path, pack: Pack) -> None:
    path = tmp_path / "run"
    path.write_bytes(pack(b"x" * (2 << 20) + b"\n" + envelope(0)))
    assert refusal(path, Limits(line=1 << 20)) == (
        "is not a recording: no JSON object in the first 1 MiB"
    )


def test_fault_53_a_sparse_file_of_ten_gigabytes_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(10 << 30)
    assert refusal(path) == "is not a recording: no JSON object in the first 8 MiB"


def test_a_newer_format_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run"
    for line in (envelope(0, v=2), b'{"v":2,"recording":{"created":{"new":"shape"}}}\n'):
        path.write_bytes(line)
        assert (
            refusal(path) == "was written by a newer trntop (format 2); this version reads format 1"
        )


def test_a_header_alone_is_an_empty_recording(tmp_path: Path) -> None:
    recording = write(tmp_path / "run", HEADER)
    assert list(recording) == []
    assert recording.damage.note() == ""
    assert recording.span() is None


# Seeking


@pytest.mark.parametrize("pack", [same, zst], ids=["plain", "zstd"])
def test_iteration_can_start_anywhere(tmp_path: Path, pack: Pack) -> None:
    pad = "x" * 4000
    lines = [envelope(i // 3, data={"i": i, "pad": pad}) for i in range(900)]
    recording = write(tmp_path / "run", pack(HEADER + b"".join(lines)))
    for start in (0.0, 1000.0, 1000.5, 1001.0, 1042.0, 1150.1, 1298.0, 1299.0, 1299.5, 9999.0):
        times = [each.time for each in recording.iter_from(start)]
        assert times == [1000.0 + i // 3 for i in range(900) if 1000.0 + i // 3 >= start]
        assert recording.damage.note() == ""


def test_seeking_reads_a_small_part_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pad = "x" * 10_000
    recording = write(tmp_path / "run", [envelope(i, data=pad) for i in range(3000)])
    parsed = 0

    def counting(line: bytes) -> Envelope | None:
        nonlocal parsed
        parsed += 1
        return parse(line)

    monkeypatch.setattr("trntop.recording.reader.parse", counting)
    assert next(iter(recording.iter_from(3900.0))).time == 3900.0
    assert recording.span() == (1000.0, 3999.0)
    assert parsed < 120


def test_seeking_copes_with_lines_it_cannot_read(tmp_path: Path) -> None:
    def pretty(number: int) -> bytes:
        lines = json.loads(envelope(number, data=["x" * 900] * 50))
        return json.dumps(lines, indent=1).encode() + b"\n"

    recording = write(tmp_path / "run", [pretty(i) for i in range(30)])
    assert [each.time for each in recording.iter_from(1020.0)] == [
        1000.0 + i for i in range(20, 30)
    ]
    junk = b"junk " * 100_000 + b"\n"
    recording = write(tmp_path / "run", [envelope(0), junk, envelope(1), junk, envelope(2), junk])
    assert [each.time for each in recording.iter_from(1001.0)] == [1001.0, 1002.0]
    assert recording.span() == (1000.0, 1002.0)


def test_the_span_of_a_truncated_recording_ends_with_its_last_whole_line(tmp_path: Path) -> None:
    recording = write(tmp_path / "run", HEADER + envelope(0) + envelope(1) + envelope(2)[:-9])
    assert recording.span() == (1000.0, 1001.0)
    assert recording.damage.note() == ""


@pytest.mark.parametrize("pack", [gzip.compress, zst])
def test_the_span_of_a_compressed_recording_is_not_known(tmp_path: Path, pack: Pack) -> None:
    assert write(tmp_path / "run", pack(envelope(0))).span() is None


# Damage


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_fault_52_a_recording_cut_at_any_byte_gives_its_whole_lines(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"run{suffix}"
    ends = []
    with Recorder(path, created=1.0) as recorder:
        for number in range(6):
            recorder.write(reading(number))
            recorder.flush()
            ends.append(recorder.bytes)
    whole = path.read_bytes()
    cut = tmp_path / "cut"
    for length in range(len(whole)):
        cut.write_bytes(whole[:length])
        flushed = sum(end <= length for end in ends)
        try:
            recording = open_recording(cut)
        except RecordingError:
            assert not flushed
            continue
        found = list(recording)
        assert found == [reading(number) for number in range(len(found))]
        assert len(found) >= flushed
        if suffix != ".jsonl" or length not in [e for end in ends for e in (end - 1, end)]:
            assert recording.damage.note() or length < ends[0]


@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80, 0xFF])
def test_fault_52_a_flipped_byte_costs_two_lines_at_most_and_changes_none(
    tmp_path: Path, mask: int
) -> None:
    """Every byte of a file, and what becomes of it: never another number without a note."""
    path = tmp_path / "run.jsonl"
    originals = [reading(number) for number in range(5)]
    record(path, originals)
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ mask]) + whole[position + 1 :])
        try:
            recording = open_recording(path)
        except RecordingError as error:  # the version in the header became a higher one
            assert "newer trntop" in str(error)
            continue
        found = list(recording)
        assert [each for each in found if each not in originals] == []
        # A lost newline joins two lines into one damaged line.
        assert len(found) >= 3
        assert len(found) == 5 or recording.damage.note()


def test_fault_52_lines_without_a_checksum_are_read_where_none_is_promised(tmp_path: Path) -> None:
    """Recordings of earlier versions, also appended to a new one."""
    path = tmp_path / "run.jsonl"
    record(path, [reading(0)])
    new = path.read_bytes()
    path.write_bytes(new + envelope(1) + HEADER + envelope(2))
    recording = open_recording(path)
    assert [each.time for each in recording] == [1000.0, 1002.0]
    assert recording.damage.note() == "1 damaged line skipped"


def test_fault_52_a_checksum_that_was_written_differently_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    record(path, [reading(0), reading(1)])
    header, first, second = path.read_text().splitlines()
    changed = json.dumps({**json.loads(first), "t": 5.0})
    path.write_text(f"{header}\n{changed}\n{second}\n")
    recording = open_recording(path)
    assert list(recording) == [reading(1)]
    assert recording.damage.note() == "1 damaged line skipped"


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_flipped_byte_in_a_compressed_recording_never_passes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"run{suffix}"
    originals = [reading(number) for number in range(5)]
    record(path, originals)
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
        try:
            recording = open_recording(path)
        except RecordingError:
            continue
        assert list(recording) == originals or recording.damage.note()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(
        st.binary(max_size=60)
        | st.sampled_from([HEADER, envelope(1), report(1.0), b"\n", b'{"', b"}"])
    ),
    st.sampled_from([same, gzip.compress, zst]),
)
def test_no_bytes_whatever_break_the_reader(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], pack: Pack
) -> None:
    path = tmp_path_factory.mktemp("run") / "run"
    path.write_bytes(pack(b"".join(parts)))
    try:
        recording = open_recording(path)
    except RecordingError:
        return
    list(recording)
    list(recording.iter_from(1001.0))
    recording.span()
    recording.damage.note()
