"""Memory, status counters, power and health of Neuron devices, from the driver's sysfs tree.

`total` of a memory node is what is in use now, of any other the count since the driver was
loaded. Driver 2.30.2 counts live; before, a process's counts were added when it ended.
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
from .local_source import Context, LocalSource
from .neuron_tree import CORE_NODES, DEVICE_NODES, GONE, Device, Node, Tree
from .polled import AbsentError, Polled
from .sysfs import Files, Root, files_of, line_of

MAX_ERRORS = 4
"""Unreadable nodes of a device that are named."""
CLASS = "sys/class/neuron_device"
CLASS_ATTRIBUTES = ("ultraserver_mode", "node_id_2", "node_id_4", "server_id_2", "server_id_4")
TEXTS = ("", "info")
"""The groups of nodes that hold text; the others hold numbers."""

LIVE_COUNTERS = (2, 30, 2)
"""Since this driver the counters of a running process are live, and health is told."""


class NeuronSysfsReader:
    """Gives the payload of source `neuron-sysfs`; call it from one thread only.

    Args:
        root: where `/sys` hangs.
        period: seconds between readings, as the payload states it.
    """

    def __init__(self, root: Root = Path("/"), period: float = 10.0) -> None:
        self._period = period
        self._files = files_of(root)
        self._tree = Tree(root, DEVICE_NODES, CORE_NODES)

    def __call__(self) -> bytes:
        """One reading of all devices.

        Raises:
            AbsentError: there is no device.
        """
        self._tree.look()
        forbidden: set[str] = set()
        devices = {
            str(index): _gone(device)
            if index in self._tree.gone
            else _read(self._files, device, forbidden)
            for index, device in self._tree.devices.items()
        }
        names = ", ".join(sorted(forbidden)[:MAX_ERRORS])
        return msgspec.json.encode(
            {
                "driver": self._tree.driver or None,
                "period": self._period,
                "class": {
                    name: value
                    for name in CLASS_ATTRIBUTES
                    if (value := line_of(self._files, f"{CLASS}/{name}"))
                },
                "devices": devices,
                "errors": [f"no permission to read {names}; root has it"] if forbidden else [],
            }
        )


def _blank(device: Device) -> dict[str, Any]:
    """A device of whose nodes nothing is known; its cores are listed all the same."""
    return {"cores": {str(core): {} for core in device.cores}}


def _gone(device: Device, why: str = GONE) -> dict[str, Any]:
    return {**_blank(device), "lost": why}


def _read(files: Files, device: Device, forbidden: set[str]) -> dict[str, Any]:
    """One device's part of the payload; adds the names of what may not be read."""
    result = _blank(device)
    errors = list(device.unread)
    failed = 0
    try:
        with files.within(device.folder) as read:
            for node in device.nodes:
                try:
                    _put(result, node, read(node.path))
                except PermissionError:
                    forbidden.add(node.name)
                except (OSError, ValueError) as error:
                    if isinstance(error, OSError) and error.errno == errno.ENODEV:
                        return _gone(device, sysfs.reason(error))
                    failed += 1
                    errors.append(f"{node.path}: {sysfs.reason(error)}")
    except OSError as error:
        return _gone(device, sysfs.reason(error))
    if failed and failed == len(device.nodes):
        return _gone(device, errors[-1])
    if errors:
        more = len(errors) - MAX_ERRORS
        result["errors"] = errors[:MAX_ERRORS] + [f"and {more} more nodes"] * (more > 0)
    return result


def _put(result: dict[str, Any], node: Node, data: bytes) -> None:
    """Adds a node's value to its device's part of the payload."""
    value = sysfs.text(data) if node.group in TEXTS else sysfs.number(data)
    place = result if node.core is None else result["cores"][str(node.core)]
    if node.group:
        place = place.setdefault(node.group, {})
    place[node.name] = value


def examine(root: Path = Path("/")) -> Examination:
    """Which Neuron devices sysfs shows, and what of them can be read.

    Args:
        root: where `/sys` hangs.
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
    lacks = [
        text
        for column, text in (
            ("physical_core_memory_used_bytes", "memory in use"),
            ("physical_core_success_total", "execution counters"),
            ("device_power_mean_ratio", "power"),
            ("device_unhealthy_components", "health"),
        )
        if column not in sample.columns
    ]
    if lacks:
        found += f"; not to be had: {', '.join(lacks)}"
    if driver and numbers(driver) < LIVE_COUNTERS:
        found += "; before driver 2.30.2 a process's executions are counted when it ends"
    if sample.problems:
        found += f"; {sample.problems[0]}"
    lost = any("lost" in links for links in sample.facts["device_links"].values())
    if not sample.columns:
        remedy = "run trntop as a user who may read the tree"
    elif lost:
        remedy = "look at dmesg; a device that stays away needs a new instance"
    else:
        remedy = "update aws-neuronx-dkms" if lacks else ""
    return Examination(NEURON_SYSFS, bool(sample.columns) and not lost, clean(found, 400), remedy)


def _collect(context: Context) -> Polled:
    period = context.settings.sysfs_period
    # Some of its nodes query the firmware, which may take its time.
    reader = NeuronSysfsReader(context.root, period)
    return Polled(context.node, NEURON_SYSFS, reader, period, deadline=period)


LOCAL = LocalSource(_collect, lambda settings: examine(Path(settings.root)))
