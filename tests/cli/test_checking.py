"""`trntop check` as a command: its options, reports, exit codes, and what it keeps."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import trntop.collectors.hosts
from tests.check.fleet import LATENCY, Fleet, inspection
from trntop.check.model import Host, ProbeError, UnreachableError
from trntop.cli import main
from trntop.core.settings import Settings
from trntop.core.source_spec import Source
from trntop.recording.reader import open_recording

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path / "state" / "trntop" / "check.jsonl"


def use_fleet(monkeypatch: pytest.MonkeyPatch, fleet: Fleet) -> list[Source]:
    """Lets every source be this fleet; which sources were asked for."""
    checked: list[Source] = []

    def hosts_of(sources: list[Source], settings: Settings) -> list[Host]:
        checked.extend(sources)
        return list(fleet.hosts())

    monkeypatch.setattr(trntop.collectors.hosts, "hosts_of", hosts_of, raising=False)
    return checked


def slow_fleet(count: int = 8) -> Fleet:
    return Fleet(
        count,
        lambda client, server, efa_device: LATENCY * (4 if "trn-003" in (client, server) else 1),
    )


def test_a_healthy_fleet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checked = use_fleet(monkeypatch, Fleet(4))
    assert main(["check", "trn-[001-003]", "trn-004", "ssh://trn-005"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == "PASS: 4 nodes are fit"
    assert err == ""
    assert [source.text for source in checked] == ["trn-[001-003]", "trn-004", "ssh://trn-005"]


def test_the_worst_node_is_first_with_its_next_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_fleet(monkeypatch, slow_fleet())
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["check", "trn-[001-008]"]) == 2
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].startswith("trntop check  2")
    assert lines[3].split()[:2] == ["trn-003", "fail"]
    assert any(line.startswith("SLOW NETWORK  trn-003: with trn-") for line in lines)
    assert "→ ISOLATE: Drain it: `scontrol update nodename=trn-003 state=drain" in out
    assert lines[-1].startswith("FAIL: 7 of 8 nodes pass. trn-003 slow network: with trn-")
    assert lines[-1].endswith(" Drain it.")


def test_exit_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(4)
    fleet.inspections["trn-002"] = lambda _: inspection("trn-002", memlock_bytes=65536.0)
    use_fleet(monkeypatch, fleet)
    assert main(["check", "x"]) == 1
    fleet.inspections["trn-002"] = lambda _: inspection("trn-002", busy=["job 1"])
    assert main(["check", "x"]) == 3
    fleet.broken["trn-001"] = UnreachableError("connection refused")
    assert main(["check", "x"]) == 2


def test_what_nodes_there_are_may_not_be_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def hosts_of(*_: object) -> list[Host]:
        raise ProbeError("squeue: job 4711 is not known")

    monkeypatch.setattr(trntop.collectors.hosts, "hosts_of", hosts_of, raising=False)
    assert main(["check", "slurm:4711"]) == 3
    assert capsys.readouterr().err == "trntop: inconclusive: squeue: job 4711 is not known\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["sim:demo"], "check needs nodes, not a recording or a simulation"),
        (["trn-1", "--full", "--quick"], "cannot be combined with"),
        (["trn-1", "--iterations", "0"], "0 is not a whole number above 0"),
        (
            ["trn-1", "--size", "2G"],
            "invalid probe: size_bytes: 2000000000 is not between",
        ),
        (["trn-1", "--deadline", "1000", "--dry-run"], "seconds: 1000 is not between 0.5 and 300"),
        (["trn-1", "--per-device", "--provider", "tcp"], "--per-device needs --provider efa"),
    ],
)
def test_bad_use_is_one_line(
    arguments: list[str],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    use_fleet(monkeypatch, Fleet(2))
    assert main(["check", *arguments]) == 2
    error = capsys.readouterr().err
    assert complaint in error and error.count("\n") == 1


def test_a_dry_run_shows_the_plan_and_does_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: Path
) -> None:
    fleet = Fleet(64)
    use_fleet(monkeypatch, fleet)
    assert main(["check", "trn-[001-064]", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("quick check of 64 nodes: 64 pairs in 2 rounds, about 13 s, or")
    assert lines[1].startswith("  round 1: trn-001>trn-002 trn-003>trn-004")
    assert fleet.probes == [] and not saved.exists()


def test_options_become_the_plan(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    use_fleet(monkeypatch, Fleet(3))
    options = "--size 1K --iterations 50 --repeats 2 --deadline 4 --full"
    assert main(["check", "x", "--json", "--per-device", *options.split()]) == 0
    found = json.loads(capsysbinary.readouterr().out)
    assert found["schema"] == 1
    assert found["plan"]["spec"] == {
        "tool": "fi_pingpong", "provider": "efa", "efa_device": "", "peer_efa_device": "",
        "size_bytes": 1000, "iterations": 50, "repeats": 2, "seconds": 4.0,
    }  # fmt: skip
    assert (found["plan"]["extent"], found["plan"]["per_device"]) == ("full", True)
    assert found["outcome"] == "pass"
    assert len(found["trials"]) == 3 * 8
    assert found["trials"][0]["results"][0]["peer"].startswith("trn-")


def test_a_plan_beyond_its_time_limit_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_fleet(monkeypatch, Fleet(8))
    assert main(["check", "x", "--full", "--time-limit", "20"]) == 0
    assert "needs about 37 s but stops after 20 s; raise --time-limit" in capsys.readouterr().err


# The newest check


def test_the_probes_are_saved_for_a_dashboard(monkeypatch: pytest.MonkeyPatch, saved: Path) -> None:
    use_fleet(monkeypatch, Fleet(4))
    assert main(["check", "x", "--no-save"]) == 0
    assert not saved.exists()
    for count in (4, 2):
        use_fleet(monkeypatch, Fleet(count))
        assert main(["check", "x"]) == 0
        assert saved.stat().st_mode & 0o777 == 0o600
        nodes = {reading.node for reading in open_recording(saved)}
        assert len(nodes) == count - 1, "the newest check replaces the one before"
    assert list(saved.parent.iterdir()) == [saved]


def test_a_folder_that_cannot_be_written_costs_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "state").write_text("a file")
    use_fleet(monkeypatch, Fleet(2))
    assert main(["check", "x"]) == 0
    assert "cannot write to " in capsys.readouterr().err


# Reports


def test_markdown_and_a_recording(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    use_fleet(monkeypatch, slow_fleet())
    recording = tmp_path / "probes.jsonl"
    assert main(["check", "x", "--markdown", "--write", str(recording)]) == 2
    page = capsys.readouterr().out
    assert page.startswith("# trntop check, 2")
    assert "**FAIL: 7 of 8 nodes pass. trn-003 slow network: with trn-001" in page
    readings = list(open_recording(recording))
    assert {reading.source for reading in readings} == {"probe"}
    assert main(["check", "x", "--write", str(recording)]) == 2
    assert "already exists; choose another file" in capsys.readouterr().err
    assert main(["snapshot", str(recording)]) == 0
    assert "trn-003" in capsys.readouterr().out


# Interrupted


@pytest.mark.slow  # signals its own process, which other tests share
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_closes_all_hosts(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(3)
    fleet.hanging.add("trn-002")
    use_fleet(monkeypatch, fleet)

    fleet.when_waiting = lambda: os.kill(os.getpid(), number)
    assert main(["check", "x"]) == 130
    assert sorted(fleet.closed) == fleet.names


def test_this_machine_alone(tmp_path: Path) -> None:
    """The real thing, with the real tool where it is installed; else it reports what is missing."""
    run = subprocess.run(
        [sys.executable, "-m", "trntop", "check", "--provider", "tcp", "--repeats", "1"],
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode in (1, 2, 3), run.stderr  # no EFA efa_device here
    assert "Traceback" not in run.stderr
    assert run.stdout.splitlines()[-1].startswith(("WARN", "FAIL", "INCONCLUSIVE"))
