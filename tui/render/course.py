"""The course of an incident: what its quantities did before and since it began, as charts."""

import math
from dataclasses import replace

from textual.strip import Strip

from trntop.core.model import Evidence, Incident

from ..measures import COMM, STEP
from ..view_model import ViewModel
from . import moments, trends
from .context import RenderContext
from .trends import KEPT_OF, SECONDS, Trend

FARTHEST = 900.0
"""Seconds that are shown at most."""
LEAD = 60.0
"""Seconds before the beginning that are shown."""
STEPS = 60.0
"""A chart grows by so many seconds at once: each other scale is all of it drawn anew."""


def charts(view_model: ViewModel, incident: Incident, seconds: float) -> list[Trend]:
    """What its evidence is about, as far as it is kept, in its colour; then what the job had of
    it.
    """
    found: dict[str, Trend] = {}
    for one in incident.evidence:
        trend = _seen(view_model, incident, one, seconds)
        if trend is not None and trend.quantity not in found:
            found[trend.quantity] = replace(trend, severity=incident.severity)
    for quantity in (COMM, STEP):
        if quantity not in found and (trend := _of_job(view_model, incident, quantity, seconds)):
            found[quantity] = trend
    return [one for one in found.values() if trends.known(one)]


def _seen(view_model: ViewModel, incident: Incident, one: Evidence, seconds: float) -> Trend | None:
    """What a piece of evidence is about: a node, which is named where the incident does not name
    it, or the job.
    """
    quantity = one.quantity or ""
    if one.node is None:
        return _of_job(view_model, incident, quantity, seconds)
    trend = trends.of_node(view_model, one.node, KEPT_OF.get(quantity, ""), seconds)
    if trend is None or one.node == incident.node:
        return trend
    return replace(trend, title=f"{one.node}: {trend.title}")


def _of_job(
    view_model: ViewModel, incident: Incident, quantity: str, seconds: float
) -> Trend | None:
    if incident.job is None:
        return None
    trend = trends.of_job(view_model, incident.job, quantity, seconds)
    return trend and replace(trend, title=f"job: {trend.title}")


def span(view_model: ViewModel, incident: Incident) -> float | None:
    """Seconds up to the time shown in which it began, or as many as are shown; None where it was
    over before.
    """
    now = view_model.view.time
    if incident.closed_at is not None and now - incident.closed_at > FARTHEST:
        return None
    needed = now - incident.opened_at + LEAD
    return min(FARTHEST, max(SECONDS, STEPS * math.ceil(needed / STEPS)))


def draw(
    view_model: ViewModel, incident: Incident, width: int, height: int, context: RenderContext
) -> list[Strip]:
    """The charts with the beginning marked, as many as fit; nothing where nothing is kept."""
    seconds = span(view_model, incident)
    if seconds is None:
        return []
    marks = moments.of(view_model, (incident,), context)
    found = charts(view_model, incident, seconds)
    return trends.draw(found, view_model.view.time, width, height, context, marks, seconds)
