"""The line that says what is wrong, or that nothing is."""

from functools import lru_cache

from rich.style import Style
from textual.strip import Strip

from trntop.core import units
from trntop.core.model import Severity, SourceState, State

from ..scene import Mode, Scene
from . import engine
from .fleet import ORDER, is_missed
from .incidents import summary, wrap
from .line import Part, fit, flow, length, line
from .pen import Pen

Silent = list[tuple[str, SourceState]]


@lru_cache(maxsize=1)
def _silent(scene: Scene) -> tuple[Silent, Silent]:
    """Sources that do not speak: those that are missed, worst first, and optional ones that never
    spoke.
    """
    missed: Silent = []
    lacking: Silent = []
    for node in scene.cluster.nodes.values():
        for source in node.frame.sources:
            if source.state is State.FRESH:  # nearly all are, and of many nodes there are thousands
                continue
            if is_missed(source):
                missed.append((node.name, source))
            elif source.time is None and (source.reason or source.state is State.DOWN):
                lacking.append((node.name, source))
    return sorted(missed, key=lambda found: ORDER.index(found[1].state)), lacking


def _trouble(silent: Silent, width: int, pen: Pen) -> list[Strip]:
    """The first source that is missed, and how many others: no incident is no all-clear."""
    name, source = silent[0]
    others = len(silent) - 1
    more = f"  +{others} more source{'s' * (others > 1)} " if others else ""
    sign = f" {pen.glyphs.states[source.state]} {source.state.value} "
    why = source.reason or "not heard"
    # Many a reason begins with who gives it.
    said = why if why.startswith(source.name) else f"{source.name}: {why}"
    lead: list[Part] = [(sign, pen.ink.state(source.state))]
    return _sentence(lead, f"{name} {said}", pen.ink.text, [(more, pen.ink.muted)], width)


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


def draw(scene: Scene, width: int, pen: Pen) -> list[Strip]:
    """The worst open incident, since when, how many more, and the key that goes there.

    One line, or two where the sentence needs them.
    """
    ink, glyphs = pen.ink, pen.glyphs
    if scene.mode is Mode.FAILED:
        return _sentence(
            [(" ", ink.critical)], f"collection stopped: {scene.failure}", ink.critical, [], width
        )
    if not scene.incidents:
        past = len(scene.view.incidents)
        groups: list[tuple[int, list[Part]]] = []
        missed, lacking = _silent(scene)
        if reason := engine.doubt(scene):
            groups.append((90, [(f" {glyphs.severities[Severity.WARNING]} {reason}", ink.warning)]))
        elif scene.mode is Mode.WAITING or scene.starting == len(scene.cluster.nodes):
            groups.append((90, [(" waiting for the first reading", ink.muted)]))
        elif missed:
            return _trouble(missed, width, pen)
        elif not scene.has_data and scene.cluster.nodes:
            reason = next(iter(scene.cluster.nodes.values())).why_no_data
            blind = f" {units.ABSENT} incidents not evaluated: {reason}"
            groups.append((90, [(blind, ink.muted)]))
        else:
            word = "no incidents yet" if scene.later else "no incidents"
            groups.append((90, [(f" {glyphs.calm} ", ink.ok), (word, ink.muted)]))
            if scene.later:
                since = units.clock(min(one.opened_at for one in scene.later), utc=scene.utc)
                began = "it began" if len(scene.later) == 1 else "the first began"
                known = f"{len(scene.later)} noticed later, {began} {since}"
                groups.append((80, [(known, ink.text)]))
            if scene.starting:
                nodes = f"{scene.starting:,} node{'s' * (scene.starting != 1)}"
                groups.append((60, [(f"{nodes} not heard yet", ink.muted)]))
            if past:
                groups.append((50, [(f"{past} past", ink.faint)]))
            if lacking:
                names = ", ".join(dict.fromkeys(source.name for _, source in lacking))
                groups.append((30, [(f"without {names}", ink.faint)]))
            groups += [(40, [(note, ink.warning)]) for note in scene.notes]
        return [flow(groups, width, ("  ", ink.faint))]
    first, others = scene.incidents[0], len(scene.incidents) - 1
    style = ink.severity(first.severity)
    end: list[Part] = []
    if others:
        end.append((f"  +{others} more", ink.muted))
    end += [("  g", ink.key), (" go there ", ink.muted)]
    lead: list[Part] = [
        (f" {glyphs.severities[first.severity]} {first.severity.value} ", style),
        (f"{units.clock(first.opened_at, utc=scene.utc)}  ", ink.muted),
    ]
    if width < 100:
        lead = [(f" {glyphs.severities[first.severity]} ", style), lead[1]]
    text = ink.strong if first.severity is Severity.CRITICAL else ink.text
    return _sentence(lead, summary(first, scene), text, end, width)
