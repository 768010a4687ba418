"""The ranks of a job: one step of each on a common scale, slowest first.

In a synchronous job all ranks end a step together: the rank that computes longest waits least, and
the others wait for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
import numpy.typing as npt

from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import Column, Key, Severity

from ..view_model import ViewModel, worst
from . import table
from .axes import round_up
from .context import RenderContext
from .graph import runs
from .line import Part, fit

Places = npt.NDArray[np.int64]
COMPUTE = "rank_compute_seconds"
EXPOSED = "rank_exposed_comm_seconds"
EVEN = 0.02
"""Ranks that differ by less stay in the order of their names, so that rows do not jump."""
MANY = 64
"""Above this number of ranks, a row is the slowest rank of a node."""


Draw = Callable[["RankRow", int, RenderContext], Sequence[Part]]


@lru_cache(maxsize=2)
def ranks_of(view_model: ViewModel, job: str) -> "JobRanks":
    """The ranks of a job."""
    cluster = view_model.cluster
    nodes = cluster.jobs.get(job, ())
    keys = tuple(cluster.nodes[name].inventory.of(Entity.RANK) for name in nodes)
    names, owners, places = _ordered(job, keys)
    frames = [cluster.nodes[name].frame for name in nodes]

    def column(quantity: str) -> Column:
        parts = [
            np.full(len(names), np.nan) if (found := frame.columns.get(quantity)) is None else found
            for frame, names in zip(frames, keys, strict=True)
        ]
        return np.concatenate(parts)[places] if parts else np.empty(0)

    return JobRanks(
        nodes, names, owners,
        step=column("rank_step"), seconds=column("rank_step_seconds"),
        compute=column(COMPUTE), comm=column("rank_comm_seconds"), exposed=column(EXPOSED),
        stage=column("rank_pipeline_stage"),
    )  # fmt: skip


@lru_cache(maxsize=2)
def _ordered(job: str, keys: tuple[tuple[Key, ...], ...]) -> tuple[tuple[str, ...], Places, Places]:
    """Names of the ranks, the index of the node of each, and its place among all ranks."""
    everything = [(owner, str(key)) for owner, names in enumerate(keys) for key in names]
    found = sorted(
        (owner, units.natural_sort_key(rank), rank, place)
        for place, (owner, key) in enumerate(everything)
        for of_job, _, rank in (key.rpartition("/"),)
        if of_job == job
    )
    names = tuple(rank for _, _, rank, _ in found)
    owners = np.array([owner for owner, *_ in found], np.int64)
    return names, owners, np.array([place for *_, place in found], np.int64)


@dataclass(frozen=True, eq=False)
class JobRanks:
    """The ranks of a job at one tick; arrays are `[rank]`, NaN if a rank does not report."""

    nodes: tuple[str, ...]
    names: tuple[str, ...]
    node: Places
    """Index of the node of each rank."""
    step: Column
    seconds: Column
    compute: Column
    comm: Column
    exposed: Column
    stage: Column

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def newest(self) -> float:
        """The newest step of any rank; NaN if no rank numbers its steps."""
        known = self.step[~np.isnan(self.step)]
        return float(known.max()) if len(known) else float("nan")

    @property
    def staged(self) -> bool:
        """Whether ranks report their pipeline stage."""
        return not np.isnan(self.stage).all()

    @cached_property
    def lead(self) -> Column:
        """How much longer each computes than the median of its peers, as a share.

        Peers are the ranks of the same pipeline stage, if reported.
        """
        lead = np.full(len(self), np.nan)
        stages = np.nan_to_num(self.stage, nan=-1.0)
        for stage in np.unique(stages):
            peers = (stages == stage) & ~np.isnan(self.compute)
            if peers.any() and (middle := float(np.median(self.compute[peers]))) > 0:
                lead[peers] = self.compute[peers] / middle - 1.0
        return lead

    @cached_property
    def late(self) -> Column:
        """The sort key: how much longer ranks compute, else how much less they wait."""
        if not np.isnan(self.lead).all():
            return self.lead
        waits = self.comm if np.isnan(self.exposed).all() else self.exposed
        return 1.0 - waits / (median(waits) or 1.0)

    @cached_property
    def order(self) -> Places:
        """All ranks, slowest first."""
        return _steadily(self.late)

    @cached_property
    def slowest(self) -> Places:
        """The slowest rank of each node, slowest node first."""
        late = np.nan_to_num(self.late, nan=-np.inf)
        first = np.lexsort((-late, self.node))
        _, begins = np.unique(self.node[first], return_index=True)
        chosen = first[begins]
        return chosen[_steadily(self.late[chosen])]

    def even(self, places: Places) -> bool:
        """Whether these ranks differ by so little that they are in the order of their names."""
        late = self.late[places]
        return len(np.unique(_grades(late[~np.isnan(late)]))) < 2

    def named(self, place: int) -> str:
        return f"rank {self.names[place]} on {self.nodes[self.node[place]]}"

    @property
    def basis(self) -> str:
        """The sort key in words."""
        return "slowest compute" if not np.isnan(self.lead).all() else "shortest waits"

    @cached_property
    def scale(self) -> float:
        """Seconds of the full width of a bar."""
        known = self.seconds[~np.isnan(self.seconds)]
        return round_up(float(known.max())) if len(known) else 1.0


@dataclass(frozen=True, slots=True)
class RankRow:
    """One rank as a row."""

    ranks: JobRanks
    place: int
    count: int
    """Ranks of the node if the row is for the node, else 0."""
    severity: Severity | None
    """The worst of its node."""

    @property
    def node(self) -> str:
        return self.ranks.nodes[int(self.ranks.node[self.place])]

    def value(self, column: Column) -> float:
        return float(column[self.place])


def rows(
    view_model: ViewModel, ranks: JobRanks, places: Sequence[int], by_node: bool
) -> list[RankRow]:
    counts = np.bincount(ranks.node, minlength=len(ranks.nodes))
    made = []
    for place in places:
        owner = int(ranks.node[place])
        severity = worst(view_model.cluster.nodes[ranks.nodes[owner]], view_model)
        made.append(RankRow(ranks, place, int(counts[owner]) if by_node else 0, severity))
    return made


def severity_ranks(view_model: ViewModel, ranks: JobRanks) -> Column:
    """Rank of the worst open incident of the node of each rank, `[rank]`; -1 without one."""
    found = (worst(view_model.cluster.nodes[name], view_model) for name in ranks.nodes)
    ranked = np.array([-1.0 if severity is None else float(severity.rank) for severity in found])
    return ranked[ranks.node] if len(ranked) else np.empty(0)


def _steadily(late: Column) -> Places:
    """The places from the largest value to the smallest; even values keep their order."""
    return np.argsort(-_grades(late), kind="stable")


def _grades(late: Column) -> Column:
    """Equal numbers for even values."""
    return np.trunc(np.nan_to_num(late, nan=-1e6) / EVEN)


def median(values: Column) -> float | None:
    """The median of the known values; None without any."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None


