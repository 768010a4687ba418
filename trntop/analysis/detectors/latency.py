"""Links between nodes that have become slow, measured by active probes.

A probe's result is compared with earlier ones of the same link, tool, message size, statistic
and load, because numbers of different kinds are not comparable; and with other links, because a
fabric that is slow for all is no fault of one node. A link has two ends: the faulty one shows only
where one of them is slow to other nodes as well.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import numpy as np

from trntop.analysis.detector import Signal, Verdict
from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import NO_VALUE, Column, Evidence
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.axis import Axis, PartAxis
from trntop.pipeline.statistics import median
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class LatencyTuning:
    """How many probe results prove that a link is slow."""

    min_baseline: int = 3
    """Results that a link's usual latency is the median of, at least."""
    baseline: int = 30
    """Results kept for it, at most."""
    consecutive: int = 2
    """Slow results in a row that make a slow link."""
    one_result: float = 3.0
    """Times the usual from which on one result does."""
    node_share: float = 0.75
    """Share of a node's links that are slow if the node is."""
    clear: float = 0.9
    """Share of the limit below which a link is healthy again: prevents flapping."""
    below_limit: float = 0.99
    """Share of the limit of a slow link that is not certain yet: it neither opens nor closes."""
    max_kinds: int = 8
    """Kinds of results kept of a link."""


TUNING = LatencyTuning()

Key = tuple[str, str]
"""Node and link."""


class Kind(NamedTuple):
    """What must be equal for two latencies to be compared."""

    tool: str
    statistic: str
    size: float
    load: str


class End(NamedTuple):
    """One end of a link."""

    node: str
    device: str


@dataclass(slots=True)
class _Link:
    """The results of a link so far."""

    ends: tuple[End, End]
    """The prober and the probed end."""
    probed: float = NO_VALUE
    kind: Kind | None = None
    earlier: dict[Kind, deque[float]] = field(default_factory=dict)
    """Results that were not slow, by kind."""
    latency: float = NO_VALUE
    usual: float = NO_VALUE
    slow: int = 0
    """Slow results in a row up to the newest."""
    since: float = NO_VALUE
    """When the first of them came."""
    doubtful: bool = False
    """Whether another link that was slow for the same reason has recovered since it was probed."""
    value: float = NO_VALUE
    """The newest result as a multiple of its limit; above 1 the link has regressed."""

    @property
    def ratio(self) -> float:
        """Times its usual that the newest result is; NaN where that is not known."""
        return self.latency / self.usual

    @property
    def pair(self) -> frozenset[str]:
        """The nodes at its ends."""
        return frozenset(end.node for end in self.ends)


