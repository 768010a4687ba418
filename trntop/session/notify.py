"""Tells of incidents as they open and close: what to tell, once each."""

from dataclasses import dataclass
from typing import Literal

from trntop.core.model import Incident, Severity, View
from trntop.core.settings import Notify


@dataclass(frozen=True, slots=True)
class Event:
    """An incident that opened or closed."""

    what: Literal["opened", "closed"]
    incident: Incident


class Changes:
    """What there is to tell of one view after the other: each incident once."""

    def __init__(self, settings: Notify) -> None:
        self._least = Severity(settings.severity).rank
        self._closed = settings.closed
        self._told: frozenset[str] = frozenset()
        """Incidents that were told to have opened, and not told to have closed."""

    def __call__(self, view: View) -> list[Event]:
        """The events of a view; one that closes and comes back is told again if its end was."""
        events: list[Event] = []
        told: set[str] = set()
        for incident in view.incidents:
            known = incident.id in self._told
            if incident.open and not known and incident.severity.rank >= self._least:
                events.append(Event("opened", incident))
                known = True
            elif not incident.open and known and self._closed:
                events.append(Event("closed", incident))
                known = False
            if known:
                told.add(incident.id)
        self._told = frozenset(told)
        return events
