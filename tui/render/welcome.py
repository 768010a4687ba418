"""What stands on the screen when there is nothing to show."""

from textual.strip import Strip

from trntop.catalog import STEPS
from trntop.core.model import SourceState
from trntop.sources import DEVICE_SOURCES

from ..view_model import ViewModel
from .context import RenderContext
from .incidents import wrap
from .line import Part, fit, line

WIDEST = 92
"""Cells of the text; longer lines are hard to read."""


def _looked_for(view_model: ViewModel | None) -> list[SourceState]:
    """The sources that would tell of a device or a job."""
    nodes = () if view_model is None else view_model.cluster.nodes.values()
    sources = [source for node in nodes for source in node.frame.sources]
    return [one for one in sources if one.name in DEVICE_SOURCES or one.name == STEPS]


def draw(
    view_model: ViewModel | None, width: int, context: RenderContext, *, demo: bool
) -> list[Strip]:
    """What was looked for, what is missing, and the one key that shows trntop at work."""
    palette = context.palette
    text = min(width - 4, WIDEST)
    rows: list[list[Part]] = [
        [],
        [("trntop", palette.key), ("  live monitoring of AWS Trainium clusters", palette.muted)],
        [],
        [("No Neuron or EFA device and no training job here yet.", palette.strong)],
        [],
    ]
    keys = [("d", "watch a simulated 16-node run")] if demo else []
    keys += [("1", "the dashboard all the same"), ("?", "how to read the screen"), ("q", "quit")]
    rows += [[(f"  {key}  ", palette.key), (what, palette.text)] for key, what in keys]
    rows += [
        [],
        [
            ("As soon as there is one, the dashboard appears. ", palette.faint),
            ("trntop doctor", palette.muted),
            (" looks closer.", palette.faint),
        ],
        [],
    ]
    # Last, because they may not all have room.
    for source in _looked_for(view_model):
        sign = context.glyphs.states[source.state]
        for index, part in enumerate(wrap(source.reason or source.state.value, text - 20)):
            lead = (
                (f"  {sign} ", palette.state(source.state)) if not index else ("    ", palette.text)
            )
            name = fit("" if index else source.name, 16)
            rows.append([lead, (name, palette.text), (part, palette.muted)])
    margin = " " * max(0, (width - text) // 2)
    return [line([(margin, palette.text), *row], width) for row in rows]
