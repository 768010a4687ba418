"""How a run gets on, in numbers: pace, learning, pauses and what it costs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from textual.strip import Strip

from trntop.catalog import STEPS, Entity, Provenance
from trntop.core import units
from trntop.core.model import Stage, State
from trntop.pipeline.jobs import job_mean

from ..measures import COMM, EXPOSED, PACE, STEP
from ..view_model import JobFigures, ViewModel
from . import phases
from .context import RenderContext
from .incidents import wrap
from .jobs import FOUND, NAME, NODES, PHASE, STEP_SECONDS, JobRow, figure
from .line import Part, beside, fit, length, line
from .phases import Span
from .table import Column

TOKENS = "job_tokens_per_second"
PER_DEVICE = "job_tokens_per_second_per_device"
LABEL = 14
"""Cells of a fact's label."""
LEAST = 36
"""Least cells of a block of facts."""
GAP = 3


@dataclass(frozen=True, slots=True)
class Fact:
    """One line: what it is, how much, and how that is known or what would tell it."""

    label: str
    number: list[Part]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """Facts that belong together."""

    title: str
    facts: tuple[Fact, ...]


def dollars(amount: float | None) -> str:
    """US dollars to three figures: `$0.42`, `$1,540`."""
    if amount is None:
        return units.ABSENT
    if amount >= 99.95:
        return f"${amount:,.0f}"
    if amount >= 0.9995 or amount == 0:
        return f"${amount:.2f}"
    return f"${amount:.3f}" if amount >= 0.0995 else f"${amount:.3g}"


def staffed(view_model: ViewModel, job: str) -> int | None:
    """How many nodes a job has: those whose ranks report, for a log is followed on one of them.

    None where only a log tells of it and it is not the only job.
    """
    cluster = view_model.cluster
    if job_mean(cluster, job, "job_ranks") is not None:
        return len(cluster.jobs[job])
    return len(cluster.nodes) if len(cluster.jobs) < 2 else None


def per_million(nodes: int | None, rate: float | None, price: float) -> float | None:
    """US dollars for a million tokens; None where one of the three is not known.

    Args:
        nodes: of the job.
        rate: tokens per second of the whole job.
        price: of one node and hour in US dollars; 0 where it is not known.
    """
    if not price or not rate or nodes is None:
        return None
    return nodes * price / 3600 / rate * 1e6


def columns(view_model: ViewModel, price: float) -> tuple[Column[JobRow], ...]:
    """Of the jobs, where there are several."""
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
        Column("cost", "$ per M tokens", 15, 45, _cost(view_model, price), align="right"),
        FOUND,
    )  # fmt: skip


def _tokens(row: JobRow, width: int, context: RenderContext) -> list[Part]:
    return context.number(units.si(row.figures.tokens_per_second), TOKENS, width)


def _cost(
    view_model: ViewModel, price: float
) -> Callable[[JobRow, int, RenderContext], Sequence[Part]]:
    def draw(row: JobRow, width: int, context: RenderContext) -> list[Part]:
        one = row.figures
        cost = per_million(staffed(view_model, one.job), one.tokens_per_second, price)
        return _derived(dollars(cost), context, width)

    return draw


def _derived(text: str, context: RenderContext, width: int = 0) -> list[Part]:
    return _marked(text, Provenance.DERIVED, context, width)


def _marked(
    text: str, provenance: Provenance, context: RenderContext, width: int = 0
) -> list[Part]:
    """A number that is no quantity of the catalog, with the mark of what it is."""
    if text == units.ABSENT:
        return context.number(text, "", width)
    sign = units.mark(provenance)
    if width:
        return [
            (fit(text, width - 1, "right"), context.palette.text),
            (sign, context.palette.faint),
        ]
    return [
        (text, context.palette.text),
        (f" {sign}" if " " in text else sign, context.palette.faint),
    ]


def draw(
    view_model: ViewModel,
    job: JobFigures | None,
    width: int,
    _height: int,
    context: RenderContext,
    *,
    price: float,
) -> Sequence[Strip]:
    """All blocks, side by side as far as there is room.

    Args:
        view_model: the tick.
        job: the run; None where no job reports.
        width: cells.
        _height: all lines are given, however high the area is.
        context: what to draw with.
        price: of one node and hour in US dollars; 0 where it is not known.
    """
    if width < 20:
        return ()
    found = phases.spans(*phases.stages(view_model, job.job if job else ""))
    blocks = [
        _pace(view_model, job, context),
        _learning(view_model, job, context),
        _pauses(view_model, found, context),
        _costs(view_model, job, found, price, context),
    ]
    per_row = max(
        count for count in (1, 2, 4) if count == 1 or width + GAP >= count * (LEAST + GAP)
    )
    cells = (width - GAP * (per_row - 1)) // per_row
    lines: list[Strip] = []
    for start in range(0, len(blocks), per_row):
        side = [(_block(one, cells, context), cells) for one in blocks[start : start + per_row]]
        lines += [strip.adjust_cell_length(width) for strip in beside(side, GAP)]
    return lines


