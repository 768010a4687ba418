"""The inspection of a node, over simulated trees and output of programs."""

import os
import sys
import time
from pathlib import Path
from typing import Any

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
from trntop.check.model import Inspection, UnreachableError
from trntop.collectors.hosts import inspection
from trntop.collectors.hosts.inspection import devices, efa_devices, small_files, versions
from trntop.collectors.hosts.node import LocalHost
from trntop.collectors.sysfs import LocalFiles
from trntop.core.settings import Collect, Settings

FAKE = Path(__file__).parents[2] / "fakes/neuron_ls.py"


def inspected(root: Path) -> Inspection:
    """The inspection of the files below a root."""
    fields: dict[str, Any] = {"node": "a", "time": 0.0, "problems": []}
    for read in (efa_devices, devices, small_files):
        inspection._merge(fields, read(LocalFiles(root)))
    return Inspection(**fields)


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a trn2.48xlarge, some thousand; tests only read them."""
    root = tmp_path_factory.mktemp("fit")
    fit_node(root)
    return root


def test_a_fit_node(fit: Path) -> None:
    found = inspected(fit)
    assert found.problems == []
    assert found.unhealthy == {}
    assert found.instance_type == "trn2.48xlarge"
    assert found.efa_devices is not None
    assert len(found.efa_devices) == found.devices == 16
    efa_device = found.efa_devices[0]
    assert (efa_device.rate_gbps, efa_device.driver, efa_device.p2p) == (200, "2.17.3g", "NEURON")
    assert efa_device.port["tx_bytes"] == 13000
    assert efa_device.device["no_completion_cmds"] == 0
    assert found.versions == {
        "efa": "2.17.3g",
        "efa-installer": "1.43.3",
        "aws-ofi": "1.16.3",
        "neuron-driver": "2.30.2.0",
        "kernel": "6.1.0-simulated",
    }
    assert found.modules == dict.fromkeys(inspection.MODULES, True)
    assert found.memlock_bytes == float("inf")
    assert (found.huge_pages, found.uverbs) == (5128, True)


def test_an_empty_tree(tmp_path: Path) -> None:
    found = inspected(tmp_path)
    assert found.efa_devices == []
    assert (found.devices, found.instance_type, found.versions) == (None, "", {})
    assert found.modules == dict.fromkeys(inspection.MODULES, False)
    assert (found.memlock_bytes, found.huge_pages, found.uverbs) == (None, 0, False)
    assert found.problems == [
        "the Neuron driver is not loaded",
        "memlock: no limits can be read in /proc",
    ]


def test_an_efa_folder_that_cannot_be_listed(tmp_path: Path) -> None:
    write(tmp_path / "sys/class/infiniband", "a file")
    found = inspected(tmp_path)
    assert found.efa_devices is None
    assert found.problems[0] == "/sys/class/infiniband cannot be listed: Not a directory"


def test_an_efa_device_whose_counters_cannot_be_read(tmp_path: Path) -> None:
    first, second = efa_tree(tmp_path, count=2)
    for path in (tmp_path / "sys/class/infiniband" / first).rglob("hw_counters/*"):
        fail(path)
    fail(tmp_path / "sys/class/infiniband" / second / "ports/1/hw_counters/tx_bytes")
    found = inspected(tmp_path)
    assert found.efa_devices is not None
    assert [efa_device.name for efa_device in found.efa_devices] == [first, second]
    assert list(found.unhealthy) == [f"efa:{first}"]
    assert found.unhealthy[f"efa:{first}"].startswith(f"no counter of {first} can be read")
    assert any(problem.startswith(f"{second}: ports/1/") for problem in found.problems)


def test_devices_that_are_unwell(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=4)
    hardware = device_folder(tmp_path, 1) / "stats/hardware"
    write(hardware / "mem_ecc_uncorrected", 1234)
    write(hardware / "health_status/unhealthy_components", "nc0,dma\x1b")
    write(device_folder(tmp_path, 2) / "stats/hardware/health_status/unhealthy_components", "none")
    write(device_folder(tmp_path, 3) / "stats/hardware/mem_ecc_corrected", 7)
    found = inspected(tmp_path)
    assert found.devices == 4
    assert found.unhealthy == {
        "device:1": "Neuron device 1: its health check names nc0, dma\ufffd; 1,234 uncorrected HBM"
        " errors since the driver was loaded"
    }


def test_a_driver_without_devices(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=1)
    remove_device(tmp_path, 0)
    found = inspected(tmp_path)
    assert (found.devices, found.versions["neuron-driver"]) == (0, "2.30.2.0")


def test_the_limits_of_whoever_starts_jobs_count(tmp_path: Path) -> None:
    limits = "Limit  Soft Limit  Hard Limit  Units\nMax locked memory  {0}  {0}  bytes\n"
    write(tmp_path / "proc/self/limits", limits.format(8 << 20))
    assert inspection.memlock(LocalFiles(tmp_path)) == 8 << 20
    write(tmp_path / "proc/77/comm", "slurmd")
    write(tmp_path / "proc/77/limits", limits.format("unlimited"))
    assert inspection.memlock(LocalFiles(tmp_path)) == float("inf")
    write(tmp_path / "proc/78/comm", "containerd")
    write(tmp_path / "proc/78/limits", limits.format(64 << 10))
    assert inspection.memlock(LocalFiles(tmp_path)) == 64 << 10


def test_the_output_of_programs() -> None:
    parts = {
        "tool.fi_pingpong": b"",
        "output.fi_info": b"fi_info: 2.1.0amzn3.0\nlibfabric: 2.1.0amzn3.0\nlibfabric api: 2.1\n",
        "output.dpkg-query": b"aws-neuronx-runtime-lib\t2.30.51.0-5b1\tinstalled\n"
        b"aws-neuronx-tools\t2.28.0.0\tinstalled\naws-neuronx-collectives\t2.30\tnot-installed\n"
        b"aws-neuronx-dkms\t2.30.2.0\tinstalled\nlibnccl-ofi\t1.16.3-1\tinstalled\nnoise\n",
    }
    assert versions(parts) == {
        "versions": {
            "libfabric": "2.1.0amzn3.0",
            "neuron-runtime": "2.30.51.0-5b1",
            "neuron-tools": "2.28.0.0",
            "aws-ofi": "1.16.3-1",
        },
        "tools": ["fi_pingpong"],
    }
    assert versions({}) == {"versions": {}, "tools": []}


def host(root: Path, lister: str = "/nosuch/neuron-ls", jobs: str = "/nosuch") -> LocalHost:
    collect = Collect(root=str(root), neuron_ls=lister, job_mapping=jobs)
    return LocalHost(Settings(collect=collect), "trn-001", simulated=True)


async def test_this_machine(fit: Path, tmp_path: Path) -> None:
    program = tmp_path / "neuron-ls"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {FAKE} "$@"\n')
    program.chmod(0o755)
    write(tmp_path / "jobs/all", "4711")
    before = time.time()
    found = await host(fit, str(program), str(tmp_path / "jobs")).inspect()
    assert (found.node, found.simulated) == ("trn-001", True)
    assert before <= found.time <= time.time()
    assert found.busy is not None
    assert found.busy[0] == "job 4711"
    assert "python3 train.py (pid 4242)" in found.busy
    assert "hunter2" not in str(found)
    assert found.problems == []
    assert found.efa_devices is not None
    assert len(found.efa_devices) == found.devices == 16
    assert found.versions["efa"] == "2.17.3g"
    assert found.modules == dict.fromkeys(inspection.MODULES, True)
    assert found.tools is not None
    assert ("fi_pingpong" in found.tools) == ("libfabric" in found.versions)


async def test_programs_that_are_not_installed(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/limits", "Max locked memory  unlimited  unlimited  bytes")
    neuron_tree(tmp_path, devices=1)
    found = await host(tmp_path).inspect()
    assert found.busy is None
    assert found.problems == [
        "processes on the Neuron devices: neuron-ls is missing or prints nothing"
    ]
    assert found.devices == 1


async def test_a_read_that_hangs_costs_only_its_part(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (efa_device,) = efa_tree(tmp_path, count=1)
    os.mkfifo(tmp_path / "sys/class/infiniband" / efa_device / "ports/1/hw_counters/hangs")
    write(tmp_path / "proc/sys/kernel/osrelease", "6.1.0")
    monkeypatch.setattr(inspection, "SECONDS", 5.0)
    found = await host(tmp_path).inspect()
    assert found.efa_devices is None
    assert found.problems[-1] == "efa, devices: no response within 5 s, a read hangs"
    assert found.versions["kernel"] == "6.1.0"


async def test_no_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/nosuch")
    with pytest.raises(UnreachableError, match="No such file"):
        await host(tmp_path).inspect()
