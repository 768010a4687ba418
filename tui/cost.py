"""What the program itself costs, and how many ticks it shows."""

import time
from collections import deque
from collections.abc import Callable

SECONDS = 2.0
"""Wall time over which the use of the processor and the bytes are averaged."""
PICTURES = 8
"""Pictures over which the pace is averaged."""


class Cost:
    """The processor time of this process as a share of one core, and the bytes it writes.

    Args:
        wall: a steady clock.
        spent: processor seconds of this process so far, all threads.
        written: bytes to the terminal so far; None where that is not known.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.process_time,
        written: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._clocks = wall, spent
        self._before = wall(), spent()
        self._written = written
        self._written_before = written()
        self.share: float | None = None
        """Over the last whole stretch; None before the first is over."""
        self.rate: float | None = None
        """Bytes a second to the terminal, over the last whole stretch."""

    def sample(self) -> None:
        """Updates both once a stretch is over."""
        wall, spent = (clock() for clock in self._clocks)
        passed = wall - self._before[0]
        if passed < SECONDS:
            return
        self.share = (spent - self._before[1]) / passed
        written, before = self._written(), self._written_before
        known = written is not None and before is not None
        self.rate = (written - before) / passed if known else None  # type: ignore[operator]
        self._before, self._written_before = (wall, spent), written


class TicksPerPicture:
    """Of how many ticks one is shown: 1, or as a power of two, so that the word rests."""

    def __init__(self) -> None:
        self._skipped = 0
        self._gaps: deque[int] = deque((1,), PICTURES)

    def skip(self) -> None:
        """A tick is not shown."""
        self._skipped += 1

    def show(self) -> None:
        """A tick is shown."""
        self._gaps.append(self._skipped + 1)
        self._skipped = 0

    @property
    def every(self) -> int:
        """Ticks to a picture, rounded up; 1 where each is shown."""
        mean = sum(self._gaps) / len(self._gaps)
        # One tick that came a moment too early is no slow line.
        return 1 if mean < 1.5 else 1 << (round(mean + 0.49) - 1).bit_length()
