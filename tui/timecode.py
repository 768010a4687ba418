"""Times as text: `14:03:12`, `+5m`, `-1h30m`; `12:30 of 1:03:00`."""

import re
from datetime import UTC, datetime, timedelta

from trntop.core import durations

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")

FORMS = "14:03:12, +5m or -30s"


def parse(text: str, now: float, span: tuple[float, float] | None = None, *, utc: bool) -> float:
    """The unix time of a time of day, or of a distance from `now`.

    Args:
        text: such as `14:03:12` or `-5m`.
        now: the time that is shown.
        span: start and end of the recording; a time of day is in it if possible, else near `now`.
        utc: whether times of day are in UTC, else local.

    Raises:
        ValueError: `text` is neither.
    """
    text = text.strip()
    if text[:1] in ("+", "-") and (away := durations.parse(text[1:])) is not None:
        return now + away if text[0] == "+" else now - away
    if (clock := _CLOCK.fullmatch(text)) is None:
        raise ValueError(f"enter a time such as {FORMS}")
    hour, minute, second = (int(part or 0) for part in clock.groups())
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text} is not a valid time of day")
    today = datetime.fromtimestamp(now, UTC if utc else None)
    at = today.replace(hour=hour, minute=minute, second=second, microsecond=0)
    days = [(at + timedelta(days=day)).timestamp() for day in (-1, 0, 1)]
    if span is not None:
        days = [day for day in days if span[0] <= day <= span[1]] or days
    return min(days, key=lambda day: abs(day - now))


def position(time: float, span: tuple[float, float]) -> str:
    """The position in a recording: `12:30 of 1:03:00`."""
    first, last = span
    return f"{_stopwatch(min(time, last) - first)} of {_stopwatch(last - first)}"


def _stopwatch(seconds: float) -> str:
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
