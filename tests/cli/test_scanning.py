"""`trntop profile scan` with tools that behave like the documented ones."""

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trntop.cli import main
from trntop.collectors.neffs import files, read_uuid
from trntop.core.errors import DecodeError

FAKE = Path(__file__).parents[1] / "fakes" / "neuron_explorer.py"
TRAINING = "/usr/bin/python3 /home/ada/train.py"
UUIDS = tuple(f"{number:032x}" for number in (1, 2))


def neff(path: Path, uuid: str, major: int = 2) -> Path:
    """A NEFF with the header that the Neuron SDK documents, and an empty archive."""
    content = b"archive"
    header = struct.pack("<QQQQQ", 2, 1024, len(content), major, 0).ljust(204, b"\0")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((header + bytes.fromhex(uuid)).ljust(1024, b"\0") + content)
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    for number, uuid in enumerate(UUIDS):
        neff(tmp_path / f"cache/neuronxcc-2.21/MODULE_{number}+d41d8cd9/model.neff", uuid)
    return tmp_path / "cache"


Node = Callable[..., None]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Installs the tools of a node with two cores."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_NEURON_EXPLORER_RUNS", str(tmp_path / "runs"))
    (tmp_path / "bin").mkdir()

    def script(name: str, text: str) -> None:
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def install(
        *, tool: str = "neuron-explorer", mode: str = "ok", running: str = "", command: str = ""
    ) -> None:
        monkeypatch.setenv("FAKE_NEURON_EXPLORER", mode)
        link = tmp_path / "bin" / tool
        if not link.exists():
            link.write_text(FAKE.read_text().replace("/usr/bin/env python3", sys.executable, 1))
            link.chmod(0o755)
        processes = [{"pid": 7, "command": command}] if command else []
        device = {"neuron_device": 0, "nc_count": 2, "neuron_processes": processes}
        script("neuron-ls", f"echo '{json.dumps([device])}'")
        models = [{"name": "/away/model.neff", "uuid": running, "is_running": True}]
        used = {"period": 1.0, "error": "", "loaded_models": models if running else []}
        runtime = {"pid": 7, "error": "", "report": {"memory_used": used}}
        script("neuron-monitor", f"echo '{json.dumps({'neuron_runtime_data': [runtime]})}'")

    return install


def runs(tmp_path: Path) -> list[str]:
    path = tmp_path / "runs"
    return path.read_text().splitlines() if path.exists() else []


def test_programs_without_a_profile_are_profiled_once(
    tmp_path: Path, cache: Path, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node()
    assert main(["profile", "scan", str(cache)]) == 0
    assert "2 programs, 2 without a profile" in capsys.readouterr().out
    assert [line.split()[1] for line in runs(tmp_path)] == ["capture", "view"] * 2
    stored = json.loads((tmp_path / "data/trntop/profiles.json").read_text())["profiles"]
    assert [profile["uuid"] for profile in stored] == list(UUIDS)
    assert stored[0]["seconds"] == 0.05482
    assert main(["profile", "scan", str(cache)]) == 0
    assert "2 programs, 0 without a profile" in capsys.readouterr().out
    assert len(runs(tmp_path)) == 4


def test_a_scan_goes_on_where_the_last_ended(tmp_path: Path, cache: Path, node: Node) -> None:
    node()
    assert main(["profile", "scan", str(cache), "--limit", "1"]) == 0
    assert main(["profile", "scan", str(cache), "--limit", "1"]) == 0
    captured = [line for line in runs(tmp_path) if " capture " in line]
    assert len(captured) == 2
    assert "MODULE_0" in captured[0]
    assert "MODULE_1" in captured[1]


def test_running_programs_come_first(
    tmp_path: Path, cache: Path, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node(running=UUIDS[1])
    assert main(["profile", "scan", str(cache), "--limit", "1"]) == 0
    assert "MODULE_1" in runs(tmp_path)[0]
    (row,) = [line for line in capsys.readouterr().out.splitlines() if UUIDS[1] in line]
    assert row.split()[1:3] == ["yes", "none"]


def test_a_running_program_that_is_elsewhere_is_named(
    cache: Path, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node(running="f" * 32)
    assert main(["profile", "scan", str(cache), "--dry-run"]) == 0
    assert f"model.neff is running but not in {cache}" in capsys.readouterr().err


def test_a_node_in_use_is_left_alone(
    tmp_path: Path, cache: Path, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node(command=TRAINING)
    assert main(["profile", "scan", str(cache)]) == 1
    assert "in use by 7 (python3 train.py)" in capsys.readouterr().err
    assert runs(tmp_path) == []


def test_a_dry_run_captures_nothing(tmp_path: Path, cache: Path, node: Node) -> None:
    node()
    assert main(["profile", "scan", str(cache), "--dry-run"]) == 0
    assert runs(tmp_path) == []


def test_a_program_with_collectives_has_all_workers(
    tmp_path: Path, cache: Path, node: Node
) -> None:
    node(mode="collectives")
    assert main(["profile", "scan", str(cache), "--limit", "1"]) == 0
    alone, together, view = runs(tmp_path)
    assert "--collectives-workers-per-node" not in alone
    assert together.endswith("--collectives-workers-per-node 2 --collectives-profile-id 0")
    assert "profile_rank_0.ntff" in view


def test_the_older_tool_has_the_same_commands(tmp_path: Path, cache: Path, node: Node) -> None:
    node(tool="neuron-profile")
    assert main(["profile", "scan", str(cache), "--limit", "1"]) == 0
    assert [line.split()[0] for line in runs(tmp_path)] == ["neuron-profile"] * 2


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("fail", "NRT_LOAD_NOT_ENOUGH_NC"),
        ("hang", "neuron-explorer capture took longer than 0.2 s"),
        ("garbage", "its summary is not usable: no summary of a profile"),
    ],
)
def test_what_fails_is_named_and_not_saved(
    mode: str, reason: str, tmp_path: Path, cache: Path, node: Node,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    node(mode=mode)
    timeout = "0.2" if mode == "hang" else "60"
    arguments = ["profile", "scan", str(cache), "--limit", "1", "--timeout", timeout]
    assert main(arguments) == 1
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "data/trntop/profiles.json").exists()


def test_without_a_capture_tool_the_list_remains(
    cache: Path, node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node()
    (tmp_path / "bin/neuron-explorer").unlink()
    assert main(["profile", "scan", str(cache)]) == 1
    captured = capsys.readouterr()
    assert "2 programs, 2 without a profile" in captured.out
    assert "neuron-profile is not installed" in captured.err


def test_a_cache_that_does_not_exist(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node()
    assert main(["profile", "scan", "/nowhere"]) == 2
    assert "/nowhere: No such file or directory" in capsys.readouterr().err


def test_a_cache_that_is_no_directory(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node()
    assert main(["profile", "scan", "--set", "collect.compile_cache=s3://bucket/cache"]) == 2
    assert "s3://bucket/cache is not a directory" in capsys.readouterr().err


def test_what_is_no_neff_is_named(tmp_path: Path, cache: Path) -> None:
    (cache / "broken.neff").write_bytes(b"x" * 2000)
    (cache / "short.neff").write_bytes(b"x")
    found, problems = files(cache)
    assert [file.uuid for file in found] == list(UUIDS)
    assert problems == [
        f"{cache}/broken.neff: not a NEFF",
        f"{cache}/short.neff: shorter than the header of a NEFF",
    ]
    with pytest.raises(DecodeError, match="version 3"):
        read_uuid(neff(tmp_path / "new.neff", UUIDS[0], major=3))
