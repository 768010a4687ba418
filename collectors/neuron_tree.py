"""The nodes of the Neuron driver's sysfs tree, and their paths.

Source: the Neuron driver (neuron_sysfs_metrics.c) and the Neuron sysfs guide. Driver 2.31 moved
nodes to other paths, so a node is identified by its name and a parent, not by its path. Writing to
a counter clears it, and `reset` resets a device: only files of the table are opened, for reading.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from trntop.catalog import CORE_STATUS_ALIASES, CORE_STATUSES, HEALTH_STATUS, SYSFS_ECC

from .polled import AbsentError
from .sysfs import Root, files_of, line_of

TREE = "sys/devices/virtual/neuron_device"
VERSION = "sys/module/neuron/version"
DRIVER_REMEDY = "install aws-neuronx-dkms and load the driver: modprobe neuron"
LOOK = "check dmesg, and whether lspci shows the devices"
GONE = "gone from sysfs"
MAX_DEVICES = 64
MAX_CORES = 64
MAX_ENTRIES = 16_384
"""Entries below one device; a Trainium2 device of driver 2.25 has some 1,300."""
MAX_DEPTH = 10

Table = Mapping[tuple[str, str], tuple[str, str]]
"""(parent, or empty for any; node) → (group of the payload, name in it).

A node is a file, or a directory with a file `total`. The nearest parent in the table counts.
"""


def _rows(below: str, names: tuple[str, ...], group: str) -> Table:
    return {(below, name): (group, name) for name in names}


HARDWARE_EVENT = "hw_error_event"
"""The file that newer drivers `sysfs_notify` when a count of memory errors changes: their metrics
thread compares the registers (neuron_sysfs_metrics.c, `nsysfsmetric_health_status_tick`).
"""

DEVICE_NODES: Table = {
    **_rows("", ("serial_number", "arch_type", "device_name", "connected_devices"), "info"),
    ("", "device_type"): ("info", "device_name"),  # its name in the guide's prose
    ("power", "utilization"): ("", "power"),
    **_rows("", ("unhealthy_components",), ""),
    **_rows("", tuple(SYSFS_ECC), "hardware"),
    **_rows("health_status", (*HEALTH_STATUS, HARDWARE_EVENT), "health_status"),
}
CORE_NODES: Table = {
    ("", "device_mem"): ("device_mem", "total"),
    **_rows("status", (*CORE_STATUSES, *CORE_STATUS_ALIASES), "status"),
}
TENSOR_ENGINE_NODES: Table = {("", "pe_cntrs"): ("", "pe_cntrs")}

_DEVICE = re.compile(r"neuron(\d{1,4})")
_CORE = re.compile(r"neuron_core(\d{1,4})")


class Node(NamedTuple):
    """A file of the tree."""

    path: str
    """Relative to the directory of the device."""
    core: int | None
    """None for the device."""
    group: str
    name: str


@dataclass(frozen=True)
class Device:
    index: int
    folder: str
    inode: int
    cores: tuple[int, ...]
    nodes: tuple[Node, ...]
    unread: tuple[str, ...]
    """Directories that could not be listed, and why."""


@lru_cache(maxsize=64)
def _shared(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """One tuple for all devices with the same nodes."""
    return nodes


class Tree:
    """The devices of a machine; each is searched once, and again after a change.

    Args:
        root: directory of `/sys`.
        device_nodes: nodes of devices.
        core_nodes: nodes of cores.
    """

    def __init__(self, root: Root, device_nodes: Table, core_nodes: Table) -> None:
        self.driver = ""
        """Version of the driver, empty if unknown."""
        self.devices: dict[int, Device] = {}
        """All devices since the driver was loaded."""
        self.gone: set[int] = set()
        """Devices that are no longer listed."""
        self._files = files_of(root)
        self._tables = (device_nodes, core_nodes)

    def update(self) -> None:
        """Finds new and lost devices.

        Raises:
            AbsentError: there is no device.
        """
        driver = line_of(self._files, VERSION)
        if driver != self.driver:
            self.driver = driver
            self.devices = {}
        listed = dict(self._listed())
        if not listed:
            self.devices = {}
            if driver:
                raise AbsentError(f"Neuron driver {driver} is loaded, but there is no device", LOOK)
            raise AbsentError("the Neuron driver is not loaded", DRIVER_REMEDY)
        for index, (folder, inode) in listed.items():
            known = self.devices.get(index)
            # Without cores it was just being set up.
            settled = known is not None and known.inode == inode and known.cores
            if not settled or index in self.gone:
                self.devices[index] = self._find(index, folder, inode)
        self.gone = self.devices.keys() - listed.keys()

    def _listed(self) -> Iterator[tuple[int, tuple[str, int]]]:
        """Index, folder and inode number of each device, in order."""
        try:
            found = [
                (int(match[1]), (f"{TREE}/{entry.name}", entry.inode))
                for entry in self._files.entries(TREE)
                if (match := _DEVICE.fullmatch(entry.name))
            ]
        except FileNotFoundError:
            return
        except OSError as error:
            raise AbsentError(f"/{TREE} cannot be listed: {error.strerror}") from None
        yield from sorted(found)[:MAX_DEVICES]

    def _find(self, index: int, folder: str, inode: int) -> Device:
        """Searches the directory of a device, breadth first: of two nodes the nearest counts."""
        nodes: dict[tuple[int | None, str, str], Node] = {}
        cores: set[int] = set()
        unread: list[str] = []
        folders: deque[tuple[tuple[str, ...], int | None]] = deque([((), None)])
        entries = 0
        while folders:
            parts, core = folders.popleft()
            try:
                found = [
                    (entry.name, entry.folder)
                    for entry in self._files.entries("/".join((folder, *parts)))
                    if entry.name.isascii() and not entry.link
                ]
            except OSError as error:
                unread.append(f"{'/'.join(parts)}: {error.strerror}")
                continue
            entries += len(found)
            if entries > MAX_ENTRIES:
                unread.append(f"more than {MAX_ENTRIES} entries; the rest is skipped")
                break
            for name, is_folder in sorted(found):
                if not is_folder:
                    if place := self._place((*parts, name), core):
                        node = Node("/".join((*parts, name)), core, *place)
                        nodes.setdefault((core, *place), node)
                elif len(parts) < MAX_DEPTH:
                    match = _CORE.fullmatch(name)
                    number = int(match[1]) if match else core
                    if number is not None and number < MAX_CORES:
                        cores.add(number)
                    if number is None or number < MAX_CORES:
                        folders.append(((*parts, name), number))
        found_nodes = _shared(tuple(nodes.values()))
        return Device(index, folder, inode, tuple(sorted(cores)), found_nodes, tuple(unread))

    def _place(self, parts: tuple[str, ...], core: int | None) -> tuple[str, str] | None:
        """Group and name of the file at `parts`; None if it is not in the table."""
        table = self._tables[core is not None]
        end = len(parts) - 2 if parts[-1] == "total" and len(parts) > 1 else len(parts) - 1
        node = parts[end]
        for below in (*reversed(parts[:end]), ""):
            if place := table.get((below, node)):
                return place
        return None
