"""Durations as people write them."""

import re

_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_PART = re.compile(rf"({_NUMBER})\s*(d|h|min|m|s)\s*", re.ASCII)
_DURATION = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_SECONDS = {"d": 86_400.0, "h": 3600.0, "min": 60.0, "m": 60.0, "s": 1.0}


def parse(text: str) -> float | None:
    """The seconds in `90`, `5m` or `1h30m`; None if it is not a duration."""
    text = text.strip().lower()
    if re.fullmatch(_NUMBER, text, re.ASCII):
        return float(text)
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
