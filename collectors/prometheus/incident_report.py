"""The incidents of the last day, from the series of incidents in a Prometheus backend."""

from trntop.core.model import Incident, Severity
from trntop.core.settings import Fleet
from trntop.remote.summary import RemoteIncident, incident_of

from .address import Address
from .client import Client, Row, number
from .queries import probe

SECONDS = 86_400.0
STEP = 60.0
"""Seconds between two values of a series: an incident that is shorter may be missed."""
SAME = 300.0
"""Seconds by which the start of an incident may be corrected, and its series be interrupted."""


async def fetch(address: Address, fleet: Fleet) -> tuple[list[Incident], float]:
    """The incidents, open ones first, and the server's time.

    Raises:
        BackendError: it does not respond, or has no series of trntop.
    """
    client = Client(address, fleet)
    try:
        queries = await probe(client, address.match, client.now())
        now = client.now()
        rows = []
        if query := queries.incidents():
            rows = (await client.range(query, now - SECONDS, now, STEP)).series
    finally:
        await client.close()
    found = [incident for row in rows for incident in _incidents(row, now)]
    found.sort(key=lambda row: (not row.open, -(row.closed_at or row.opened_at)))
    return found, now


def _incidents(row: Row, now: float) -> list[Incident]:
    """The incidents of one series: its values are their starts."""
    labels = row.metric
    try:
        severity = Severity(labels.get("severity", ""))
    except ValueError:
        return []
    runs: list[tuple[float, float]] = []
    for time, text in row.values:
        opened = number(text)
        if runs and abs(opened - runs[-1][0]) <= SAME and time - runs[-1][1] <= SAME:
            runs[-1] = min(opened, runs[-1][0]), time
        elif opened == opened:
            runs.append((opened, time))
    found = []
    for opened, last in runs:
        remote = RemoteIncident(
            labels.get("kind", ""),
            severity,
            opened,
            labels.get("training_job") or None,
            labels.get("node") or None,
            labels.get("component") or None,
        )
        closed = None if last > now - 2 * STEP else last + STEP
        found.append(incident_of(remote, now, closed))
    return found
