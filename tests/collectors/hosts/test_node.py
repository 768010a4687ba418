"""Nodes without trntop: a real sshd on loopback."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import sysfs_tree as fake
from tests.network import until
from tests.sshd import Sshd, needs_sshd, sshd
from trntop.check.model import Host, ProbeError, ProbeSpec, RefusedError, UnreachableError
from trntop.collectors.hosts import hosts_of, inspection
from trntop.collectors.hosts.node import SshHost
from trntop.core.settings import Collect, Fleet, Settings
from trntop.core.source_spec import parse_all

pytestmark = pytest.mark.xdist_group("machine")

SPEC = ProbeSpec(provider="tcp", iterations=50, repeats=1)
needs_pingpong = pytest.mark.skipif(
    shutil.which("fi_pingpong") is None, reason="fi_pingpong is not installed"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The files of a node."""
    root = tmp_path / "node"
    fake.efa_tree(root, 4, rate=100)
    fake.neuron_tree(root, 2, 2)
    fake.bump(next(root.glob("sys/**/neuron1/stats/hardware/mem_ecc_uncorrected")), 3)
    for path, content in (
        ("sys/class/dmi/id/sys_vendor", "Amazon EC2"),
        ("sys/class/dmi/id/product_name", "trn1.32xlarge"),
        ("sys/module/ib_uverbs/refcnt", 0),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", 5128),
        ("proc/sys/kernel/osrelease", "6.1.0-42-aws"),
        ("proc/77/comm", "slurmd"),
        ("proc/77/limits", "Max locked memory         8388608              8388608     bytes"),
        ("dev/infiniband/uverbs0", ""),
        ("opt/amazon/efa_installed_packages", "# EFA installer version: 1.43.3"),
    ):
        fake.write(root / path, content)
    fake.write(tmp_path / "jobs/all", "4711")
    return root


def over_ssh(ssh: str, root: Path = Path("/")) -> list[Host]:
    collect = Collect(root=str(root), job_mapping=str(root.parent / "jobs"))
    settings = Settings(fleet=Fleet(ssh=ssh), collect=collect)
    return hosts_of(parse_all(["ssh://trn-[001-002]"]), settings)


def running(what: str) -> dict[int, str]:
    """Process id → command line of those on this machine that contain a text."""
    listed = subprocess.run(["ps", "-wweo", "pid,args"], capture_output=True, text=True, check=True)
    lines = (line.strip().partition(" ") for line in listed.stdout.splitlines()[1:])
    return {int(pid): words for pid, _, words in lines if what in words}


@needs_sshd
async def test_an_inspection_over_ssh(server: Sshd, machine: Path) -> None:
    inspection = await over_ssh(server.ssh(), machine)[0].inspect()
    assert inspection.node == "trn-001"
    assert abs(inspection.time - time.time()) < 5
    assert inspection.instance_type == "trn1.32xlarge"
    assert inspection.efa_devices is not None
    assert [efa_device.name for efa_device in inspection.efa_devices][:2] == [
        "rdmap16s27",
        "rdmap16s28",
    ]
    assert len(inspection.efa_devices) == 4
    assert inspection.efa_devices[0].rate_gbps == 100
    assert inspection.efa_devices[0].p2p == "NEURON"
    assert inspection.efa_devices[0].port["tx_bytes"] == 1000
    assert inspection.efa_devices[0].device["completed_cmds"] == 100
    assert inspection.devices == 2
    assert list(inspection.unhealthy) == ["device:1"]
    assert inspection.versions["efa"] == "2.17.3g"
    assert inspection.versions["efa-installer"] == "1.43.3"
    assert inspection.versions["kernel"] == "6.1.0-42-aws"
    assert inspection.modules == {"efa": True, "ib_uverbs": True, "ib_core": False, "neuron": True}
    assert inspection.memlock_bytes == 8388608
    assert inspection.huge_pages == 5128
    assert inspection.uverbs is True
    assert inspection.busy == ["job 4711"]
    assert ("fi_pingpong" in inspection.tools) == (shutil.which("fi_pingpong") is not None)
    assert not inspection.simulated


@needs_sshd
async def test_a_node_that_has_nothing(server: Sshd, tmp_path: Path) -> None:
    inspection = await over_ssh(server.ssh(), tmp_path)[0].inspect()
    assert (inspection.efa_devices, inspection.uverbs, inspection.busy) == ([], False, None)
    assert any("neuron-ls" in problem for problem in inspection.problems)


@needs_sshd
@needs_pingpong
async def test_a_probe_over_ssh(server: Sshd) -> None:
    here, there = over_ssh(server.ssh())
    served = await there.serve(SPEC)
    results = await here.probe(SPEC, there.name, served)
    assert await there.end(served) == ""
    assert [result.error for result in results] == [""] * len(results)
    assert results[0].peer == "trn-002"
    assert results[0].seconds is not None and 0 < results[0].seconds < 1


@needs_sshd
@needs_pingpong
async def test_a_tool_ends_with_its_connection(server: Sshd) -> None:
    # The port distinguishes this server side from those of other tests.
    here, there = over_ssh(server.ssh())
    assert isinstance(there, SshHost)
    served = await there.serve(SPEC)
    mine = f"-B {served.port}"
    assert running(mine)
    for pid, words in running(mine).items():
        # Of our side the client of ssh alone, as if the network were gone.
        if words.startswith("ssh "):
            os.kill(pid, signal.SIGKILL)
    assert until(lambda: not running(mine), 5), running(mine)
    await here.close()
    await there.close()


@needs_sshd
@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        (["PubkeyAuthentication no"], RefusedError, "permission denied"),
        (["HostKeyAlias another"], RefusedError, "its host key is not known"),
        (["Port 9"], UnreachableError, "connection refused"),
    ],
)
async def test_an_unreachable_node_has_a_reason(
    server: Sshd, options: list[str], kind: type[ProbeError], text: str
) -> None:
    host = over_ssh(server.ssh(*options))[0]
    with pytest.raises(kind, match=text):
        await host.inspect()


async def test_no_ssh_here() -> None:
    host = over_ssh("/nonexistent/ssh")[0]
    with pytest.raises(UnreachableError, match="/nonexistent/ssh: No such file"):
        await host.inspect()


async def test_a_node_that_hangs_has_a_deadline(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(inspection, "SECONDS", 0.3)
    hung = tmp_path / "ssh"
    hung.write_text("#!/bin/sh\nexec sleep 4242\n")
    hung.chmod(0o755)
    with pytest.raises(UnreachableError, match=r"no response within 0\.3 s"):
        await over_ssh(str(hung))[0].inspect()
    assert not running("sleep 4242")


async def test_endless_output_is_cut_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(inspection, "SECONDS", 0.5)
    monkeypatch.setattr(inspection, "MAX_BYTES", 1 << 10)
    endless = tmp_path / "ssh"
    endless.write_text("#!/bin/sh\nexec yes\n")
    endless.chmod(0o755)
    with pytest.raises(UnreachableError, match="no response within"):
        await over_ssh(str(endless))[0].inspect()
