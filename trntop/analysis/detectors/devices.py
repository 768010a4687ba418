"""Lost Neuron devices, and memory errors that devices could not correct."""

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from trntop.analysis.detector import Signal, Verdict
from trntop.catalog import (
    KERNEL_LOG,
    NEURON_MONITOR,
    NEURON_SYSFS,
    UNCORRECTED_ECC,
    Entity,
)
from trntop.core.model import Column, Evidence, Key, NodeView
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.axis import Axis, Indices, PartAxis, realigned
from trntop.pipeline.statistics import Growth
from trntop.pipeline.tick import Tick

SOME = ""
"""Key of a loss that shows only in the number of devices."""


@dataclass(frozen=True, slots=True)
class DeviceTuning:
    """How long errors of a device belong together."""

    same_episode: float = 600.0
    """Seconds after which another error is another incident."""
    max_line: int = 100
    """Characters shown of a line of the kernel log."""


TUNING = DeviceTuning()

Mask = npt.NDArray[np.bool_]
_Subject = tuple[str, Key]
"""A node and its device."""

_COUNTS = {NEURON_MONITOR: UNCORRECTED_ECC[1], NEURON_SYSFS: UNCORRECTED_ECC[0]}
"""Source → its counts of errors: it reports at least one of each device that is there."""
_NOT_LISTED = {
    NEURON_MONITOR: "no longer listed by neuron-monitor",
    NEURON_SYSFS: "no longer listed by the driver's sysfs tree",
}


@dataclass(slots=True)
class _Missing:
    """A device that a source no longer lists."""

    source: str
    since: float
    read: float
    """Time of the first reading without it."""


class DeviceLost:
    """Devices that are missing while others of the node are listed.

    A source shows a loss only if it listed the device before and lists others now, and only with
    its second reading without it.
    """

    inputs = frozenset(("node_devices", *chain(*UNCORRECTED_ECC)))

    def __init__(self, settings: Settings, period: float) -> None:
        self.reset()

    def reset(self) -> None:
        self._parts = PartAxis(Axis(), ())
        self._axis = self._parts
        """The devices, preceded on each node by an entry for `SOME`."""
        self._indices: Indices = np.empty(0, np.int64)
        """Indices of the devices on it."""
        self._seen: Column = np.empty((len(_COUNTS), 0))
        """1 where a source has listed a device, `[source, device]`."""
        self._most: Column = np.empty(0)
        """The most devices that a node had, `[node]`."""
        self._machines: dict[str, str] = {}
        """Node → the instance that had them."""
        self._missing: dict[_Subject, _Missing] = {}

    def signal(self, tick: Tick) -> Signal:
        """1 for a lost device, 0 for one that is there."""
        parts = tick.parts(Entity.DEVICE)
        if parts is not self._parts:
            self._rekey(parts)
        known = np.array([_any_known(tick, names) for names in _COUNTS.values()])
        values = np.full(len(self._axis), np.nan)
        values[self._indices] = np.where(known.any(axis=0), 0.0, np.nan)
        missing: dict[_Subject, _Missing] = {}
        for index, source in self._unseen(tick, known):
            node, device = parts.key(index)
            read = _read(tick.view(node), source)
            loss = self._missing.get((node, device)) or _Missing(source, tick.time, read)
            missing[node, device] = loss
            stated = _lost(tick.view(node).inventory.device_links.get(int(device), {}))
            values[self._indices[index]] = 1.0 if read > loss.read or stated else np.nan
        self._count(tick, missing, values)
        self._missing = missing
        np.fmax(self._seen, known, out=self._seen)
        return Signal(self._axis, values, 0.5, 0.5)

    def _rekey(self, parts: PartAxis) -> None:
        self._seen = np.nan_to_num(realigned(self._seen, self._parts, parts))
        if parts.nodes is not self._parts.nodes:
            self._most = realigned(self._most, self._parts.nodes, parts.nodes)
        self._parts = parts
        self._axis = PartAxis(parts.nodes, [(SOME, *keys) for keys in parts.parts])
        self._indices = np.arange(len(parts)) + parts.owner + 1

    def _unseen(self, tick: Tick, known: Mask) -> Iterator[tuple[int, str]]:
        """Indices of devices that a source no longer lists, with the source."""
        owner = self._parts.owner
        gone = (self._seen > 0) & ~known
        for row, source in enumerate(_COUNTS):
            if not gone[row].any():
                continue
            # A source without any device has failed itself, unless it reports the loss.
            listed = np.bincount(owner[known[row]], minlength=len(tick.nodes)) > 0
            if source == NEURON_SYSFS:
                for node in sorted(set(owner[gone[row]].tolist())):
                    listed[node] |= any(
                        map(_lost, tick.views[node].inventory.device_links.values())
                    )
            indices = np.flatnonzero(gone[row] & listed[owner]).tolist()
            gone[:, indices] = False
            yield from ((index, source) for index in indices)

    def _count(self, tick: Tick, missing: dict[_Subject, _Missing], values: Column) -> None:
        """Losses that only the number of devices shows."""
        count = tick.column("node_devices")
        starts = self._axis.starts[:-1]
        values[starts] = np.where(np.isnan(count), np.nan, 0.0)
        more = ~(self._most >= count) & ~np.isnan(count)
        for index in np.flatnonzero(more | (count < self._most)).tolist():
            view = tick.views[index]
            machine = view.inventory.facts.get("instance_id", "")
            other = machine != self._machines.get(view.name, machine)
            if more[index] or other:
                # The first reading, a device more, or another machine under the same name.
                self._most[index] = count[index]
                self._machines[view.name] = machine
                continue
            named = sum(node == view.name for node, _ in missing)
            if self._most[index] - count[index] > named:
                read = _read(view, NEURON_MONITOR)
                key = (view.name, SOME)
                loss = self._missing.get(key) or _Missing(NEURON_MONITOR, tick.time, read)
                missing[key] = loss
                values[starts[index]] = 1.0 if read > loss.read else np.nan

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        assert isinstance(key, tuple)
        node, device = key
        view, loss = tick.view(node), self._missing[node, device]
        count = view.frame.value("node_devices")
        most = float(self._most[tick.nodes.index_of[node]])
        evidence = []
        basis = loss.source
        if device == SOME:
            lost = round(most - (count or 0.0))
            what = "a device is lost" if lost == 1 else f"{lost} devices are lost"
        else:
            what = f"device {device} is lost"
            why = _lost(view.inventory.device_links.get(int(device), {}))
            if why and loss.source == NEURON_SYSFS:
                basis = f"{loss.source}: {why}"
            evidence.append(Evidence(_NOT_LISTED[loss.source], node))
        if count is not None and count < most:
            evidence.append(
                Evidence(
                    f"{count:.0f} of {most:.0f} devices left", node, "node_devices", count, most
                )
            )
        component = None if device == SOME else f"device:{device}"
        evidence += _of_kernel(view, device)
        fields = {"what": what, "basis": basis}
        return Verdict.at(tick, node, fields, *evidence, component=component, since=loss.since)


