"""`trntop import trace` and `trntop profile` as a user types them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.traces.synthetic import BASE, gemm, kineto, nccl, nrt, step, system_trace
from tests.test_profiles import GIB, GOLDEN
from trntop import units
from trntop.cli import main
from trntop.monitor import Monitor, play
from trntop.recording import open_recording
from trntop.settings import Settings

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
        "overlap_seconds": 0.1, "exposed_comm_seconds": 0.4,
    }  # fmt: skip
    assert [total["rank"] for total in document["total"]] == [0, 1]
    assert document["total"][0]["overlap_ratio"] == pytest.approx(0.2)


def test_a_table(ranks: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "trace", ranks[0]]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].split() == [
        "node", "rank", "step", "time", "compute", "comm", "overlap", "exposed",
        "comm/step", "exposed/step", "comm/compute",
    ]  # fmt: skip
    assert lines[1].split()[-6:] == ["50", "%", "40", "%", "83", "%"]
    assert lines[-1].endswith("of which 20.00 % overlap compute")
    assert captured.err == ""


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
        "exposed_comm_seconds": 0.4,
    }  # fmt: skip
    *_, view = play(iter(readings), Monitor(Settings()))
    assert view.cluster.jobs == {"pretrain": ("trn-000", "trn-001")}
    shares = view.cluster.column("job_comm_share_ratio").tolist()
    assert shares == pytest.approx([0.5, 0.5])
    assert main(["analyze", "--json", str(output)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["nodes"] == 2
    assert [(one["kind"], one["job"]) for one in document["incidents"]] == [
        ("comm_bound", "pretrain")
    ]
    assert main(arguments) == 2
    assert "exists already" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0


def test_the_trace_itself_is_never_overwritten(
    ranks: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "trace", ranks[0], "-o", ranks[0], "--overwrite"]) == 2
    assert "is also the trace" in capsys.readouterr().err
    assert Path(ranks[0]).stat().st_size > 0


def test_what_to_know_of_a_trace_is_said_once(
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
        f"trntop: {path}: no cc_running events in it: communication is not known"
    ]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["import"], "the following arguments are required: COMMAND"),
        (["import", "trace"], "the following arguments are required: FILE"),
        (["import", "trace", "none.json"], "none.json: No such file or directory"),
        (["import", "trace", "x", "--executions", "1.5"], "1.5 is no whole number above 0"),
        (["import", "trace", "x", "--executions", "9999999999"], "is no whole number above 0"),
        (["profile", "add"], "the following arguments are required: FILE"),
        (["profile", "add", "a", "b", "--neff", "n"], "name one program: give one FILE"),
        (["profile", "remove", "x"], "no profile of x; it holds none"),
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
    assert "no profiles in" in capsys.readouterr().err
    assert main(["profile", "add", str(file), "--neff", "train_step.neff"]) == 0
    captured = capsys.readouterr()
    size = units.bytes_iec(6.697 * GIB)
    assert captured.out == (
        f"train_step.neff: {size} an execution of {units.seconds(0.05482)};"
        " mbu_estimated_percent 31.99 fits Inferentia2 or Trainium1\n"
    )
    assert captured.err == ""
    assert main(["profile", "add", str(file), "--neff", "train_step.neff"]) == 0
    assert "replaces the one before" in capsys.readouterr().out
    assert main(["profile", "list"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "uuid", "read", "written", "time", "comm"]
    sizes = [units.bytes_iec(size * GIB) for size in (3.995, 2.702)]
    times = [units.seconds(time) for time in (0.05482, 0.0147)]
    assert row.split() == " ".join(["train_step.neff", units.ABSENT, *sizes, *times]).split()
    assert main(["profile", "remove", "train_step.neff"]) == 0
    assert main(["profile", "list"]) == 0
    assert "no profiles in" in capsys.readouterr().err


def test_profiles_that_raise_doubts_are_kept_and_the_doubts_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store.json"
    file = tmp_path / "step.json"
    file.write_text(json.dumps(GOLDEN | {"mbu_estimated_percent": 12.0}))
    assert main(["profile", "add", "--set", f"collect.profiles={store}", str(file)]) == 0
    nameless, unfit = capsys.readouterr().err.splitlines()
    assert "does not name its NEFF: taken to be step" in nameless
    assert "mbu_estimated_percent 12 fits no chip known here" in unfit
    assert store.exists()
