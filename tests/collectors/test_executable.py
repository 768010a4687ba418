from pathlib import Path

import pytest

from trntop.collectors.executable import NotRunnableError, locate


def program(folder: Path, mode: int = 0o755) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "neuron-monitor"
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def test_path_comes_first(bin_folder: Path, tmp_path: Path) -> None:
    tools = program(tmp_path / "tools").parent
    assert locate("neuron-monitor", tools) == [str(tools / "neuron-monitor")]
    found = program(bin_folder)
    assert locate("neuron-monitor", tools) == [str(found)]
    assert locate(["neuron-monitor", "--verbose", "1"], tools) == [str(found), "--verbose", "1"]
    assert locate(str(found)) == [str(found)]


def test_a_missing_folder_is_named_in_the_reason(bin_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NotRunnableError) as caught:
        locate("neuron-monitor", tmp_path / "tools")
    sentence = str(caught.value)
    assert sentence.startswith("neuron-monitor is not installed: neither on PATH nor in ")
    assert "install aws-neuronx-tools" in sentence
    assert "\n" not in sentence


def test_not_executable_is_another_matter(bin_folder: Path) -> None:
    path = program(bin_folder, 0o644)
    for command in ("neuron-monitor", str(path)):
        with pytest.raises(NotRunnableError, match="neuron-monitor is not executable by this user"):
            locate(command)


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotRunnableError, match="no/such is not installed; install"):
        locate("no/such")
