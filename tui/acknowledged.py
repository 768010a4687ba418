"""The incidents that a user has acknowledged."""

from collections.abc import Iterable, Mapping
from typing import Any

from trntop.core.model import Incident


class Acknowledged:
    """Remembers when each was acknowledged, until it changes."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[tuple[Any, ...], float]] = {}

    def toggle(self, incident: Incident, now: float) -> bool:
        """Whether it is acknowledged afterwards."""
        if self.times([incident]):
            del self._found[incident.id]
            return False
        self._found[incident.id] = _state(incident), now
        return True

    def times(self, incidents: Iterable[Incident]) -> Mapping[str, float]:
        """Id → unix seconds of the acknowledgment of those that have not changed since."""
        known = ((incident, self._found.get(incident.id)) for incident in incidents)
        return {
            incident.id: found[1]
            for incident, found in known
            if found is not None and found[0] == _state(incident)
        }


def _state(incident: Incident) -> tuple[Any, ...]:
    """What a user must see again if it differs."""
    return incident.severity, incident.node, incident.component, incident.returns
