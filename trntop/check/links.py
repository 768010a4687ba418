"""The quality of each link, and the faulty endpoints.

An endpoint is a node, or one EFA device of it with `--per-device`. Links are compared with the
median of the endpoints' best links, which a few slow links do not move. An endpoint that is bad
with two partners that are healthy with others is faulty; otherwise the link is.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from statistics import median_low

from trntop.check.load import per_core
from trntop.check.model import ProbeResult
from trntop.check.result import ProbeRun
from trntop.core.settings import Check as Limits
from trntop.sources.probe import STATISTICS

Endpoint = tuple[str, str]
"""Node and EFA device; the device is empty if libfabric chose it."""

MIN_PARTNERS = 2
"""Partners, healthy with others, with which a faulty endpoint is bad: one could be the path."""
MIN_BAD_SHARE = 0.75
"""Share of its links that must be bad: two racks have two latencies, so half is not enough."""
DEVIATION = 1.4826
"""Standard deviations in a median absolute deviation of normal values."""


class Quality(IntEnum):
    GOOD = 0
    UNSURE = 1
    """Slow, but a host had no idle core in every probe: no evidence about the network."""
    SLOW = 2
    VERY_SLOW = 3
    FAILED = 4


def is_best_run(result: ProbeResult) -> bool:
    """Whether it is the lowest mean of several runs: a disturbance raises the others."""
    return result.statistic == "min"


def representative(results: Iterable[ProbeResult]) -> ProbeResult | None:
    """The result of a probe that outliers move least; None if all failed."""
    return min(
        (result for result in results if not result.error and result.seconds),
        key=_rank,
        default=None,
    )


def _rank(result: ProbeResult) -> tuple[float, int]:
    known = result.statistic in STATISTICS
    order = STATISTICS.index(result.statistic) if known else len(STATISTICS)
    size = math.inf if result.size_bytes is None else result.size_bytes
    return size, -1 if is_best_run(result) else order


@dataclass(slots=True)
class Link:
    """All probes between two endpoints."""

    first: Endpoint
    second: Endpoint
    results: list[ProbeResult] = field(default_factory=list)
    """One for each probe that worked."""
    errors: list[str] = field(default_factory=list)
    lost: int = 0
    """Lost messages of all probes."""
    ratio: float | None = None
    """Its latency divided by the median of the endpoints' best."""
    quality: Quality = Quality.GOOD

    @property
    def ends(self) -> set[Endpoint]:
        return {self.first, self.second}

    @property
    def best(self) -> ProbeResult | None:
        """A disturbance slows one probe, a fault all of them."""
        return min(self.results, key=lambda result: result.seconds or 0.0, default=None)

    @property
    def flaky(self) -> bool:
        """Whether some probes work and some fail."""
        return bool(self.results) and (bool(self.errors) or self.lost > 0)

    def other(self, end: Endpoint) -> Endpoint:
        return self.second if end == self.first else self.first


