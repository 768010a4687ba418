"""A look at a node, over made-up trees and made-up output of programs."""

import asyncio
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.sysfs_tree import (
    device_folder,
    efa_tree,
    fail,
    fit_node,
    neuron_tree,
    remove_device,
    write,
)
from trntop.check.model import Inspection
from trntop.collectors import inspection
from trntop.collectors.inspection import (
    Inspector,
    assembled,
    cards,
    devices,
    environment,
    small_files,
    versions,
)
from trntop.collectors.sysfs import Folder
from trntop.core.settings import Collect, Settings

FAKE = Path(__file__).parents[1] / "fakes/neuron_ls.py"


def look(root: Path) -> Inspection:
    """What the files below a root tell."""
    return assembled("a", 0.0, [cards(root), devices(root), small_files(root)])


def test_a_fit_node(tmp_path: Path) -> None:
    fit_node(tmp_path)
    seen = look(tmp_path)
    assert seen.problems == []
    assert seen.unhealthy == {}
    assert (seen.instance_type, seen.instance_id) == ("trn2.48xlarge", "i-simulated")
    assert seen.cards is not None
    assert len(seen.cards) == seen.devices == 16
    card = seen.cards[0]
    assert (card.rate_gbps, card.driver, card.p2p) == (200, "2.17.3g", "NEURON")
    assert (card.pci, card.numa_node) == ("0000:70:1b.0", "1")
    assert card.port["tx_bytes"] == 13000
    assert card.device["no_completion_cmds"] == 0
    assert seen.versions == {
        "efa": "2.17.3g",
        "efa-installer": "1.43.3",
        "aws-ofi": "1.16.3",
        "neuron-driver": "2.30.2.0",
        "kernel": "6.1.0-simulated",
    }
    assert seen.modules == dict.fromkeys(inspection.MODULES, True)
    assert seen.memlock_bytes == float("inf")
    assert (seen.huge_pages, seen.uverbs) == (5128, True)


def test_an_empty_tree(tmp_path: Path) -> None:
    seen = look(tmp_path)
    assert seen.cards == []
    assert (seen.devices, seen.instance_type, seen.versions) == (None, "", {})
    assert seen.modules == dict.fromkeys(inspection.MODULES, False)
    assert (seen.memlock_bytes, seen.huge_pages, seen.uverbs) == (None, 0, False)
    assert seen.problems == [
        "the Neuron driver is not loaded",
        "memlock: no limits can be read in /proc",
    ]


def test_a_folder_of_cards_that_cannot_be_listed(tmp_path: Path) -> None:
    write(tmp_path / "sys/class/infiniband", "a file")
    seen = look(tmp_path)
    assert seen.cards is None
    assert seen.problems[0] == "/sys/class/infiniband cannot be listed: Not a directory"


def test_a_card_whose_counters_cannot_be_read(tmp_path: Path) -> None:
    first, second = efa_tree(tmp_path, cards=2)
    for path in (tmp_path / "sys/class/infiniband" / first).rglob("hw_counters/*"):
        fail(path)
    fail(tmp_path / "sys/class/infiniband" / second / "ports/1/hw_counters/tx_bytes")
    seen = look(tmp_path)
    assert seen.cards is not None
    assert [card.name for card in seen.cards] == [first, second]
    assert list(seen.unhealthy) == [f"efa:{first}"]
    assert seen.unhealthy[f"efa:{first}"].startswith(f"no counter of EFA card {first} can be read")
    assert any(problem.startswith(f"{second}: ports/1/") for problem in seen.problems)


def test_devices_that_are_unwell(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=4)
    hardware = device_folder(tmp_path, 1) / "stats/hardware"
    write(hardware / "mem_ecc_uncorrected", 1234)
    write(hardware / "health_status/unhealthy_components", "nc0,dma\x1b")
    write(device_folder(tmp_path, 2) / "stats/hardware/health_status/unhealthy_components", "none")
    write(device_folder(tmp_path, 3) / "stats/hardware/mem_ecc_corrected", 7)
    seen = look(tmp_path)
    assert seen.devices == 4
    assert seen.unhealthy == {
        "device:1": "Neuron device 1: its health check names nc0, dma\ufffd; 1,234 uncorrected HBM"
        " errors since the driver was loaded"
    }


def test_a_driver_without_devices(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=1)
    remove_device(tmp_path, 0)
    seen = look(tmp_path)
    assert (seen.devices, seen.versions["neuron-driver"]) == (0, "2.30.2.0")


def test_the_limits_of_whoever_starts_jobs_count(tmp_path: Path) -> None:
    limits = "Limit  Soft Limit  Hard Limit  Units\nMax locked memory  {0}  {0}  bytes\n"
    write(tmp_path / "proc/self/limits", limits.format(8 << 20))
    assert inspection.memlock(Folder(tmp_path)) == 8 << 20
    write(tmp_path / "proc/77/comm", "slurmd")
    write(tmp_path / "proc/77/limits", limits.format("unlimited"))
    assert inspection.memlock(Folder(tmp_path)) == float("inf")
    write(tmp_path / "proc/78/comm", "containerd")
    write(tmp_path / "proc/78/limits", limits.format(64 << 10))
    assert inspection.memlock(Folder(tmp_path)) == 64 << 10


