"""Phase, communication and progress of a job as text."""

from collections.abc import Callable

from rich.style import Style

from trntop.core import units
from trntop.core.model import Frame, Phase, Stage

from .context import RenderContext
from .line import Part, fit
from .palette import Palette

FLOOR = "node_comm_share_floor_ratio"
CEILING = "node_comm_share_ceiling_ratio"


def style_of(stage: Stage, palette: Palette) -> Style:
    """Only a stalled job needs attention."""
    if stage is Stage.STALLED:
        return palette.warning
    return palette.muted if stage.productive or stage is Stage.IDLE else palette.accent


def stage_cell(stage: Stage | None, width: int, context: RenderContext) -> list[Part]:
    """A stage in a cell of a table."""
    if stage is None:
        return [(fit(units.ABSENT, width), context.palette.faint)]
    return [(fit(stage.value, width), style_of(stage, context.palette))]


def phase(found: Phase, context: RenderContext, *, utc: bool) -> list[Part]:
    """`compiling d since 14:02:10 · 2 compilers, 12 modules in the cache`."""
    palette = context.palette
    sign = units.mark(found.provenance)
    parts: list[Part] = [
        (found.stage.value, style_of(found.stage, palette)),
        (f" {sign}" if sign else "", palette.faint),
    ]
    if found.since is not None:
        parts.append((f" since {units.clock(found.since, utc=utc)}", palette.muted))
    if found.why:
        parts.append((f" · {found.why}", palette.muted))
    return parts


def hbm_floor(frame: Frame) -> str:
    """The estimated HBM bandwidth in percent, without its unit."""
    return units.share_bounds(frame.value("node_hbm_bandwidth_floor_ratio"), None)


def comm_bounds(frame: Frame) -> str:
    """The estimated communication share of one node."""
    return units.share_bounds(*frame.comm_bounds)


def progress(
    value: Callable[[str], float | None], context: RenderContext
) -> list[tuple[int, list[Part]]]:
    """Loss and MFU if reported, as groups for `flow`."""
    return [
        (rank, [(f"{label} ", context.palette.muted), *context.number(form(number), quantity)])
        for rank, label, form, quantity in (
            (45, "loss", units.loss, "job_loss"),
            (40, "MFU", units.percent, "job_mfu_ratio"),
        )
        if (number := value(quantity)) is not None
    ]
