"""Filters for incidents: `--since TIME` and `--rule KIND`."""

import re
import time
from argparse import Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from trntop.analysis.rulebook import RULEBOOK
from trntop.core import durations
from trntop.core.errors import UsageError
from trntop.core.model import Incident
from trntop.core.settings import Settings
from trntop.core.suggest import unknown
from trntop.core.text import clean

DAY = 86_400.0

_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")

Since = Callable[[float], float]
"""End of the data → start time."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A filter for incidents; by default, all pass."""

    since: Since | None = None
    kinds: tuple[str, ...] = ()

    def of(self, incidents: Iterable[Incident], end: float) -> tuple[Incident, ...]:
        """The matching incidents, by opening time.

        Args:
            incidents: all of them.
            end: unix seconds of the end of the stream.
        """
        start = None if self.since is None else self.since(end)
        return tuple(
            sorted(
                (
                    incident
                    for incident in incidents
                    if (not self.kinds or incident.kind in self.kinds)
                    and (start is None or incident.closed_at is None or incident.closed_at >= start)
                ),
                key=lambda incident: incident.opened_at,
            )
        )

    def phrase(self, end: float) -> str:
        """The filter in words; empty for all."""
        parts = []
        if self.since is not None:
            clock = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since(end)))
            parts.append(f"open at {clock} or later")
        if self.kinds:
            parts.append(f"of the kind {' or '.join(self.kinds)}")
        return ", ".join(parts)


def choice_of(args: Namespace, settings: Settings) -> Choice:
    """The filter of a command line.

    Raises:
        UsageError: the time or the rule is not valid.
    """
    kinds = dict.fromkeys(known_kind(kind, settings) for kind in args.kinds)
    return Choice(None if args.since is None else since(args.since), tuple(kinds))


def since(text: str) -> Since:
    """`14:03` (the last one before the end, UTC), ISO 8601 (UTC by default), `30m`, `1h30m`.

    Raises:
        UsageError: it is not valid.
    """
    if not text.isdecimal() and (seconds := durations.parse(text)) is not None:
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
    """The rule of this name, in any case.

    Raises:
        UsageError: there is none; suggests the closest.
    """
    kinds = [*(rule.kind for rule in RULEBOOK), *(own.name for own in settings.rules)]
    for known in kinds:
        if known.lower() == kind.lower():
            return known
    raise UsageError(unknown("rule", kind, kinds))
