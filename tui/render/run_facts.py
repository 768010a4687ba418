"""Training progress in numbers: steps, loss, communication."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from textual.strip import Strip

from trntop.catalog import STEPS
from trntop.core import units
from trntop.core.model import State
from trntop.pipeline.jobs import job_mean

from ..measures import COMM, EXPOSED, LOG_STEP, TOKENS
from ..view_model import JobFigures, ViewModel
from .context import RenderContext
from .jobs import FOUND, NAME, NODES, PHASE, STEP_SECONDS, JobRow, figure, step_time
from .line import Part, beside, fit, length, line, wrap
from .table import Column

LABEL = 14
MIN_CELLS = 36
"""Minimum width of a block."""
GAP = 3


@dataclass(frozen=True, slots=True)
class Fact:
    """A label, a number, and how it is known or what would report it."""

    label: str
    number: list[Part]
    note: str = ""


def columns(_view_model: ViewModel) -> tuple[Column[JobRow], ...]:
    """Of the list of jobs."""
    return (
        NAME,
        NODES,
        PHASE,
        Column("number", "at step", 9, 50,
               figure(lambda row: row.figures.step, units.count, "job_step"), align="right"),
        STEP_SECONDS,
        Column("tokens", "tokens/s", 11, 90, _tokens, align="right"),
        Column("mfu", "MFU", 6, 70,
               figure(lambda row: row.figures.mfu, units.percent, "job_mfu_ratio"),
               unit="%", align="right"),
        Column("loss", "loss", 8, 65,
               figure(lambda row: row.figures.loss, units.loss, "job_loss"), align="right"),
        FOUND,
    )  # fmt: skip


def _tokens(row: JobRow, width: int, context: RenderContext) -> list[Part]:
    return context.number(units.si(row.figures.tokens_per_second), TOKENS, width)


def draw(
    view_model: ViewModel, job: JobFigures | None, width: int, _height: int, context: RenderContext
) -> Sequence[Strip]:
    """The blocks, side by side if there is room."""
    if width < 20:
        return ()
    facts = _Facts(view_model, job, context)
    blocks = {"steps": facts.steps(), "loss and communication": facts.learning()}
    per_row = max(n for n in (1, 2) if n == 1 or width + GAP >= n * (MIN_CELLS + GAP))
    cells = (width - GAP * (per_row - 1)) // per_row
    drawn = [(_block(title, found, cells, context), cells) for title, found in blocks.items()]
    return [
        strip.adjust_cell_length(width)
        for start in range(0, len(drawn), per_row)
        for strip in beside(drawn[start : start + per_row], GAP)
    ]


def _block(title: str, facts: Sequence[Fact], width: int, context: RenderContext) -> list[Strip]:
    palette = context.palette
    rows: list[list[Part]] = [[(title, palette.key)]]
    for fact in facts:
        parts = [(fit(fact.label, LABEL), palette.muted), *fact.number]
        rows.append(parts)
        if len(fact.note) <= width - length(parts) - 2:
            parts.append((f"  {fact.note}", palette.faint))
        else:
            lead = LABEL if width >= MIN_CELLS else 2
            rows += [[(" " * lead + t, palette.faint)] for t in wrap(fact.note, width - lead)]
    return [line(row, width) for row in rows]


class _Facts:
    """The facts of one job; of all nodes if no job reports."""

    def __init__(
        self, view_model: ViewModel, job: JobFigures | None, context: RenderContext
    ) -> None:
        self._view_model = view_model
        self._job = job
        self._context = context

    def _reported(
        self,
        label: str,
        value: float | None,
        form: Callable[[float | None], str],
        quantity: str,
        remedy: str,
    ) -> Fact:
        """A reported number, or why it is missing and what would report it."""
        note = ""
        if value is None:
            job = None if self._job is None else self._job.job
            note = _why_silent(self._view_model, job) or remedy
        return Fact(label, self._context.number(form(value), quantity), note)

    def steps(self) -> list[Fact]:
        job = self._job
        seconds, quantity = step_time(job) if job else (None, "job_step_seconds")
        remedy = "steps.step(), or collect.logs"
        time = self._reported("step time", seconds, units.seconds, quantity, remedy)
        if quantity == LOG_STEP:
            time = Fact(time.label, time.number, "interval of the log lines")
        return [
            self._reported("step", job.step if job else None, units.count, "job_step",
                           "steps.step(): docs/steps.md"),
            time,
            self._reported("tokens/s", job.tokens_per_second if job else None, units.si, TOKENS,
                           "steps.step(tokens=…)"),
            self._reported("MFU", job.mfu if job else None, units.percent, "job_mfu_ratio",
                           "step.report(mfu=…)"),
        ]  # fmt: skip

    def learning(self) -> list[Fact]:
        job, limits = self._job, self._view_model.limits
        norm = job_mean(self._view_model.cluster, job.job, "job_grad_norm") if job else None
        facts = [
            self._reported("loss", job.loss if job else None, units.loss, "job_loss",
                           "step.report(loss=…)"),
            self._reported("grad norm", norm, units.loss, "job_grad_norm",
                           "in a log: collect.logs"),
        ]  # fmt: skip
        for label, value, quantity, limit in (
            ("in comm", job.comm_share if job else None, COMM, limits.comm_share),
            ("exposed", job.exposed_share if job else None, EXPOSED, limits.exposed_comm_share),
        ):
            fact = self._reported(label, value, units.percent, quantity, "steps.collective()")
            if value is not None:
                text, style = fact.number[0]
                style = self._context.palette.warning if value > limit else style
                number = [(text, style), *fact.number[1:]]
                fact = Fact(label, number, f"limit {units.percent(limit)}")
            facts.append(fact)
        return facts


@lru_cache(maxsize=4)
def _why_silent(view_model: ViewModel, job: str | None) -> str:
    """Why a job, or any job, no longer reports; empty if none ever reported."""
    cluster = view_model.cluster
    for name in cluster.names if job is None else cluster.jobs.get(job, ()):
        for source in cluster.nodes[name].frame.sources:
            silent = source.time is not None and source.state in (State.STALE, State.DOWN)
            if source.name == STEPS and silent:
                return f"{source.name} {source.state.value}: {source.reason}".removesuffix(": ")
    return ""
