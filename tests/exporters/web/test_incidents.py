"""`/v1/incidents`: the day of an exporter."""

import dataclasses

from tests.builders import make_view
from tests.serving import serving
from trntop.core.model import Coverage, Incident, Severity, View
from trntop.exporters import document
from trntop.exporters.metrics.pages import Exposition
from trntop.exporters.web.incidents import Incidents
from trntop.exporters.web.server import build_app
from trntop.session.incident_log import IncidentLog

OPEN = Incident("a", "hang", Severity.CRITICAL, "job stalled", 1.0, subjects=(("job", None),))


async def day(view: View | None, log: IncidentLog) -> dict[str, object]:
    incidents = Incidents(log, lambda: view, aggregator=True)
    app = build_app(lambda: view, Exposition(20_000), incidents=incidents)
    async with serving(app) as (client, _):
        response = await client.get("/v1/incidents")
    assert response.status_code == 200
    found: dict[str, object] = response.json()
    return found


async def test_the_day_has_the_members_of_a_report() -> None:
    log, view = IncidentLog(1.0), make_view(2)
    view = dataclasses.replace(view, coverage=Coverage(view.time - 30, view.time - 10))
    over = dataclasses.replace(OPEN, id="b", closed_at=view.time - 60)
    log(dataclasses.replace(view, incidents=(OPEN, over), lag=4.0))
    # The analyzer no longer has the closed one.
    view = dataclasses.replace(view, incidents=(OPEN,), time=view.time + 1)
    log(view)
    assert await day(view, log) == {
        "schema": 1, "judge": "aggregator", "time": view.time, "since": view.time - 1,
        "judged_from": view.time - 11, "behind_seconds": 4, "simulated": view.cluster.simulated,
        "nodes": 2, "problems": [],
        "incidents": [document.incident(OPEN), document.incident(over)],
    }  # fmt: skip


async def test_a_program_that_does_not_collect_is_reported() -> None:
    found = await day(None, IncidentLog(1.0))
    assert found["incidents"] == []
    assert found["problems"] == ["not collecting"]
