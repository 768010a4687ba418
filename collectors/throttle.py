"""Limits of how fast a source is read."""

MIN_PAUSE = 0.005
"""Minimum seconds between two reads, so that small writes are read together."""
IDLE_SHARE = 4.0
"""Seconds of pause per second of work: a runaway writer costs at most a fifth of a core."""
MAX_REPORT_INTERVAL = 0.25


def pause_after(worked: float) -> float:
    """Seconds to pause after working on a chunk for `worked` seconds."""
    return max(MIN_PAUSE, IDLE_SHARE * worked)


def report_interval(period: float) -> float:
    """Minimum seconds between two reports that are passed on, for a source with this period.

    Far below the period, so that no report is delayed, and long enough that only the first and the
    newest report of a burst are processed.
    """
    return min(period / 4, MAX_REPORT_INTERVAL)
