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
from ..scene import JobFigures, Scene
from . import phases
from .incidents import wrap
from .jobs import FOUND, NAME, NODES, PHASE, STEP_SECONDS, JobRow, figure
from .line import Part, beside, fit, length, line
from .pen import Pen
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


def staffed(scene: Scene, job: str) -> int | None:
    """How many nodes a job has: those whose ranks report, for a log is followed on one of them.

    None where only a log tells of it and it is not the only job.
    """
    cluster = scene.cluster
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


def columns(scene: Scene, price: float) -> tuple[Column[JobRow], ...]:
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
        Column("cost", "$ per M tokens", 15, 45, _cost(scene, price), align="right"),
        FOUND,
    )  # fmt: skip


def _tokens(row: JobRow, width: int, pen: Pen) -> list[Part]:
    return pen.number(units.si(row.figures.tokens_per_second), TOKENS, width)


def _cost(scene: Scene, price: float) -> Callable[[JobRow, int, Pen], Sequence[Part]]:
    def draw(row: JobRow, width: int, pen: Pen) -> list[Part]:
        one = row.figures
        cost = per_million(staffed(scene, one.job), one.tokens_per_second, price)
        return _derived(dollars(cost), pen, width)

    return draw


def _derived(text: str, pen: Pen, width: int = 0) -> list[Part]:
    return _marked(text, Provenance.DERIVED, pen, width)


def _marked(text: str, provenance: Provenance, pen: Pen, width: int = 0) -> list[Part]:
    """A number that is no quantity of the catalog, with the mark of what it is."""
    if text == units.ABSENT:
        return pen.number(text, "", width)
    sign = units.mark(provenance)
    if width:
        return [(fit(text, width - 1, "right"), pen.ink.text), (sign, pen.ink.faint)]
    return [(text, pen.ink.text), (f" {sign}" if " " in text else sign, pen.ink.faint)]


def draw(
    scene: Scene, job: JobFigures | None, width: int, _height: int, pen: Pen, *, price: float
) -> Sequence[Strip]:
    """All blocks, side by side as far as there is room.

    Args:
        scene: the tick.
        job: the run; None where no job reports.
        width: cells.
        _height: all lines are given, however high the area is.
        pen: what to draw with.
        price: of one node and hour in US dollars; 0 where it is not known.
    """
    if width < 20:
        return ()
    found = phases.spans(*phases.stages(scene, job.job if job else ""))
    blocks = [
        _pace(scene, job, pen),
        _learning(scene, job, pen),
        _pauses(scene, found, pen),
        _costs(scene, job, found, price, pen),
    ]
    per_row = max(
        count for count in (1, 2, 4) if count == 1 or width + GAP >= count * (LEAST + GAP)
    )
    cells = (width - GAP * (per_row - 1)) // per_row
    lines: list[Strip] = []
    for start in range(0, len(blocks), per_row):
        side = [(_block(one, cells, pen), cells) for one in blocks[start : start + per_row]]
        lines += [strip.adjust_cell_length(width) for strip in beside(side, GAP)]
    return lines


def _block(block: Block, width: int, pen: Pen) -> list[Strip]:
    rows: list[list[Part]] = [[(block.title, pen.ink.key)]]
    for fact in block.facts:
        parts = [(fit(fact.label, LABEL if fact.label else 0), pen.ink.muted), *fact.number]
        rows.append(parts)
        room = width - length(parts) - 2
        if len(fact.note) <= room:
            parts.append((f"  {fact.note}", pen.ink.faint))
        else:
            lead = LABEL if width >= LEAST else 2
            texts = wrap(fact.note, width - lead)
            rows += [[(" " * lead + text, pen.ink.faint)] for text in texts]
    return [line(row, width) for row in rows]


def _change(scene: Scene, job: JobFigures, quantity: str, value: float | None) -> str:
    """`+3.1 % since 14:03:12`, where a baseline is marked and the number was known then.

    Shares are told in points.
    """
    if scene.baseline is None or value is None:
        return ""
    then = job_mean(scene.baseline.cluster, job.job, quantity)
    if not then:
        return ""
    since = units.clock(scene.baseline.time, utc=scene.utc)
    if quantity.endswith("_ratio"):
        return f"{100 * (value - then):+.1f} points since {since}"
    return f"{100 * (value / then - 1):+.1f} % since {since}"


