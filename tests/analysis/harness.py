"""Runs one detector over a stream, as the analyzer would, without its other rules."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from trntop.analysis.detector import Detector, Verdict
from trntop.core.model import Cluster, Reading, View
from trntop.core.settings import Settings
from trntop.pipeline.runs import Runs
from trntop.pipeline.tick import Axes
from trntop.session.monitor import Monitor, play


@dataclass(slots=True)
class Detection:
    """A time in which a subject's condition held, with the verdict at its beginning."""

    key: Hashable
    begin: float
    end: float
    verdict: Verdict


class Unjudged(Monitor):
    """A monitor without rules, for a detector that is tested alone."""

    def __init__(self, detector: Detector) -> None:
        super().__init__(Settings(), wanted=Runs.inputs | detector.inputs)

    def evaluate(self, cluster: Cluster, lag: float = 0.0) -> View:
        return View(0, cluster.time, cluster, (), self.ended, lag)


def detections(detector: Detector, readings: Iterable[Reading]) -> list[Detection]:
    """Times at which the detector's signal was above its limit, in order of their begin."""
    axes, runs = Axes(), Runs()
    found: list[Detection] = []
    open_detections: dict[Hashable, Detection] = {}
    ordered = sorted(readings, key=lambda reading: reading.time)
    for view in play(ordered, Unjudged(detector)):
        tick = axes.tick(view.cluster)
        runs.update(tick)
        signal = detector.signal(tick)
        above = {signal.axis.key(index) for index in np.flatnonzero(signal.values > signal.limit)}
        for key in above - open_detections.keys():
            detection = Detection(key, view.time, view.time, detector.verdict(key, tick))
            open_detections[key] = detection
            found.append(detection)
        passed = {signal.axis.key(index) for index in np.flatnonzero(signal.values <= signal.clear)}
        for key in list(open_detections):
            open_detections[key].end = view.time
            if key in passed:
                del open_detections[key]
    return found