@dataclass(slots=True)
class _Errors:
    """Uncorrected errors of one device since they began, as each source counts them."""

    since: float
    last: float
    counts: npt.NDArray[np.float64]


class EccUncorrected:
    """New uncorrected memory errors per device.

    Both sources may count one error, not at the same time: the larger sum is reported.
    """

    inputs = frozenset(chain(*UNCORRECTED_ECC))

    _SOURCES = (NEURON_MONITOR, NEURON_SYSFS)

    def __init__(self, settings: Settings, period: float) -> None:
        self.reset()

    def reset(self) -> None:
        self._growth = Growth()
        self._errors: dict[_Subject, _Errors] = {}

    def signal(self, tick: Tick) -> Signal:
        """New errors; each count is followed separately, as one may be unreadable for a time."""
        axis = tick.parts(Entity.DEVICE)
        names = [name for source in self._SOURCES for name in _COUNTS[source]]
        growth = self._growth.push(axis, np.array([tick.column(name) for name in names]))
        values: Column = np.fmax.reduce(growth, axis=0)
        for index in np.flatnonzero(values > 0).tolist():
            first = len(_COUNTS[NEURON_MONITOR])
            new = np.array([np.nansum(growth[:first, index]), np.nansum(growth[first:, index])])
            key = axis.key(index)
            known = self._errors.get(key)
            if known is None or tick.time - known.last > TUNING.same_episode:
                known = self._errors[key] = _Errors(tick.time, tick.time, np.zeros(2))
            known.last = tick.time
            known.counts += new
        return Signal(axis, values, 0.0, 0.0)

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        assert isinstance(key, tuple)
        node, device = key
        view, known = tick.view(node), self._errors[node, device]
        source = self._SOURCES[int(known.counts.argmax())]
        count = round(float(known.counts.max()))
        index = view.inventory.of(Entity.DEVICE).index(device)
        counted = [
            Evidence(f"{_said(name)}: {total:.0f} in all", node, name, total)
            for name in _COUNTS[source]
            if (total := view.frame.at(name, index))
        ]
        fields = {
            "device": f"device {device}",
            "count": f"{count} uncorrected memory error{'s' * (count != 1)}",
            "basis": source,
        }
        evidence = (*counted, *_of_kernel(view, device))
        return Verdict.at(
            tick, node, fields, *evidence, component=f"device:{device}", since=known.since
        )


def _any_known(tick: Tick, names: tuple[str, ...]) -> Mask:
    """Devices of which at least one of the quantities is there."""
    known = ~np.isnan(tick.column(names[0]))
    for name in names[1:]:
        known |= ~np.isnan(tick.column(name))
    return known


def _lost(link: Mapping[str, str]) -> str:
    """Why the driver's tree no longer lists a device, if it reports that."""
    return link.get("lost", "")


def _read(view: NodeView, source: str) -> float:
    """When a source of a node last reported."""
    times = (state.time for state in view.frame.sources if state.name == source)
    return next(times, None) or 0.0


def _said(name: str) -> str:
    """`device_mem_ecc_uncorrected_total` to `HBM errors uncorrected`."""
    memory = "SRAM" if "_sram_" in name else "HBM"
    return f"{memory} errors {'uncorrected' if 'repairable' not in name else 'in rows to replace'}"


def _of_kernel(view: NodeView, device: Key) -> Iterator[Evidence]:
    """The newest line of the kernel log, if it names this device."""
    for source in view.frame.sources:
        if source.name == KERNEL_LOG and re.search(rf"\bnd-id={device}\b", source.reason):
            yield Evidence(f"kernel log: {source.reason[: TUNING.max_line]}", view.name)
