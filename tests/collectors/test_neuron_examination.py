from pathlib import Path

import pytest

from tests.collectors.recording_sink import COMMAND, alive, pids, wait_until
from trntop.collectors.neuron_examination import DRIVER_REMEDY, examine
from trntop.session.collector import Examination


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAKE_NEURON_MONITOR_PIDS", str(tmp_path / "pids"))
    return tmp_path / "pids"


def with_driver(root: Path) -> Path:
    module = root / "sys/module/neuron"
    module.mkdir(parents=True)
    (module / "version").write_text("2.21.37.0\n")
    return root


def run_examine(
    monkeypatch: pytest.MonkeyPatch, fault: str, root: Path, seconds: float = 5
) -> Examination:
    monkeypatch.setenv("FAKE_NEURON_MONITOR", fault)
    return examine(COMMAND, root=root, seconds=seconds)


def test_a_report_is_summed_up(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = run_examine(monkeypatch, "ok", with_driver(notes.parent))
    assert finding == Examination(
        "neuron-monitor",
        True,
        f"2.22.61.0 at {COMMAND[0]}, Neuron driver 2.21.37.0: 2 trainium devices, 4 NeuronCores",
    )
    assert not any(map(alive, pids(notes)))


def test_no_driver(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = run_examine(monkeypatch, "no-driver", notes.parent)
    assert not finding.ok
    assert "the Neuron driver is not loaded: no Neuron device; " in finding.found
    assert "is the Neuron Driver installed and running?" in finding.found
    assert finding.remedy == DRIVER_REMEDY


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (
            "exit:3",
            "exited with code 3 without a report; its last error: simulated failure",
        ),
        ("hang", "no report within 0.3 s; Neuron driver"),
        ("garbage", "no report within 0.9 s, 3 parts of its output are not reports; Neuron"),
    ],
)
def test_what_went_wrong(
    notes: Path, monkeypatch: pytest.MonkeyPatch, fault: str, found: str
) -> None:
    seconds = {"hang": 0.3, "garbage": 0.9}.get(fault, 5)
    finding = run_examine(monkeypatch, fault, with_driver(notes.parent), seconds)
    assert not finding.ok
    assert finding.found.startswith(found)
    assert finding.remedy
    assert not any(map(alive, pids(notes)))


def test_nothing_is_left_of_a_stubborn_one(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_examine(monkeypatch, "ignore-term-with-child", notes.parent).ok
    wait_until(lambda: not any(map(alive, pids(notes))))


def test_not_installed(tmp_path: Path) -> None:
    finding = examine("no-such-neuron-monitor", root=tmp_path)
    assert not finding.ok
    assert finding.found.startswith("no-such-neuron-monitor is not installed: neither on PATH")
    assert finding.remedy == "install aws-neuronx-tools and put /opt/aws/neuron/bin on PATH"


def test_not_startable(tmp_path: Path) -> None:
    broken = tmp_path / "neuron-monitor"
    broken.write_bytes(b"\x7fELF broken")
    broken.chmod(0o755)
    finding = examine(str(broken), root=tmp_path)
    assert finding.found == "cannot be started: Exec format error"
    assert finding.remedy


def test_a_report_that_cannot_be_decoded(tmp_path: Path) -> None:
    odd = tmp_path / "neuron-monitor"
    odd.write_text("#!/bin/sh\necho '{\"neuron_runtime_data\": what}'\n")
    odd.chmod(0o755)
    finding = examine(str(odd), root=tmp_path)
    assert not finding.ok
    assert finding.found.startswith("its report cannot be read: ")
