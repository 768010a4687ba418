"""The welcome screen: no data, and how to continue."""

from textual.strip import Strip

from trntop.catalog import STEPS
from trntop.core.model import SourceState
from trntop.sources import DEVICE_SOURCES

from ..view_model import ViewModel
from .context import RenderContext
from .line import Part, fit, line, wrap

WIDEST = 92
"""Longer lines are hard to read."""


def _sources(view_model: ViewModel | None) -> list[SourceState]:
    """The sources of devices and jobs."""
    nodes = () if view_model is None else view_model.cluster.nodes.values()
    sources = [source for node in nodes for source in node.frame.sources]
    return [s for s in sources if s.name in DEVICE_SOURCES or s.name == STEPS]


def draw(
    view_model: ViewModel | None, width: int, context: RenderContext, *, demo: bool
) -> list[Strip]:
    """The missing sources, and the keys that lead on."""
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
    keys += [("1", "open the dashboard anyway"), ("?", "how to read the screen"), ("q", "quit")]
    rows += [[(f"  {key}  ", palette.key), (what, palette.text)] for key, what in keys]
    rows += [
        [],
        [
            ("The dashboard opens as soon as there is data. ", palette.faint),
            ("trntop doctor", palette.muted),
            (" lists the sources and what they need.", palette.faint),
        ],
        [],
    ]
    for source in _sources(view_model):
        sign = context.glyphs.states[source.state]
        for index, part in enumerate(wrap(source.reason or source.state.value, text - 20)):
            lead = (
                (f"  {sign} ", palette.state(source.state)) if not index else ("    ", palette.text)
            )
            name = fit("" if index else source.name, 16)
            rows.append([lead, (name, palette.text), (part, palette.muted)])
    margin = " " * max(0, (width - text) // 2)
    return [line([(margin, palette.text), *row], width) for row in rows]
