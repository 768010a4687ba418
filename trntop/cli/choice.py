"""Which incidents somebody asks for: `--since TIME` and `--rule KIND`."""

import re
import time
from argparse import Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from trntop.analysis.rulebook import RULEBOOK
from trntop.core.errors import UsageError
from trntop.core.model import Incident
from trntop.core.settings import Settings
from trntop.core.suggest import unknown
from trntop.core.text import clean

DAY = 86_400.0

_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": DAY}
_PART = r"(\d{1,6}(?:\.\d{1,3})?)(s|min|m|h|d)"
_SPAN = re.compile(f"(?:{_PART}){{1,4}}")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")

Since = Callable[[float], float]
"""The end of what was seen → the time that is meant."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What is asked for; without anything, all incidents."""

    since: Since | None = None
    kinds: tuple[str, ...] = ()

    def of(self, incidents: Iterable[Incident], end: float) -> tuple[Incident, ...]:
        """Those that are meant, in the order in which they began.

        Args:
            incidents: all of them.
            end: unix seconds at which the stream ended.
        """
        start = None if self.since is None else self.since(end)
        return tuple(
            sorted(
                (
                    one
                    for one in incidents
                    if (not self.kinds or one.kind in self.kinds)
                    and (start is None or one.closed_at is None or one.closed_at >= start)
                ),
                key=lambda one: one.opened_at,
            )
        )

    def phrase(self, end: float) -> str:
        """What was asked for, in words; empty for all."""
        parts = []
        if self.since is not None:
            clock = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since(end)))
            parts.append(f"open at {clock} or later")
        if self.kinds:
            parts.append(f"of the kind {' or '.join(self.kinds)}")
        return ", ".join(parts)


def choice_of(args: Namespace, settings: Settings) -> Choice:
    """The choice that a command line states.

    Raises:
        UsageError: a time cannot be read, or there is no such rule.
    """
    kinds = dict.fromkeys(known_kind(kind, settings) for kind in args.kinds)
    return Choice(None if args.since is None else since(args.since), tuple(kinds))


def since(text: str) -> Since:
    """`14:03` (the last one before the end, UTC), ISO 8601 (UTC unless it says), `30m`, `1h30m`.

    Raises:
        UsageError: it is none of these.
    """
    if _SPAN.fullmatch(text):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text))
        return lambda end: end - seconds
    if clock := _CLOCK.fullmatch(text.removesuffix("Z")):
        hours, minutes, rest = (int(part or 0) for part in clock.groups())
        of_day = 3600.0 * hours + 60.0 * minutes + rest

        def last(end: float) -> float:
            midnight = end - end % DAY
            return midnight + of_day if midnight + of_day <= end else midnight + of_day - DAY

        return last
    try:
        moment = datetime.fromisoformat(text)
        stated = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            f"{clean(text, 40)} is not a valid time; use 14:03 (UTC), 2026-11-20T14:03Z, 30m or 2h"
        ) from None
    return lambda end: stated


def known_kind(kind: str, settings: Settings) -> str:
    """`kind`, if there is a rule of that name.

    Raises:
        UsageError: there is none; says which one may be meant.
    """
    kinds = [*(rule.kind for rule in RULEBOOK), *(own.name for own in settings.rules)]
    for known in kinds:
        if known.lower() == kind.lower():
            return known
    raise UsageError(unknown("rule", kind, kinds))
