"""When the terminal's bell rings."""

from trntop.core.model import Severity, View
from trntop.core.settings import Notify


class Bell:
    """Reports each incident once, as it opens or reaches the minimum severity."""

    def __init__(self, settings: Notify) -> None:
        self._enabled = settings.bell
        self._least = Severity(settings.severity).rank
        self._known: frozenset[str] = frozenset()
        """Ids of the open incidents that it rang for."""

    def rings(self, view: View) -> bool:
        """Whether a view has an incident to ring for."""
        open_ids = {incident.id for incident in view.open_incidents}
        severe = {
            incident.id for incident in view.open_incidents if incident.severity.rank >= self._least
        }
        new = severe - self._known
        self._known = frozenset(open_ids & (self._known | severe))
        return self._enabled and bool(new)
