"""Probe results between nodes, gathered: which pair is slow, by which tool, how old.

Only what is of one kind can be compared: the same tool, statistic and message size.
"""

from collections import Counter
from collections.abc import Iterable
from heapq import nlargest
from typing import NamedTuple

import numpy as np

from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import Cluster, NodeView, Severity
from trntop.core.settings import Check

from .rails import Table

LATENCY = "link_latency_seconds"
STAMP = "link_probe_timestamp_seconds"
SCALED = 1.4826
"""From the median deviation to a standard deviation, where values scatter normally."""


class Kind(NamedTuple):
    """What must be equal for two latencies to be compared."""

    tool: str
    statistic: str
    size: str
    """Bytes of a message."""


class Probe(NamedTuple):
    """The newest result of one link."""

    node: str
    peer: str
    card: str
    """Empty where the prober did not name it."""
    peer_card: str
    seconds: float
    """One way; NaN where the probe failed."""
    time: float
    kind: Kind
    load: str


class Pairs:
    """All links of one kind, the commonest, and how many there are of others.

    Args:
        cluster: the nodes.
        before: the links of an earlier tick: only nodes that have probed since are read anew.
    """

    def __init__(self, cluster: Cluster, before: "Pairs | None" = None) -> None:
        known = {} if before is None else before._read
        self._read: dict[str, tuple[bytes, tuple[Probe, ...]]] = {}
        for name, node in cluster.nodes.items():
            if (stamps := _stamps(node)) is not None:
                kept = known.get(name)
                same = kept is not None and kept[0] == stamps
                self._read[name] = kept if kept and same else (stamps, tuple(_probes(node)))
        probes = [probe for _, found in self._read.values() for probe in found]
        told = [probe for probe in probes if probe.seconds == probe.seconds]
        kinds = Counter(probe.kind for probe in told)
        self.kind = max(kinds, key=lambda kind: (kinds[kind], kind), default=None)
        self.probes = tuple(probe for probe in told if probe.kind == self.kind)
        self.others = len(told) - len(self.probes)
        """Results of other kinds."""
        self.failed = tuple(probe for probe in probes if probe.seconds != probe.seconds)
        self.typical = median(probe.seconds for probe in self.probes)
        ends = {end for probe in self.probes for end in (probe.node, probe.peer)}
        self.spread = SCALED * median(abs(probe.seconds - self.typical) for probe in self.probes)
        """By how much they differ, as a standard deviation."""
        self.nodes = tuple(sorted(ends, key=units.natural))
        self.loads = tuple(dict.fromkeys(probe.load for probe in self.probes if probe.load))
        self._matrices: dict[int, Table] = {}

    def stands(self, cluster: Cluster) -> bool:
        """Whether no link of `cluster` was probed anew."""
        stamps = {name: _stamps(node) for name, node in cluster.nodes.items()}
        return {name: one for name, one in stamps.items() if one is not None} == {
            name: one for name, (one, _) in self._read.items()
        }

    def grade(self, seconds: float, check: Check) -> Severity | None:
        """How slow a link is beside all others, by the limits of `trntop check`; None if it is not.

        Two links tell of neither which is the slow one.
        """
        over = seconds / self.typical if self.typical > 0 else 0.0
        slow = seconds > self.typical + check.deviations * self.spread
        if len(self.probes) <= 2 or not slow or over <= check.slow:
            return None
        return Severity.CRITICAL if over > check.very_slow else Severity.WARNING

    def matrix(self, share: int = 1) -> Table:
        """Latency of each pair in seconds, `[node, node]`; NaN where nobody probed.

        A latency is half a round trip: what was probed from one end holds from the other too.
        Of several links of a pair it is the median.

        Args:
            share: nodes that a row and a column stand for; of their pairs, the slowest counts.
        """
        if share not in self._matrices:
            self._matrices[share] = self._matrix(share)
        return self._matrices[share]

    def _matrix(self, share: int) -> Table:
        places = {name: place for place, name in enumerate(self.nodes)}
        found: dict[tuple[int, int], list[float]] = {}
        for probe in self.probes:
            found.setdefault((places[probe.node], places[probe.peer]), []).append(probe.seconds)
        size = -(-len(places) // share)
        table = np.full((size, size), np.nan)
        for (start, end), seconds in found.items():
            latency = seconds[0] if len(seconds) == 1 else median(seconds)
            cell = start // share, end // share
            table[cell] = np.fmax(table[cell], latency)
        return np.fmax(table, table.T) if share > 1 else np.where(np.isnan(table), table.T, table)

    def worst(self, count: int) -> list[Probe]:
        """The slowest links, slowest first."""
        return nlargest(count, self.probes, key=lambda probe: probe.seconds)

    def of_card(self, node: str, card: str) -> list[Probe]:
        """The links that begin or end at a card."""
        return [
            probe
            for probe in self.probes
            if (probe.node == node and probe.card == card)
            or (probe.peer == node and probe.peer_card == card)
        ]

    def by_card(self) -> dict[tuple[str, str], float]:
        """Node and card → the slowest of its links; the card is empty where none was named."""
        found: dict[tuple[str, str], float] = {}
        for probe in self.probes:
            for end in ((probe.node, probe.card), (probe.peer, probe.peer_card)):
                found[end] = max(found.get(end, 0.0), probe.seconds)
        return found


def median(values: Iterable[float]) -> float:
    """The median; NaN of nothing."""
    known = list(values)
    return float(np.median(known)) if known else float("nan")


def _stamps(node: NodeView) -> bytes | None:
    """What changes when any link of a node is probed anew; None where it has none."""
    stamps = node.frame.columns.get(STAMP)
    return None if stamps is None else stamps.tobytes()


def _probes(node: NodeView) -> Iterable[Probe]:
    """The newest result of each link of a node."""
    for place, link in enumerate(node.inventory.of(Entity.LINK)):
        time = node.frame.at(STAMP, place)
        if time is None:
            continue
        card, _, peer = str(link).rpartition(">")
        facts = node.inventory.links.get(str(link), {})
        seconds = node.frame.at(LATENCY, place)
        yield Probe(
            node.name,
            peer,
            card,
            facts.get("peer_card", ""),
            float("nan") if seconds is None else seconds,
            time,
            Kind(*(facts.get(name, "") for name in ("tool", "statistic", "size_bytes"))),
            facts.get("load", ""),
        )