def _reported(
    scene: Scene,
    job: JobFigures | None,
    label: str,
    value: float | None,
    form: Callable[[float | None], str],
    quantity: str,
    remedy: str,
    pen: Pen,
) -> Fact:
    """A number of the training process, its change since the baseline, or what would tell it."""
    known = job is not None and value is not None
    note = _change(scene, job, quantity, value) if known and job else _lacking(scene, job, remedy)
    return Fact(label, pen.number(form(value), quantity), note)


def _pace(scene: Scene, job: JobFigures | None, pen: Pen) -> Block:
    told = partial(_reported, scene, job, pen=pen)
    step, rate, mfu = (job.step, job.tokens_per_second, job.mfu) if job else (None, None, None)
    facts = [
        told("step", step, units.count, "job_step", "steps.step(): docs/steps.md"),
        _step_time(scene, job, pen),
        told("tokens/s", rate, units.si, TOKENS, "steps.step(tokens=…)"),
        _per_device(scene, job, pen),
        told("MFU", mfu, units.percent, "job_mfu_ratio", "step.report(mfu=…)"),
        _so_far(job, pen),
    ]
    return Block("pace", tuple(facts))


def _step_time(scene: Scene, job: JobFigures | None, pen: Pen) -> Fact:
    """As the job states it, else by the pace of its log."""
    label = "step time"
    if job is None or job.step_seconds is not None or job.step_pace_seconds is None:
        seconds = job.step_seconds if job else None
        remedy = "steps.step(), or collect.logs"
        return _reported(scene, job, label, seconds, units.seconds, STEP, remedy, pen)
    seconds = job.step_pace_seconds
    note = _change(scene, job, PACE, seconds) or "by the log's lines"
    return Fact(label, pen.number(units.seconds(seconds), PACE), note)


def _per_device(scene: Scene, job: JobFigures | None, pen: Pen) -> Fact:
    """As the log states it, else the job's rate over the devices of its nodes."""
    label = "per device"
    if job is None:
        return Fact(label, pen.number(units.ABSENT))
    if job.tokens_per_second_per_device is not None:
        text = units.count(job.tokens_per_second_per_device)
        return Fact(label, pen.number(text, PER_DEVICE), "tokens/s")
    names = scene.cluster.jobs.get(job.job, ())
    devices = sum(len(scene.cluster.nodes[name].inventory.of(Entity.DEVICE)) for name in names)
    if job.tokens_per_second is None or not devices:
        return Fact(label, pen.number(units.ABSENT))
    rate = units.count(job.tokens_per_second / devices)
    return Fact(label, _derived(rate, pen), f"tokens/s ÷ {devices:,} devices")


def _so_far(job: JobFigures | None, pen: Pen) -> Fact:
    """As if all steps had had as many tokens as the newest."""
    label = "tokens so far"
    if job is None:
        return Fact(label, pen.number(units.ABSENT))
    rate, seconds, step = job.tokens_per_second, job.step_seconds, job.step
    if rate is None or seconds is None or step is None:
        return Fact(label, pen.number(units.ABSENT))
    number = _marked(units.si(rate * seconds * step), Provenance.ESTIMATED, pen)
    return Fact(label, number, f"steps × {units.si(rate * seconds)}")


def _learning(scene: Scene, job: JobFigures | None, pen: Pen) -> Block:
    told = partial(_reported, scene, job, pen=pen)
    norm = job_mean(scene.cluster, job.job, "job_grad_norm") if job else None
    facts = [
        told("loss", job.loss if job else None, units.loss, "job_loss", "step.report(loss=…)"),
        told("grad norm", norm, units.loss, "job_grad_norm", "in a log: collect.logs"),
    ]
    for label, value, quantity, limit in (
        ("in comm", job.comm_share if job else None, COMM, scene.limits.comm_share),
        ("exposed", job.exposed_share if job else None, EXPOSED, scene.limits.exposed_comm_share),
    ):
        fact = told(label, value, units.percent, quantity, "steps.collective()")
        if value is not None:
            style = pen.ink.warning if value > limit else fact.number[0][1]
            number = [(fact.number[0][0], style), *fact.number[1:]]
            fact = Fact(label, number, fact.note or f"limit {units.percent(limit)}")
        facts.append(fact)
    return Block("learning and waiting", tuple(facts))


