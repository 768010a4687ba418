"""The characters of graphs, states and severities; each is one cell wide."""

from trntop.core.model import Severity, State

SPARK = "▁▂▃▄▅▆▇█"
"""From the lowest to the highest level of a one-line graph."""
COLUMN = " ▁▂▃▄▅▆▇█"
"""From an empty to a full cell of a graph of several lines."""
FULL, HALF, TRACK, LIMIT = "━╸─┃"
"""A bar: a cell, half a cell, the rest, and the tick of the limit."""
CELL, ABSENT = "▆·"
"""Of a map."""
RULE = "─"
SEVERITIES = {Severity.INFO: "◦", Severity.WARNING: "▲", Severity.CRITICAL: "●"}
STATES = {
    State.STARTING: "…",
    State.FRESH: "✓",
    State.LATE: "◔",
    State.STALE: "◌",
    State.DOWN: "✕",
    State.NO_DATA: "✕",
    State.ENDED: "■",
}
CALM, LIVE, PAUSED, ENDED = "✓▶‖■"
CURSOR, UP, DOWN = "▸▴▾"
