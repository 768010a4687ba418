"""The reader on a made-up machine in a folder, and on this one."""

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.collectors.recording_sink import RecordingSink, running
from trntop.catalog import HOST
from trntop.collectors.host import HostReader, examine
from trntop.collectors.polled import AbsentError, Polled
from trntop.sources.host import decode

MEMINFO = """\
MemTotal:       1000 kB
MemFree:         100 kB
MemAvailable:    400 kB
Buffers:          10 kB
Cached:           20 kB
Shmem:             1 kB
Active:            1 kB
Inactive:          1 kB
Slab:              1 kB
SReclaimable:      1 kB
"""
NET = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: 9000 1 0 0 0 0 0 0 9000 1 0 0 0 0 0 0
  ens5: 1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0
  ens6: 30 1 0 0 0 0 0 0 40 1 0 0 0 0 0 0
veth1: 700 1 0 0 0 0 0 0 700 1 0 0 0 0 0 0
"""
DISKS = ("nvme0n1", "nvme0n1p1", "nvme1n1", "nvme0c0n1", "dm-0", "loop0")


class Machine:
    """A SIMULATED machine: what of `/proc` and `/sys` is read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("proc/meminfo", MEMINFO)
        self.write("proc/loadavg", "1.25 1.0 0.5 2/900 4242\n")
        self.write("proc/1/net/dev", NET)
        self.write(
            "proc/diskstats",
            "".join(f" 259 0 {name} 9 0 20 0 9 0 40 0 0 0 0 0 0 0 0 0 0\n" for name in DISKS),
        )
        self.write("proc/77/cmdline", "python3\0train.py\0")
        self.cpu(busy=100, idle=900)
        for name in ("ens5", "ens6"):
            self.write(f"sys/class/net/{name}/device/vendor", "0x1d0f\n")
        for name in ("lo", "veth1"):
            self.write(f"sys/class/net/{name}/mtu", "1500\n")
        for name in ("nvme0n1", "nvme1n1", "nvme0c0n1"):
            self.write(f"sys/block/{name}/device/model", "Amazon\n")
        for name in ("dm-0", "loop0"):
            self.write(f"sys/block/{name}/size", "8\n")
        self.write("sys/block/nvme0c0n1/hidden", "1\n")
        for name, text in (("sys_vendor", "Amazon EC2"), ("product_name", "trn2.48xlarge")):
            self.write(f"sys/class/dmi/id/{name}", f"{text}\n")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def cpu(self, busy: int, idle: int) -> None:
        """Ticks since boot."""
        columns = (busy, 0, 0, idle // 2, idle - idle // 2, 0, 0, 0, busy // 2, 0)
        self.write("proc/stat", f"cpu  {' '.join(map(str, columns))}\nbtime 1763600000\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(psutil, "PROCFS_PATH", "/proc")
    monkeypatch.delenv("NEURON_COMPILE_CACHE_URL", raising=False)
    return Machine(tmp_path)


def read(reader: HostReader) -> dict[str, Any]:
    return dict(json.loads(reader()))


def test_everything(machine: Machine) -> None:
    machine.write("var/tmp/neuron-compile-cache/neuronxcc-2.21/MODULE_1/model.done", "")
    machine.write("proc/fs/lustre/llite/fsx-ff/stats", "read_bytes 1 samples [bytes] 5 5 5\n")
    machine.write(
        "proc/1/mountstats",
        "device fs:/ mounted on /efs with fstype nfs4 statvers=1.1\n\tbytes:\t0 0 0 0 8 9 0 0\n",
    )
    report = read(HostReader(machine.root, period=5.0))
    assert report.pop("cpu") == {"count": psutil.cpu_count(), "load1": 1.25}
    assert report == {
        "period": 5.0,
        "dmi": {
            "sys_vendor": "Amazon EC2",
            "product_name": "trn2.48xlarge",
            "board_asset_tag": "",
        },
        "memory": {"total": 1_024_000, "available": 409_600},
        "network": {
            "ens5": {"rx_bytes": 1000, "tx_bytes": 2000},
            "ens6": {"rx_bytes": 30, "tx_bytes": 40},
        },
        "disk": {"read_bytes": 2 * 20 * 512, "written_bytes": 2 * 40 * 512},
        "lustre": {"fsx-ff": {"read_bytes": 5, "written_bytes": 0}},
        "nfs": {"/efs": {"read_bytes": 8, "written_bytes": 9}},
        "processes": {"count": 2, "partial": False},
        "compilers": [],
        "compile_cache": {
            "path": str(machine.root / "var/tmp/neuron-compile-cache"),
            "modules": 1,
            "partial": False,
        },
        "errors": [],
    }


def test_a_compile_cache_in_s3_is_named(machine: Machine) -> None:
    report = read(HostReader(machine.root, "s3://bucket/cache"))
    assert report["compile_cache"] == {"path": "s3://bucket/cache"}
    assert "cache at s3://bucket/cache" in examine(machine.root, "s3://bucket/cache").found


def test_cpu_share_is_that_between_two_reads(machine: Machine) -> None:
    reader = HostReader(machine.root)
    assert "busy" not in read(reader)["cpu"]
    machine.cpu(busy=130, idle=970)
    assert read(reader)["cpu"]["busy"] == pytest.approx(0.3)
    assert "busy" not in read(reader)["cpu"]  # no time has passed
    machine.cpu(busy=10, idle=20)
    assert "busy" not in read(reader)["cpu"]  # counted from the start


def test_what_is_not_there_is_absent(machine: Machine) -> None:
    for name in ("ens5", "ens6"):
        (machine.root / f"sys/class/net/{name}/device/vendor").unlink()
        (machine.root / f"sys/class/net/{name}/device").rmdir()
    report = read(HostReader(machine.root))
    assert not {"network", "lustre", "nfs", "compile_cache"} & report.keys()
    assert report["errors"] == []


def test_a_part_that_cannot_be_read_spares_the_rest(machine: Machine) -> None:
    machine.write("proc/1/net/dev", "two lines\nof titles\nens5: lots\n")
    machine.write("proc/diskstats", "what is this\n")
    machine.write("proc/meminfo", "MemFree: 3 kB\n")
    machine.write("var/tmp/neuron-compile-cache", "a file")
    report = read(HostReader(machine.root))
    assert {"cpu", "processes"} < report.keys()
    assert not {"memory", "network", "disk", "compile_cache"} & report.keys()
    parts = [error.partition(":")[0] for error in report["errors"]]
    assert parts == ["memory", "network", "disk", "modules"]
    assert len(decode(json.dumps(report).encode()).problems) == 4


def test_fault_19_no_procfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", "/proc")
    with pytest.raises(AbsentError, match=r"/proc cannot be read .*; mount the host's /proc there"):
        HostReader(tmp_path)()
    finding = examine(tmp_path)
    assert (finding.ok, finding.remedy) == (False, "mount the host's /proc there")


def test_examine(machine: Machine) -> None:
    finding = examine(machine.root)
    assert finding.ok
    assert finding.found == (
        f"{psutil.cpu_count()} CPUs, 2 processes, network ens5, ens6, disks, no Lustre,"
        " no NFS, no compile cache"
    )


async def test_this_machine() -> None:
    sink = RecordingSink()
    async with running(Polled("n", HOST, HostReader(), 0.05), sink):
        await sink.until(lambda: len(sink.readings) == 2)
    sample = decode(sink.readings[-1].data)
    assert sample.columns["node_memory_available_bytes"][0] > 0
    assert sample.columns["node_processes"][0] > 0
    assert sample.facts["compilation"] is None or sample.facts["compilation"].processes > 0
