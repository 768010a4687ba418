"""The quantities of an incident before and after its start, as charts."""

import math
from dataclasses import replace

from textual.strip import Strip

from trntop.core.model import Evidence, Incident

from ..measures import COMM, STEP
from ..view_model import ViewModel
from . import marks, trends
from .context import RenderContext
from .trends import HISTORY_OF, SECONDS, Trend

MAX_SECONDS = 900.0
"""Maximum time span of the charts."""
LEAD = 60.0
"""Seconds shown before the start."""
GROWTH = 60.0
"""The time span grows in these steps, because each change redraws the whole chart."""


def charts(view_model: ViewModel, incident: Incident, seconds: float) -> list[Trend]:
    """Charts of the evidence in the color of the incident, then of its job, if they have values."""
    found: dict[str, Trend] = {}
    for evidence in incident.evidence:
        trend = _of_evidence(view_model, incident, evidence, seconds)
        if trend is not None and trend.quantity not in found:
            found[trend.quantity] = replace(trend, severity=incident.severity)
    for quantity in (COMM, STEP):
        if quantity not in found and (trend := _of_job(view_model, incident, quantity, seconds)):
            found[quantity] = trend
    return [trend for trend in found.values() if trend.known]


def _of_evidence(
    view_model: ViewModel, incident: Incident, evidence: Evidence, seconds: float
) -> Trend | None:
    """The chart of a node, titled with it unless it is the node of the incident; or of the job."""
    quantity = evidence.quantity or ""
    if evidence.node is None:
        return _of_job(view_model, incident, quantity, seconds)
    trend = trends.of_node(view_model, evidence.node, HISTORY_OF.get(quantity, ""), seconds)
    if trend is None or evidence.node == incident.node:
        return trend
    return replace(trend, title=f"{evidence.node}: {trend.title}")


def _of_job(
    view_model: ViewModel, incident: Incident, quantity: str, seconds: float
) -> Trend | None:
    if incident.job is None:
        return None
    trend = trends.of_job(view_model, incident.job, quantity, seconds)
    return trend and replace(trend, title=f"job: {trend.title}")


def span(view_model: ViewModel, incident: Incident) -> float | None:
    """Time span that includes the start, up to the maximum; None if the incident ended before."""
    now = view_model.view.time
    if incident.closed_at is not None and now - incident.closed_at > MAX_SECONDS:
        return None
    needed = now - incident.opened_at + LEAD
    return min(MAX_SECONDS, max(SECONDS, GROWTH * math.ceil(needed / GROWTH)))


def draw(
    view_model: ViewModel, incident: Incident, width: int, height: int, context: RenderContext
) -> list[Strip]:
    """As many charts as fit, with the time of the incident marked."""
    seconds = span(view_model, incident)
    if seconds is None:
        return []
    now = view_model.view.time
    end = now if incident.closed_at is None else min(now, incident.closed_at)
    (start,) = marks.of_incidents((incident,), context)
    found = charts(view_model, incident, seconds)
    return trends.draw(found, now, width, height, context, [replace(start, end=end)], seconds)
