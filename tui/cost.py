"""What the program itself costs, shown in its own header."""

import time
from collections.abc import Callable

SECONDS = 2.0
"""Wall time over which the use of the processor is averaged."""


class Cost:
    """The processor time of this process as a share of one core.

    Args:
        wall: a steady clock.
        spent: processor seconds of this process so far, all threads.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.process_time,
    ) -> None:
        self._clocks = wall, spent
        self._before = wall(), spent()
        self._share: float | None = None

    def share(self) -> float | None:
        """Over the last whole stretch; None before the first is over."""
        wall, spent = (clock() for clock in self._clocks)
        passed = wall - self._before[0]
        if passed >= SECONDS:
            self._share = (spent - self._before[1]) / passed
            self._before = wall, spent
        return self._share
