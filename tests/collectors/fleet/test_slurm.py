from pathlib import Path

import pytest

from trntop.collectors.fleet.slurm import Slurm
from trntop.collectors.fleet.target import FindError
from trntop.core.errors import UsageError
from trntop.core.settings import Fleet

FAKE = Path(__file__).parents[2] / "fakes" / "scontrol.py"
FLEET = Fleet()


@pytest.fixture(autouse=True)
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake scontrol is the only program there is."""
    program = tmp_path / "bin" / "scontrol"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec /usr/bin/env -u PYTHONPATH {_python()} {FAKE} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))


def _python() -> str:
    import sys

    return f"{sys.executable} -S -E"


async def test_the_nodes_of_a_job() -> None:
    found = await Slurm("4711", FLEET).find()
    assert [target.name for target in found] == ["trn-001", "trn-002", "trn-003", "trn-007"]
    assert found[0].address == "http://trn-001:10042"
    assert found[0].facts == {
        "slurm_job": "4711 pretrain",
        "slurm_state": "RUNNING",
        "slurm_partition": "trn2",
    }


async def test_over_ssh_if_configured() -> None:
    found = await Slurm("4711", Fleet(via="ssh")).find()
    assert found[0].address == "ssh://trn-001"


async def test_nodes_join_and_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = tmp_path / "nodes"
    monkeypatch.setenv("FAKE_SCONTROL_NODES", str(listed))
    job = Slurm("1", FLEET)
    listed.write_text("trn-[1-2]")
    assert len(await job.find()) == 2
    listed.write_text("trn-[1-3]")
    assert len(await job.find()) == 3


async def test_an_array_is_all_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_SCONTROL", "array")
    found = await Slurm("4711", FLEET).find()
    assert [target.name for target in found] == ["trn-001", "trn-002", "trn-010"]


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("pending", r"slurm:7: no nodes, its state is PENDING \(Resources\)"),
        ("forgotten", "exited with code 1: slurm_load_jobs error: Invalid job id"),
        ("hostile", "trn-"),
        ("huge", "more than 4 MiB"),
    ],
)
async def test_why_there_is_no_list(
    mode: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SCONTROL", mode)
    with pytest.raises(FindError, match=message) as caught:
        await Slurm("7", FLEET, deadline=20).find()
    assert "\x1b" not in str(caught.value)


async def test_one_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_SCONTROL", "hang")
    with pytest.raises(FindError, match=r"did not answer within 0\.5 s"):
        await Slurm("7", FLEET, deadline=0.5).find()


async def test_no_scontrol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(FindError, match="scontrol is not installed"):
        await Slurm("7", FLEET).find()


@pytest.mark.parametrize("job", ["", "x", "-1", "1;reboot", "1 2", "--help", "1" * 20])
def test_a_job_is_a_number(job: str) -> None:
    with pytest.raises(UsageError, match="slurm:"):
        Slurm(job, FLEET)


@pytest.mark.parametrize("job", ["1", "123_4", "123+1"])
def test_tasks_and_parts_are_jobs_too(job: str) -> None:
    assert Slurm(job, FLEET).text == f"slurm:{job}"