class LinkAnalysis:
    """All links with their quality, and the faulty endpoints.

    Args:
        runs: the probes.
        limits: the settings in force.
    """

    def __init__(self, runs: Sequence[ProbeRun], limits: Limits) -> None:
        self.links: list[Link] = []
        self.faults: dict[Endpoint, list[str]] = {}
        """Endpoint → errors of probes that failed on its side."""
        self.busy: dict[str, str] = {}
        """Node → the other probe that kept it busy."""
        self.met: set[tuple[str, str]] = set()
        """Pairs of nodes that were probed, with any result."""
        self.reference: float | None = None
        """Median of the endpoints' best latencies."""
        self._of: dict[Endpoint, list[Link]] = {}
        self._collect(runs)
        self._judge(limits)

    def _collect(self, runs: Sequence[ProbeRun]) -> None:
        links: dict[frozenset[Endpoint], Link] = {}
        for run in runs:
            client, server = (run.client, run.efa_device), (run.server, run.peer_efa_device)
            if run.busy:
                self.busy[run.faulty_node] = run.error
                continue
            if run.faulty_node:
                end = client if run.faulty_node == run.client else server
                self.faults.setdefault(end, []).append(run.error)
                continue
            self.met.add((run.client, run.server))
            link = links.setdefault(frozenset((client, server)), Link(client, server))
            if found := representative(run.results):
                link.results.append(found)
                # Each statistic of a probe repeats the losses.
                link.lost += max(result.lost or 0 for result in run.results)
            else:
                link.errors.append(run.error or "the probe gave no latency")
        self.links = list(links.values())
        for link in self.links:
            for end in link.ends:
                self._of.setdefault(end, []).append(link)

    def _judge(self, limits: Limits) -> None:
        bests = [best.seconds or 0.0 for end in self._of if (best := self.best(end)) is not None]
        if not bests:
            for link in self.links:
                link.quality = Quality.FAILED
            return
        self.reference = median_low(bests)
        away = median_low(abs(seconds - self.reference) for seconds in bests)
        spread = limits.deviations * DEVIATION * away
        for link in self.links:
            best = link.best
            if best is None or best.seconds is None:
                link.quality = Quality.FAILED
                continue
            link.ratio = best.seconds / self.reference
            stands_out = best.seconds > self.reference + spread
            if stands_out and link.ratio > limits.very_slow:
                link.quality = Quality.VERY_SLOW
            elif (stands_out and link.ratio > limits.slow) or link.flaky:
                link.quality = Quality.SLOW
            loads = [per_core(result.load) or 0.0 for result in link.results]
            if link.quality is not Quality.GOOD and min(loads) > limits.load:
                link.quality = Quality.UNSURE

    @property
    def nodes(self) -> set[str]:
        """All nodes of a link."""
        return {node for node, _ in self._of}

    def best(self, end: Endpoint) -> ProbeResult | None:
        """The result of its best link."""
        bests = [best for link in self._of.get(end, ()) if (best := link.best)]
        return min(bests, key=lambda result: result.seconds or 0.0, default=None)

    def has_good_link(self, node: str) -> bool:
        return any(link.quality is Quality.GOOD for link in self.of_node(node))

    def of_node(self, node: str) -> list[Link]:
        """The links of all endpoints of a node."""
        return [link for end in self.ends_of(node) for link in self._of[end]]

    def ends_of(self, node: str) -> list[Endpoint]:
        """The probed endpoints of a node."""
        return [end for end in self._of if end[0] == node]

    def partners(self, node: str) -> set[str]:
        """The nodes it was probed with."""
        return {name for pair in self.met if node in pair for name in pair} - {node}

    @cached_property
    def good_nodes(self) -> set[str]:
        """Nodes with a good link whose bad links are explained by other, faulty nodes."""
        good = {node for node in self.nodes if self.has_good_link(node)}
        return good - {node for node, _ in (*self.in_doubt, *self.faulty)}

    @cached_property
    def unexplained(self) -> list[Link]:
        """Bad links without a faulty endpoint."""
        return [
            link
            for link in self.links
            if link.quality is not Quality.GOOD and link.ends.isdisjoint(self.faulty)
        ]

    @cached_property
    def in_doubt(self) -> frozenset[Endpoint]:
        """Endpoints of unexplained bad links."""
        return frozenset(end for link in self.unexplained for end in link.ends)

    @cached_property
    def faulty(self) -> dict[Endpoint, list[Link]]:
        """Faulty endpoint → its bad links to endpoints that are healthy with others."""
        found = {}
        for end, links in self._of.items():
            bad = [link for link in links if link.quality is not Quality.GOOD]
            confirmed = [link for link in bad if self._is_healthy(link.other(end), link)]
            partners = {link.other(end)[0] for link in confirmed}
            if len(partners) >= MIN_PARTNERS and len(bad) >= MIN_BAD_SHARE * len(links):
                found[end] = confirmed
        return found

    def _is_healthy(self, end: Endpoint, but: Link) -> bool:
        """Whether it has another good link."""
        return any(
            link.quality is Quality.GOOD for link in self._of.get(end, ()) if link is not but
        )
