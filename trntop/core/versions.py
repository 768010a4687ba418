"""Versions of drivers: `2.30.2.0`, `2.17.3g`."""

import re

_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9})*")


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, to be compared; none when there are none."""
    found = _NUMBERS.match(version)
    return tuple(map(int, found[0].split("."))) if found else ()
