"""The instance of a node: identity, location, software, scheduled events."""

from textual.strip import Strip

from trntop.core import units
from trntop.core.model import NodeView, Severity

from ..view_model import ViewModel
from . import glyphs
from .context import RenderContext
from .line import Part, wrapped

LABEL = 13
_ROWS = (
    (
        "instance",
        ("instance_type", "instance_id", "instance_name", "instance_state", "state_reason",
         "lifecycle"),
    ),
    ("location", ("availability_zone", "availability_zone_id", "placement_group")),
    ("server", ("ultraserver_id",)),
    ("job", ("slurm_job", "slurm_state", "slurm_partition")),
    ("software", ("neuron_driver", "ami_id")),
)  # fmt: skip
"""Label → the facts of its line, in reading order."""
_WARNINGS = (
    ("checks", "status_checks", "passed"),
    ("event", "scheduled_event", ""),
    ("HyperPod", "hyperpod_health", "Schedulable"),
    ("deep check", "hyperpod_deep_check", "Passed"),
    ("fault", "hyperpod_fault", ""),
)
"""Label, fact, and the value that is no warning."""
_PREFIXES = {"neuron_driver": "driver ", "ami_id": "image "}
CLOCK_OFFSET = "node_clock_offset_seconds"
MAX_OFFSET = 1.0
"""Seconds above which the clock is called wrong: a slow network causes less."""


def draw(_view_model: ViewModel, node: NodeView, width: int, context: RenderContext) -> list[Strip]:
    """A line per subject with known facts."""
    facts = node.inventory.facts
    lines: list[Strip] = []

    def row(label: str, text: str, *, warning: bool = False) -> None:
        palette = context.palette
        lead: list[Part] = [(f"{label:<{LABEL}}", palette.muted)]
        if warning:
            lead.append((f"{glyphs.SEVERITIES[Severity.WARNING]} ", palette.warning))
        style = palette.warning if warning else palette.text
        lines.extend(wrapped(text, width, style, lead))

    for label, keys in _ROWS:
        known = [f"{_PREFIXES.get(key, '')}{facts[key]}" for key in keys if facts.get(key)]
        if known:
            row(label, " · ".join(known))
    for label, key, good in _WARNINGS:
        if value := facts.get(key, ""):
            row(label, value, warning=value != good)
    if (offset := node.frame.value(CLOCK_OFFSET)) is not None:
        row("clock", clock(offset), warning=abs(offset) >= MAX_OFFSET)
    return lines or wrapped("no instance data", width, context.palette.muted)


def clock(offset: float) -> str:
    """`2.10 s ahead of this machine`."""
    if abs(offset) < 1e-3:
        return "same as this machine, within 1 ms"
    direction = "ahead of" if offset > 0 else "behind"
    return f"{units.seconds(abs(offset))} {direction} this machine"