def timeline(row: RankRow, width: int, context: RenderContext) -> list[Part]:
    """One step: compute, compute that overlaps communication, waiting, not reported."""
    ranks = row.ranks
    seconds, *parts = map(row.value, (ranks.seconds, ranks.compute, ranks.exposed, ranks.comm))
    if seconds != seconds or width <= 0:
        return [(" " * max(0, width), context.palette.faint)]
    compute, exposed, comm = (0.0 if part != part else part for part in parts)
    overlapped = min(max(0.0, comm - exposed), compute)
    ends = (compute - overlapped, compute, compute + exposed, seconds)
    cells: list[Part] = []
    for (sign, style), end in zip(kinds(context), ends, strict=True):
        upto = min(width, round(end / ranks.scale * width))
        cells += [(sign, style)] * max(0, upto - len(cells))
    return runs(cells + [(" ", context.palette.faint)] * (width - len(cells)))


_SIGNS = "▆▅░·"
KINDS = ("compute", "overlapped comm", "waiting in comm", "not reported")


def kinds(context: RenderContext) -> tuple[Part, Part, Part, Part]:
    """Sign and style of the parts of a step, in the order of `timeline`."""
    palette = context.palette
    styles = (palette.graph, palette.accent, palette.muted, palette.rule)
    compute, covered, exposed, rest = zip(_SIGNS, styles, strict=True)
    return compute, covered, exposed, rest


def columns(ranks: JobRanks, limit: float, by_node: bool) -> tuple[table.Column[RankRow], ...]:
    """The columns; a lead above `limit` is a warning."""
    names = max((len(name) for name in ranks.nodes), default=4)
    rank = "slowest rank" if by_node else "rank"
    scale = f"one step, 0 to {units.seconds(ranks.scale)}"
    stage = [table.Column("stage", "pp", 3, 50, _stage, align="right")] if ranks.staged else []
    return (
        table.Column(
            "node", "  node", min(names, 14) + 2, 100, _node, max_width=min(names, 30) + 2
        ),
        table.Column("rank", rank, len(rank), 90, _rank, align="right"),
        *stage,
        table.Column("lead", "vs peers", 10, 88, partial(_lead, limit), unit="% d", align="right"),
        table.Column("bar", scale, 22, 86, timeline, max_width=110),
        table.Column("compute", "compute", 9, 80, _seconds("compute"), unit="s",
                     align="right", quantity=COMPUTE),
        table.Column("waits", "waits", 8, 84, _seconds("exposed"), unit="s",
                     align="right", quantity=EXPOSED),
        table.Column("comm", "in comm", 9, 60, _seconds("comm"), unit="s",
                     align="right", quantity="rank_comm_seconds"),
        table.Column("seconds", "step", 7, 55, _seconds("seconds"), unit="s",
                     align="right", quantity="rank_step_seconds"),
        table.Column("step", "at step", 9, 45, _step, align="right", quantity="rank_step"),
    )  # fmt: skip


def _node(row: RankRow, width: int, context: RenderContext) -> list[Part]:
    return context.name(row.node, width, row.severity)


def _rank(row: RankRow, width: int, context: RenderContext) -> list[Part]:
    # Ranks are numbered over the whole job, so "178 of 16" would be misleading.
    more = f" +{row.count - 1}" if row.count > 1 else ""
    lead = fit(row.ranks.names[row.place], width - len(more), "right")
    return [(lead, context.palette.text), (more, context.palette.faint)]


def _stage(row: RankRow, width: int, context: RenderContext) -> list[Part]:
    return context.number(units.count(row.value(row.ranks.stage)), "", width)


def _lead(limit: float, row: RankRow, width: int, context: RenderContext, /) -> list[Part]:
    lead = row.value(row.ranks.lead)
    if lead != lead:
        return context.number(units.ABSENT, "", width)
    style = context.palette.warning if lead > limit else context.palette.text
    return [(fit(f"{100 * lead:+.1f}", width, "right"), style)]


def _step(row: RankRow, width: int, context: RenderContext) -> list[Part]:
    step = row.value(row.ranks.step)
    # Ranks end a step at slightly different moments.
    style = context.palette.warning if row.ranks.newest - step > 1 else None
    return context.figure(step, 0, width, style)


def _seconds(field: str) -> Draw:
    def draw(row: RankRow, width: int, context: RenderContext) -> list[Part]:
        return context.figure(row.value(getattr(row.ranks, field)), 2, width)

    return draw
