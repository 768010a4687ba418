"""The payload of the source `host` from a dump: CPUs, memory, interfaces, disks, firmware.

Processes and the compile cache, which `collectors.host` reads on this machine, are omitted.
"""

import json
from typing import Any

from trntop.core.text import clean

from ..host import DMI
from ..polled import AbsentError
from ..sysfs import Files, line_of, reason, text

SECTOR = 512
"""Bytes; the unit of /sys/block for every disk."""
_GUEST = slice(8, 10)
"""Columns of /proc/stat that are also part of user and nice."""
_READ, _WRITTEN = 2, 6
"""Columns of a disk's statistics: sectors."""


class HostReader:
    """Reads the payload of the source `host`.

    Args:
        files: a dump.
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
            AbsentError: neither processors nor memory can be read.
        """
        report: dict[str, Any] = {"period": self._period}
        errors: list[str] = []
        for part in (self._firmware, self._cpu, self._memory, self._network, self._disk):
            try:
                report |= part()
            except (OSError, ValueError, LookupError) as error:
                why = reason(error) if isinstance(error, OSError | ValueError) else str(error)
                errors.append(f"{part.__name__.strip('_')}: {clean(why)}")
        if "cpu" not in report and "memory" not in report:
            raise AbsentError(f"/proc cannot be read ({errors[0]})")
        return json.dumps(report | {"errors": errors}, separators=(",", ":")).encode()

    def _firmware(self) -> dict[str, Any]:
        texts = {name: line_of(self._files, f"sys/class/dmi/id/{name}") for name in DMI}
        return {"dmi": texts} if any(texts.values()) else {}

    def _cpu(self) -> dict[str, Any]:
        cpu: dict[str, float] = {"count": int(self._files.read("proc/cpus"))}
        times = [int(word) for word in self._files.read("proc/stat").split()[1:]]
        whole = sum(times) - sum(times[_GUEST])
        busy = whole - times[3] - times[4]
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

    def _network(self) -> dict[str, Any]:
        folder = "sys/class/net"
        interfaces = {
            clean(name): {
                column: int(self._files.read(f"{folder}/{name}/statistics/{column}"))
                for column in ("rx_bytes", "tx_bytes")
            }
            for name in self._names(folder)
        }
        return {"network": interfaces} if interfaces else {}

    def _disk(self) -> dict[str, Any]:
        folder = "sys/block"
        counts = [
            [int(word) for word in self._files.read(f"{folder}/{name}/stat").split()]
            for name in self._names(folder)
        ]
        if not counts:
            return {}
        return {
            "disk": {
                "read_bytes": SECTOR * sum(count[_READ] for count in counts),
                "written_bytes": SECTOR * sum(count[_WRITTEN] for count in counts),
            }
        }

    def _names(self, folder: str) -> list[str]:
        try:
            return [entry.name for entry in self._files.entries(folder)]
        except FileNotFoundError:
            return []
