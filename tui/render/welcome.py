"""What stands on the screen when there is nothing to show."""

from textual.strip import Strip

from trntop.catalog import DEVICE_SOURCES, STEPS
from trntop.core.model import SourceState

from ..scene import Scene
from .incidents import wrap
from .line import Part, fit, line
from .pen import Pen

WIDEST = 92
"""Cells of the text; longer lines are hard to read."""


def _looked_for(scene: Scene | None) -> list[SourceState]:
    """The sources that would tell of a device or a job."""
    nodes = () if scene is None else scene.cluster.nodes.values()
    sources = [source for node in nodes for source in node.frame.sources]
    return [one for one in sources if one.name in DEVICE_SOURCES or one.name == STEPS]


def draw(scene: Scene | None, width: int, pen: Pen, *, demo: bool) -> list[Strip]:
    """What was looked for, what is missing, and the one key that shows trntop at work."""
    ink = pen.ink
    text = min(width - 4, WIDEST)
    rows: list[list[Part]] = [
        [],
        [("trntop", ink.key), ("  live monitoring of AWS Trainium clusters", ink.muted)],
        [],
        [("No Neuron or EFA device and no training job here yet.", ink.strong)],
        [],
    ]
    keys = [("d", "watch a simulated 16-node run")] if demo else []
    keys += [("1", "the dashboard all the same"), ("?", "how to read the screen"), ("q", "quit")]
    rows += [[(f"  {key}  ", ink.key), (what, ink.text)] for key, what in keys]
    rows += [
        [],
        [
            ("As soon as there is one, the dashboard appears. ", ink.faint),
            ("trntop doctor", ink.muted),
            (" looks closer.", ink.faint),
        ],
        [],
    ]
    # Last, because they may not all have room.
    for source in _looked_for(scene):
        sign = pen.glyphs.states[source.state]
        for index, part in enumerate(wrap(source.reason or source.state.value, text - 20)):
            lead = (f"  {sign} ", ink.state(source.state)) if not index else ("    ", ink.text)
            name = fit("" if index else source.name, 16)
            rows.append([lead, (name, ink.text), (part, ink.muted)])
    margin = " " * max(0, (width - text) // 2)
    return [line([(margin, ink.text), *row], width) for row in rows]
