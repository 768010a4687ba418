"""EFA devices: their counters in `/sys/class/infiniband`.

Sources: the EFA driver (efa_verbs.c, efa_sysfs.c) and the kernel's core/sysfs.c. Reading the
counters of a port costs the device four or five admin commands, at most once in 10 ms; its own
counters cost none. The driver always reports the state ACTIVE: a failed device disappears, or its
reads fail.
"""

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from trntop.catalog import EFA_DEVICE_COUNTERS, EFA_PORT_COUNTERS, EFA_SOURCE, Entity
from trntop.session.collector import Examination
from trntop.sources import efa

from . import sysfs
from .local_source import LocalSource
from .polled import AbsentError, Polled
from .sysfs import Entry, Files, Readable, Root, files_of, first_line, line_of

FOLDER = "sys/class/infiniband"
VERSION = "sys/module/efa/version"
PORT = "ports/1"
"""An EFA device has one port."""
AMAZON = "0x1d0f"
"""PCI vendor; other InfiniBand devices and NVLink bridges are in the same directory."""
EFA_DEVICES = "0xefa"
"""Prefix of the PCI device ids, 0xefa0 to 0xefa4 so far."""
MAX_DEVICES = 256
MAX_ERRORS = 4
"""Unreadable counters listed per device."""

_KNOWN = EFA_PORT_COUNTERS.keys() | EFA_DEVICE_COUNTERS.keys()
DRIVER_REMEDY = "load the EFA driver (modprobe efa), on an instance with EFA attached"


@dataclass
class _Device:
    """One device, until its directory is replaced."""

    inode: int
    """Of the directory; a device that comes back gets another one."""
    facts: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, Readable] = field(default_factory=dict)
    counters: dict[str, tuple[tuple[str, str, Readable], ...]] = field(default_factory=dict)
    """`port` or `device` → name, path and file of each counter."""


class EfaReader:
    """Reads the payload of source `efa`; call it from one thread only.

    Args:
        root: directory of `/sys`.
    """

    def __init__(self, root: Root = Path("/")) -> None:
        self._files = files_of(root)
        self._devices: dict[str, _Device | None] = {}
        """By name; None for other InfiniBand devices."""
        self._seen = False

    def __call__(self) -> bytes:
        """One reading of all devices.

        Raises:
            AbsentError: there is no device, and there was none before.
        """
        self._update()
        devices = {name: device for name, device in self._devices.items() if device is not None}
        if not devices and not self._seen:
            raise AbsentError("no EFA device in /sys/class/infiniband", DRIVER_REMEDY)
        self._seen = True
        driver = line_of(self._files, VERSION) or None
        values = {name: _read(device) for name, device in devices.items()}
        return msgspec.json.encode({"driver": driver, "devices": values})

    def _update(self) -> None:
        """Finds devices that are new or were replaced."""
        try:
            entries = self._files.entries(FOLDER)
        except FileNotFoundError:
            entries = []
        except OSError as error:
            raise AbsentError(f"/{FOLDER} cannot be listed: {error.strerror}") from None
        known, self._devices = self._devices, {}
        for name in sorted(entry.name for entry in entries if entry.name.isascii())[:MAX_DEVICES]:
            device = known.get(name)
            with contextlib.suppress(OSError):  # it has just disappeared
                inode = self._files.inode(f"{FOLDER}/{name}")
                # Without counters it was just being set up.
                if name not in known or (
                    device is not None
                    and (device.inode != inode or not any(device.counters.values()))
                ):
                    device = _find(self._files, f"{FOLDER}/{name}", inode)
                self._devices[name] = device


