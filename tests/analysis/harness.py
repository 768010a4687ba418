"""Runs one detector over a stream, as the analyzer would, without its other rules."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from trntop.analysis.detector import Detector, Verdict
from trntop.analysis.rule_inputs import rule_inputs
from trntop.core.model import Reading
from trntop.core.settings import Settings
from trntop.pipeline.runs import Runs
from trntop.pipeline.tick import Axes
from trntop.session.monitor import Monitor, play


@dataclass(slots=True)
class Stretch:
    """A time in which a subject's condition held, by what was said at its beginning."""

    key: Hashable
    begin: float
    end: float
    verdict: Verdict


def stretches(detector: Detector, readings: Iterable[Reading]) -> list[Stretch]:
    """Every stretch in which the detector's signal was above its limit, in order of its begin."""
    axes, runs = Axes(), Runs()
    found: list[Stretch] = []
    open_ones: dict[Hashable, Stretch] = {}
    monitor = Monitor(Settings(), wanted=rule_inputs() | detector.inputs)
    for view in play(sorted(readings, key=lambda reading: reading.time), monitor):
        tick = axes.tick(view.cluster)
        runs.update(tick)
        signal = detector.signal(tick)
        above = {signal.axis.key(place) for place in np.flatnonzero(signal.values > signal.limit)}
        for key in above - open_ones.keys():
            stretch = Stretch(key, view.time, view.time, detector.verdict(key, tick))
            open_ones[key] = stretch
            found.append(stretch)
        passed = {signal.axis.key(place) for place in np.flatnonzero(signal.values <= signal.clear)}
        for key in list(open_ones):
            open_ones[key].end = view.time
            if key in passed:
                del open_ones[key]
    return found
