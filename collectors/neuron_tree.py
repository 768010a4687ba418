"""The attributes of Neuron devices in the driver's sysfs tree, and their paths.

Source: the Neuron driver (neuron_sysfs_metrics.c) and the Neuron sysfs guide. Driver 2.31 moved
attributes to other paths, so an attribute is identified by its name and a parent, not by its path.
Writing to a counter clears it, and `reset` resets a device: only files in the tables are opened,
and only for reading.
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
NO_DEVICE_REMEDY = "check dmesg, and whether lspci shows the devices"
GONE = "gone from sysfs"
MAX_DEVICES = 64
MAX_CORES = 64
MAX_ENTRIES = 16_384
"""Entries below one device; a Trainium2 device of driver 2.25 has some 1,300."""
MAX_DEPTH = 10

Table = Mapping[tuple[str, str], tuple[str, str]]
"""(parent, or empty for any; attribute) → (group of the payload, name in it).

An attribute is a file, or a directory with a file `total`. The nearest parent in the table is used.
"""


def _rows(parent: str, names: tuple[str, ...], group: str) -> Table:
    return {(parent, name): (group, name) for name in names}


HARDWARE_EVENT = "hw_error_event"
"""The file for which newer drivers call `sysfs_notify` when a count of memory errors changes: their
metrics thread compares the registers (neuron_sysfs_metrics.c, `nsysfsmetric_health_status_tick`).
"""

DEVICE_ATTRIBUTES: Table = {
    **_rows("", ("serial_number", "arch_type", "device_name", "connected_devices"), "info"),
    ("", "device_type"): ("info", "device_name"),  # its name in the guide's prose
    ("power", "utilization"): ("", "power"),
    **_rows("", ("unhealthy_components",), ""),
    **_rows("", tuple(SYSFS_ECC), "hardware"),
    **_rows("health_status", (*HEALTH_STATUS, HARDWARE_EVENT), "health_status"),
}
CORE_ATTRIBUTES: Table = {
    ("", "device_mem"): ("device_mem", "total"),
    **_rows("status", (*CORE_STATUSES, *CORE_STATUS_ALIASES), "status"),
}
TENSOR_ENGINE_ATTRIBUTES: Table = {("", "pe_cntrs"): ("", "pe_cntrs")}

_DEVICE = re.compile(r"neuron(\d{1,4})")
_CORE = re.compile(r"neuron_core(\d{1,4})")


class Attribute(NamedTuple):
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
    attributes: tuple[Attribute, ...]
    unread: tuple[str, ...]
    """Directories that could not be listed, and why."""


@lru_cache(maxsize=64)
def _shared(attributes: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
    """One tuple for all devices with the same attributes."""
    return attributes


class Tree:
    """The devices of a machine; each is searched once, and again after a change.

    Args:
        root: directory of `/sys`.
        device_attributes: the attributes of devices.
        core_attributes: the attributes of cores.
    """

    def __init__(self, root: Root, device_attributes: Table, core_attributes: Table) -> None:
        self.driver = ""
        """Version of the driver, empty if unknown."""
        self.devices: dict[int, Device] = {}
        """All devices since the driver was loaded."""
        self.gone: set[int] = set()
        """Devices that are no longer listed."""
        self._files = files_of(root)
        self._tables = (device_attributes, core_attributes)

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
                raise AbsentError(
                    f"Neuron driver {driver} is loaded, but there is no device", NO_DEVICE_REMEDY
                )
            raise AbsentError("the Neuron driver is not loaded", DRIVER_REMEDY)
        for index, (folder, inode) in listed.items():
            known = self.devices.get(index)
            # Without cores, the device was still being set up.
            is_complete = known is not None and known.inode == inode and known.cores
            if not is_complete or index in self.gone:
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
        """Searches the directory of a device, breadth first: the nearest attribute is used."""
        attributes: dict[tuple[int | None, str, str], Attribute] = {}
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
                    if row := self._table_row((*parts, name), core):
                        attribute = Attribute("/".join((*parts, name)), core, *row)
                        attributes.setdefault((core, *row), attribute)
                elif len(parts) < MAX_DEPTH:
                    match = _CORE.fullmatch(name)
                    number = int(match[1]) if match else core
                    if number is not None and number < MAX_CORES:
                        cores.add(number)
                    if number is None or number < MAX_CORES:
                        folders.append(((*parts, name), number))
        shared = _shared(tuple(attributes.values()))
        return Device(index, folder, inode, tuple(sorted(cores)), shared, tuple(unread))

    def _table_row(self, parts: tuple[str, ...], core: int | None) -> tuple[str, str] | None:
        """Group and name of the file at `parts`; None if it is not in the table."""
        table = self._tables[core is not None]
        end = len(parts) - 2 if parts[-1] == "total" and len(parts) > 1 else len(parts) - 1
        name = parts[end]
        for parent in (*reversed(parts[:end]), ""):
            if row := table.get((parent, name)):
                return row
        return None