def _find(files: Files, folder: str, inode: int) -> _Device | None:
    """The device in `folder`; None if it is not an EFA device."""
    pci = f"{folder}/device"
    model = line_of(files, f"{pci}/device")
    if line_of(files, f"{pci}/vendor") != AMAZON or not model.startswith(EFA_DEVICES):
        return None
    device = _Device(inode, {"pci": _pci(files, pci)})
    with contextlib.suppress(ValueError):
        device.facts["numa_node"] = int(line_of(files, f"{pci}/numa_node"))
    for place, path in (("port", f"{PORT}/hw_counters"), ("device", "hw_counters")):
        device.counters[place] = tuple(
            (name, f"{path}/{name}", files.keep_open(f"{folder}/{path}/{name}"))
            for name in sorted(entry.name for entry in _listed(files, f"{folder}/{path}"))
            if name in _KNOWN
        )
    for name, path in (
        ("rate", f"{folder}/{PORT}/rate"),
        ("state", f"{folder}/{PORT}/state"),
        ("p2p", f"{pci}/p2p"),
    ):
        device.texts[name] = files.keep_open(path)
    return device


def _listed(files: Files, folder: str) -> list[Entry]:
    try:
        return files.entries(folder)
    except OSError:
        return []


def _pci(files: Files, device: str) -> str | None:
    """The PCI address."""
    with contextlib.suppress(OSError):
        for line in sysfs.text(files.read(f"{device}/uevent")).splitlines():
            key, _, value = line.partition("=")
            if key == "PCI_SLOT_NAME":
                return value.strip()
    return None


def _read(device: _Device) -> dict[str, Any]:
    """One device of the payload."""
    result: dict[str, Any] = dict(device.facts)
    for name, file in device.texts.items():
        try:
            result[name] = sysfs.text(file.read())
        except OSError:
            continue  # older drivers lack it
    if rate := _gigabits(result.pop("rate", "")):
        result["rate_gbps"] = rate
    errors: list[str] = []
    read = failed = 0
    for place, counters in device.counters.items():
        values = result[place] = {}
        for name, path, file in counters:
            try:
                values[name] = sysfs.number(file.read())
                read += 1
            except (OSError, ValueError) as error:
                failed += 1
                if failed <= MAX_ERRORS:
                    errors.append(f"{path}: {sysfs.reason(error)}")
    if not read:
        result["error"] = errors[0] if errors else "it has no counters"
    elif failed:
        more = [f"and {failed - MAX_ERRORS} more counters"] if failed > MAX_ERRORS else []
        result["errors"] = errors + more
    return result


def _gigabits(rate: str) -> float | None:
    """Gb/s of `200 Gb/sec (4X HDR)`; None for other formats."""
    amount, _, unit = rate.partition(" ")
    try:
        return float(amount) if unit.startswith("Gb/sec") else None
    except ValueError:
        return None


def examine(root: Path = Path("/")) -> Examination:
    """The EFA devices, and whether their counters can be read.

    Args:
        root: directory of `/sys`.
    """
    try:
        sample = efa.decode(EfaReader(root)())
    except AbsentError as error:
        return Examination(EFA_SOURCE, False, error.found, error.remedy)
    names = [str(name) for name in sample.keys[Entity.EFA]]
    shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    driver = first_line(root / VERSION) or "unknown"
    found = f"{len(names)} EFA device{'s' * (len(names) > 1)} ({shown}), driver {driver}"
    if sample.problems:
        found += f"; {sample.problems[0]}"
        if len(sample.problems) > 1:
            found += f", and {len(sample.problems) - 1} more"
        remedy = "check dmesg; without permission, run trntop as a user who can read /sys"
        return Examination(EFA_SOURCE, False, found, remedy)
    lacks = [
        text
        for column, text in (
            ("efa_retrans_pkts_total", "the SRD counters (2.17.0)"),
            ("efa_stated_link_bytes_per_second", "a line rate that can be trusted (2.13.0)"),
        )
        if column not in sample.columns
    ]
    if lacks:
        found += f"; this driver lacks {' and '.join(lacks)}"
    return Examination(EFA_SOURCE, True, found, "update the EFA driver" if lacks else "")


LOCAL = LocalSource(
    lambda context: Polled(
        context.node, EFA_SOURCE, EfaReader(context.root), context.settings.period
    ),
    lambda settings: examine(Path(settings.root)),
)
