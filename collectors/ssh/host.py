"""The payload of the source `host` from a dump: CPUs, memory, interfaces, disks, firmware.

Processes and the compile cache, which `collectors.host` reads on this machine, are omitted.
"""

from collections.abc import Callable
from typing import Any

from trntop.core.text import clean

from ..host import KernelReader

SECTOR = 512
"""Bytes; the unit of /sys/block for every disk."""
_READ, _WRITTEN = 2, 6
"""Columns of a disk's statistics: sectors."""


class RemoteHostReader(KernelReader):
    """Reads the payload of the source `host` from a dump."""

    def _parts(self) -> tuple[Callable[[], dict[str, Any]], ...]:
        return *super()._parts(), self._network, self._disk

    def _cpus(self) -> int:
        return int(self._files.read("proc/cpus"))

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
