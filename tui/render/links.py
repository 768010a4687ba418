"""The latency between nodes as probes measured it: which links are slow, by which tool, how old.

Only results of one kind are comparable: the same tool, statistic and message size.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from trntop.catalog import Entity
from trntop.core.model import Cluster, NodeView
from trntop.core.settings import Check
from trntop.pipeline.statistics import deviation

LATENCY = "link_latency_seconds"
TIMESTAMP = "link_probe_timestamp_seconds"


class Kind(NamedTuple):
    """How a latency was measured."""

    tool: str
    statistic: str
    size: str
    """Bytes of a message."""


class Probe(NamedTuple):
    """The newest result of one link."""

    node: str
    peer: str
    device: str
    """EFA device; empty if the probe did not report it."""
    peer_device: str
    seconds: float
    """One way; NaN if the probe failed."""
    time: float
    kind: Kind
    load: str

    def other_end(self, node: str) -> str:
        return self.peer if self.node == node else self.node


class Links:
    """All links of the most frequent kind, and the number of others."""

    def __init__(self, cluster: Cluster) -> None:
        found = [probe for node in cluster.nodes.values() for probe in _probes(node)]
        known = [probe for probe in found if probe.seconds == probe.seconds]
        kinds = Counter(probe.kind for probe in known)
        self.kind = max(kinds, key=lambda kind: (kinds[kind], kind), default=None)
        self.probes = tuple(probe for probe in known if probe.kind == self.kind)
        self.others = len(known) - len(self.probes)
        """Results of other kinds."""
        self.failed = tuple(probe for probe in found if probe.seconds != probe.seconds)
        seconds = [probe.seconds for probe in self.probes]
        self.median = median(seconds)
        self.spread = deviation(seconds) if seconds else float("nan")
        """Standard deviation of the latencies."""
        self.loads = tuple(dict.fromkeys(probe.load for probe in self.probes if probe.load))

    def is_slow(self, seconds: float, check: Check) -> bool:
        """Whether a link is slow compared with all others, by the limits of `trntop check`."""
        over = seconds / self.median if self.median > 0 else 0.0
        slow = seconds > self.median + check.deviations * self.spread
        # Two links do not show which one is slow.
        return len(self.probes) > 2 and slow and over > check.slow

    def of_device(self, node: str, device: str) -> list[Probe]:
        """The links of an EFA device."""
        return [
            probe
            for probe in self.probes
            if (node, device) in ((probe.node, probe.device), (probe.peer, probe.peer_device))
        ]

    def slowest_by_device(self) -> dict[tuple[str, str], float]:
        """Node and device → the latency of its slowest link."""
        found: dict[tuple[str, str], float] = {}
        for probe in self.probes:
            for end in ((probe.node, probe.device), (probe.peer, probe.peer_device)):
                found[end] = max(found.get(end, 0.0), probe.seconds)
        return found


def median(values: Iterable[float]) -> float:
    """The median; NaN without values."""
    known = list(values)
    return float(np.median(known)) if known else float("nan")


def _probes(node: NodeView) -> Iterable[Probe]:
    """The newest result of each link of a node."""
    for place, link in enumerate(node.inventory.of(Entity.LINK)):
        time = node.frame.at(TIMESTAMP, place)
        if time is None:
            continue
        device, _, peer = str(link).rpartition(">")
        facts = node.inventory.links.get(str(link), {})
        seconds = node.frame.at(LATENCY, place)
        kind = Kind(*(facts.get(name, "") for name in ("tool", "statistic", "size_bytes")))
        yield Probe(
            node.name, peer, device, facts.get("peer_card", ""),
            float("nan") if seconds is None else seconds, time, kind, facts.get("load", ""),
        )  # fmt: skip
