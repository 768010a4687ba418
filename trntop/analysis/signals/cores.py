"""Cores that have stopped while the others of the node work, by neuron-monitor's metrics."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trntop.analysis.detector import Verdict
from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import NO_VALUE, Column, Evidence
from trntop.pipeline.axis import Indices, PartAxis
from trntop.pipeline.statistics import TICK_JITTER, Members, RollingMean, node_largest
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class CoreTuning:
    """When one core of a node has stopped."""

    window: float = 20.0
    """Seconds over which utilization is averaged."""
    drop: float = 0.3
    """Drop in its share of the busiest core's utilization that a core must have."""
    min_busiest: float = 0.3
    """Utilization that the busiest core must have."""
    baseline_interval: float = 20.0
    """Seconds between two updates of what is usual."""
    baseline_weight: float = 0.1
    """Of such an update."""
    max_share: float = 0.25
    """Share of a node's cores above which a drop is not the fault of one core."""
    low: float = 0.8
    """Share of the drop from which a core counts as low: one fault may slow cores differently."""


TUNING = CoreTuning()


class Cores(Members):
    """The cores of a node compared with the busiest of them, and with their own past."""

    inputs = frozenset(("neuroncore_utilization_ratio",))
    BLANK: ClassVar = {"_usual": NO_VALUE}
    _usual: Column
    """Utilization as a share of the busiest core's."""

    def __init__(self) -> None:
        super().__init__()
        self._window = RollingMean(TUNING.window - TICK_JITTER)
        self._mean: Column = np.empty(0)
        self._learned = 0.0
        self._drop: Column = np.empty(0)
        self._busiest: Column = np.empty(0)
        self.worst: Column = np.empty(0)

    def update(self, tick: Tick, utilization: Column) -> None:
        """Takes the mean utilization of some seconds, `[core]`."""
        axis = tick.parts(Entity.CORE)
        self.follow(axis)
        self._mean = mean = self._window.push(tick.time, utilization, axis)
        self.worst = np.full(len(tick.nodes), np.nan)
        if not len(axis):
            return
        busiest = node_largest(axis, mean)
        busiest[tick.quiet | ~(busiest > TUNING.min_busiest)] = np.nan
        self._busiest = busiest
        share = mean / np.repeat(busiest, axis.sizes)
        self._drop = self._usual - share
        self.worst = node_largest(axis, self._drop) / TUNING.drop
        for node in np.flatnonzero(self.worst > 1.0).tolist():
            if not self._single(node, tick):
                self.worst[node] = np.nan
        if tick.time - self._learned >= TUNING.baseline_interval:
            self._learn(share)
            self._learned = tick.time

    def verdict(self, node: str, index: int, tick: Tick) -> Verdict:
        """Names the core, or the device all of whose cores have stopped."""
        axis: PartAxis = self.axis
        low = self._low(index)
        view = tick.view(node)
        cores = [axis.key(int(core))[1] for core in low]
        worst = int(low[np.argmax(self._drop[low])])
        own, usual = float(self._mean[worst]), float(self._busiest[index])
        component, what = f"core:{cores[0]}", f"core {cores[0]}"
        if len(cores) > 1:
            first = int(axis.starts[index])
            owners = view.inventory.core_device[low - first]
            if (owners == owners[0]).all():
                component, what = f"device:{owners[0]}", f"device {owners[0]}"
            else:
                what = f"{len(cores)} cores"
                component = f"core:{axis.key(worst)[1]}"
        text = (
            f"{what}: {units.percent(own)} utilized, the busiest core {units.percent(usual)}; "
            f"mean of {TUNING.window:g} s"
        )
        slower = units.percent(1.0 - own / usual)
        fields = {"where": f"{what} of {node}", "slower": slower, "basis": "neuron-monitor"}
        evidence = Evidence(text, node, "neuroncore_utilization_ratio", own, usual)
        return Verdict.at(tick, node, fields, evidence, component=component)

    def _low(self, node: int) -> Indices:
        """The cores of a node that have stopped."""
        first, end = int(self.axis.starts[node]), int(self.axis.starts[node + 1])
        return first + np.flatnonzero(self._drop[first:end] > TUNING.low * TUNING.drop)

    def _single(self, node: int, tick: Tick) -> bool:
        """Whether they are few and other cores of their process work: a single fault."""
        axis: PartAxis = self.axis
        first = int(axis.starts[node])
        low = {int(core) for core in self._low(node) - first}
        if len(low) > max(1.0, TUNING.max_share * int(axis.sizes[node])):
            return False
        keys = axis.parts[node]
        stopped = {keys[core] for core in low}
        for runtime in tick.views[node].inventory.runtimes:
            mine = set(runtime.cores)
            if mine and mine <= stopped:
                return False
        return True

    def _learn(self, share: Column) -> None:
        calm = ~(self._drop > TUNING.drop / 3)
        new = np.isnan(self._usual)
        known = np.where(new, share, self._usual + TUNING.baseline_weight * (share - self._usual))
        self._usual = np.where(calm & ~np.isnan(share), known, self._usual)
