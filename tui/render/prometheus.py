"""Of nodes that are not all shown: the age of the data of a Prometheus backend, what is missing."""

from trntop.core import units
from trntop.core.model import Severity, State

from ..view_model import ViewModel
from . import glyphs
from .context import RenderContext
from .line import Part, short

LONGEST = 60


def shown(view_model: ViewModel) -> str:
    """`200 worst of 31,250`, if not all nodes are shown; else empty."""
    whole, here = view_model.cluster.whole, len(view_model.cluster.nodes)
    if whole is None or whole.nodes <= here:
        return ""
    return f"{here} worst of {whole.nodes:,}" if whole.chosen else f"{here} of {whole.nodes:,}"


def partial(view_model: ViewModel) -> str:
    """`of the 200 nodes shown`, if totals do not include all nodes; else empty."""
    return f"of the {len(view_model.cluster.nodes)} nodes shown" if shown(view_model) else ""


def groups(view_model: ViewModel, context: RenderContext) -> list[tuple[int, list[Part]]]:
    """For the header: the problem, unreachable nodes, the age of the newest sample."""
    whole, palette = view_model.cluster.whole, context.palette
    if whole is None:
        return []
    found: list[tuple[int, list[Part]]] = []
    if whole.problem:
        sign = glyphs.STATES[State.DOWN]
        found.append(
            (92, [(short(f"{sign} Prometheus: {whole.problem}", LONGEST), palette.warning)])
        )
    if whole.chosen and whole.down:
        sign = glyphs.STATES[State.DOWN]
        why = "down" if view_model.cluster.judges else "not scraped"
        found.append((85, [(f"{sign} {whole.down:,} {why}", palette.state(State.DOWN))]))
    if whole.newest is not None:
        age = units.age(max(0.0, view_model.view.time - whole.newest))
        style = palette.warning if whole.old else palette.faint
        found.append((89 if whole.old else 84, [(f"data {age} old", style)]))
    if whole.notes:
        more = f" +{len(whole.notes) - 1}" if len(whole.notes) > 1 else ""
        sign = glyphs.SEVERITIES[Severity.WARNING]
        found.append((65, [(f"{sign} {short(whole.notes[0], LONGEST)}{more}", palette.warning)]))
    return found


def warning(view_model: ViewModel) -> str:
    """Why the absence of incidents does not mean healthy; empty if it does."""
    whole = view_model.cluster.whole
    if whole is None:
        return ""
    if whole.problem and whole.newest is None:
        return f"Prometheus: {whole.problem}"
    if whole.old and whole.newest is not None:
        age = units.age(max(0.0, view_model.view.time - whole.newest))
        return f"the newest sample in Prometheus is {age} old"
    if whole.old:
        return "no recent sample in Prometheus"
    if not whole.judged:
        return "incidents not evaluated: Prometheus has no incidents of an aggregator"
    return ""