def _block(block: Block, width: int, context: RenderContext) -> list[Strip]:
    rows: list[list[Part]] = [[(block.title, context.palette.key)]]
    for fact in block.facts:
        parts = [(fit(fact.label, LABEL if fact.label else 0), context.palette.muted), *fact.number]
        rows.append(parts)
        room = width - length(parts) - 2
        if len(fact.note) <= room:
            parts.append((f"  {fact.note}", context.palette.faint))
        else:
            lead = LABEL if width >= LEAST else 2
            texts = wrap(fact.note, width - lead)
            rows += [[(" " * lead + text, context.palette.faint)] for text in texts]
    return [line(row, width) for row in rows]


def _change(view_model: ViewModel, job: JobFigures, quantity: str, value: float | None) -> str:
    """`+3.1 % since 14:03:12`, where a baseline is marked and the number was known then.

    Shares are told in points.
    """
    if view_model.baseline is None or value is None:
        return ""
    then = job_mean(view_model.baseline.cluster, job.job, quantity)
    if not then:
        return ""
    since = units.clock(view_model.baseline.time, utc=view_model.utc)
    if quantity.endswith("_ratio"):
        return f"{100 * (value - then):+.1f} points since {since}"
    return f"{100 * (value / then - 1):+.1f} % since {since}"


def _reported(
    view_model: ViewModel,
    job: JobFigures | None,
    label: str,
    value: float | None,
    form: Callable[[float | None], str],
    quantity: str,
    remedy: str,
    context: RenderContext,
) -> Fact:
    """A number of the training process, its change since the baseline, or what would tell it."""
    known = job is not None and value is not None
    note = (
        _change(view_model, job, quantity, value)
        if known and job
        else _lacking(view_model, job, remedy)
    )
    return Fact(label, context.number(form(value), quantity), note)


def _pace(view_model: ViewModel, job: JobFigures | None, context: RenderContext) -> Block:
    told = partial(_reported, view_model, job, context=context)
    step, rate, mfu = (job.step, job.tokens_per_second, job.mfu) if job else (None, None, None)
    facts = [
        told("step", step, units.count, "job_step", "steps.step(): docs/steps.md"),
        _step_time(view_model, job, context),
        told("tokens/s", rate, units.si, TOKENS, "steps.step(tokens=…)"),
        _per_device(view_model, job, context),
        told("MFU", mfu, units.percent, "job_mfu_ratio", "step.report(mfu=…)"),
        _so_far(job, context),
    ]
    return Block("pace", tuple(facts))


def _step_time(view_model: ViewModel, job: JobFigures | None, context: RenderContext) -> Fact:
    """As the job states it, else by the pace of its log."""
    label = "step time"
    if job is None or job.step_seconds is not None or job.step_pace_seconds is None:
        seconds = job.step_seconds if job else None
        remedy = "steps.step(), or collect.logs"
        return _reported(view_model, job, label, seconds, units.seconds, STEP, remedy, context)
    seconds = job.step_pace_seconds
    note = _change(view_model, job, PACE, seconds) or "by the log's lines"
    return Fact(label, context.number(units.seconds(seconds), PACE), note)


def _per_device(view_model: ViewModel, job: JobFigures | None, context: RenderContext) -> Fact:
    """As the log states it, else the job's rate over the devices of its nodes."""
    label = "per device"
    if job is None:
        return Fact(label, context.number(units.ABSENT))
    if job.tokens_per_second_per_device is not None:
        text = units.count(job.tokens_per_second_per_device)
        return Fact(label, context.number(text, PER_DEVICE), "tokens/s")
    names = view_model.cluster.jobs.get(job.job, ())
    devices = sum(len(view_model.cluster.nodes[name].inventory.of(Entity.DEVICE)) for name in names)
    if job.tokens_per_second is None or not devices:
        return Fact(label, context.number(units.ABSENT))
    rate = units.count(job.tokens_per_second / devices)
    return Fact(label, _derived(rate, context), f"tokens/s ÷ {devices:,} devices")


def _so_far(job: JobFigures | None, context: RenderContext) -> Fact:
    """As if all steps had had as many tokens as the newest."""
    label = "tokens so far"
    if job is None:
        return Fact(label, context.number(units.ABSENT))
    rate, seconds, step = job.tokens_per_second, job.step_seconds, job.step
    if rate is None or seconds is None or step is None:
        return Fact(label, context.number(units.ABSENT))
    number = _marked(units.si(rate * seconds * step), Provenance.ESTIMATED, context)
    return Fact(label, number, f"steps × {units.si(rate * seconds)}")


