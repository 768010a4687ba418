"""From a noisy condition to one that has lasted: `for`, `keep_firing_for` and hysteresis."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from trntop.analysis.detector import Signal
from trntop.core.model import NO_VALUE

FORGET_AFTER = 600.0
"""Seconds after which an open subject that is no longer reported is closed."""
GAP = 10.0
"""Seconds without a value after which a pending subject starts over."""


@dataclass(slots=True)
class _Track:
    seen: float
    above_since: float | None = None
    below_since: float | None = None
    open_since: float | None = None
    open_until: float = 0.0
    """It does not close before this time."""


@dataclass(frozen=True, slots=True)
class Change:
    """A subject that opened or closed in this tick."""

    key: Hashable
    opened: bool
    time: float
    """Opened: when the condition began. Closed: when it ended."""


class Debouncer:
    """Opens a subject whose value stays above the limit for `hold` seconds, or reaches `at_once`;
    closes it when the value stays at or below `clear` for `clear_hold` seconds. An absent value
    does neither.

    Only subjects above the limit or open are tracked, so a tick costs one comparison of columns
    while all is well.
    """

    def __init__(self, hold: float, clear_hold: float) -> None:
        self._hold = hold
        self._clear_hold = clear_hold
        self._tracks: dict[Hashable, _Track] = {}

    def step(self, now: float, signal: Signal) -> list[Change]:
        """One tick; the subjects that opened or closed."""
        above = np.flatnonzero(signal.values > signal.limit)
        for index in above.tolist():
            self._tracks.setdefault(signal.axis.key(index), _Track(now))
        changes = []
        for key, track in list(self._tracks.items()):
            value = value_of(signal, key)
            if change := self._advance(now, key, track, value, signal):
                changes.append(change)
            if track.open_since is None and track.above_since is None:
                del self._tracks[key]
        return changes

    def recover(self, key: Hashable, since: float, now: float, until: float) -> None:
        """Opens a subject that an earlier run has found; it does not close before `until`, as
        detectors need time to find it again.
        """
        self._tracks[key] = _Track(now, since, open_since=since, open_until=until)

    def drop(self, key: Hashable) -> None:
        """Drops a subject: it is gone for good."""
        self._tracks.pop(key, None)

    def reset(self) -> list[Hashable]:
        """Drops all subjects: what follows is another time. Returns those that were open."""
        open_ones = [key for key, track in self._tracks.items() if track.open_since is not None]
        self._tracks.clear()
        return open_ones

    def _advance(
        self, now: float, key: Hashable, track: _Track, value: float, signal: Signal
    ) -> Change | None:
        if value != value:
            if now - track.seen > FORGET_AFTER:
                track.above_since = None
                return self._close(key, track, track.seen)
            return None
        if now - track.seen > max(self._hold, GAP) and track.open_since is None:
            track.above_since = None
        track.seen = now
        if value > signal.limit:
            track.below_since = None
            if track.above_since is None:
                track.above_since = now
            lasts = now - track.above_since >= self._hold or value >= signal.at_once
            if track.open_since is None and lasts:
                track.open_since = track.above_since
                return Change(key, True, track.open_since)
        elif track.open_since is None:
            track.above_since = None
        elif value <= signal.clear:
            if track.below_since is None:
                track.below_since = now
            if now - track.below_since >= self._clear_hold and now >= track.open_until:
                return self._close(key, track, track.below_since)
        else:
            track.below_since = None
        return None

    def _close(self, key: Hashable, track: _Track, time: float) -> Change | None:
        was_open = track.open_since is not None
        track.above_since = track.below_since = track.open_since = None
        return Change(key, False, time) if was_open else None


def value_of(signal: Signal, key: Hashable) -> float:
    """A subject's value, NaN when it is no longer a member."""
    index = signal.axis.find(key)
    return NO_VALUE if index is None else float(signal.values[index])
