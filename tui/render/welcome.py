"""What stands on the screen when there is nothing to show."""

from collections.abc import Sequence

from textual.strip import Strip

from trntop.collection import Finding
from trntop.model import State

from ..scene import Scene
from .incidents import wrap
from .line import Part, fit, line
from .pen import Pen

WIDEST = 92
"""Cells of the text; longer lines are hard to read."""


def draw(
    findings: Sequence[Finding], scene: Scene | None, width: int, pen: Pen, *, demo: bool
) -> list[Strip]:
    """What was looked for, what is missing, and the one key that shows trntop at work."""
    ink = pen.ink
    text = min(width - 4, WIDEST)
    rows: list[list[Part]] = [
        [],
        [("trntop", ink.key), ("  live monitoring of AWS Trainium clusters", ink.muted)],
        [],
        [("Nothing on this machine speaks yet.", ink.strong)],
        [],
    ]
    for finding in findings or _of_sources(scene):
        sign, style = (
            (pen.glyphs.states[State.FRESH], ink.ok)
            if finding.ok
            else (pen.glyphs.states[State.DOWN], ink.warning)
        )
        for index, part in enumerate(wrap(finding.found, text - 20)):
            lead = (f"{sign} ", style) if not index else ("  ", style)
            rows.append([lead, (fit("" if index else finding.source, 18), ink.text),
                         (part, ink.muted)])  # fmt: skip
        rows += [
            [(" " * 20, ink.text), (part, ink.accent)]
            for part in wrap(finding.remedy, text - 20)
            if part
        ]
    rows.append([])
    keys = [("d", "watch a simulated 16-node run")] if demo else []
    keys += [("?", "how to read the screen"), ("q", "quit")]
    rows += [[(f"  {key}  ", ink.key), (what, ink.text)] for key, what in keys]
    rows += [[], [("As soon as a source speaks, the dashboard appears.", ink.faint)]]
    margin = " " * max(0, (width - text) // 2)
    return [line([(margin, ink.text), *row], width) for row in rows]


def _of_sources(scene: Scene | None) -> list[Finding]:
    """What the sources say of themselves, where nobody looked around before."""
    if scene is None:
        return []
    return [
        Finding(source.name, False, source.reason or source.state.value)
        for node in scene.cluster.nodes.values()
        for source in node.frame.sources
    ]