def _pauses(scene: Scene, found: Sequence[Span], pen: Pen) -> Block:
    absent = pen.number(units.ABSENT)
    total = sum(span.seconds for span in found)
    lost = phases.pauses(found)
    now = scene.view.time
    saves = [span for span in found if span.stage is Stage.CHECKPOINTING]
    facts = []
    if saves:
        begins = [span.start for span in saves if span.whole]
        every = (begins[-1] - begins[0]) / (len(begins) - 1) if len(begins) > 1 else None
        times = [span.seconds for span in saves if span.whole and not span.open]
        took = sum(times) / len(times) if times else None
        last = "now" if saves[-1].open else f"last {units.age(now - saves[-1].end)} ago"
        facts.append(Fact("checkpoints", _derived(str(len(saves)), pen), last))
        facts.append(
            Fact("  take", _derived(units.seconds(took), pen), "± one refresh" if took else "")
        )
        facts.append(Fact("  every", _derived(units.span(every), pen)))
    else:
        facts.append(Fact("checkpoints", absent, "none seen: steps.checkpoint()"))
    compiled = [span for span in found if span.stage is Stage.COMPILING]
    if compiled:
        more = f" in {len(compiled)}" if len(compiled) > 1 else ""
        least = "" if compiled[0].whole else "≥ "
        spent = least + units.span(sum(span.seconds for span in compiled))
        facts.append(Fact("compiling", _derived(spent, pen), more.strip()))
    else:
        facts.append(Fact("compiling", absent, "none seen"))
    if total > 0:
        share = units.percent(lost / total)
        facts.append(
            Fact("pauses", _derived(units.span(lost), pen), f"{share} of {units.span(total)}")
        )
    return Block("pauses", tuple(facts))


def _costs(
    scene: Scene, job: JobFigures | None, found: Sequence[Span], price: float, pen: Pen
) -> Block:
    nodes = staffed(scene, job.job if job else "")
    absent = pen.number(units.ABSENT)
    if not price or nodes is None:
        lacking = "which nodes are its own?" if price else "set screen.price_per_hour"
        facts = [Fact("per M tokens", absent, lacking), Fact("per hour", absent)]
        return Block("cost", tuple(facts))
    hourly = nodes * price
    cost = per_million(nodes, job.tokens_per_second if job else None, price)
    facts = [Fact("per M tokens", _derived(dollars(cost), pen), "" if cost else "needs tokens/s")]
    if job is not None and cost is not None:
        rate = units.si(job.tokens_per_second)
        facts.append(Fact("", [], f"{nodes:,} × ${price:g} ÷ 3600 ÷ {rate} × 10⁶"))
    many = f"{nodes:,} node{'s' * (nodes != 1)}"
    facts.append(Fact("per hour", _derived(dollars(hourly), pen), f"{many} × ${price:g}"))
    if job is not None and job.exposed_share is not None:
        waits = _derived(dollars(hourly * job.exposed_share), pen)
        facts.append(Fact("of that waits", waits, "× exposed share"))
    if found:
        lost = phases.pauses(found)
        spent = _derived(dollars(hourly * lost / 3600), pen)
        facts.append(Fact("pauses", spent, f"× {units.span(lost)}"))
    return Block("cost", tuple(facts))


def _lacking(scene: Scene, job: JobFigures | None, remedy: str) -> str:
    """Why nothing is reported now, where something was before; else what would report it."""
    return _silenced(scene, None if job is None else job.job) or remedy


@lru_cache(maxsize=4)
def _silenced(scene: Scene, job: str | None) -> str:
    """Why a job, or anybody, reports nothing any more; empty where nobody ever did."""
    cluster = scene.cluster
    for name in cluster.names if job is None else cluster.jobs.get(job, ()):
        for source in cluster.nodes[name].frame.sources:
            silent = source.time is not None and source.state in (State.STALE, State.DOWN)
            if source.name == STEPS and silent:
                return f"{source.name} {source.state.value}: {source.reason}".removesuffix(": ")
    return ""
