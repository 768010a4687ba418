"""What else sets a node apart: quantities of its host in which it departs from its peers.

Faults that no rule knows often show in some metric of a single machine (Y. Deng et al., Minder:
Faulty Machine Detection for Large-scale Distributed Model Training, NSDI 2025). Nodes also differ
by design, as that of rank 0 does, so a departure is evidence of an incident that names the node,
and no incident of its own.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trntop.analysis.detector import Verdict
from trntop.catalog import CATALOG
from trntop.core import units
from trntop.core.model import Column, Evidence
from trntop.pipeline.axis import Indices
from trntop.pipeline.statistics import deviation, median
from trntop.pipeline.tick import Tick

QUANTITIES = (
    "node_cpu_busy_ratio",
    "node_vcpu_user_ratio",
    "node_vcpu_system_ratio",
    "node_vcpu_io_wait_ratio",
    "node_load1",
    "node_processes",
    "node_memory_available_bytes",
    "node_network_rx_bytes_per_second",
    "node_network_tx_bytes_per_second",
    "node_disk_read_bytes_per_second",
    "node_disk_written_bytes_per_second",
    "node_lustre_read_bytes_per_second",
    "node_nfs_read_bytes_per_second",
)


@dataclass(frozen=True, slots=True)
class OutlierTuning:
    """When a value departs from those of the peers."""

    min_peers: int = 4
    deviations: float = 8.0
    """Standard deviations of the peers, by their median deviation."""
    min_share: float = 0.5
    """Share of their median."""
    most: int = 2
    """Quantities that are listed, the most remarkable ones."""


TUNING = OutlierTuning()
_LEAST = {"ratio": 0.05, "processes": 8.0, "bytes": 4e9, "bytes_per_second": 5e7}
"""By unit: a smaller departure costs a training job nothing."""


class _Peers(NamedTuple):
    """A quantity of the nodes of one job."""

    values: Column
    usual: float
    enough: float
    """The least departure that counts."""
    others: int
    """Nodes that report it besides the one that is compared."""


class Outliers:
    """Departures of nodes from the other nodes of their jobs, tick by tick."""

    inputs = frozenset(QUANTITIES)

    def __init__(self) -> None:
        self._tick = -1
        self._known: dict[tuple[str, str], _Peers | None] = {}
        """By job and quantity, in this tick."""

    def evidence(self, tick: Tick, verdict: Verdict) -> tuple[Evidence, ...]:
        """In which quantities the node of a verdict departs from its peers now."""
        node = verdict.node
        run = None if node is None else tick.runs.run_of(node)
        if node is None or run is None or run.job is None:
            return ()
        if tick.number != self._tick:
            self._tick, self._known = tick.number, {}
        index, found = tick.nodes.index_of[node], []
        for name in QUANTITIES:
            peers = self._peers(tick, run.job, run.indices, name)
            if peers is None:
                continue
            value = float(peers.values[index])
            if abs(value - peers.usual) > peers.enough:
                quantity = CATALOG[name]
                text = (
                    f"unlike its peers: {quantity.help[0].lower()}{quantity.help[1:]} "
                    f"{units.with_unit(value, quantity.unit)}, "
                    f"median of {peers.others} others "
                    f"{units.with_unit(peers.usual, quantity.unit)}"
                )
                times = abs(value - peers.usual) / peers.enough
                found.append((times, Evidence(text, node, name, value, peers.usual)))
        found.sort(key=lambda pair: -pair[0])
        return tuple(evidence for _, evidence in found[: TUNING.most])

    def _peers(self, tick: Tick, job: str, indices: Indices, name: str) -> _Peers | None:
        """None if too few nodes report the quantity."""
        key = job, name
        if key not in self._known:
            values = tick.column(name)
            known = values[indices][~np.isnan(values[indices])]
            self._known[key] = None
            if len(known) > TUNING.min_peers:
                usual = median(known)
                enough = max(
                    TUNING.deviations * deviation(known),
                    TUNING.min_share * abs(usual),
                    _LEAST[CATALOG[name].unit],
                )
                self._known[key] = _Peers(values, usual, enough, len(known) - 1)
        return self._known[key]
