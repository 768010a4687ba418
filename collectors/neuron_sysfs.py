"""Memory, status counters, power and health of Neuron devices, from the driver's sysfs tree.

The `total` of a memory attribute is the memory in use; that of any other attribute is the count
since the driver was loaded. Driver 2.30.2 counts live; older drivers add the counts of a process
when it ends.
"""

import errno
from pathlib import Path
from typing import Any

import msgspec

from trntop.catalog import NEURON_SYSFS, Entity
from trntop.core.text import clean
from trntop.core.versions import numbers
from trntop.session.collector import Examination
from trntop.sources import neuron_sysfs

from . import sysfs
from .file_events import FileEvents
from .local_source import Context, LocalSource
from .neuron_tree import (
    CORE_ATTRIBUTES,
    DEVICE_ATTRIBUTES,
    GONE,
    HARDWARE_EVENT,
    Attribute,
    Device,
    Tree,
)
from .polled import AbsentError, Polled
from .sysfs import Files, Root, files_of, line_of

MAX_ERRORS = 4
"""Unreadable attributes that are listed per device."""
CLASS = "sys/class/neuron_device"
ULTRASERVER_MODE = "ultraserver_mode"
TEXTS = ("", "info")
"""Groups of attributes with text; the others are numbers."""

LIVE_COUNTERS = (2, 30, 2)
"""Since this driver version, counters of running processes are live and health is reported."""


class NeuronSysfsReader:
    """Reads the payload of source `neuron-sysfs`; call it from one thread only.

    Args:
        root: directory of `/sys`.
        period: seconds between readings.
    """

    def __init__(self, root: Root = Path("/"), period: float = 10.0) -> None:
        self._period = period
        self._files = files_of(root)
        self._prefix = str(root).rstrip("/") if isinstance(root, Path) else ""
        self._tree = Tree(root, DEVICE_ATTRIBUTES, CORE_ATTRIBUTES)

    @property
    def events(self) -> list[str]:
        """The files that change on hardware errors, as of the last reading."""
        return [
            f"{self._prefix}/{device.folder}/{attribute.path}"
            for index, device in self._tree.devices.items()
            if index not in self._tree.gone
            for attribute in device.attributes
            if attribute.name == HARDWARE_EVENT
        ]

    def __call__(self) -> bytes:
        """One reading of all devices.

        Raises:
            AbsentError: there is no device.
        """
        self._tree.update()
        forbidden: set[str] = set()
        devices = {
            str(index): _gone(device)
            if index in self._tree.gone
            else _read(self._files, device, forbidden)
            for index, device in self._tree.devices.items()
        }
        names = ", ".join(sorted(forbidden)[:MAX_ERRORS])
        mode = line_of(self._files, f"{CLASS}/{ULTRASERVER_MODE}")
        return msgspec.json.encode(
            {
                "driver": self._tree.driver or None,
                "period": self._period,
                "class": {ULTRASERVER_MODE: mode} if mode else {},
                "devices": devices,
                "errors": [f"no permission to read {names}; run trntop as root"] * bool(forbidden),
            }
        )


def _blank(device: Device) -> dict[str, Any]:
    """A device without values, with its cores."""
    return {"cores": {str(core): {} for core in device.cores}}


def _gone(device: Device, why: str = GONE) -> dict[str, Any]:
    return {**_blank(device), "lost": why}


def _read(files: Files, device: Device, forbidden: set[str]) -> dict[str, Any]:
    """One device of the payload; adds attributes without permission to `forbidden`."""
    result = _blank(device)
    errors = list(device.unread)
    failed = 0
    # That one counts changes of the error counters, which are read themselves.
    attributes = [attribute for attribute in device.attributes if attribute.name != HARDWARE_EVENT]
    try:
        with files.within(device.folder) as read:
            for attribute in attributes:
                try:
                    _put(result, attribute, read(attribute.path))
                except PermissionError:
                    forbidden.add(attribute.name)
                except (OSError, ValueError) as error:
                    if isinstance(error, OSError) and error.errno == errno.ENODEV:
                        return _gone(device, sysfs.reason(error))
                    failed += 1
                    errors.append(f"{attribute.path}: {sysfs.reason(error)}")
    except OSError as error:
        return _gone(device, sysfs.reason(error))
    if failed and failed == len(attributes):
        return _gone(device, errors[-1])
    if errors:
        more = len(errors) - MAX_ERRORS
        result["errors"] = errors[:MAX_ERRORS] + [f"and {more} more attributes"] * (more > 0)
    return result


def _put(result: dict[str, Any], attribute: Attribute, data: bytes) -> None:
    value = sysfs.text(data) if attribute.group in TEXTS else sysfs.number(data)
    target = result if attribute.core is None else result["cores"][str(attribute.core)]
    if attribute.group:
        target = target.setdefault(attribute.group, {})
    target[attribute.name] = value


def examine(root: Path = Path("/")) -> Examination:
    """The Neuron devices in sysfs, and which of their attributes can be read.

    Args:
        root: directory of `/sys`.
    """
    try:
        sample = neuron_sysfs.decode(NeuronSysfsReader(root)())
    except AbsentError as error:
        return Examination(NEURON_SYSFS, False, error.found, error.remedy)
    devices = len(sample.keys[Entity.DEVICE])
    cores = len(sample.keys[Entity.PHYSICAL_CORE])
    driver = sample.facts["facts"].get("neuron_driver", "")
    found = (
        f"{devices} Neuron device{'s' * (devices != 1)}, {cores} physical cores,"
        f" driver {driver or 'unknown'}"
    )
    missing = [
        text
        for column, text in (
            ("physical_core_memory_used_bytes", "memory in use"),
            ("physical_core_success_total", "execution counters"),
            ("device_power_mean_ratio", "power"),
            ("device_unhealthy_components", "health"),
        )
        if column not in sample.columns
    ]
    if missing:
        found += f"; missing: {', '.join(missing)}"
    if driver and numbers(driver) < LIVE_COUNTERS:
        found += "; before driver 2.30.2 a process's executions are counted when it ends"
    if sample.problems:
        found += f"; {sample.problems[0]}"
    lost = any("lost" in links for links in sample.facts["device_links"].values())
    if not sample.columns:
        remedy = "run trntop as a user who can read the tree"
    elif lost:
        remedy = "check dmesg; a device that stays lost needs a new instance"
    else:
        remedy = "update aws-neuronx-dkms" if missing else ""
    return Examination(NEURON_SYSFS, bool(sample.columns) and not lost, clean(found, 400), remedy)


def _collect(context: Context) -> Polled:
    period = context.settings.sysfs_period
    # Some attributes query the firmware, which may be slow.
    reader = NeuronSysfsReader(context.root, period)
    events = FileEvents(lambda: reader.events)
    return Polled(context.node, NEURON_SYSFS, reader, period, deadline=period, events=events)


LOCAL = LocalSource(_collect, lambda settings: examine(Path(settings.root)))
