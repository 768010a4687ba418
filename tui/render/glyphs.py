"""The characters of graphs, states and severities."""

from dataclasses import dataclass

from trntop.core.model import Severity, State


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of characters; every one is a single cell wide."""

    name: str
    spark: str
    """From the lowest to the highest level of a one-line graph."""
    column: str
    """From an empty to a full cell of a graph of several lines."""
    full: str
    half: str
    """Half a cell of a bar; empty without one."""
    track: str
    limit: str
    cell: str
    """A cell of a map."""
    absent: str
    rule: str
    severities: dict[Severity, str]
    states: dict[State, str]
    calm: str
    live: str
    paused: str
    ended: str
    cursor: str
    up: str
    down: str


_SEVERITIES = {Severity.INFO: "◦", Severity.WARNING: "▲", Severity.CRITICAL: "●"}
_STATES = {
    State.STARTING: "…",
    State.FRESH: "✓",
    State.LATE: "◔",
    State.STALE: "◌",
    State.DOWN: "✕",
    State.NO_DATA: "✕",
    State.ENDED: "■",
}

BLOCK = Glyphs(
    name="block",
    spark="▁▂▃▄▅▆▇█",
    column=" ▁▂▃▄▅▆▇█",
    full="━",
    half="╸",
    track="─",
    limit="┃",
    cell="▆",
    absent="·",
    rule="─",
    severities=_SEVERITIES,
    states=_STATES,
    calm="✓",
    live="▶",
    paused="‖",
    ended="■",
    cursor="▸",
    up="▴",
    down="▾",
)

ASCII = Glyphs(
    name="ascii",
    spark="_.-=+*#@",
    column=" .:=#",
    full="=",
    half="",
    track="-",
    limit="|",
    cell="#",
    absent=".",
    rule="-",
    severities={Severity.INFO: "i", Severity.WARNING: "!", Severity.CRITICAL: "X"},
    states={
        State.STARTING: "?",
        State.FRESH: "+",
        State.LATE: "~",
        State.STALE: "o",
        State.DOWN: "x",
        State.NO_DATA: "x",
        State.ENDED: "=",
    },
    calm="+",
    live=">",
    paused='"',
    ended="=",
    cursor=">",
    up="^",
    down="v",
)

GLYPHS = {glyphs.name: glyphs for glyphs in (BLOCK, ASCII)}
"""By the name that the setting `screen.graph` uses."""
