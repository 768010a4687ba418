"""Neuron devices by the driver's sysfs tree: `{"driver", "devices": {index: {…, "cores": {…}}}}`.

Source: the Neuron driver (neuron_sysfs_metrics.c, neuron_power.c) and the Neuron sysfs guide.
Numbers are those of the `total` nodes: of memory what is in use now, of anything else the count
since the driver was loaded. Power is in percent of the device's limit, over the last
whole minute. Unhealthy components are listed since driver 2.30.2.
"""

from collections.abc import Collection

import msgspec

from trntop.catalog import (
    CORE_STATUS_ALIASES,
    CORE_STATUSES,
    HEALTH_STATUS,
    NEURON_SYSFS,
    SYSFS_ECC,
    Entity,
)
from trntop.core.model import Sample
from trntop.core.text import clean
from trntop.core.versions import numbers
from trntop.sources import tolerant
from trntop.sources.columns import PERCENT, SIZE, Layout, Number
from trntop.sources.physical import indices, number_cores
from trntop.sources.source import Role, Source

MAX_COMPONENTS = 64
MAX_PERIOD = 86_400.0
"""Seconds."""

Numbers = dict[str, Number]

_CORES = Layout(
    (("physical_core_memory_used_bytes",), SIZE),
    (tuple(f"physical_core_{name}_total" for name in CORE_STATUSES), SIZE),
)
"""Counts of events are no larger than sizes."""
_POWER = tuple(f"device_power_{name}_ratio" for name in ("min", "max", "mean"))
_UNHEALTHY = "device_unhealthy_components"
_DEVICES = Layout(
    (tuple(f"device_{name}_total" for name in SYSFS_ECC), SIZE),
    (_POWER, PERCENT),
    ((_UNHEALTHY,), SIZE),
)
VALID = "POWER_STATUS_VALID"
_NO_POWER = {
    "POWER_STATUS_NO_DATA": "the device has no power samples of the last minute",
    "POWER_STATUS_INVALID": "the device's power sampling failed",
}
NOT_REPORTED = "the Neuron driver does not report it"
REPORTS_HEALTH = (2, 30, 2)
"""The first driver that lists unhealthy components, on Trainium2 and newer."""


class _Core(msgspec.Struct, gc=False):
    device_mem: Numbers = {}
    status: Numbers = {}

    def row(self) -> tuple[Number, ...]:
        """Its numbers in the order of `_CORES`."""
        status = self.status
        if not status.keys().isdisjoint(CORE_STATUS_ALIASES):
            status = {CORE_STATUS_ALIASES.get(name, name): n for name, n in status.items()}
        return (
            self.device_mem.get("total"),
            *map(status.get, CORE_STATUSES),
        )


class _Device(msgspec.Struct, gc=False):
    info: dict[str, str] = {}
    power: str | None = None
    unhealthy_components: str | None = None
    hardware: Numbers = {}
    health_status: Numbers = {}
    cores: dict[str, _Core] = {}
    lost: str | None = None
    errors: list[str] = []

    def row(self) -> tuple[Number, ...]:
        """Its numbers in the order of `_DEVICES`."""
        return (
            *map(self._errors().get, SYSFS_ECC),
            *_power(self.power),
            None if self.unhealthy_components is None else len(self.unhealthy()),
        )

    def _errors(self) -> Numbers:
        """ECC errors; those of `health_status` where the driver has no other counts of them."""
        named = {HEALTH_STATUS.get(name, name): n for name, n in self.health_status.items()}
        return named | self.hardware

    def unhealthy(self) -> list[str]:
        """The components that its health check names."""
        names = (self.unhealthy_components or "").split(",")[:MAX_COMPONENTS]
        return [name.strip() for name in names if name.strip() not in ("", "none")]

    def links(self) -> dict[str, str]:
        """What is known of it besides numbers."""
        texts = {
            "serial_number": self.info.get("serial_number"),
            "name": self.info.get("device_name"),
            "arch": self.info.get("arch_type"),
            "connected_to": self.info.get("connected_devices"),
            "unhealthy": ", ".join(self.unhealthy()),
            "power_status": self.power_status(),
            "lost": self.lost,
        }
        return {key: clean(text) for key, text in texts.items() if text}

    def power_status(self) -> str:
        """The driver's status of its own power samples."""
        return (self.power or "").partition(",")[0]


