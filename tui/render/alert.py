"""The line that says what is wrong, or that nothing is."""

from functools import lru_cache

from rich.style import Style
from textual.strip import Strip

from trntop.core import units
from trntop.core.model import Severity, SourceState, State

from ..view_model import Mode, ViewModel
from . import prometheus
from .context import RenderContext
from .fleet import ORDER, is_missed
from .incidents import summary, wrap
from .line import Part, fit, flow, length, line

Silent = list[tuple[str, SourceState]]


@lru_cache(maxsize=1)
def _silent(view_model: ViewModel) -> tuple[Silent, Silent]:
    """Sources that do not speak: those that are missed, worst first, and optional ones that never
    spoke.
    """
    missed: Silent = []
    lacking: Silent = []
    for node in view_model.cluster.nodes.values():
        for source in node.frame.sources:
            if source.state is State.FRESH:  # nearly all are, and of many nodes there are thousands
                continue
            if is_missed(source):
                missed.append((node.name, source))
            elif source.time is None and (source.reason or source.state is State.DOWN):
                lacking.append((node.name, source))
    return sorted(missed, key=lambda found: ORDER.index(found[1].state)), lacking


def _trouble(silent: Silent, width: int, context: RenderContext) -> list[Strip]:
    """The first source that is missed, and how many others: no incident is no all-clear."""
    name, source = silent[0]
    others = len(silent) - 1
    more = f"  +{others} more source{'s' * (others > 1)} " if others else ""
    sign = f" {context.glyphs.states[source.state]} {source.state.value} "
    why = source.reason or "not heard"
    # Many a reason begins with who gives it.
    said = why if why.startswith(source.name) else f"{source.name}: {why}"
    lead: list[Part] = [(sign, context.palette.state(source.state))]
    return _sentence(
        lead, f"{name} {said}", context.palette.text, [(more, context.palette.muted)], width
    )


def _sentence(
    lead: list[Part], text: str, style: Style, end: list[Part], width: int
) -> list[Strip]:
    """`text` between `lead` and `end` in one line, or two where it needs them."""
    indent = length(lead)
    room = max(1, width - indent - length(end))
    top, *rest = wrap(text, room)
    rows = [line([*lead, (fit(top, room), style), *end], width)]
    if rest:
        # The culprit often comes last in the sentence: rather a second line than an ellipsis.
        below = fit(" ".join(rest), max(1, width - indent - 1))
        rows.append(line([(" " * indent, style), (below, style)], width))
    return rows


def draw(view_model: ViewModel, width: int, context: RenderContext) -> list[Strip]:
    """The worst open incident, since when, how many more, and the key that goes there.

    One line, or two where the sentence needs them.
    """
    palette, glyphs = context.palette, context.glyphs
    if view_model.mode is Mode.FAILED:
        return _sentence(
            [(" ", palette.critical)],
            f"collection stopped: {view_model.failure}",
            palette.critical,
            [],
            width,
        )
    if not view_model.incidents:
        past = len(view_model.view.incidents)
        groups: list[tuple[int, list[Part]]] = []
        missed, lacking = _silent(view_model)
        if reason := prometheus.doubt(view_model):
            groups.append(
                (90, [(f" {glyphs.severities[Severity.WARNING]} {reason}", palette.warning)])
            )
        elif view_model.mode is Mode.WAITING or view_model.starting == len(
            view_model.cluster.nodes
        ):
            groups.append((90, [(" waiting for the first reading", palette.muted)]))
        elif missed:
            return _trouble(missed, width, context)
        elif not view_model.has_data and view_model.cluster.nodes:
            reason = next(iter(view_model.cluster.nodes.values())).why_no_data
            blind = f" {units.ABSENT} incidents not evaluated: {reason}"
            groups.append((90, [(blind, palette.muted)]))
        else:
            word = "no incidents yet" if view_model.later else "no incidents"
            groups.append((90, [(f" {glyphs.calm} ", palette.ok), (word, palette.muted)]))
            if view_model.later:
                since = units.clock(
                    min(one.opened_at for one in view_model.later), utc=view_model.utc
                )
                began = "it began" if len(view_model.later) == 1 else "the first began"
                known = f"{len(view_model.later)} noticed later, {began} {since}"
                groups.append((80, [(known, palette.text)]))
            if view_model.starting:
                nodes = f"{view_model.starting:,} node{'s' * (view_model.starting != 1)}"
                groups.append((60, [(f"{nodes} not heard yet", palette.muted)]))
            if past:
                groups.append((50, [(f"{past} past", palette.faint)]))
            if lacking:
                names = ", ".join(dict.fromkeys(source.name for _, source in lacking))
                groups.append((30, [(f"without {names}", palette.faint)]))
            groups += [(40, [(note, palette.warning)]) for note in view_model.notes]
        return [flow(groups, width, ("  ", palette.faint))]
    first, others = view_model.incidents[0], len(view_model.incidents) - 1
    style = palette.severity(first.severity)
    end: list[Part] = []
    if others:
        end.append((f"  +{others} more", palette.muted))
    end += [("  g", palette.key), (" go there ", palette.muted)]
    lead: list[Part] = [
        (f" {glyphs.severities[first.severity]} {first.severity.value} ", style),
        (f"{units.clock(first.opened_at, utc=view_model.utc)}  ", palette.muted),
    ]
    if width < 100:
        lead = [(f" {glyphs.severities[first.severity]} ", style), lead[1]]
    text = palette.strong if first.severity is Severity.CRITICAL else palette.text
    return _sentence(lead, summary(first, view_model), text, end, width)
