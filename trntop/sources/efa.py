"""EFA counters: `{"driver": …, "devices": {device: {"pci", …, "port": {…}, "device": {…}}}}`.

Names and meaning: the EFA driver's port and device statistics (efa_verbs.c). All are
cumulative. A counter that a device does not show is absent, not 0: the SRD counters need driver
2.17.0. Before driver 1.14.0 the device counters stood among the port's; both places are read.
`rate_gbps` is what the port states; before 2.13.0 the driver stated 100 Gb/s for every device.
"""

from collections.abc import Collection
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np

from trntop.catalog import EFA_DEVICE_COUNTERS, EFA_PORT_COUNTERS, EFA_SOURCE, Entity
from trntop.core.model import Sample
from trntop.core.text import clean
from trntop.core.versions import numbers
from trntop.sources import tolerant
from trntop.sources.columns import COUNTER, Layout, Number, Range
from trntop.sources.source import Role, Source

MAX_DEVICES = 256
STATES_RATE = (2, 13)
"""Since this driver the stated rate is the device's."""
MAX_GBPS = 1e5
MAX_FACT = 64
"""Characters kept of one fact about a device."""
Fact = Annotated[str, msgspec.Meta(max_length=4 * MAX_FACT)]
_FACTS = ("pci", "numa_node", "state", "p2p")
_FACTS_OF = attrgetter(*_FACTS)
_STATED = "efa_stated_link_bytes_per_second"
_LAYOUT = Layout(
    (tuple(f"efa_{name}_total" for name in (*EFA_PORT_COUNTERS, *EFA_DEVICE_COUNTERS)), COUNTER)
)
_LINK = Layout(((_STATED,), Range(limit=MAX_GBPS * 1e9 / 8, scale=1e9 / 8)))


class _Device(msgspec.Struct, gc=False):
    """An EFA device without its counters."""

    pci: Fact | None = None
    numa_node: int | Fact | None = None
    rate_gbps: float | None = None
    state: Fact | None = None
    p2p: Fact | None = None
    error: str | None = None
    errors: list[str] = []

    def stated(self) -> float | None:
        """The line rate in Gb/s, None where it is not known or absurd."""
        rate = self.rate_gbps
        return rate if rate is not None and 0 < rate <= MAX_GBPS else None


def _counters(name: str, fields: Collection[str]) -> Any:
    return msgspec.defstruct(name, [(field, Number, None) for field in fields], gc=False)


_PORT = _counters("_Port", EFA_PORT_COUNTERS)
_DEVICE = _counters("_Device", EFA_DEVICE_COUNTERS)
_COUNTED = msgspec.defstruct(
    "_Counted",
    [
        ("port", _PORT, msgspec.field(default_factory=_PORT)),
        ("device", _DEVICE, msgspec.field(default_factory=_DEVICE)),
    ],
    bases=(_Device,),
    gc=False,
)
_REPORT: Any = msgspec.defstruct(
    "_Report",
    [("driver", Fact | None, None), ("devices", dict[str, _COUNTED], {})],  # type: ignore[valid-type]
)
_decoder: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder(_REPORT)


def decode(data: bytes) -> Sample:
    """One reading of all devices.

    Raises:
        DecodeError: the payload is not a JSON object of this kind.
    """
    report, problems = tolerant.decode(data, _decoder)
    notes = list(problems)
    names = sorted(report.devices)
    if len(names) > MAX_DEVICES:
        notes.append(f"{len(names)} EFA devices; only {MAX_DEVICES} are read")
        names = names[:MAX_DEVICES]
    devices = [report.devices[name] for name in names]
    labels = [clean(name, 64) for name in names]
    for label, device in zip(labels, devices, strict=True):
        errors = filter(None, (device.error, *device.errors))
        notes += [f"{label}: {clean(error)}" for error in errors]
    columns = _LAYOUT.columns([_values(device) for device in devices])
    if numbers(report.driver or "") >= STATES_RATE:
        columns |= _LINK.columns([(device.stated(),) for device in devices])
    readable = sum(not device.error for device in devices)
    return Sample(
        keys={Entity.EFA: tuple(labels)},
        columns=columns | {"node_efa_cards": np.array([float(readable)])},
        facts={"efa_links": _links(tuple(labels), report.driver, tuple(map(_FACTS_OF, devices)))},
        problems=tuple(notes),
    )


def _values(device: Any) -> tuple[Number, ...]:
    """A device's counters in the order of `_LAYOUT`."""
    if device.error:
        return (None,) * len(_LAYOUT.names)
    port: tuple[Number, ...] = msgspec.structs.astuple(device.port)
    own: tuple[Number, ...] = msgspec.structs.astuple(device.device)
    return port + own


@lru_cache(maxsize=64)
def _links(
    labels: tuple[str, ...], driver: str | None, facts: tuple[tuple[int | str | None, ...], ...]
) -> dict[str, dict[str, str]]:
    """What is known of each device besides its counters; many readings share one mapping."""
    names = (*_FACTS, "driver")
    # The kernel states -1 where memory has no nodes.
    return {
        label: {
            key: clean(str(value), MAX_FACT)
            for key, value in zip(names, (*values, driver), strict=True)
            if value is not None and value not in ("", -1, "-1")
        }
        for label, values in zip(labels, facts, strict=True)
    }


SOURCE = Source(
    name=EFA_SOURCE,
    decode=decode,
    role=Role.DEVICE,
    gives="traffic, retransmits, drops and errors of each EFA device",
    origin="`/sys/class/infiniband/*/ports/1/hw_counters` and "
    "`/sys/class/infiniband/*/hw_counters`",
    needs="the EFA driver; retransmits from 2.17.0 and Nitro v4, the true line rate from 2.13.0",
    without="no EFA columns, and no floor for an estimated communication share",
)
