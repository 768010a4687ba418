"""Limits of how fast a source is read."""

NAP = 0.005
"""Least seconds between two reads; collects small writes."""
IDLE_SHARE = 4.0
"""Seconds of rest per second of work: a runaway writer costs at most a fifth of a core."""
MAX_HOLD = 0.25


def rest(worked: float) -> float:
    """Seconds of rest after working on a chunk for `worked` seconds."""
    return max(NAP, IDLE_SHARE * worked)


def hold(period: float) -> float:
    """Seconds between two reports that are passed on, for a source of this period.

    Far below the period, so that it delays nothing, and long enough that of a burst only the
    first and the newest are worked on.
    """
    return min(period / 4, MAX_HOLD)