class _Tree(msgspec.Struct):
    driver: str | None = None
    period: float | None = None
    classes: dict[str, str] = msgspec.field(default_factory=dict, name="class")
    devices: dict[str, _Device] = {}
    errors: list[str] = []


_decoder = msgspec.json.Decoder(_Tree)


def decode(data: bytes) -> Sample:
    """One reading of all devices.

    Raises:
        DecodeError: the payload is not a JSON object of this kind.
    """
    tree, problems = tolerant.decode(data, _decoder)
    devices = {index: tree.devices[name] for index, name in indices(tree.devices)}
    cores = {
        (device, core): tree_device.cores[name]
        for device, tree_device in devices.items()
        for core, name in indices(tree_device.cores)
    }
    columns = _CORES.columns([core.row() for core in cores.values()])
    columns |= _DEVICES.columns([device.row() for device in devices.values()])
    notes = [*problems, *map(clean, tree.errors)]
    for index, device in devices.items():
        lost = [f"lost: {device.lost}"] if device.lost else []
        notes += [f"neuron{index}: {clean(note)}" for note in (*lost, *device.errors)]
    sample = Sample(
        keys={Entity.DEVICE: tuple(devices)},
        columns=columns,
        facts={
            "facts": _facts(tree),
            "device_links": {index: device.links() for index, device in devices.items()},
        },
        period=tree.period if tree.period and 0 < tree.period < MAX_PERIOD else None,
        problems=tuple(notes),
        absent=_absent(tree.driver, devices.values(), columns.keys()),
    )
    number_cores(sample, list(cores))
    return sample


def _power(text: str | None) -> tuple[Number, Number, Number]:
    """Least, most and mean power of `POWER_STATUS_VALID,<unix seconds>,<min>,<max>,<mean>`."""
    status, *fields = (text or "").split(",")
    try:
        _, least, most, mean = map(float, fields)
    except ValueError:
        return None, None, None
    return (least, most, mean) if status == VALID else (None, None, None)


def _facts(tree: _Tree) -> dict[str, str]:
    """What is known of the node."""
    facts = {
        "neuron_driver": tree.driver,
        "ultraserver_mode": tree.classes.get("ultraserver_mode"),
    }
    return {key: clean(text, 64) for key, text in facts.items() if text}


def _absent(
    driver: str | None, devices: Collection[_Device], present: Collection[str]
) -> dict[str, str]:
    """Why there is no power and no health."""
    if devices and all(device.lost for device in devices):
        return dict.fromkeys(_DEVICES.names, "no device can be read: all are lost")
    reasons: dict[str, str] = {}
    if _POWER[0] not in present:
        statuses = {device.power_status() for device in devices}
        why = next((why for status, why in _NO_POWER.items() if status in statuses), NOT_REPORTED)
        reasons = dict.fromkeys(_POWER, why)
    if _UNHEALTHY not in present:
        version = f" ({clean(driver, 64)})" if driver else ""
        why = "reports it since 2.30.2"
        if numbers(driver or "") >= REPORTS_HEALTH:
            why = "does not report it for this device"
        reasons[_UNHEALTHY] = f"the Neuron driver{version} {why}"
    return reasons


SOURCE = Source(
    name=NEURON_SYSFS,
    decode=decode,
    role=Role.DEVICE,
    gives="memory, execution statuses, ECC, power and health from the Neuron driver itself",
    origin="`/sys/devices/virtual/neuron_device/neuron*`, nodes found by name",
    needs="the Neuron driver; counters are live from driver 2.30.2 (SDK 2.32)",
    without="no power, health or ECC totals; neuron-monitor still reports memory and ECC where it "
    "runs",
)
