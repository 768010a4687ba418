"""The straggler of a job: the node that computes longest and therefore waits least."""

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from trntop.analysis.detector import Signal, Verdict
from trntop.analysis.signals.cores import Cores
from trntop.analysis.signals.devices import Devices
from trntop.analysis.signals.nodes import Nodes
from trntop.analysis.signals.ranks import Ranks
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.tick import Tick


class Straggler:
    """A node, or a part of it, that is slower than its peers; one value per node."""

    inputs = Ranks.inputs | Nodes.inputs | Devices.inputs | Cores.inputs

    def __init__(self, settings: Settings, period: float) -> None:
        self._limit = settings.straggler
        self.reset()

    def reset(self) -> None:
        self._ranks = Ranks(self._limit)
        self._nodes = Nodes(self._limit)
        self._devices = Devices(self._limit)
        self._cores = Cores()

    def signal(self, tick: Tick) -> Signal:
        """The largest deviation of a node from its peers, in limits; NaN while its job pauses."""
        self._ranks.update(tick)
        self._nodes.update(tick, self._ranks.reporting)
        if (utilization := self._devices.update(tick)) is not None:
            self._cores.update(tick, utilization)
        values = np.fmax.reduce([signal.worst for signal in self._signals()])
        values[tick.quiet] = np.nan
        return Signal(tick.nodes, values, 1.0, 1.0)

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        """Names the node, and its slow part if there is one.

        Ranks show the cost; devices and cores show the part of the node.
        """
        node = str(key)
        index = tick.nodes.index_of[node]
        found = [signal for signal in self._signals() if signal.worst[index] > 1.0]
        verdicts = [signal.verdict(node, index, tick) for signal in found]
        if not verdicts:
            return self._ranks.verdict(node, index, tick)
        first = verdicts[0]
        part = next((verdict for verdict in verdicts if verdict.component is not None), first)
        if part is first:
            return first
        evidence = tuple(dict.fromkeys([*first.evidence, *part.evidence]))
        fields = {**first.fields, "where": part.fields["where"]}
        return replace(first, fields=fields, component=part.component, evidence=evidence)

    def _signals(self) -> tuple[Ranks | Nodes | Cores | Devices, ...]:
        return self._ranks, self._nodes, self._cores, self._devices