class LatencyRegression:
    """The newest latency of each link, by its usual one."""

    inputs = frozenset(
        ("link_latency_seconds", "link_probe_size_bytes", "link_probe_timestamp_seconds")
    )

    def __init__(self, settings: Settings, period: float) -> None:
        self._limit = settings.latency
        self._axis = PartAxis(Axis(), ())
        self._links: dict[Key, _Link] = {}
        self._faults: dict[Key, tuple[End | None, list[_Link]]] = {}
        """Link that represents others → the faulty end, if known, and the links."""
        self._values: Column = np.zeros(0)
        self._stamps: Column = np.zeros(0)

    def signal(self, tick: Tick) -> Signal:
        """Advances with each new result of a link; of links slow for one reason, one is above 1."""
        axis = tick.parts(Entity.LINK)
        stamps = tick.column("link_probe_timestamp_seconds")
        if axis is not self._axis:
            self._axis = axis
            keys = [cast(Key, axis.key(index)) for index in range(len(axis))]
            self._links = {key: self._links[key] for key in keys if key in self._links}
            self._stamps = np.array(
                [self._links[key].probed if key in self._links else NO_VALUE for key in keys]
            )
            self._show()
        new = np.flatnonzero((stamps != self._stamps) & ~np.isnan(stamps))
        if len(new):
            self._stamps = stamps
            self._take(tick, new.tolist())
        return Signal(axis, self._values, 1.0, TUNING.clear)

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        """Names the node or the device that all slow links share, else both ends of the link."""
        culprit, links = self._faults[cast(Key, key)]
        worst = max(links, key=lambda link: link.ratio)
        prober, peer = worst.ends
        times = f"{worst.ratio:.1f} times the usual latency"
        if culprit is None:
            node, component = prober.node, cast(str | None, f"link:{peer.node}")
            where = f"{prober.node} to {peer.node}"
            what = f"{units.seconds(worst.latency)}, {times}; either end may be faulty"
        else:
            node, component = culprit.node, f"efa:{culprit.device}" if culprit.device else None
            where = f"{culprit.node} {culprit.device}" if culprit.device else culprit.node
            peers = {other for link in links for other in link.pair - {culprit.node}}
            what = f"up to {times} to {len(peers)} peers"
        evidence = [
            Evidence(
                f"{link.ends[0].node} to {link.ends[1].node}: {units.seconds(link.latency)}, "
                f"usually {units.seconds(link.usual)}; {_described(link.kind)}",
                link.ends[0].node, "link_latency_seconds", link.latency, self._limit * link.usual,
            )
            for link in sorted(links, key=lambda link: -link.ratio)[:4]
        ]  # fmt: skip
        if culprit is None:
            text = f"no other link of {prober.node} or {peer.node} shows which end is faulty"
            evidence.append(Evidence(text))
        return Verdict(
            fields={
                "where": where,
                "what": what,
                "tool": worst.kind.tool if worst.kind else "probe",
            },
            job=tick.job_of.get(node),
            node=node,
            component=component,
            evidence=tuple(evidence),
            since=min(link.since for link in links),
        )

    def reset(self) -> None:
        self._axis = PartAxis(Axis(), ())
        self._links.clear()
        self._faults.clear()

    def _take(self, tick: Tick, new: Iterable[int]) -> None:
        """Takes the links' new results, then judges them all together."""
        latency = tick.column("link_latency_seconds")
        size = tick.column("link_probe_size_bytes")
        for index in new:
            key = cast(Key, self._axis.key(index))
            facts = tick.view(key[0]).inventory.links.get(key[1], {})
            link = self._links.setdefault(key, _Link(_ends(key, facts)))
            link.probed, link.latency = float(self._stamps[index]), float(latency[index])
            self._note(link, _kind(facts, float(size[index])))
        for link in self._links.values():
            if link.slow:
                link.value = self._judged(link)
        self._find_faults()

    def _note(self, link: _Link, kind: Kind) -> None:
        """Takes one result: slow by what was usual on the link, or one of the usual ones."""
        link.kind, link.doubtful = kind, False
        if link.latency != link.latency:
            link.value = NO_VALUE  # the probe failed, which shows no latency
            return
        earlier = link.earlier.setdefault(kind, deque(maxlen=TUNING.baseline))
        known = len(earlier) >= TUNING.min_baseline
        link.usual = median(earlier) if known else NO_VALUE
        if link.ratio > self._limit:
            link.since = link.probed if link.slow == 0 else link.since
            link.slow += 1
            return
        link.slow, link.since = 0, NO_VALUE
        # Before its usual latency is known, nothing can be judged.
        link.value = link.ratio / self._limit
        earlier.append(link.latency)
        while len(link.earlier) > TUNING.max_kinds:
            del link.earlier[next(iter(link.earlier))]

    def _judged(self, link: _Link) -> float:
        """A slow result compared with those of others, as a multiple of its limit."""
        if link.latency != link.latency:
            return NO_VALUE
        elsewhere = self._elsewhere(link)
        if elsewhere is None or link.doubtful or link.latency <= self._usual_of_others(link):
            return TUNING.below_limit
        ratio = link.ratio / max(1.0, elsewhere)
        sure = link.slow >= TUNING.consecutive or ratio >= TUNING.one_result
        return ratio / self._limit if sure else min(ratio / self._limit, TUNING.below_limit)

    def _elsewhere(self, link: _Link) -> float | None:
        """How many times slower than usual the links are that its ends have no part in.

        None while most of them have not been probed since this one became slow.
        """
        others = [
            other
            for other in self._links.values()
            if other.kind == link.kind and other.pair != link.pair and other.ratio == other.ratio
        ]
        disjoint = [other for other in others if not other.pair & link.pair] or others
        ratios = sorted(other.ratio for other in disjoint if other.probed >= link.since)
        if 2 * len(ratios) < len(disjoint):
            return None
        return ratios[(len(ratios) - 1) // 2] if ratios else 1.0

    def _usual_of_others(self, link: _Link) -> float:
        """The median of what is usual on other links; 0 where there are none."""
        usual = [
            other.usual
            for other in self._links.values()
            if other.kind == link.kind and other.pair != link.pair and other.usual == other.usual
        ]
        return median(usual) if usual else 0.0

    def _find_faults(self) -> None:
        """Lets one link represent all that are slow for the same reason."""
        for key, (_, links) in self._faults.items():
            leader = self._links.get(key)
            if leader is None or leader.slow:
                continue
            for link in links:
                if link.slow and link.probed < leader.probed:
                    link.doubtful, link.value = True, TUNING.below_limit
        known = [link for link in self._links.values() if link.value == link.value]
        left = [link for link in known if link.value > 1.0]
        before, self._faults = self._faults, {}
        keys = {id(link): key for key, link in self._links.items()}

        def order(link: _Link) -> tuple[bool, float, Key]:
            # The link that represented them before remains.
            return keys[id(link)] not in before, link.since, keys[id(link)]

        while left:
            culprit = _culprit(left, known)
            if culprit is None:
                links = [link for link in left if link.pair == left[0].pair]
            else:
                links = [link for link in left if _touches(link, culprit)]
                devices = {_device_at(link, culprit.node) for link in links}
                culprit = End(culprit.node, devices.pop() if len(devices) == 1 else "")
            self._faults[keys[id(min(links, key=order))]] = culprit, links
            left = [link for link in left if not any(link is other for other in links)]
        self._show()

    def _show(self) -> None:
        """Lays the links' values out along the axis."""
        values = np.full(len(self._axis), NO_VALUE)
        for index in range(len(values)):
            key = cast(Key, self._axis.key(index))
            if (link := self._links.get(key)) is not None:
                covered = link.value > 1.0 and key not in self._faults
                values[index] = 0.0 if covered else link.value
        self._values = values


def _culprit(slow: list[_Link], known: list[_Link]) -> End | None:
    """The node, or else the device, all of whose links are slow to several peers."""
    for ends in (
        {End(end.node, "") for link in slow for end in link.ends},
        {end for link in slow for end in link.ends if end.device},
    ):
        best: tuple[int, End] | None = None
        for end in sorted(ends):
            touched = [link for link in known if _touches(link, end)]
            bad = [link for link in touched if link.slow]
            peers = {other for link in bad for other in link.pair - {end.node}}
            if len(peers) < 2 or len(bad) < TUNING.node_share * len(touched):
                continue
            if best is None or len(peers) > best[0]:
                best = len(peers), end
        if best is not None:
            return best[1]
    return None


def _touches(link: _Link, end: End) -> bool:
    """Whether the link ends there; an end without a device is the whole node."""
    return any(index.node == end.node and end.device in ("", index.device) for index in link.ends)


def _device_at(link: _Link, node: str) -> str:
    """The device at which a link ends on a node, empty where unknown."""
    return next(end.device for end in link.ends if end.node == node)


def _ends(key: Key, facts: Mapping[str, str]) -> tuple[End, End]:
    node, link = key
    device, _, peer = link.rpartition(">")
    return End(node, device), End(peer, facts.get("peer_card", ""))


def _kind(facts: Mapping[str, str], size: float) -> Kind:
    load = facts.get("load", "")
    # A measured load is never twice the same; only its description distinguishes kinds.
    load = "" if any(map(str.isdigit, load)) else load
    return Kind(
        facts.get("tool", ""), facts.get("statistic", ""), size if size == size else -1.0, load
    )


def _described(kind: Kind | None) -> str:
    """`fi_pingpong, mean, 64 B, idle`."""
    if kind is None:
        return ""
    size = f"{kind.size:.0f} B" if kind.size >= 0 else ""
    return ", ".join(filter(None, (kind.tool, kind.statistic, size, kind.load)))
