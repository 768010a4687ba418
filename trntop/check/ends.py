"""Links and their ends: which links are slow or fail, and at which end the cause is.

An end is a node, or one card of it where cards are probed one by one. Links are compared with the
median of the ends' best links: an end that is slow with one partner still has its best, so a few
slow ones move nothing. Who is slow with two partners that are fine with others is to blame; where
that cannot be said, the link is.
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

End = tuple[str, str]
"""Node and card; the card is empty where libfabric chose it."""

MIN_PARTNERS = 2
"""Partners, fine with others, with which an end must be bad to be the one to blame."""
MOST = 0.75
"""Share of its links that must be bad: where half of them are, it is halfway to something else."""
DEVIATION = 1.4826
"""Standard deviations in a median absolute deviation, were the values spread normally."""


class Quality(IntEnum):
    """How a link is."""

    GOOD = 0
    SLOW = 1
    VERY_SLOW = 2
    FAILED = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """The one figure that stands for a probe."""

    tool: str
    provider: str
    size_bytes: int | None
    statistic: str
    cost: float
    """What is compared, the lower the better: seconds, or seconds per byte."""
    seconds: float | None
    bytes_per_second: float | None
    load: str = ""

    @property
    def measure(self) -> tuple[str, str, int | None, bool]:
        """Figures with the same measure can be compared."""
        return self.tool, self.provider, self.size_bytes, self.seconds is None


def is_best_run(tool: str, statistic: str) -> bool:
    """Whether a figure is the least mean of several runs: what runs beside one moves the others."""
    return tool == "fi_pingpong" and statistic == "min"


def figure(results: Iterable[ProbeResult]) -> Figure | None:
    """Of several results of a probe the one that odd messages move least; None of none."""
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
    """Whether a side of the probe had to wait for its core; False where nobody told its load."""
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
    """What all probes between two ends say."""

    one: End
    two: End
    figures: list[Figure] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    lost: int = 0
    """Messages that got lost, of all probes."""
    ratio: float | None = None
    """Its cost against the median of the ends' best."""
    quality: Quality = Quality.GOOD
    loaded: bool = False
    """Whether all figures were taken while a host had no core to spare: that it is slow tells
    nothing then.
    """

    @property
    def best(self) -> Figure | None:
        """A disturbance that passes makes one probe slow, a fault all of them."""
        return min(self.figures, key=lambda one: one.cost, default=None)

    @property
    def flaky(self) -> bool:
        """Whether it worked and failed."""
        return bool(self.figures) and (bool(self.errors) or self.lost > 0)

    def other(self, end: End) -> End:
        """The end that is not `end`."""
        return self.two if end == self.one else self.one


class Ends:
    """All links, judged.

    Args:
        trials: the probes.
        limits: the settings in force.
    """

    def __init__(self, trials: Sequence[ProbeRun], limits: Limits) -> None:
        self.links: list[Link] = []
        self.faults: dict[End, list[str]] = {}
        """End → why probes failed for which its own side is to blame."""
        self.engaged: dict[str, str] = {}
        """Node → whose probe it was in when it was to be probed."""
        self.met: set[tuple[str, str]] = set()
        """Nodes that were probed with each other, whatever came of it."""
        self.reference: float | None = None
        """Median of the ends' best costs."""
        self.measure: tuple[str, str, int | None, bool] | None = None
        self._of: dict[End, list[Link]] = {}
        self._collect(trials)
        self._judge(limits)

    def _collect(self, trials: Sequence[ProbeRun]) -> None:
        links: dict[frozenset[End], Link] = {}
        for trial in trials:
            client, server = (trial.client, trial.card), (trial.server, trial.peer_card)
            if trial.busy:
                self.engaged[trial.guilty] = trial.error
                continue
            if trial.guilty:
                guilty = client if trial.guilty == trial.client else server
                self.faults.setdefault(guilty, []).append(trial.error)
                continue
            self.met.add((trial.client, trial.server))
            link = links.setdefault(frozenset((client, server)), Link(client, server))
            if found := figure(trial.results):
                link.figures.append(found)
                # Each statistic of a probe tells the same losses.
                link.lost += max(one.lost or 0 for one in trial.results)
            else:
                link.errors.append(trial.error or "the probe gave no figure")
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

    def best(self, end: End) -> Figure | None:
        """The figure of its best link."""
        bests = (link.best for link in self._of.get(end, ()))
        return min((one for one in bests if one), key=lambda one: one.cost, default=None)

    def is_fine(self, node: str) -> bool:
        """Whether it has a good link."""
        return any(link.quality is Quality.GOOD for link in self.of_node(node))

    def of_node(self, node: str) -> list[Link]:
        """The links of all its ends."""
        return [link for end in self.of_ends(node) for link in self._of[end]]

    def of_ends(self, node: str) -> list[End]:
        """Its ends that were probed."""
        return [end for end in self._of if end[0] == node]

    def partners(self, node: str) -> set[str]:
        """The other nodes with which it was probed."""
        met = {one for pair in self.met if node in pair for one in pair}
        return met - {node}

    @cached_property
    def good_nodes(self) -> set[str]:
        """Nodes with a good link, whose bad ones are those of others that are to blame."""
        good = {
            end[0]
            for link in self.links
            if link.quality is Quality.GOOD
            for end in (link.one, link.two)
        }
        return good - self.doubtful - {node for node, _ in self.guilty}

    @cached_property
    def doubtful(self) -> set[str]:
        """Nodes with a bad link that nobody is to blame for."""
        return {node for node, _ in self.in_doubt}

    @cached_property
    def unexplained(self) -> list[Link]:
        """The bad links of which neither end is to blame."""
        return [
            link
            for link in self.links
            if link.quality is not Quality.GOOD
            and link.one not in self.guilty
            and link.two not in self.guilty
        ]

    @property
    def in_doubt(self) -> frozenset[End]:
        """Ends of a bad link that nobody is to blame for."""
        return frozenset(end for link in self.unexplained for end in (link.one, link.two))

    @cached_property
    def guilty(self) -> dict[End, list[Link]]:
        """Ends that are to blame → their bad links whose other end is fine with others."""
        found = {}
        for end, links in self._of.items():
            bad = [link for link in links if link.quality is not Quality.GOOD]
            witnessed = [link for link in bad if self._fine(link.other(end), link)]
            partners = {link.other(end)[0] for link in witnessed}
            if len(partners) >= MIN_PARTNERS and len(bad) >= MOST * len(links):
                found[end] = witnessed
        return found

    def _fine(self, end: End, but: Link) -> bool:
        """Whether it has a good link besides one."""
        return any(
            link.quality is Quality.GOOD for link in self._of.get(end, ()) if link is not but
        )
