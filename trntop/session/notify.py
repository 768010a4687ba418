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
        self._notified: frozenset[str] = frozenset()
        """Incidents whose opening was posted, and whose end was not."""

    def __call__(self, view: View) -> list[Event]:
        """The events of a view; a reopened incident is posted again if its end was."""
        events: list[Event] = []
        notified: set[str] = set()
        for incident in view.incidents:
            known = incident.id in self._notified
            if incident.open and not known and incident.severity.rank >= self._least:
                events.append(Event("opened", incident))
                known = True
            elif not incident.open and known and self._closed:
                events.append(Event("closed", incident))
                known = False
            if known:
                notified.add(incident.id)
        self._notified = frozenset(notified)
        return events
