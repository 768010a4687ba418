"""Which links are slow or fail, and which endpoint is faulty.

An endpoint is a node, or one EFA device of it with `--per-card`. Links are compared with the median
of the endpoints' best links, which a few slow links do not move. An endpoint that is bad with two
partners that are healthy with others is faulty; otherwise the link is.
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
"""Partners, healthy with others, with which a faulty endpoint is bad."""
MOST = 0.75
"""Share of its links that must be bad: two racks have two latencies, so half is not enough."""
DEVIATION = 1.4826
"""Standard deviations in a median absolute deviation of normal values."""


class Quality(IntEnum):
    GOOD = 0
    SLOW = 1
    VERY_SLOW = 2
    FAILED = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """The result that represents a probe."""

    tool: str
    provider: str
    size_bytes: int | None
    statistic: str
    cost: float
    """Seconds, or seconds per byte; lower is better."""
    seconds: float | None
    bytes_per_second: float | None
    load: str = ""

    @property
    def measure(self) -> tuple[str, str, int | None, bool]:
        """Only results with the same measure are comparable."""
        return self.tool, self.provider, self.size_bytes, self.seconds is None


def is_best_run(tool: str, statistic: str) -> bool:
    """Whether it is the lowest mean of several runs: a disturbance raises the others."""
    return tool == "fi_pingpong" and statistic == "min"


def figure(results: Iterable[ProbeResult]) -> Figure | None:
    """The result of a probe that outliers move least; None if all failed."""
    known = [one for one in results if not one.error and _cost(one) is not None]
    if not known:
        return None
    best = min(known, key=_rank)
    return Figure(
        tool=best.tool,
        provider=best.provider,
        size_bytes=best.size_bytes,
        statistic=best.statistic,
        cost=_cost(best) or 0.0,
        seconds=best.seconds,
        bytes_per_second=best.bytes_per_second,
        load=best.load,
    )


def is_loaded(found: Figure, limits: Limits) -> bool:
    """Whether a host of the probe had no idle core; False if the load is unknown."""
    load = per_core(found.load)
    return load is not None and load > limits.load


def _cost(result: ProbeResult) -> float | None:
    if result.seconds is not None:
        return result.seconds if result.seconds > 0 else None
    rate = result.bytes_per_second
    return 1 / rate if rate is not None and rate > 0 else None


def _rank(result: ProbeResult) -> tuple[bool, float, int]:
    known = result.statistic in STATISTICS
    order = STATISTICS.index(result.statistic) if known else len(STATISTICS)
    if is_best_run(result.tool, result.statistic):
        order = -1
    size = math.inf if result.size_bytes is None else result.size_bytes
    return result.partial, size, order


@dataclass(slots=True)
class Link:
    """All probes between two endpoints."""

    one: Endpoint
    two: Endpoint
    figures: list[Figure] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    lost: int = 0
    """Lost messages of all probes."""
    ratio: float | None = None
    """Its cost divided by the median of the endpoints' best."""
    quality: Quality = Quality.GOOD
    loaded: bool = False
    """Whether a host had no idle core in all probes: slowness is no evidence then."""

    @property
    def best(self) -> Figure | None:
        """A disturbance slows one probe, a fault all of them."""
        return min(self.figures, key=lambda one: one.cost, default=None)

    @property
    def flaky(self) -> bool:
        """Whether some probes work and some fail."""
        return bool(self.figures) and (bool(self.errors) or self.lost > 0)

    def other(self, end: Endpoint) -> Endpoint:
        return self.two if end == self.one else self.one


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
        """Median of the endpoints' best costs."""
        self.measure: tuple[str, str, int | None, bool] | None = None
        self._of: dict[Endpoint, list[Link]] = {}
        self._collect(runs)
        self._judge(limits)

    def _collect(self, runs: Sequence[ProbeRun]) -> None:
        links: dict[frozenset[Endpoint], Link] = {}
        for run in runs:
            client, server = (run.client, run.card), (run.server, run.peer_card)
            if run.busy:
                self.busy[run.guilty] = run.error
                continue
            if run.guilty:
                end = client if run.guilty == run.client else server
                self.faults.setdefault(end, []).append(run.error)
                continue
            self.met.add((run.client, run.server))
            link = links.setdefault(frozenset((client, server)), Link(client, server))
            if found := figure(run.results):
                link.figures.append(found)
                # Each statistic of a probe repeats the losses.
                link.lost += max(one.lost or 0 for one in run.results)
            else:
                link.errors.append(run.error or "the probe gave no figure")
        self.links = list(links.values())
        for link in self.links:
            for end in {link.one, link.two}:
                self._of.setdefault(end, []).append(link)

    def _judge(self, limits: Limits) -> None:
        costs = {end: best.cost for end in self._of if (best := self.best(end)) is not None}
        spread = 0.0
        if costs:
            self.reference = median_low(costs.values())
            away = median_low(abs(cost - self.reference) for cost in costs.values())
            spread = limits.deviations * DEVIATION * away
        for link in self.links:
            best = link.best
            if best is None or self.reference is None:
                link.quality = Quality.FAILED
                continue
            self.measure = self.measure or best.measure
            link.loaded = all(is_loaded(one, limits) for one in link.figures)
            link.ratio = best.cost / self.reference
            stands_out = best.cost > self.reference + spread
            if stands_out and link.ratio > limits.very_slow:
                link.quality = Quality.VERY_SLOW
            elif (stands_out and link.ratio > limits.slow) or link.flaky:
                link.quality = Quality.SLOW

    def best(self, end: Endpoint) -> Figure | None:
        """The result of its best link."""
        bests = (link.best for link in self._of.get(end, ()))
        return min((one for one in bests if one), key=lambda one: one.cost, default=None)

    def is_fine(self, node: str) -> bool:
        """Whether it has a good link."""
        return any(link.quality is Quality.GOOD for link in self.of_node(node))

    def of_node(self, node: str) -> list[Link]:
        """The links of all endpoints of a node."""
        return [link for end in self.of_ends(node) for link in self._of[end]]

    def of_ends(self, node: str) -> list[Endpoint]:
        """The probed endpoints of a node."""
        return [end for end in self._of if end[0] == node]

    def partners(self, node: str) -> set[str]:
        """The nodes it was probed with."""
        met = {one for pair in self.met if node in pair for one in pair}
        return met - {node}

    @cached_property
    def good_nodes(self) -> set[str]:
        """Nodes with a good link whose bad links are explained by other, faulty nodes."""
        good = {
            end[0]
            for link in self.links
            if link.quality is Quality.GOOD
            for end in (link.one, link.two)
        }
        return good - self.doubtful - {node for node, _ in self.faulty}

    @cached_property
    def doubtful(self) -> set[str]:
        """Nodes with an unexplained bad link."""
        return {node for node, _ in self.in_doubt}

    @cached_property
    def unexplained(self) -> list[Link]:
        """Bad links without a faulty endpoint."""
        return [
            link
            for link in self.links
            if link.quality is not Quality.GOOD
            and link.one not in self.faulty
            and link.two not in self.faulty
        ]

    @property
    def in_doubt(self) -> frozenset[Endpoint]:
        """Endpoints of unexplained bad links."""
        return frozenset(end for link in self.unexplained for end in (link.one, link.two))

    @cached_property
    def faulty(self) -> dict[Endpoint, list[Link]]:
        """Faulty endpoint → its bad links to endpoints that are healthy with others."""
        found = {}
        for end, links in self._of.items():
            bad = [link for link in links if link.quality is not Quality.GOOD]
            confirmed = [link for link in bad if self._is_healthy(link.other(end), link)]
            partners = {link.other(end)[0] for link in confirmed}
            if len(partners) >= MIN_PARTNERS and len(bad) >= MOST * len(links):
                found[end] = confirmed
        return found

    def _is_healthy(self, end: Endpoint, but: Link) -> bool:
        """Whether it has another good link."""
        return any(
            link.quality is Quality.GOOD for link in self._of.get(end, ()) if link is not but
        )
