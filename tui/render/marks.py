"""Marks on time axes: the starts of incidents."""

from collections.abc import Iterable

from trntop.core.model import Incident

from ..view_model import ViewModel
from . import glyphs
from .axes import Mark
from .context import RenderContext
from .jobs import explains_comm


def of_incidents(incidents: Iterable[Incident], context: RenderContext) -> list[Mark]:
    """The starts of incidents, worst first; closed ones are gray."""
    return [
        Mark(
            incident.opened_at,
            glyphs.UP,
            context.palette.severity(incident.severity) if incident.open else context.palette.muted,
        )
        for incident in reversed(list(incidents))
    ]


def of_node(view_model: ViewModel, node: str, context: RenderContext) -> list[Mark]:
    return of_incidents((i for i in view_model.view.incidents if i.node == node), context)


def of_job(view_model: ViewModel, job: str, context: RenderContext) -> list[Mark]:
    """The incidents that explain the communication of `job`; "" is any job."""
    found = (i for i in view_model.view.incidents if explains_comm(view_model, i, job))
    return of_incidents(found, context)
