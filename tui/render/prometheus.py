"""What there is to say of an engine behind the screen: how old its data are, and what it lacks."""

from trntop.core import units
from trntop.core.model import Severity, State

from ..view_model import ViewModel
from .context import RenderContext
from .line import Part, short

LONGEST = 60


def shown(view_model: ViewModel) -> str:
    """`200 worst of 31,250`, where not all nodes are shown; else empty."""
    whole, here = view_model.cluster.whole, len(view_model.cluster.nodes)
    if whole is None or whole.nodes <= here:
        return ""
    return f"{here} worst of {whole.nodes:,}" if whole.chosen else f"{here} of {whole.nodes:,}"


def partial(view_model: ViewModel) -> str:
    """`of the 200 nodes shown`, where sums over these are no sums over all; else empty."""
    return f"of the {len(view_model.cluster.nodes)} nodes shown" if shown(view_model) else ""


def groups(view_model: ViewModel, context: RenderContext) -> list[tuple[int, list[Part]]]:
    """For the header: why nothing new comes, who is not reached, the age of the newest sample."""
    whole, palette = view_model.cluster.whole, context.palette
    if whole is None:
        return []
    found: list[tuple[int, list[Part]]] = []
    if whole.problem:
        sign = context.glyphs.states[State.DOWN]
        found.append((92, [(short(f"{sign} engine: {whole.problem}", LONGEST), palette.warning)]))
    if whole.chosen and whole.down:
        sign = context.glyphs.states[State.DOWN]
        found.append((85, [(f"{sign} {whole.down:,} not scraped", palette.state(State.DOWN))]))
    if whole.newest is not None:
        age = units.age(max(0.0, view_model.view.time - whole.newest))
        style = palette.warning if whole.old else palette.faint
        found.append((89 if whole.old else 84, [(f"data {age} old", style)]))
    if whole.notes:
        more = f" +{len(whole.notes) - 1}" if len(whole.notes) > 1 else ""
        sign = context.glyphs.severities[Severity.WARNING]
        found.append((65, [(f"{sign} {short(whole.notes[0], LONGEST)}{more}", palette.warning)]))
    return found


def doubt(view_model: ViewModel) -> str:
    """Why it is no all-clear that no incident is told; empty where it is one."""
    whole = view_model.cluster.whole
    if whole is None:
        return ""
    if whole.problem and whole.newest is None:
        return f"engine: {whole.problem}"
    if whole.old and whole.newest is not None:
        age = units.age(max(0.0, view_model.view.time - whole.newest))
        return f"the engine's newest sample is {age} old: this is not the present"
    if whole.old:
        return "the engine has told nothing for a while: this is not the present"
    if not whole.judged:
        return "incidents are not judged: nobody tells the engine of any"
    return ""
