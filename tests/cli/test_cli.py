"""The command line as a user types it: exit codes, what goes where, and every refusal."""

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import captures
from tests.captures import needs_captures
from trntop.catalog import NEURON_MONITOR
from trntop.cli import main
from trntop.sources import BY_NAME

Run = subprocess.CompletedProcess[str]

FIXTURES = Path(__file__).parents[2] / "fixtures"
SIM = "sim:efa-degraded?nodes=2&minutes=4&type=trn1.32xlarge"
SHORT = "sim:healthy?nodes=2&minutes=0.2&type=trn1.32xlarge"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")
    monkeypatch.setenv("XDG_STATE_HOME", "/nonexistent")
    monkeypatch.delenv("COLUMNS", raising=False)


def trntop(*arguments: str) -> Run:
    """The command in this process."""
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    out.flush()
    text = out.buffer.getvalue().decode()  # type: ignore[attr-defined]
    return Run(arguments, code, text, err.getvalue())


def process(*arguments: str, **environment: str) -> Run:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "trntop", *arguments],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
        env=os.environ
        | {"XDG_CONFIG_HOME": "/nonexistent", "XDG_STATE_HOME": "/nonexistent"}
        | environment,
    )  # fmt: skip


def test_without_a_terminal_the_demo_prints_one_snapshot() -> None:
    run = trntop("demo")
    assert run.returncode == 0
    assert run.stderr == ""
    assert "SIMULATED" in run.stdout
    assert "trn-015" in run.stdout
    assert all(len(line) <= 100 for line in run.stdout.splitlines())


def test_without_a_source_and_a_terminal_missing_parts_are_reported() -> None:
    run = trntop("--set", "collect.neuron_monitor=no-such-neuron-monitor")
    assert run.returncode == 0
    assert "neuron-monitor" in run.stdout


def test_snapshot_of_a_simulation_as_json() -> None:
    run = trntop("snapshot", "--json", SHORT)
    document = json.loads(run.stdout)
    assert document["simulated"] is True
    assert len(document["nodes"]) == 2
    assert len(document["nodes"][0]["cores"]) == 32
    assert len(document["nodes"][0]["efa"]) == 8


@needs_captures
def test_the_public_capture() -> None:
    document = json.loads(trntop("snapshot", "--json", str(captures.NEURON_MONITOR)).stdout)
    first, second = document["nodes"][0]["cores"]
    assert (first["device"], first["core"]) == (0, 0)
    assert first["neuroncore_utilization_ratio"] == 0.2504577690127115
    assert first["neuroncore_flops_per_second"] == 346336403642
    assert second["neuroncore_utilization_ratio"] == 0
    assert document["simulated"] is False
    assert "node_memory_used_bytes" not in document["nodes"][0]["values"]
    analysis = json.loads(trntop("analyze", "--json", str(captures.NEURON_MONITOR)).stdout)
    assert analysis["incidents"] == []
    assert analysis["nodes"] == 1


def test_record_replay_and_analyze_agree(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl.zst"
    recorded = trntop("record", SIM, "-o", str(file))
    assert recorded.returncode == 0
    assert recorded.stdout == ""
    assert "readings" in recorded.stderr
    document = json.loads(trntop("analyze", "--json", str(file)).stdout)
    (incident,) = document["incidents"]
    assert incident["kind"] == "efa_degraded"
    assert incident["node"] is not None
    assert incident["component"].startswith("efa:")
    assert set(incident) == {
        "id", "kind", "severity", "job", "node", "component", "opened_at", "closed_at",
        "detected_at", "returns", "summary", "next_step", "runbook", "evidence",
    }  # fmt: skip
    text = trntop("analyze", str(file)).stdout
    assert incident["node"] in text
    assert "1 incident" in text
    again = trntop("record", SIM, "-o", str(file))
    assert again.returncode == 2
    assert "exists" in again.stderr


def test_a_damaged_recording_is_read_and_its_losses_are_reported(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    assert trntop("record", SHORT, "-o", str(whole)).returncode == 0
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(whole.read_bytes()[:-100])
    run = trntop("snapshot", str(cut))
    assert run.returncode == 0
    assert "cut.jsonl" in run.stderr
    assert "lost" in run.stderr
    assert "trn-001" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay", "nothing.jsonl"], "does not exist"),
        (["replay", "local"], "replay needs recordings"),
        (["nonsense"], "unknown command"),
        (["demo", "nonsense"], "nonsense"),
        (["snapshot", "sim:healthy?nodez=3"], "nodes"),
        (["analyze", "sim:demo"], "never ends"),
        (["record", "sim:demo", "-o", "x"], "never ends"),
        (["record", "sim:healthy?minutes=1"], "-o"),
        (["snapshot", "--set", "analysis.comm_shar=0.3", SIM], "comm_share"),
        (["snapshot", "--set", "nonsense", SIM], "KEY=VALUE"),
        (["analyze", SIM, "--set", 'analysis.disabled=["comm"]'], "comm_bound"),
        (["snapshot", "--config", "/nonexistent.toml", SIM], "nonexistent.toml"),
        (["snapshot", "--speed", "2", SIM], "--speed"),
        (["top", "--speed", "0", SIM], "above 0"),
        (["export", "--listen", "nonsense", SIM], "nonsense"),
    ],
)
def test_bad_use_exits_2_with_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("trntop: ")
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_two_files_of_one_name_are_not_one_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = FIXTURES / "neuron-monitor-trn1.2xlarge.jsonl"
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        shutil.copy(plain, tmp_path / folder / "monitor.json")
    files = [str(tmp_path / folder / "monitor.json") for folder in ("a", "b")]
    assert main(["snapshot", *files]) == 2
    assert "have the same node name monitor; rename one file" in capsys.readouterr().err


