"""`trntop import trace` and `trntop profile` as a user types them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.traces.synthetic import BASE, gemm, kineto, nccl, nrt, step, system_trace
from tests.pipeline.test_profiles import GIB, GOLDEN
from trntop.cli import main
from trntop.core import units
from trntop.core.settings import Settings
from trntop.recording.reader import open_recording
from trntop.session.monitor import Monitor, play

STEPS = 40


@pytest.fixture
def ranks(tmp_path: Path) -> list[str]:
    """Synthetic traces of two ranks on two hosts, which communicate half of each step."""
    paths = []
    for rank in range(2):
        events: list[dict[str, Any]] = []
        for number in range(STEPS):
            start = number * 1e6
            events += [step(number, start, 1e6), gemm(start, 6e5), nccl(start + 5e5, 5e5)]
        path = tmp_path / f"trn-00{rank}_{rank}.17.pt.trace.json"
        paths.append(str(kineto(path, events, distributedInfo={"rank": rank})))
    return paths


def test_json(ranks: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "trace", "--json", *ranks]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["files"]) == (1, ranks)
    assert len(document["steps"]) == 2 * STEPS
    assert document["steps"][0] == {
        "node": "trn-000", "rank": 0, "step": 0, "time": BASE / 1e9 + 1,
        "step_seconds": 1.0, "compute_seconds": 0.6, "comm_seconds": 0.5,
        "overlap_seconds": 0.1, "exposed_comm_seconds": 0.4, "reduction_seconds": 0.5,
        "collectives": {"all_reduce": {"count": 1, "seconds": 0.5}},
    }  # fmt: skip
    assert [total["rank"] for total in document["total"]] == [0, 1]
    assert document["total"][0]["overlap_ratio"] == pytest.approx(0.2)


def test_a_table(
    ranks: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["import", "trace", ranks[0]]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].split() == [  # as wide as it is, where there is no terminal
        "node", "rank", "step", "time", "compute", "comm", "overlap", "exposed",
        "comm/step", "exposed/step", "comm/compute",
    ]  # fmt: skip
    assert lines[1].split()[-6:] == ["50", "%", "40", "%", "83", "%"]
    assert lines[-4].endswith(
        "of which 20.00 % overlap compute (20.00 % in steps), non-compute 16.0 s, idle 0 s"
    )
    assert lines[-2].split() == [
        "node", "rank", "collective", "calls", "time", "of", "the", "trace", "bytes", "algbw",
        "busbw",
    ]  # fmt: skip
    assert lines[-1].split()[2:] == ["all-reduce", "40", "20.0", "s", "50", "%", "–", "–", "–"]
    assert captured.err == ""


@pytest.mark.parametrize(
    ("columns", "hidden"),
    [
        (200, ""),
        (80, "comm/compute, overlap"),
        (60, "comm/compute, overlap, exposed, compute"),
    ],
)
def test_a_table_fits_the_terminal_and_states_what_it_omits(
    columns: int,
    hidden: str,
    ranks: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["import", "trace", ranks[0]]) == 0
    captured = capsys.readouterr()
    header = captured.out.splitlines()[0]
    assert len(header) <= columns
    assert not set(hidden.split(", ")) & set(header.split())
    assert {"node", "rank", "step", "comm/step", "exposed/step"} <= set(header.split())
    note = f"not shown at this width: {hidden} (wider terminal, or --json)"
    assert (note in " ".join(captured.out.split())) is bool(hidden)


def test_one_step_of_one_rank_is_not_counted_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marked = [str(kineto(tmp_path / n, [step(3, 0, 10), gemm(0, 5)])) for n in ("a", "b")]
    runs = [nrt("nc_exec_running", phase, time, 1) for phase, time in (("start", 0), ("stop", 9))]
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
    unmarked = [str(system_trace(tmp_path / n / "trn-0.json", runs)) for n in ("x", "y")]
    for files, what in (
        (marked, "step 3 of rank 3 on rank-3"),
        ([marked[0], marked[0]], "step 3 of rank 3 on rank-3"),
        (unmarked, "a step of rank 0 on trn-0"),
    ):
        assert main(["import", "trace", *files]) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith(f"trntop: {files[0]} and {files[1]} both have {what}: ")
        assert (captured.err.count("\n"), captured.out) == (1, "")
    later = kineto(tmp_path / "c", [step(4, 0, 10), gemm(0, 5)])
    assert main(["import", "trace", marked[0], str(later)]) == 0


@pytest.mark.parametrize("marks", [[step(1, 0, 10)], []])
def test_executions_are_not_counted_in_a_trace_of_torch(
    marks: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    path = kineto(tmp_path / "a.json", [*marks, gemm(0, 5)])
    assert main(["import", "trace", "--executions", "4", str(path)]) == 0
    (message,) = capsys.readouterr().err.splitlines()
    assert message.startswith(f"trntop: {path}: ")
    assert "--executions does not apply" in message


def test_traces_of_different_times_are_imported_and_no_node_is_silent_between_them(
    ranks: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    undated = kineto(
        tmp_path / "late_7.17.pt.trace.json",
        [event for n in range(60) for event in (step(n, n * 1e6, 1e6), gemm(n * 1e6, 9e5))],
        baseTimeNanoseconds=None,
        distributedInfo={"rank": 7},
    )
    output = tmp_path / "run.jsonl"
    assert main(["import", "trace", *ranks, str(undated), "-o", str(output)]) == 0
    errors = capsys.readouterr().err
    assert "it has no date" in errors
    assert "these traces do not overlap in time: " in errors
    assert f" between {ranks[0]} and {undated}\n" in errors
    assert main(["analyze", "--json", str(output)]) == 0
    kinds = [incident["kind"] for incident in json.loads(capsys.readouterr().out)["incidents"]]
    assert "node_silent" not in kinds


def test_two_steps_are_too_short_to_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [event for n in range(2) for event in (step(n, n * 1e6, 1e6), gemm(n * 1e6, 9e5))]
    output = tmp_path / "run.jsonl"
    trace = kineto(tmp_path / "a.json", events)
    assert main(["import", "trace", str(trace), "-o", str(output)]) == 0
    capsys.readouterr()
    assert main(["analyze", str(output)]) == 0
    (message,) = capsys.readouterr().err.splitlines()
    assert message.startswith("trntop: 0 s are too short: Comm bound: needs 1 more step; ")


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.zst"])
def test_a_recording_of_it_is_analysed_like_any_other(
    ranks: list[str], tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / f"run{suffix}"
    arguments = ["import", "trace", *ranks, "-o", str(output), "--job", "pretrain"]
    assert main(arguments) == 0
    assert f"{2 * STEPS} steps in {output}" in capsys.readouterr().err
    readings = list(open_recording(output))
    assert [reading.time for reading in readings] == sorted(reading.time for reading in readings)
    assert json.loads(readings[0].data) == {
        "job": "pretrain", "rank": 0, "step": 0, "time": BASE / 1e9 + 1, "step_seconds": 1.0,
        "compute_seconds": 0.6, "comm_seconds": 0.5, "overlap_seconds": 0.1,
        "exposed_comm_seconds": 0.4, "reduction_seconds": 0.5,
        "collectives": {"all_reduce": {"count": 1, "seconds": 0.5}},
    }  # fmt: skip
    *_, view = play(iter(readings), Monitor(Settings()))
    assert view.cluster.jobs == {"pretrain": ("trn-000", "trn-001")}
    shares = view.cluster.column("job_comm_share_ratio").tolist()
    assert shares == pytest.approx([0.5, 0.5])
    assert main(["analyze", "--json", str(output)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["nodes"] == 2
    assert [(incident["kind"], incident["job"]) for incident in document["incidents"]] == [
        ("comm_bound", "pretrain")
    ]
    assert main(arguments) == 2
    assert "already exists" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0


def test_the_trace_itself_is_never_overwritten(
    ranks: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "trace", ranks[0], "-o", ranks[0], "--overwrite"]) == 2
    assert "is also the trace" in capsys.readouterr().err
    assert Path(ranks[0]).stat().st_size > 0


def test_the_target_of_the_recording_is_checked_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    (tmp_path / "taken").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name, reason in (
        ("taken", f"{tmp_path / 'taken'} already exists; use --overwrite"),
        ("dangling", f"{tmp_path / 'dangling'} already exists"),
        ("none/run.jsonl", f"directory {tmp_path / 'none'} does not exist"),
    ):
        output = tmp_path / name
        assert main(["import", "trace", str(broken), "-o", str(output)]) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith(f"trntop: {reason}")
        assert (captured.err.count("\n"), captured.out) == (1, "")


def test_notes_on_a_trace_are_printed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [
        nrt("nc_exec_running", phase, time, core, core)
        for core in range(4)
        for phase, time in (("start", 0), ("stop", 10), ("start", 20), ("stop", 30))
    ]
    path = system_trace(tmp_path / "trn-000.json", events)
    assert main(["import", "trace", "--json", "--executions", "1", str(path)]) == 0
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["steps"]) == 8
    assert captured.err.splitlines() == [
        f"trntop: {path}: no cc_running events in it: communication is unknown"
    ]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["import"], "trntop import needs a command: trace"),
        (["import", "trace"], "missing FILE"),
        (["import", "trace", "none.json"], "none.json: No such file or directory"),
        (["import", "trace", "x", "--executions", "1.5"], "1.5 is not a whole number above 0"),
        (["import", "trace", "x", "--executions", "9999999999"], "is not a whole number above 0"),
        (["profile", "add"], "missing FILE"),
        (["profile", "add", "a", "b", "--neff", "n"], "need exactly one FILE"),
        (["profile", "remove", "x"], "no profile of x; it holds none"),
        (["profile", "list", "--json"], "unknown option --json (see trntop profile list --help)"),
        (["import", "trace", "x", "--jsn"], "unknown option --jsn; did you mean --json?"),
        (["doctor", "x"], "unexpected argument x (see trntop doctor --help)"),
        (["profile", "lost"], "unknown command lost; did you mean list?"),
    ],
)
def test_bad_use_is_one_line_and_exits_with_2(
    arguments: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert reason in captured.err
    assert (captured.err.count("\n"), captured.out) == (1, "")


def test_profiles_from_adding_to_removing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    file = tmp_path / "summary.json"
    file.write_text(json.dumps({"n_0": GOLDEN}))
    assert main(["profile", "list"]) == 0
    assert "no saved profiles in" in capsys.readouterr().err
    assert main(["profile", "add", str(file), "--neff", "train_step.neff"]) == 0
    captured = capsys.readouterr()
    size = units.bytes_iec(6.697 * GIB)
    assert captured.out == (f"train_step.neff: {size} per execution of {units.seconds(0.05482)}\n")
    assert captured.err == ""
    assert main(["profile", "add", str(file), "--neff", "train_step.neff"]) == 0
    assert "replaced the old profile" in capsys.readouterr().out
    assert main(["profile", "list"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "uuid", "read", "written", "time", "comm"]
    sizes = [units.bytes_iec(size * GIB) for size in (3.995, 2.702)]
    times = [units.seconds(time) for time in (0.05482, 0.0147)]
    assert row.split() == " ".join(["train_step.neff", units.ABSENT, *sizes, *times]).split()
    assert main(["profile", "remove", "train_step.neff"]) == 0
    assert main(["profile", "list"]) == 0
    assert "no saved profiles in" in capsys.readouterr().err


def test_a_foreign_file_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other, summary = tmp_path / "tsconfig.json", tmp_path / "summary.json"
    other.write_text('{"compilerOptions": {}}')
    summary.write_text(json.dumps(GOLDEN))
    for arguments in (["list"], ["add", str(summary)], ["remove", "x"]):
        assert main(["profile", *arguments, "--set", f"collect.profiles={other}"]) == 2
        reason = f"trntop: {other}: not a file of profiles: no `profiles` in it\n"
        assert capsys.readouterr().err == reason
    assert other.read_text() == '{"compilerOptions": {}}'
    away = tmp_path / "typo" / "profiles.json"
    assert main(["profile", "add", str(summary), "--set", f"collect.profiles={away}"]) == 2
    assert f"directory {away.parent} does not exist" in capsys.readouterr().err


def test_a_profile_without_a_name_is_kept_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store.json"
    file = tmp_path / "step.json"
    file.write_text(json.dumps(GOLDEN))
    assert main(["profile", "add", "--set", f"collect.profiles={store}", str(file)]) == 0
    assert "does not name its NEFF: assuming step" in capsys.readouterr().err
    assert store.exists()
