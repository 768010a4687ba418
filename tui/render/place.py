"""What is known of a node as a machine: which it is, where it stands, what will befall it."""

from textual.strip import Strip

from trntop.core import units
from trntop.core.model import NodeView, Severity

from ..view_model import ViewModel
from .context import RenderContext
from .incidents import wrap
from .line import Part, length, line

LABEL = 10
_ROWS = (
    (
        "instance",
        ("instance_type", "instance_id", "instance_name", "instance_state", "state_reason",
         "lifecycle"),
    ),
    ("place", ("availability_zone", "availability_zone_id", "placement_group")),
    ("server", ("ultraserver_id",)),
    ("job", ("slurm_job", "slurm_state", "slurm_partition")),
    ("software", ("neuron_driver", "ami_id")),
)  # fmt: skip
"""Label → the facts of its line, in reading order."""
_AHEAD = (
    ("checks", "status_checks", "passed"),
    ("event", "scheduled_event", ""),
)
"""Label, fact, and the word that says that all is well."""
NAMED = {"neuron_driver": "driver ", "ami_id": "image "}
"""What stands before a fact that does not tell by itself what it is."""
OFFSET = "node_clock_offset_seconds"
CLOCK_OFF = 1.0
"""Seconds from which a clock is called wrong: a slow network makes it look behind by less."""


def draw(_view_model: ViewModel, node: NodeView, width: int, context: RenderContext) -> list[Strip]:
    """A line per subject of which anything is known."""
    palette, facts = context.palette, node.inventory.facts
    lines: list[Strip] = []
    for label, keys in _ROWS:
        known = [f"{NAMED.get(key, '')}{facts[key]}" for key in keys if facts.get(key)]
        lines += _row(label, " · ".join(known), [], width, context)
    for label, key, well in _AHEAD:
        if said := facts.get(key, ""):
            sign = [] if said == well else [_warning(context)]
            lines += _row(label, said, sign, width, context)
    if (offset := clock_offset(node)) is not None:
        off = abs(offset) >= CLOCK_OFF
        lines += _row("clock", clock(offset), [_warning(context)] if off else [], width, context)
    nothing = [line([("nothing is known of the instance", palette.muted)], width)]
    return lines or nothing


def clock_offset(node: NodeView) -> float | None:
    """Seconds that the node's clock is ahead; None where nobody can tell."""
    return node.frame.value(OFFSET)


def clock(offset: float) -> str:
    """`2.10 s ahead`."""
    if abs(offset) < 1e-3:
        return "with ours, within 1 ms"
    return f"{units.seconds(abs(offset))} {'ahead of' if offset > 0 else 'behind'} ours"


def _warning(context: RenderContext) -> Part:
    return f"{context.glyphs.severities[Severity.WARNING]} ", context.palette.warning


def _row(
    label: str, text: str, sign: list[Part], width: int, context: RenderContext
) -> list[Strip]:
    if not text:
        return []
    style = context.palette.warning if sign else context.palette.text
    indent = LABEL + length(sign)
    first, *rest = wrap(text, max(1, width - indent))
    lines = [line([(f"{label:<{LABEL}}", context.palette.muted), *sign, (first, style)], width)]
    return lines + [
        line([(" " * indent, context.palette.muted), (part, style)], width) for part in rest
    ]