def test_a_redirected_file_is_a_recording() -> None:
    with (FIXTURES / "efa-degraded-2-nodes.jsonl.zst").open("rb") as file:
        run = subprocess.run(
            [sys.executable, "-m", "trntop", "analyze", "-", "--json"],
            stdin=file, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert [incident["kind"] for incident in json.loads(run.stdout)["incidents"]] == [
        "efa_degraded"
    ]


def test_no_data_is_not_healthy() -> None:
    run = trntop(
        "analyze", "--seconds", "2", "--set", "collect.neuron_monitor=no-such-neuron-monitor"
    )
    assert run.returncode == 1
    assert "inconclusive: no data" in run.stdout
    assert "no data from" in run.stderr
    assert "no-such-neuron-monitor" in run.stderr


def test_a_locale_without_dashes_and_arrows() -> None:
    run = process("snapshot", SHORT, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert run.returncode == 0
    assert run.stderr == ""
    assert "SIMULATED" in run.stdout


def test_a_full_disk_behind_standard_output() -> None:
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "trntop", "snapshot", "--json", SHORT],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
        )  # fmt: skip
    assert run.returncode == 1
    assert run.stderr == "trntop: No space left on device\n"


def test_the_cap_on_time_ends_a_recording_that_nothing_starts(tmp_path: Path) -> None:
    run = trntop(
        "record", "-o", str(tmp_path / "x.jsonl"), "--max-seconds", "0.5",
        "--set", "collect.neuron_monitor=no-such-neuron-monitor",
        "--set", f"collect.disabled={','.join(set(BY_NAME) - {NEURON_MONITOR})}",
    )  # fmt: skip
    assert run.returncode == 1
    assert "no-such-neuron-monitor" in run.stderr
    assert "no readings received" in run.stderr


def test_the_command_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--set", "collect.period=1", "snapshot", SIM]) == 2
    assert "put the command first" in capsys.readouterr().err


def test_a_closed_pipe_is_no_error() -> None:
    run = subprocess.run(
        f"{sys.executable} -m trntop snapshot --json '{SHORT}' | head -c 10",
        shell=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert run.stderr == ""


def test_doctor_names_every_source_and_what_it_needs() -> None:
    run = trntop("doctor", "--set", "collect.neuron_monitor=no-such-neuron-monitor")
    assert run.returncode == 1
    assert "neuron-monitor" in run.stdout
    assert "→" in run.stdout
    assert "trntop demo" in run.stdout


def test_recording_a_live_source_until_stopped(tmp_path: Path) -> None:
    fake = Path(__file__).parents[1] / "fakes" / "neuron_monitor.py"
    file = tmp_path / "live.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", "trntop", "record", "-o", str(file), "--set",
         f"collect.neuron_monitor={fake}", "--set", "collect.period=0.2"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            if file.exists() and file.read_bytes().count(b"neuron_hardware_info") >= 2:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, talk = process.communicate(timeout=10)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 0
    assert "readings" in talk
    document = json.loads(trntop("snapshot", "--json", str(file)).stdout)
    assert document["nodes"][0]["cores"]


def test_a_dashboard_leaves_the_steps_to_the_agent(tmp_path: Path) -> None:
    socket = tmp_path / "steps.sock"
    options = ("--set", f"collect.steps_socket={socket}")
    snapshot = ("snapshot", "--json", *options)

    def reason() -> str:
        (node,) = json.loads(trntop(*snapshot).stdout)["nodes"]
        (steps,) = (source for source in node["sources"] if source["source"] == "steps")
        return str(steps["reason"])

    assert f"listening on {tmp_path / 'observer.sock'}" in reason()
    for agent in (("export", "--port", "0"), ("record", "-o", str(tmp_path / "x.jsonl"))):
        process = subprocess.Popen(
            [sys.executable, "-m", "trntop", *agent, *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 15
            while time.monotonic() < deadline and not socket.exists():
                time.sleep(0.05)
            assert reason().startswith(f"an agent receives step telemetry at {socket}")
            process.send_signal(signal.SIGINT)
            process.wait(10)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        assert not socket.exists()


def test_an_unknown_source_cannot_be_disabled(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", "--set", "collect.disabled=neuron"]) == 2
    assert "unknown source neuron; did you mean " in capsys.readouterr().err


NOBODY = "http://127.0.0.1:1"
"""Where no agent listens."""


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_snapshot_without_any_data_fails_with_the_reason(form: tuple[str, ...]) -> None:
    run = trntop("snapshot", *form, NOBODY)
    assert run.returncode == 1
    assert (
        run.stderr == "trntop: no data from 127.0.0.1: connection refused: nothing listens there\n"
    )
    assert "connection refused" in run.stdout


def test_problems_are_in_the_json_of_what_has_no_data() -> None:
    why = ["no data from 127.0.0.1: connection refused: nothing listens there"]
    assert json.loads(trntop("snapshot", "--json", NOBODY).stdout)["problems"] == why
    run = trntop("analyze", "--json", "--seconds", "3", NOBODY)
    assert (run.returncode, json.loads(run.stdout)["problems"]) == (1, why)
    assert json.loads(trntop("snapshot", "--json", SHORT).stdout)["problems"] == []
