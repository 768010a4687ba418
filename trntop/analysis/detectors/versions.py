"""Nodes whose drivers or runtimes differ from those of their peers."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from trntop.analysis.detector import Signal, Verdict
from trntop.core.model import Evidence, Inventory
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.axis import Axis
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class VersionTuning:
    """How many nodes a version skew lists, and how long it is kept."""

    max_summary_nodes: int = 3
    """Nodes in a summary: more do not fit in a line."""
    max_evidence_nodes: int = 8
    """Nodes of each version in the evidence."""
    keep_closed: float = 600.0
    """Seconds for which a skew is kept after it has ended, so that its incident can close."""


TUNING = VersionTuning()
NEURON_DRIVER, EFA_DRIVER, RUNTIME = "Neuron driver", "EFA driver", "Neuron runtime"
IMAGE = "machine image"

Versions = Mapping[str, str]
"""Software → its version on a node, if known."""
_Subject = str | tuple[str, ...]
"""The node that differs; all nodes if several differ or neither side is a majority."""


@dataclass(frozen=True, slots=True)
class _Skew:
    """A software of which some nodes have a different version."""

    software: str
    versions: tuple[tuple[str, tuple[str, ...]], ...]
    """Each version and its nodes, the most common first."""
    has_majority: bool
    """Whether most nodes have the same version."""


class VersionSkew:
    """1 for nodes that differ from most nodes of their job, or of their instance type.

    Nodes of other instance types are not peers, and an unknown version is not compared.
    """

    inputs = frozenset[str]()

    def __init__(self, settings: Settings, period: float) -> None:
        self.reset()

    def reset(self) -> None:
        self._inventories: list[Inventory] = []
        self._versions: dict[str, tuple[str, Versions]] = {}
        """Node → its instance type and versions."""
        self._jobs: Mapping[str, str] = {}
        self._skews: dict[_Subject, list[_Skew]] = {}
        self._ended: dict[_Subject, float] = {}
        """Subjects that no longer differ → since when."""
        self._signal = Signal(Axis(), np.empty(0), 0.5, 0.5)

    def signal(self, tick: Tick) -> Signal:
        """Versions are compared only when one of them, or the job of a node, has changed."""
        expired = [
            subject
            for subject, time in self._ended.items()
            if tick.time - time > TUNING.keep_closed
        ]
        if not self._update(tick) and not expired:
            return self._signal
        for subject in expired:
            del self._ended[subject]
        skews = _skews(self._versions, self._jobs)
        for subject in self._skews.keys() - skews.keys():
            self._ended[subject] = tick.time
        self._skews = skews
        for subject in skews:
            self._ended.pop(subject, None)
        values = np.array([1.0] * len(skews) + [0.0] * len(self._ended))
        self._signal = Signal(Axis((*skews, *self._ended)), values, 0.5, 0.5)
        return self._signal

    def _update(self, tick: Tick) -> bool:
        """Updates what has changed since the previous tick; returns whether anything has."""
        before, self._inventories = self._inventories, [view.inventory for view in tick.views]
        if len(before) != len(self._inventories):
            before = [Inventory("")] * len(self._inventories)
        changed = tick.job_of != self._jobs
        self._jobs = dict(tick.job_of) if changed else self._jobs
        for old, new in zip(before, self._inventories, strict=True):
            if old is not new:
                found = new.instance_type, _versions(new)
                if self._versions.get(new.node) != found:
                    self._versions[new.node] = found
                    changed = True
        return changed

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        assert isinstance(key, str | tuple)
        skews = self._skews[key]
        nodes = (key,) if isinstance(key, str) else key
        texts = [_text(skew, nodes) for skew in skews]
        jobs = {tick.job_of.get(node) for node in nodes}
        return Verdict(
            fields={
                "where": _names(nodes, TUNING.max_summary_nodes),
                "what": texts[0] + (f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""),
            },
            job=jobs.pop() if len(jobs) == 1 else None,
            node=key if isinstance(key, str) else None,
            evidence=tuple(
                Evidence(f"{skew.software} {version}: {_names(members, TUNING.max_evidence_nodes)}")
                for skew in skews
                for version, members in skew.versions
            ),
        )


def _versions(inventory: Inventory) -> Versions:
    """The known versions of a node's software."""
    runtimes = {process.runtime_version for process in inventory.processes} - {""}
    drivers = Counter(link["driver"] for link in inventory.efa_links.values() if "driver" in link)
    found = {
        NEURON_DRIVER: inventory.facts.get("neuron_driver", ""),
        # A lost device may still be listed with its previous driver.
        EFA_DRIVER: drivers.most_common(1)[0][0] if drivers else "",
        # If processes have different runtimes, the node has no single version.
        RUNTIME: runtimes.pop() if len(runtimes) == 1 else "",
    }
    if not found[NEURON_DRIVER]:
        # neuron-monitor alone reports no versions; a different image most likely has different
        # versions.
        found[IMAGE] = inventory.facts.get("ami_id", "")
    return {software: version for software, version in found.items() if version}


def _skews(
    known: Mapping[str, tuple[str, Versions]], jobs: Mapping[str, str]
) -> dict[_Subject, list[_Skew]]:
    """All skews by their subject."""
    several = len(set(jobs.values())) > 1
    groups: dict[tuple[str, str | None, str], dict[str, list[str]]] = {}
    for node, (instance_type, versions) in sorted(known.items()):
        job = jobs.get(node) if several else None
        for software, version in versions.items():
            group = groups.setdefault((instance_type, job, software), {})
            group.setdefault(version, []).append(node)
    skews: dict[_Subject, list[_Skew]] = {}
    for (_, _, software), nodes in groups.items():
        if len(nodes) < 2:
            continue
        ranked = sorted(nodes.items(), key=lambda item: -len(item[1]))
        total = sum(len(members) for _, members in ranked)
        majority = 2 * len(ranked[0][1]) > total
        differing = sorted(node for _, members in ranked[majority:] for node in members)
        subject = differing[0] if len(differing) == 1 else tuple(differing)
        skew = _Skew(
            software,
            tuple((version, tuple(members)) for version, members in ranked),
            majority,
        )
        skews.setdefault(subject, []).append(skew)
    return skews


def _text(skew: _Skew, nodes: Iterable[str]) -> str:
    """`EFA driver 2.16.0, 15 others have 2.17.3g`."""
    (common, members), *others = skew.versions
    if not skew.has_majority:
        shares = (f"{version} on {len(members)}" for version, members in skew.versions[:2])
        if all(len(members) == 1 for _, members in skew.versions):
            shares = (f"{version} on {members[0]}" for version, members in skew.versions[:2])
        return f"{skew.software} {', '.join(shares)}"
    versions = [version for version, members in others if set(members) & set(nodes)]
    return f"{skew.software} {', '.join(versions[:2])}, {len(members)} others have {common}"


def _names(nodes: tuple[str, ...], limit: int) -> str:
    """`trn-001, trn-002 and 3 more`."""
    more = len(nodes) - limit
    return ", ".join(nodes[:limit]) + (f" and {more} more" if more > 0 else "")
