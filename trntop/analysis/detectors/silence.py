"""Nodes without data from any source."""

from collections.abc import Hashable

import numpy as np

from trntop.analysis.detector import Signal, Verdict
from trntop.catalog import FLEET
from trntop.core import units
from trntop.core.model import Column, Evidence, NodeView, SourceState, State
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.axis import Axis, carried
from trntop.pipeline.tick import Tick
from trntop.sources import TRAINING_SOURCES

SOURCES = 5
"""Sources whose last words are told."""


class NodeSilent:
    """Seconds since the newest data of any source of a node."""

    inputs = frozenset[str]()

    def __init__(self, settings: Settings, period: float) -> None:
        self._limit = settings.node_silent
        self._nodes = Axis()
        self._heard: Column = np.empty(0)
        """When each node was heard, as of the last look at it."""
        self._patience: Column = np.empty(0)
        """Seconds after that at which the next look is due, a limit at most."""

    def signal(self, tick: Tick) -> Signal:
        """Nodes that never spoke, whose recording ended, or that only a training loop spoke for
        have no age: a loop has no beat to miss.
        """
        if tick.nodes is not self._nodes:
            self._heard = carried(self._heard, self._nodes, tick.nodes)
            self._nodes = tick.nodes
            # Some are due sooner than others, so that no tick looks at all of them.
            self._patience = self._limit * np.linspace(0.75, 1.0, len(tick.nodes))
        heard = self._heard
        for place in np.flatnonzero(~(tick.time - heard <= self._patience)).tolist():
            heard[place] = tick.views[place].frame.last_seen
        ages = tick.time - heard
        for place in np.flatnonzero(ages > self._limit).tolist():
            view = tick.views[place]
            if view.state is State.ENDED or _loop_paced(view):
                ages[place] = np.nan
            elif ages[place] <= view.timeout:
                ages[place] = 0.0  # a slow source is not silent between its readings
        # A reading clears it at once: whoever speaks is not silent.
        return Signal(tick.nodes, ages, self._limit, self._limit)

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        view = tick.view(str(key))
        speakers = sorted(view.frame.own_sources, key=lambda one: -(one.time or 0.0))
        # What its list says of a node may be why: that it was stopped.
        listed = [one for one in view.frame.sources if one.name == FLEET and one.reason]
        sources = [*listed, *speakers]
        evidence = [Evidence(_last_word(source), view.name) for source in sources[:SOURCES]]
        says = {"last": speakers[0].name}
        return Verdict.at(tick, view.name, says, *evidence, since=view.frame.last_seen)

    def reset(self) -> None:
        self._heard[:] = np.nan


def _loop_paced(view: NodeView) -> bool:
    """Whether all that was ever heard of a node came at the pace of a training loop."""
    return all(
        one.name in TRAINING_SOURCES for one in view.frame.own_sources if one.time is not None
    )


def _last_word(source: SourceState) -> str:
    if source.time is None:
        return f"{source.name}: never reported; {source.reason or source.state}"
    said = f"{source.name}: last seen {units.clock(source.time, utc=True)} UTC"
    # That it is silent is what the incident says.
    known = source.reason and not source.reason.startswith("silent")
    return f"{said}; {source.reason}" if known else said
