"""Devices slower than the others of the node, by neuron-monitor's metrics."""

from dataclasses import dataclass

import numpy as np

from trntop.analysis.detector import Verdict
from trntop.analysis.peers import Peers
from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import NO_VALUE, Column, Evidence
from trntop.pipeline.axis import Indices, PartAxis
from trntop.pipeline.statistics import Mask, Mean, group_mean, median, node_median
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class DeviceTuning:
    """When one device of a node is slower than the others."""

    block: float = 5.0
    """Seconds whose values are compared as one."""
    min_median: float = 0.2
    """Utilization that the median device of a node must have."""
    max_share: float = 0.25
    """Share of a node's devices above which the deviation is another division of work."""
    deviating: float = 0.05
    """Deviation from which a device counts for that share: below the limit of a straggler."""
    stopped: float = 0.05
    """Utilization below which a device does not work slowly, but not at all."""
    min_busy: float = 0.5
    """Utilization that a device must have for its FLOP/s to be compared."""
    flops_factor: float = 2.0
    """Multiple of the limit of a rank by which FLOP/s must deviate: experts shift work from device
    to device, and all that wait for one another look busy.
    """


TUNING = DeviceTuning()
_UTILIZATION, _FLOPS = "neuroncore_utilization_ratio", "neuroncore_flops_per_second"


class Devices:
    """The devices of a node compared with each other.

    By their cores' utilization, and by their FLOP/s per utilization: a device with a lower clock,
    or one that the others wait for, is as busy as they are, or busier, and does less in that time.
    """

    inputs = frozenset((_UTILIZATION, _FLOPS))

    def __init__(self, least: float) -> None:
        self._by_use = Peers(least)
        self._by_flops = Peers(TUNING.flops_factor * least)
        self._cores: PartAxis | None = None
        self._axis: PartAxis | None = None
        self._device: Indices = np.empty(0, np.int64)
        """Place of the device of each core on the axis of devices, beyond the last one for cores
        of none, `[core]`.
        """
        self._use, self._flops = Mean(), Mean()
        """Of the utilization and FLOP/s of each core in this block, `[core]`."""
        self._means: Column = np.empty(0)
        self._rates: Column = np.empty(0)
        """Utilization, and FLOP/s per core at full utilization, `[device]`."""
        self._end: float | None = None
        self.worst: Column = np.empty(0)

    def update(self, tick: Tick) -> Column | None:
        """Takes a tick, and compares the devices at the end of each block of seconds.

        Returns:
            The mean utilization in the block, `[core]`, when it has ended.
        """
        cores, devices = tick.parts(Entity.CORE), tick.parts(Entity.DEVICE)
        if cores is not self._cores or devices is not self._axis:
            self._follow(tick, cores, devices)
        quiet = np.repeat(tick.quiet, cores.sizes) if tick.quiet.any() else None
        self._use.add(tick.column(_UTILIZATION), quiet)
        self._flops.add(tick.column(_FLOPS), quiet)
        if self._end is not None and tick.time < self._end:
            return None
        utilization = self._use.mean
        self._compare(tick, devices, utilization)
        self._use.clear()
        self._flops.clear()
        self._end = tick.time + TUNING.block
        self.worst = np.full(len(tick.nodes), np.nan)
        np.fmax.at(self.worst, devices.owner, np.fmax(self._by_use.slower, self._by_flops.slower))
        return utilization

    def verdict(self, node: str, index: int, tick: Tick) -> Verdict:
        """Names the device."""
        axis = self._axis
        assert axis is not None
        mine = np.flatnonzero(axis.owner == index)
        use, flops = self._by_use, self._by_flops
        peers = use if use.slower[mine].max() >= flops.slower[mine].max() else flops
        worst = int(mine[np.argmax(peers.slower[mine])])
        device = axis.key(worst)[1]
        means, quantity = (self._means, _UTILIZATION) if peers is use else (self._rates, _FLOPS)
        own, usual = float(means[worst]), median(means[mine])
        if peers is use:
            text = (
                f"cores of device {device} are {units.percent(own)} utilized, "
                f"the node's median device {units.percent(usual)}"
            )
        else:
            text = (
                f"cores of device {device} do {units.flops(own)} per core while busy, "
                f"the node's median device {units.flops(usual)}"
            )
        fields = {
            "where": f"device {device} of {node}",
            "slower": units.percent(float(peers.effect[worst])),
            "basis": "neuron-monitor",
        }
        evidence = Evidence(text, node, quantity, own, usual)
        since = float(peers.since[worst]) or None
        return Verdict.at(tick, node, fields, evidence, component=f"device:{device}", since=since)

    def _follow(self, tick: Tick, cores: PartAxis, devices: PartAxis) -> None:
        self._cores, self._axis = cores, devices
        self._use, self._flops = Mean(len(cores)), Mean(len(cores))
        indices = []
        for node, view in enumerate(tick.views):
            owner = view.inventory.core_device
            keys = {key: index for index, key in enumerate(devices.parts[node])}
            first, size = int(devices.starts[node]), int(cores.sizes[node])
            known = [keys.get(device, -1) for device in owner.tolist()]
            known = known if len(known) == size else [-1] * size
            indices += [first + index if index >= 0 else -1 for index in known]
        device = np.array(indices, np.int64)
        self._device = np.where(device >= 0, device, len(devices))
        self._by_use.follow(devices)
        self._by_flops.follow(devices)
        self._end = None

    def _compare(self, tick: Tick, axis: PartAxis, utilization: Column) -> None:
        self._means = means = self._by_device(utilization)
        usual = node_median(means, axis)
        works = (usual > TUNING.min_median) & (means > TUNING.stopped)
        self._judge(self._by_use, tick.time, axis, means, np.where(works, usual, NO_VALUE))
        busy = np.where(means >= TUNING.min_busy, means, NO_VALUE)
        self._rates = rates = self._by_device(self._flops.mean) / busy
        usual = node_median(rates, axis)
        usual[~(usual > 0)] = NO_VALUE
        self._judge(self._by_flops, tick.time, axis, rates, usual)

    def _by_device(self, values: Column) -> Column:
        """The mean of the cores of each device, `[device]`."""
        return group_mean(values, self._device, len(self._by_use.value) + 1)[:-1]

    def _judge(
        self, peers: Peers, time: float, axis: PartAxis, values: Column, usual: Column
    ) -> None:
        """Takes a round of values of which one below its node's usual one is slower."""
        off = 1.0 - values / usual
        off[_several(axis, off - peers.bias)] = NO_VALUE
        peers.round(time, axis, off, TUNING.block)


def _several(axis: PartAxis, off: Column) -> Mask:
    """Parts of nodes of which many are off at once, `[part]`."""
    many = np.bincount(axis.owner[off > TUNING.deviating], minlength=len(axis.sizes))
    several: Mask = (many > np.maximum(1.0, TUNING.max_share * axis.sizes))[axis.owner]
    return several
