"""Stream time for live sources."""

import time


class SteadyClock:
    """Unix seconds that only move forward, at one second a second.

    The wall clock is read once; from then on the boot-time clock counts, which NTP cannot set
    back and which goes on during suspend.
    """

    def __init__(self) -> None:
        self._offset = time.time() - _boottime()

    def now(self) -> float:
        """Seconds since the epoch, as of the start plus what has passed."""
        return self._offset + _boottime()


def _boottime() -> float:
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
