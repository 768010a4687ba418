"""One time for a stream whose nodes' clocks disagree.

A recording of many nodes holds the times of their own clocks, in the order of arrival. A clock
may be minutes off, or be set in the middle. The time of most nodes is the stream's; the others
are shifted onto it. A stream sorted by time shows no such thing and is left as it is.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from statistics import median, median_low

from trntop.core.model import Reading

TOLERANCE = 5.0
"""Seconds that a clock may be off before anything is done about it."""
LOOK_AHEAD = 256
"""Readings after which it is decided whether a clock is off or the stream has moved on."""
LOOK_AHEAD_BYTES = 16 << 20
LOOK_AHEAD_SECONDS = 120.0
"""By the clock in question."""
VOTES = 15
"""Other nodes that are compared at most."""
ROUNDS = 4
"""Rounds of a node that are the beginning of a stream."""
ROUND = 0.5
"""Seconds; readings of a node within are one round."""
PACE = 60.0
"""Seconds; a longer step of a clock at the beginning of a stream is no measure of time passed."""


class Skew:
    """Maps the times of one stream's readings onto the stream's own.

    A clock is off if the order of arrival contradicts it: after a reading of 12:05, others still
    have 12:00. If all others have 12:05 as well, or there are none, the stream itself has moved on
    (a pause) or back (files joined), and nothing is shifted. What a node sent late, its clock being
    right before and after, keeps its time.
    """

    def __init__(self) -> None:
        self.time = 0.0
        """The stream's time at the newest reading; goes back where all clocks do."""
        self._clocks: dict[str, float] = {}
        """Node → how many seconds its clock is ahead; 0 within the tolerance."""
        self._ahead: deque[Reading] = deque()
        """Readings that were read ahead."""

    @property
    def offsets(self) -> dict[str, float]:
        """Node → seconds its clock is ahead of the stream, for those that are off."""
        # A copy at once: screens ask while the stream is read.
        return {node: seconds for node, seconds in self._clocks.copy().items() if seconds}

    def aligned(self, readings: Iterable[Reading]) -> Iterator[Reading]:
        """The readings with their times on the stream's clock, in the order of arrival."""
        source = iter(readings)
        self._begin(source)
        clocks, ahead = self._clocks, self._ahead
        while True:
            if ahead:
                reading = ahead.popleft()
            else:
                following = next(source, None)
                if following is None:
                    return
                reading = following
            offset = clocks.get(reading.node)
            if offset is None:
                offset = clocks[reading.node] = 0.0
            time = reading.time - offset
            if -TOLERANCE <= time - self.time <= TOLERANCE:
                if time > self.time:
                    self.time = time
            else:
                time = self._judge(reading, time, source)
            yield reading if time == reading.time else _at(reading, time)

    def _begin(self, source: Iterator[Reading]) -> None:
        """Finds the clocks that are off from the start, by the first rounds."""
        latest: float | None = None
        regress = False
        passed = 0.0
        rounds_of: dict[str, tuple[float, float, int]] = {}
        leads: dict[str, list[float]] = {}
        for reading in self._peek(source):
            node, time = reading.node, reading.time
            latest = time if latest is None else latest
            regress |= time < latest - TOLERANCE
            latest = max(latest, time)
            before, then, rounds = rounds_of.get(node, (time, passed, 0))
            if 0 <= time - before <= PACE:
                passed = max(passed, then + time - before)
            if time - before > ROUND:
                rounds += 1
            if rounds == ROUNDS:
                break
            rounds_of[node] = time, passed, rounds
            leads.setdefault(node, []).append(time - passed)
        if not leads:
            return
        usual = {node: median_low(times[:ROUNDS]) for node, times in leads.items()}
        most = _consensus(list(usual.values())) if regress else 0.0
        for node, lead in usual.items():
            ahead = lead - most
            self._clocks[node] = ahead if regress and abs(ahead) > TOLERANCE else 0.0
        first = self._ahead[0]
        self.time = first.time - self._clocks[first.node]

    def _judge(self, reading: Reading, time: float, source: Iterator[Reading]) -> float:
        """The stream's time of a reading that came at an unlikely `time`, by what follows it."""
        node, offset, forward = reading.node, self._clocks[reading.node], time > self.time
        own = time
        spoken = False
        agree = 0
        apart: list[float] = []
        compared: set[str] = set()
        enough = min(VOTES, len(self._clocks) - 1)
        passed = self.time
        for other in self._peek(source):
            if other.node == node:
                own = other.time - offset
                if own > time + LOOK_AHEAD_SECONDS:
                    break
                back = abs(own - self.time) < abs(own - time)
                if back and not (forward and spoken) and passed <= self.time + TOLERANCE:
                    # It was wrong, or late, only once.
                    return self.time if forward else time
                spoken = True
            else:
                at = other.time - self._clocks.get(other.node, 0.0)
                if other.node not in compared:
                    compared.add(other.node)
                    distance = own - at
                    if distance > TOLERANCE if forward else distance < -TOLERANCE:
                        apart.append(distance)
                    else:
                        agree += 1
                passed = max(passed, at)
            known = spoken or len(apart) <= agree if forward else passed > self.time + TOLERANCE
            if len(compared) >= enough and known:
                break
        if len(apart) > agree:
            offset += median(apart)
            self._clocks[node] = offset if abs(offset) > TOLERANCE else 0.0
            time = reading.time - self._clocks[node]
            self.time = max(self.time, time)
        else:
            self.time = time
        return time

    def _peek(self, source: Iterator[Reading]) -> Iterator[Reading]:
        """The following readings, which remain in the stream."""
        seen = size = 0
        while seen < LOOK_AHEAD and size < LOOK_AHEAD_BYTES:
            if seen == len(self._ahead):
                following = next(source, None)
                if following is None:
                    return
                self._ahead.append(following)
            reading = self._ahead[seen]
            yield reading
            seen += 1
            size += len(reading.data)


def _at(reading: Reading, time: float) -> Reading:
    return Reading(reading.node, reading.source, time, reading.data, reading.simulated)


def _consensus(values: list[float]) -> float:
    """The middle of the largest group of values within the tolerance of each other.

    Of groups of equal size, that of the value which comes first.
    """
    best: list[float] = []
    for value in values:
        group = [other for other in values if abs(other - value) <= TOLERANCE]
        if len(group) > len(best):
            best = group
    return median(best)