def test_variables_of_login_shells_and_our_own(tmp_path: Path) -> None:
    write(tmp_path / "etc/environment", 'FI_PROVIDER="efa"\nSECRET=x\nNEURON_RT_LOG=$HOME')
    write(
        tmp_path / "etc/profile.d/efa.sh",
        "# export FI_EFA_NO=1\nif true; then\n  export FI_EFA_USE_DEVICE_RDMA=1; fi\n",
    )
    write(tmp_path / "etc/profile.d/readme.txt", "export FI_OTHER=1")
    own = {"RDMAV_FORK_SAFE": "1", "FI_PROVIDER": "tcp", "AWS_SECRET_ACCESS_KEY": "x"}
    assert environment(tmp_path, own) == {
        "environment": {
            "FI_PROVIDER": "tcp",
            "FI_EFA_USE_DEVICE_RDMA": "1",
            "RDMAV_FORK_SAFE": "1",
        }
    }


def test_what_programs_print() -> None:
    said = {
        "fi_info": "fi_info: 2.1.0amzn3.0\nlibfabric: 2.1.0amzn3.0\nlibfabric api: 2.1\n",
        "perftest": "Version: 6.06\n",
        "dpkg": "aws-neuronx-runtime-lib\t2.30.51.0-5b1\tinstalled\n"
        "aws-neuronx-tools\t2.28.0.0\tinstalled\naws-neuronx-collectives\t2.30\tnot-installed\n"
        "aws-neuronx-dkms\t2.30.2.0\tinstalled\nlibnccl-ofi\t1.16.3-1\tinstalled\nnoise\n",
    }
    found = versions(said, ["fi_pingpong", "ib_send_lat"])
    assert found == {
        "versions": {
            "libfabric": "2.1.0amzn3.0",
            "neuron-runtime": "2.30.51.0-5b1",
            "neuron-tools": "2.28.0.0",
            "aws-ofi": "1.16.3-1",
        },
        "tools": {
            "fi_pingpong": "2.1.0amzn3.0",
            "ib_send_lat": "6.06",
        },
    }
    assert versions({}, []) == {"versions": {}, "tools": {}}


@pytest.fixture
def inspector(tmp_path: Path) -> Callable[..., Inspector]:
    fit_node(tmp_path / "root")
    program = tmp_path / "neuron-ls"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {FAKE} "$@"\n')
    program.chmod(0o755)

    def make(command: str = str(program), path: str = "/usr/sbin:/usr/bin:/bin") -> Inspector:
        jobs = str(tmp_path / "jobs")
        collect = Collect(root=str(tmp_path / "root"), neuron_ls=command, job_mapping=jobs)
        return Inspector(Settings(collect=collect), "trn-001", path, simulated=True)

    return make


async def test_the_whole_look(inspector: Callable[..., Inspector], tmp_path: Path) -> None:
    write(tmp_path / "jobs/all", "4711")
    one = inspector()
    before = time.time()
    seen = await one.inspect()
    one.close()
    assert (seen.node, seen.simulated) == ("trn-001", True)
    assert before <= seen.time <= time.time()
    assert seen.busy is not None
    assert seen.busy[0] == "job 4711"
    assert "python3 train.py (pid 4242)" in seen.busy
    assert "hunter2" not in str(seen)
    assert seen.problems == []
    assert seen.environment["FI_PROVIDER"] == "efa"
    if shutil.which("fi_pingpong"):
        assert seen.tools["fi_pingpong"] == seen.versions["libfabric"]


async def test_programs_that_are_not_there(inspector: Callable[..., Inspector]) -> None:
    one = inspector("/nosuch/neuron-ls", "/nosuch")
    seen = await one.inspect()
    one.close()
    assert (seen.tools, seen.busy) == ({}, None)
    assert seen.problems == ["processes on the Neuron devices: /nosuch/neuron-ls is not installed"]
    assert "efa-installer" in seen.versions


async def test_a_read_that_hangs_spares_the_rest(
    inspector: Callable[..., Inspector], monkeypatch: pytest.MonkeyPatch
) -> None:
    released = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(_: object) -> dict[str, object]:
        asyncio.run_coroutine_threadsafe(released.wait(), loop).result()
        return {}

    monkeypatch.setattr(inspection, "cards", hang)
    monkeypatch.setattr(inspection, "PART_SECONDS", 0.5)
    one = inspector("/nosuch/neuron-ls")
    seen = await one.inspect()
    assert seen.cards is None
    assert "cards: no answer for 0.5 s, a read hangs" in seen.problems
    assert seen.huge_pages == 5128
    released.set()
    one.close()


async def test_a_program_that_hangs(
    inspector: Callable[..., Inspector], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bin/fi_info"
    write(program, "#!/bin/sh\nsleep 60")
    program.chmod(0o755)
    monkeypatch.setattr(inspection, "PART_SECONDS", 0.5)
    one = inspector("/nosuch/neuron-ls", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    seen = await one.inspect()
    one.close()
    assert "fi_info did not answer within 0.5 s" in seen.problems
    assert "libfabric" not in seen.versions
