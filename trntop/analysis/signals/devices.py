"""Devices slower than the others of the node, by neuron-monitor's metrics."""

from dataclasses import dataclass

import numpy as np

from trntop.analysis.detector import Verdict
from trntop.analysis.peers import Peers
from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import Column, Evidence
from trntop.pipeline.axis import PartAxis, Places
from trntop.pipeline.statistics import Mask, Mean, node_median
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class DeviceTuning:
    """When one device of a node is slower than the others."""

    block: float = 5.0
    """Seconds whose values are compared as one."""
    min_median: float = 0.2
    """Utilization that the median device of a node must have."""
    max_share: float = 0.25
    """Share of a node's devices of which more are no single fault, but another division of work."""
    stopped: float = 0.05
    """Utilization below which a device does not work slowly, but not at all."""


TUNING = DeviceTuning()


class Devices:
    """The devices of a node compared with each other, by their cores' utilization."""

    inputs = frozenset(("neuroncore_utilization_ratio",))

    def __init__(self, least: float) -> None:
        self._peers = Peers(least)
        self._cores: PartAxis | None = None
        self._axis: PartAxis | None = None
        self._device: Places = np.empty(0, np.int64)
        """Place of the device of each core on the axis of devices, beyond the last one for cores
        of none, `[core]`.
        """
        self._block = Mean()
        """Of the utilization of each core in this block, `[core]`."""
        self._means: Column = np.empty(0)
        self._end: float | None = None
        self.worst: Column = np.empty(0)

    def take(self, tick: Tick) -> None:
        """Takes a tick, and compares the devices at the end of each block of seconds."""
        cores, devices = tick.parts(Entity.CORE), tick.parts(Entity.DEVICE)
        if cores is not self._cores or devices is not self._axis:
            self._follow(tick, cores, devices)
        quiet = np.repeat(tick.quiet, cores.sizes) if tick.quiet.any() else None
        self._block.add(tick.column("neuroncore_utilization_ratio"), quiet)
        if self._end is None or tick.time >= self._end:
            self._compare(tick, devices)
            self._block.clear()
            self._end = tick.time + TUNING.block
            self.worst = np.full(len(tick.nodes), np.nan)
            np.fmax.at(self.worst, devices.owner, self._peers.value)

    def verdict(self, node: str, place: int, tick: Tick) -> Verdict:
        """Names the device."""
        axis = self._axis
        assert axis is not None
        mine = np.flatnonzero(axis.owner == place)
        worst = int(mine[np.argmax(self._peers.value[mine])])
        device = axis.key(worst)[1]
        own, usual = float(self._means[worst]), float(np.nanmedian(self._means[mine]))
        text = (
            f"cores of device {device} are {units.percent(own)} utilized, "
            f"of the node's median device {units.percent(usual)}"
        )
        slower = units.percent(float(self._peers.effect[worst]))
        fields = {
            "where": f"device {device} of {node}",
            "slower": slower,
            "basis": "neuron-monitor",
        }
        evidence = Evidence(text, node, "neuroncore_utilization_ratio", own, usual)
        since = float(self._peers.since[worst]) or None
        return Verdict.at(tick, node, fields, evidence, component=f"device:{device}", since=since)

    def _follow(self, tick: Tick, cores: PartAxis, devices: PartAxis) -> None:
        self._cores, self._axis = cores, devices
        self._block = Mean(len(cores))
        places = []
        for node, view in enumerate(tick.views):
            owner = view.inventory.core_device
            keys = {key: place for place, key in enumerate(devices.parts[node])}
            first, size = int(devices.starts[node]), int(cores.sizes[node])
            known = [keys.get(device, -1) for device in owner.tolist()]
            known = known if len(known) == size else [-1] * size
            places += [first + one if one >= 0 else -1 for one in known]
        device = np.array(places, np.int64)
        self._device = np.where(device >= 0, device, len(devices))
        self._peers.follow(devices)
        self._end = None

    def _compare(self, tick: Tick, axis: PartAxis) -> None:
        size = len(axis) + 1
        sums = np.bincount(self._device, self._block.total, size)[:-1]
        counts = np.bincount(self._device, self._block.counts, size)[:-1]
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.where(counts > 0, sums / counts, np.nan)
        self._means = means
        usual = node_median(means, axis)
        works = (usual > TUNING.min_median) & (means > TUNING.stopped)
        off = np.where(works, 1.0 - means / np.where(works, usual, 1.0), np.nan)
        off[_several(axis, off - self._peers.bias)] = np.nan
        self._peers.round(tick.time, axis, off, TUNING.block)


def _several(axis: PartAxis, off: Column) -> Mask:
    """Parts of nodes of which many are off at once, `[part]`."""
    many = np.bincount(axis.owner[off > 0.05], minlength=len(axis.sizes))
    several: Mask = (many > np.maximum(1.0, TUNING.max_share * axis.sizes))[axis.owner]
    return several