def _learning(view_model: ViewModel, job: JobFigures | None, context: RenderContext) -> Block:
    told = partial(_reported, view_model, job, context=context)
    norm = job_mean(view_model.cluster, job.job, "job_grad_norm") if job else None
    facts = [
        told("loss", job.loss if job else None, units.loss, "job_loss", "step.report(loss=…)"),
        told("grad norm", norm, units.loss, "job_grad_norm", "in a log: collect.logs"),
    ]
    for label, value, quantity, limit in (
        ("in comm", job.comm_share if job else None, COMM, view_model.limits.comm_share),
        (
            "exposed",
            job.exposed_share if job else None,
            EXPOSED,
            view_model.limits.exposed_comm_share,
        ),
    ):
        fact = told(label, value, units.percent, quantity, "steps.collective()")
        if value is not None:
            style = context.palette.warning if value > limit else fact.number[0][1]
            number = [(fact.number[0][0], style), *fact.number[1:]]
            fact = Fact(label, number, fact.note or f"limit {units.percent(limit)}")
        facts.append(fact)
    return Block("loss and communication", tuple(facts))


def _pauses(view_model: ViewModel, found: Sequence[Span], context: RenderContext) -> Block:
    absent = context.number(units.ABSENT)
    total = sum(span.seconds for span in found)
    lost = phases.pauses(found)
    now = view_model.view.time
    saves = [span for span in found if span.stage is Stage.CHECKPOINTING]
    facts = []
    if saves:
        begins = [span.start for span in saves if span.whole]
        every = (begins[-1] - begins[0]) / (len(begins) - 1) if len(begins) > 1 else None
        times = [span.seconds for span in saves if span.whole and not span.open]
        took = sum(times) / len(times) if times else None
        last = "now" if saves[-1].open else f"last {units.age(now - saves[-1].end)} ago"
        facts.append(Fact("checkpoints", _derived(str(len(saves)), context), last))
        facts.append(
            Fact("  take", _derived(units.seconds(took), context), "± one refresh" if took else "")
        )
        facts.append(Fact("  every", _derived(units.span(every), context)))
    else:
        facts.append(Fact("checkpoints", absent, "none seen: steps.checkpoint()"))
    compiled = [span for span in found if span.stage is Stage.COMPILING]
    if compiled:
        more = f" in {len(compiled)}" if len(compiled) > 1 else ""
        least = "" if compiled[0].whole else "≥ "
        spent = least + units.span(sum(span.seconds for span in compiled))
        facts.append(Fact("compiling", _derived(spent, context), more.strip()))
    else:
        facts.append(Fact("compiling", absent, "none seen"))
    if total > 0:
        share = units.percent(lost / total)
        facts.append(
            Fact("pauses", _derived(units.span(lost), context), f"{share} of {units.span(total)}")
        )
    return Block("pauses", tuple(facts))


def _costs(
    view_model: ViewModel,
    job: JobFigures | None,
    found: Sequence[Span],
    price: float,
    context: RenderContext,
) -> Block:
    nodes = staffed(view_model, job.job if job else "")
    absent = context.number(units.ABSENT)
    if not price or nodes is None:
        lacking = "which nodes are its own?" if price else "set screen.price_per_hour"
        facts = [Fact("per M tokens", absent, lacking), Fact("per hour", absent)]
        return Block("cost", tuple(facts))
    hourly = nodes * price
    cost = per_million(nodes, job.tokens_per_second if job else None, price)
    facts = [
        Fact("per M tokens", _derived(dollars(cost), context), "" if cost else "needs tokens/s")
    ]
    if job is not None and cost is not None:
        rate = units.si(job.tokens_per_second)
        facts.append(Fact("", [], f"{nodes:,} × ${price:g} ÷ 3600 ÷ {rate} × 10⁶"))
    many = f"{nodes:,} node{'s' * (nodes != 1)}"
    facts.append(Fact("per hour", _derived(dollars(hourly), context), f"{many} × ${price:g}"))
    if job is not None and job.exposed_share is not None:
        waits = _derived(dollars(hourly * job.exposed_share), context)
        facts.append(Fact("of that waits", waits, "× exposed share"))
    if found:
        lost = phases.pauses(found)
        spent = _derived(dollars(hourly * lost / 3600), context)
        facts.append(Fact("pauses", spent, f"× {units.span(lost)}"))
    return Block("cost", tuple(facts))


def _lacking(view_model: ViewModel, job: JobFigures | None, remedy: str) -> str:
    """Why nothing is reported now, where something was before; else what would report it."""
    return _silenced(view_model, None if job is None else job.job) or remedy


@lru_cache(maxsize=4)
def _silenced(view_model: ViewModel, job: str | None) -> str:
    """Why a job, or anybody, reports nothing any more; empty where nobody ever did."""
    cluster = view_model.cluster
    for name in cluster.names if job is None else cluster.jobs.get(job, ()):
        for source in cluster.nodes[name].frame.sources:
            silent = source.time is not None and source.state in (State.STALE, State.DOWN)
            if source.name == STEPS and silent:
                return f"{source.name} {source.state.value}: {source.reason}".removesuffix(": ")
    return ""
