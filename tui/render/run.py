"""What the run is busy with, and how much of it is communication, in words."""

from rich.style import Style

from trntop.core import units
from trntop.core.model import Frame, Phase, Stage

from .ink import Ink
from .line import Part
from .pen import Pen

FLOOR = "node_comm_share_floor_ratio"
CEILING = "node_comm_share_ceiling_ratio"


def style_of(stage: Stage, ink: Ink) -> Style:
    """Training and idling are calm; a stalled run needs a person."""
    if stage is Stage.STALLED:
        return ink.warning
    return ink.muted if stage in (Stage.TRAINING, Stage.IDLE) else ink.accent


def phase(found: Phase, pen: Pen, *, utc: bool) -> list[Part]:
    """`compiling d since 14:02:10 · 2 compilers, 12 modules in the cache`."""
    ink = pen.ink
    sign = units.mark(found.provenance)
    parts: list[Part] = [
        (found.stage.value, style_of(found.stage, ink)),
        (f" {sign}" if sign else "", ink.faint),
    ]
    if found.since is not None:
        parts.append((f" since {units.clock(found.since, utc=utc)}", ink.muted))
    if found.why:
        parts.append((f" · {found.why}", ink.muted))
    return parts


def comm_bounds(frame: Frame) -> str:
    """The estimated communication share of one node."""
    return units.share_bounds(*frame.comm_bounds)


def learning(loss: float | None, mfu: float | None, pen: Pen) -> list[tuple[int, list[Part]]]:
    """Loss and MFU, where a job tells them: groups for a line that may lack the room."""
    return [
        (rank, [(f"{label} ", pen.ink.muted), *pen.number(form(value), quantity)])
        for rank, label, value, form, quantity in (
            (45, "loss", loss, units.loss, "job_loss"),
            (40, "MFU", mfu, units.percent, "job_mfu_ratio"),
        )
        if value is not None
    ]
