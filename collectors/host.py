"""The host: CPUs, memory, interfaces, disks, Lustre, NFS, the compiler."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import psutil

from trntop.catalog import HOST
from trntop.core.text import clean
from trntop.session.collector import Examination

from . import lustre, nfs
from .compiler import CompileCache, cache_url, processes
from .local_source import Context, LocalSource
from .polled import AbsentError, Polled
from .sysfs import Files, LocalFiles, first_line, line_of, reason, text

PERIOD = 10.0
"""Seconds between reads, by default."""
BUDGET = 0.2
"""Seconds for the compile cache, and for the processes."""

DMI = ("sys_vendor", "product_name", "board_asset_tag")

_IDLE, _IOWAIT = 3, 4
"""Columns of /proc/stat."""
_GUEST = slice(8, 10)
"""Columns that are also part of user and nice."""
_UNREADABLE = (OSError, ValueError, TypeError, RuntimeError, LookupError, psutil.Error)
"""Raised by psutil for kernel files that are missing or have another format."""


class KernelReader:
    """What the kernel's files state of a host: firmware, CPUs and memory.

    Args:
        files: `/proc` and `/sys`.
        period: seconds between reads.
    """

    def __init__(self, files: Files, period: float) -> None:
        self._files = files
        self._period = period
        self._cpu_seconds: tuple[int, int] | None = None
        """Busy and all CPU time at the last read, in ticks."""

    def __call__(self) -> bytes:
        """The payload of one read.

        Raises:
            AbsentError: neither CPUs nor memory can be read.
        """
        return msgspec.json.encode(self.report())

    def report(self) -> dict[str, Any]:
        """The payload, not encoded."""
        report: dict[str, Any] = {"period": self._period}
        errors: list[str] = []
        for part in self._parts():
            try:
                report |= part()
            except _UNREADABLE as error:
                why = reason(error) if isinstance(error, OSError | ValueError) else str(error)
                errors.append(f"{part.__name__.strip('_')}: {clean(why)}")
        if "cpu" not in report and "memory" not in report:
            raise AbsentError(f"/proc cannot be read ({errors[0]})", self.remedy)
        return report | {"errors": errors}

    remedy = ""

    def _parts(self) -> tuple[Callable[[], dict[str, Any]], ...]:
        return self._firmware, self._cpu, self._memory

    def _cpus(self) -> int | None:
        return psutil.cpu_count()

    def _firmware(self) -> dict[str, Any]:
        # On EC2 the firmware has the instance type and id.
        texts = {name: line_of(self._files, f"sys/class/dmi/id/{name}") for name in DMI}
        return {"dmi": texts} if any(texts.values()) else {}

    def _cpu(self) -> dict[str, Any]:
        cpu: dict[str, float | None] = {"count": self._cpus()}
        words = self._files.read("proc/stat").partition(b"\n")[0].split()
        times = [int(word) for word in words[1:]]
        whole = sum(times) - sum(times[_GUEST])
        busy = whole - times[_IDLE] - times[_IOWAIT]
        before, self._cpu_seconds = self._cpu_seconds, (busy, whole)
        if before and whole > before[1]:
            cpu["busy"] = min(1.0, max(0.0, (busy - before[0]) / (whole - before[1])))
        cpu["load1"] = float(self._files.read("proc/loadavg").split()[0])
        return {"cpu": cpu}

    def _memory(self) -> dict[str, Any]:
        sizes = {}
        for line in text(self._files.read("proc/meminfo")).splitlines():
            name, _, size = line.partition(":")
            sizes[name] = int(size.split()[0]) * 1024
        return {"memory": {"total": sizes["MemTotal"], "available": sizes["MemAvailable"]}}


class HostReader(KernelReader):
    """Reads the payload of source `host`; a part that cannot be read is an error in it.

    Bytes are counted once, at physical interfaces and disks: the traffic of a pod also passes its
    veth and a bridge; a partition, a logical volume or a RAID is on physical disks.

    psutil has one procfs per process, which a reader with another `root` sets.

    Args:
        root: directory of `/proc`, `/sys` and the default compile cache.
        compile_cache: the compile cache; empty is NEURON_COMPILE_CACHE_URL or the default.
        period: seconds between reads.
    """

    remedy = "mount the host's /proc there"

    def __init__(
        self,
        root: Path = Path("/"),
        compile_cache: str = "",
        *,
        period: float = PERIOD,
    ) -> None:
        super().__init__(LocalFiles(root), period)
        self._root = root
        self._proc = root / "proc"
        self._cache_url = cache_url(root, compile_cache)
        remote = "://" in self._cache_url
        self._cache = None if remote else CompileCache(Path(self._cache_url))
        if root != Path("/"):
            psutil.PROCFS_PATH = str(self._proc)

    def report(self) -> dict[str, Any]:
        """The payload, not encoded."""
        report = super().report()
        for name, client_bytes in (("lustre", lustre.client_bytes), ("nfs", nfs.client_bytes)):
            volumes, errors = client_bytes(self._root)
            if volumes:
                report[name] = volumes
            report["errors"] += errors
        return report

    def _parts(self) -> tuple[Callable[[], dict[str, Any]], ...]:
        return *super()._parts(), self._network, self._disk, self._processes, self._modules

    def _network(self) -> dict[str, Any]:
        # psutil reads the network namespace of this process, which may be a pod.
        interfaces: dict[str, dict[str, int]] = {}
        physical = _physical(self._root / "sys/class/net")
        for line in (self._proc / "1/net/dev").read_text().splitlines()[2:]:
            name, _, columns = line.partition(":")
            if name.strip() in physical:
                numbers = [int(column) for column in columns.split()]
                interfaces[name.strip()] = {"rx_bytes": numbers[0], "tx_bytes": numbers[8]}
        return {"network": interfaces} if interfaces else {}

    def _disk(self) -> dict[str, Any]:
        counters = psutil.disk_io_counters(perdisk=True, nowrap=False)
        disks = [counters[name] for name in _physical(self._root / "sys/block") & counters.keys()]
        if not disks:
            return {}
        return {
            "disk": {
                "read_bytes": sum(disk.read_bytes for disk in disks),
                "written_bytes": sum(disk.write_bytes for disk in disks),
            }
        }

    def _processes(self) -> dict[str, Any]:
        count, compilers, partial = processes(BUDGET)
        return {
            "processes": {"count": count, "partial": partial},
            "compilers": [asdict(compiler) for compiler in compilers],
        }

    def _modules(self) -> dict[str, Any]:
        if self._cache is None:
            return {"compile_cache": {"path": self._cache_url}}
        try:
            modules, partial = self._cache.count(BUDGET)
        except FileNotFoundError:
            return {}
        cache = {"path": str(self._cache.path), "modules": modules, "partial": partial}
        return {"compile_cache": cache}


def _physical(folder: Path) -> set[str]:
    """Names of physical interfaces or disks; the paths of a multipath disk are hidden."""
    return {
        entry.name
        for entry in folder.iterdir()
        if (entry / "device").exists() and first_line(entry / "hidden") != "1"
    }


def examine(root: Path = Path("/"), compile_cache: str = "") -> Examination:
    """Summary of the host.

    Args:
        root: directory of `/proc` and `/sys`.
        compile_cache: the compile cache; empty is the default.
    """
    try:
        report = HostReader(root, compile_cache).report()
    except AbsentError as error:
        return Examination(HOST, False, error.found, error.remedy)
    interfaces = ", ".join(map(clean, report.get("network", ()))) or "no physical interface"
    parts = [
        f"{report['cpu']['count']} CPUs" if "cpu" in report else "no CPU times",
        f"{report['processes']['count']} processes" if "processes" in report else "no processes",
        f"network {interfaces}",
        "disks" if "disk" in report else "no disk",
        f"{len(report['lustre'])} Lustre mounts" if "lustre" in report else "no Lustre",
        f"{len(report['nfs'])} NFS mounts" if "nfs" in report else "no NFS",
        _cache_text(report.get("compile_cache", {})),
    ]
    return Examination(HOST, True, "; ".join([", ".join(parts), *map(clean, report["errors"])]))


def _cache_text(cache: dict[str, Any]) -> str:
    if not cache:
        return "no compile cache"
    path = clean(cache["path"])
    return f"{cache['modules']} modules in {path}" if "modules" in cache else f"cache at {path}"


def _collect(context: Context) -> Polled:
    settings = context.settings
    reader = HostReader(context.root, settings.compile_cache, period=settings.host_period)
    return Polled(context.node, HOST, reader, settings.host_period)


LOCAL = LocalSource(_collect, lambda settings: examine(Path(settings.root), settings.compile_cache))
