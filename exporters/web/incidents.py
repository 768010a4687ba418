"""The incidents of the last day: `/v1/incidents`, and messages for streams."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trntop.core.model import View
from trntop.session.incident_log import IncidentLog

from .. import document
from .readiness import why_not_ready

JSON = "application/json"
ABOUT = {"/v1/incidents": "the incidents of the last day, in JSON"}


class Incidents:
    """Serves a log.

    Args:
        log: the incidents.
        latest: returns the newest view, or None without one.
        aggregator: whether the nodes are other machines.
    """

    def __init__(
        self, log: IncidentLog, latest: Callable[[], View | None], *, aggregator: bool = False
    ) -> None:
        self._log = log
        self._latest = latest
        self._judge = "aggregator" if aggregator else "agent"

    @property
    def routes(self) -> list[Route]:
        return [Route("/v1/incidents", self._incidents)]

    @property
    def behind(self) -> float:
        """Seconds by which the program is behind; 0 if it keeps up."""
        return self._log.behind

    async def _incidents(self, _: Request) -> Response:
        view, log = self._latest(), self._log
        found = document.incident_report(
            log.incidents,
            judge=self._judge,
            nodes=0 if view is None else view.cluster.size,
            now=None if view is None else view.time,
            since=log.since,
            judged_from=None if view is None else view.judged_from,
            behind=log.behind,
            simulated=view is not None and view.cluster.simulated,
            problems=[why] if (why := why_not_ready(view)) else [],
        )
        return Response(document.encode(found), media_type=JSON)
