"""Nodes without data from any source."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from trntop.analysis.detector import Signal, Verdict
from trntop.catalog import FLEET
from trntop.core import units
from trntop.core.model import Column, Evidence, NodeView, SourceState, State
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.axis import Axis, realigned
from trntop.pipeline.tick import Tick
from trntop.sources import TRAINING_SOURCES


@dataclass(frozen=True, slots=True)
class SilenceTuning:
    """How often the age of a node is checked, and how many of its sources are named."""

    earliest: float = 0.75
    """Share of the limit after which the first nodes are checked; the others are spread up to the
    limit, so that no tick checks all of them.
    """
    listed: int = 5
    """Sources in the evidence."""


TUNING = SilenceTuning()


class NodeSilent:
    """Seconds since the newest data of any source of a node."""

    inputs = frozenset[str]()

    def __init__(self, settings: Settings, period: float) -> None:
        self._limit = settings.node_silent
        self._nodes = Axis()
        self._seen: Column = np.empty(0)
        """When each node last reported, as of its last check."""
        self._next_check: Column = np.empty(0)
        """Seconds from then to the next check, at most the limit."""

    def signal(self, tick: Tick) -> Signal:
        """Nodes that never reported, whose recording ended, or that only a training loop reports
        have no age: a loop has no fixed interval.
        """
        if tick.nodes is not self._nodes:
            self._seen = realigned(self._seen, self._nodes, tick.nodes)
            self._nodes = tick.nodes
            self._next_check = self._limit * np.linspace(TUNING.earliest, 1.0, len(tick.nodes))
        seen = self._seen
        for index in np.flatnonzero(~(tick.time - seen <= self._next_check)).tolist():
            seen[index] = tick.views[index].frame.last_seen
        ages = tick.time - seen
        for index in np.flatnonzero(ages > self._limit).tolist():
            view = tick.views[index]
            if view.state is State.ENDED or _loop_paced(view):
                ages[index] = np.nan
            elif ages[index] <= view.timeout:
                ages[index] = 0.0  # a slow source is not silent between its readings
        # A reading clears it at once.
        return Signal(tick.nodes, ages, self._limit, self._limit)

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        view = tick.view(str(key))
        newest_first = sorted(view.frame.own_sources, key=lambda source: -(source.time or 0.0))
        # The list of nodes may have the reason: that it was stopped.
        listed = [source for source in view.frame.sources if source.name == FLEET and source.reason]
        sources = [*listed, *newest_first]
        evidence = [Evidence(_last_seen(source), view.name) for source in sources[: TUNING.listed]]
        fields = {"last": newest_first[0].name}
        return Verdict.at(tick, view.name, fields, *evidence, since=view.frame.last_seen)

    def reset(self) -> None:
        self._seen[:] = np.nan


def _loop_paced(view: NodeView) -> bool:
    """Whether only a training loop ever reported from a node."""
    return all(
        source.name in TRAINING_SOURCES
        for source in view.frame.own_sources
        if source.time is not None
    )


def _last_seen(source: SourceState) -> str:
    if source.time is None:
        return f"{source.name}: never reported; {source.reason or source.state}"
    text = f"{source.name}: last seen {units.clock(source.time, utc=True)} UTC"
    # The incident already states that it is silent.
    known = source.reason and not source.reason.startswith("silent")
    return f"{text}; {source.reason}" if known else text
