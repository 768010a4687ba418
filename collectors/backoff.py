"""Waits before a retry."""

import random
from collections.abc import Callable


class Backoff:
    """Waits that double with each failure, with jitter so that the nodes of a fleet spread out.

    A wait is drawn from the upper half of its range.

    Args:
        first: the longest first wait, in seconds.
        longest: the longest wait, in seconds.
        healthy: seconds of success that reset the waits.
        draw: returns a random number from 0 to 1.
    """

    def __init__(
        self,
        first: float = 0.5,
        longest: float = 30.0,
        healthy: float = 60.0,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._first = first
        self._longest = longest
        self._healthy = healthy
        self._draw = draw
        self._next = first

    def wait(self, lasted: float) -> float:
        """Seconds to wait after an attempt that succeeded for `lasted` seconds."""
        if lasted >= self._healthy:
            self._next = self._first
        limit = self._next
        self._next = min(2 * limit, self._longest)
        return limit * (1 + self._draw()) / 2
