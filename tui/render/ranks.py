"""The ranks of a job: one step of each on a common scale, and who computes longest.

In a synchronous job all ranks end a step together. Whoever computes longest waits least, and is
the one that the others wait for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import Cluster, Column, Key, Severity

from ..view_model import ViewModel, worst
from . import table
from .axes import nice
from .context import RenderContext
from .graph import runs
from .line import Part, fit

Places = npt.NDArray[np.int64]
COMPUTE = "rank_compute_seconds"
EXPOSED = "rank_exposed_comm_seconds"
EVEN = 0.02
"""Ranks whose compute differs by less stand in the order of their names: rows shall not dance."""
MANY = 64
"""Ranks from which a row is a node's slowest rank."""


Draw = Callable[["RankRow", int, RenderContext], Sequence[Part]]


class Roster:
    """Which ranks a job has, and where; kept from tick to tick while none comes or goes."""

    def __init__(self) -> None:
        self._job = ""
        self._keys: tuple[tuple[Key, ...], ...] = ()
        self.nodes: tuple[str, ...] = ()
        self.ranks: tuple[str, ...] = ()
        self.node: Places = np.empty(0, np.int64)
        """Place of each rank's node in `nodes`."""
        self._taken: Places = np.empty(0, np.int64)
        """Places of the job's ranks among all ranks of its nodes."""
        self._view_model: ViewModel | None = None
        self._crew: Crew | None = None

    def crew(self, view_model: ViewModel, job: str) -> "Crew":
        """The ranks of `job` in a scene; computed once for it."""
        if self._crew is None or view_model is not self._view_model or job != self._job:
            self._follow(view_model.cluster, job)
            self._view_model, self._crew = view_model, self._take(view_model.cluster)
        return self._crew

    def _follow(self, cluster: Cluster, job: str) -> None:
        nodes = cluster.jobs.get(job, ())
        keys = tuple(cluster.nodes[name].inventory.of(Entity.RANK) for name in nodes)
        if (job, nodes, keys) == (self._job, self.nodes, self._keys):
            return
        self._job, self.nodes, self._keys = job, nodes, keys
        ranks: list[str] = []
        owners: list[int] = []
        taken: list[int] = []
        place = 0
        for owner, names in enumerate(keys):
            found = []
            for key in names:
                of, _, rank = str(key).rpartition("/")
                if of == job:
                    found.append((units.natural(rank), rank, place))
                place += 1
            for _, rank, where in sorted(found):
                ranks.append(rank)
                owners.append(owner)
                taken.append(where)
        self.ranks = tuple(ranks)
        self.node = np.array(owners, np.int64)
        self._taken = np.array(taken, np.int64)

    def _take(self, cluster: Cluster) -> "Crew":
        views = [cluster.nodes[name] for name in self.nodes]

        def column(quantity: str) -> Column:
            parts = [
                np.full(len(keys), np.nan)
                if (found := view.frame.columns.get(quantity)) is None
                else found
                for view, keys in zip(views, self._keys, strict=True)
            ]
            return np.concatenate(parts)[self._taken] if parts else np.empty(0)

        return Crew(
            self.nodes, self.ranks, self.node,
            step=column("rank_step"), seconds=column("rank_step_seconds"),
            compute=column(COMPUTE), comm=column("rank_comm_seconds"), exposed=column(EXPOSED),
            stage=column("rank_pipeline_stage"),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Crew:
    """The ranks of a job at one tick; arrays are `[rank]`, NaN where a rank does not tell."""

    nodes: tuple[str, ...]
    ranks: tuple[str, ...]
    node: Places
    step: Column
    seconds: Column
    compute: Column
    comm: Column
    exposed: Column
    stage: Column

    def __len__(self) -> int:
        return len(self.ranks)

    @cached_property
    def newest(self) -> float:
        """The newest step of any rank; NaN where none numbers its steps."""
        known = self.step[~np.isnan(self.step)]
        return float(known.max()) if len(known) else float("nan")

    @property
    def staged(self) -> bool:
        """Whether ranks name their pipeline stage."""
        return not np.isnan(self.stage).all()

    @cached_property
    def lead(self) -> Column:
        """How much longer each computes than the median of its peers, as a share.

        Peers are the ranks of the same pipeline stage, where ranks name theirs.
        """
        lead = np.full(len(self), np.nan)
        stages = np.nan_to_num(self.stage, nan=-1.0)
        for one in np.unique(stages):
            peers = (stages == one) & ~np.isnan(self.compute)
            if peers.any() and (middle := float(np.median(self.compute[peers]))) > 0:
                lead[peers] = self.compute[peers] / middle - 1.0
        return lead

    @cached_property
    def late(self) -> Column:
        """What ranks are ordered by: how much longer they compute, else how much less they wait."""
        if not np.isnan(self.lead).all():
            return self.lead
        waits = self.comm if np.isnan(self.exposed).all() else self.exposed
        return 1.0 - waits / (median(waits) or 1.0)

    @cached_property
    def order(self) -> Places:
        """All ranks, those first that the others wait for."""
        return _steadily(self.late)

    @cached_property
    def slowest(self) -> Places:
        """Of each node the rank that is waited for most; the nodes in the order of these."""
        late = np.nan_to_num(self.late, nan=-np.inf)
        first = np.lexsort((-late, self.node))
        _, begins = np.unique(self.node[first], return_index=True)
        chosen = first[begins]
        return chosen[_steadily(self.late[chosen])]

    def of(self, node: str) -> Places:
        """A node's ranks, those first that the others wait for."""
        if node not in self.nodes:
            return np.empty(0, np.int64)
        places = np.flatnonzero(self.node == self.nodes.index(node))
        return places[_steadily(self.late[places])]

    def alike(self, places: Places) -> bool:
        """Whether some ranks differ by so little that they stand in the order of their names."""
        late = self.late[places]
        return len(np.unique(_grades(late[~np.isnan(late)]))) < 2

    @property
    def basis(self) -> str:
        """What ranks are ordered by, in words."""
        return "slowest compute" if not np.isnan(self.lead).all() else "shortest waits"

    @cached_property
    def scale(self) -> float:
        """Seconds that the full width of a bar stands for."""
        known = self.seconds[~np.isnan(self.seconds)]
        return nice(float(known.max())) if len(known) else 1.0


@dataclass(frozen=True, slots=True)
class RankRow:
    """One rank as a row."""

    crew: Crew
    place: int
    """Of the rank in the crew."""
    ranks: int
    """How many ranks of the node the row stands for; 0 where each has its own."""
    severity: Severity | None
    """The worst of its node."""

    @property
    def node(self) -> str:
        """Its node."""
        return self.crew.nodes[int(self.crew.node[self.place])]

    def of(self, column: Column) -> float:
        """Its value of one of the crew's columns."""
        return float(column[self.place])


def rows(view_model: ViewModel, crew: Crew, places: Sequence[int], whole: bool) -> list[RankRow]:
    """The rows of some ranks; with `whole` each stands for its node."""
    counts = np.bincount(crew.node, minlength=len(crew.nodes))
    made = []
    for place in places:
        owner = int(crew.node[place])
        severity = worst(view_model.cluster.nodes[crew.nodes[owner]], view_model)
        made.append(RankRow(crew, place, int(counts[owner]) if whole else 0, severity))
    return made


def blamed(view_model: ViewModel, crew: Crew) -> Column:
    """How bad the worst open incident is that names each rank's node, `[rank]`; -1 for none."""
    found = (worst(view_model.cluster.nodes[name], view_model) for name in crew.nodes)
    ranked = np.array([-1.0 if one is None else float(one.rank) for one in found])
    return ranked[crew.node] if len(ranked) else np.empty(0)


def _steadily(late: Column) -> Places:
    """The places from the largest value to the smallest; those that are even keep their order."""
    return np.argsort(-_grades(late), kind="stable")


def _grades(late: Column) -> Column:
    """The same number for values that are even."""
    return np.trunc(np.nan_to_num(late, nan=-1e6) / EVEN)


def median(values: Column) -> float | None:
    """Of what is known; None where nothing is."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None


def timeline(row: RankRow, width: int, context: RenderContext) -> list[Part]:
    """One step: compute, compute that covers communication, communication alone, the rest."""
    crew = row.crew
    seconds, compute, exposed, comm = (
        row.of(column) for column in (crew.seconds, crew.compute, crew.exposed, crew.comm)
    )
    if seconds != seconds or width <= 0:
        return [(" " * max(0, width), context.palette.faint)]
    compute, exposed, comm = (0.0 if one != one else one for one in (compute, exposed, comm))
    covered = min(max(0.0, comm - exposed), compute)
    ends = (compute - covered, compute, compute + exposed, seconds)
    cells: list[Part] = []
    for (sign, style), end in zip(kinds(context), ends, strict=True):
        upto = min(width, round(end / crew.scale * width))
        cells += [(sign, style)] * max(0, upto - len(cells))
    return runs(cells + [(" ", context.palette.faint)] * (width - len(cells)))


_SIGNS = {"block": "▆▅░·", "braille": "⣿⣶⠒·", "ascii": "#=.,"}
KINDS = ("compute", "compute over comm", "waiting in comm", "not reported")


def kinds(context: RenderContext) -> tuple[Part, Part, Part, Part]:
    """Sign and style of the parts of a step, in the order of `timeline`."""
    palette = context.palette
    styles = (palette.graph, palette.accent, palette.muted, palette.rule)
    compute, covered, exposed, rest = zip(_SIGNS[context.glyphs.name], styles, strict=True)
    return compute, covered, exposed, rest


class RankColumns:
    """The columns of the rank table, for one crew."""

    def __init__(self, crew: Crew, limit: float, whole: bool) -> None:
        self._crew = crew
        self._limit = limit
        self._whole = whole

    def all(self) -> tuple[table.Column[RankRow], ...]:
        """The columns in order."""
        names = max((len(name) for name in self._crew.nodes), default=4)
        rank = "slowest rank" if self._whole else "rank"
        scale = f"one step, 0 to {units.seconds(self._crew.scale)}"
        found: list[table.Column[RankRow]] = [
            table.Column("node", "  node", min(names, 14) + 2, 100, self._node,
                         wide=min(names, 30) + 2),
            table.Column("rank", rank, len(rank), 90, self._rank, align="right"),
        ]  # fmt: skip
        if self._crew.staged:
            found.append(table.Column("stage", "pp", 3, 50, self._stage, align="right"))
        return (
            *found,
            table.Column("lead", "vs peers", 10, 88, self._lead, unit="%", align="right"),
            table.Column("bar", scale, 22, 86, timeline,
                         wide=110),
            table.Column("compute", "compute", 9, 80, _seconds("compute", COMPUTE),
                         unit="s", align="right"),
            table.Column("waits", "waits", 8, 84, _seconds("exposed", EXPOSED),
                         unit="s", align="right"),
            table.Column("comm", "in comm", 9, 60, _seconds("comm", "rank_comm_seconds"),
                         unit="s", align="right"),
            table.Column("seconds", "step", 7, 55,
                         _seconds("seconds", "rank_step_seconds"), unit="s", align="right"),
            table.Column("step", "at step", 9, 45, self._step, align="right"),
        )  # fmt: skip

    def _node(self, row: RankRow, width: int, context: RenderContext) -> list[Part]:
        if row.severity is None:
            return [("  ", context.palette.text), (fit(row.node, width - 2), context.palette.text)]
        text = f"{context.glyphs.severities[row.severity]} {row.node}"
        return [(fit(text, width), context.palette.severity(row.severity))]

    def _rank(self, row: RankRow, width: int, context: RenderContext) -> list[Part]:
        # A rank's number is that of the whole job, so "178 of 16" would not read well.
        beside = f" +{row.ranks - 1}" if row.ranks > 1 else ""
        lead = fit(row.crew.ranks[row.place], width - len(beside), "right")
        return [(lead, context.palette.text), (beside, context.palette.faint)]

    def _stage(self, row: RankRow, width: int, context: RenderContext) -> list[Part]:
        return context.number(units.count(row.of(row.crew.stage)), "", width)

    def _lead(self, row: RankRow, width: int, context: RenderContext) -> list[Part]:
        lead = row.of(row.crew.lead)
        if lead != lead:
            return context.number(units.ABSENT, "", width)
        style = context.palette.warning if lead > self._limit else context.palette.text
        return [
            (fit(f"{100 * lead:+.1f}", width - 1, "right"), style), ("d", context.palette.faint),
        ]  # fmt: skip

    def _step(self, row: RankRow, width: int, context: RenderContext) -> list[Part]:
        step = row.of(row.crew.step)
        number = context.number(units.count(step), "rank_step", width)
        # One step apart is the moment at which a step ends.
        if self._crew.newest - step > 1:
            number[0] = (number[0][0], context.palette.warning)
        return number


def _seconds(field: str, quantity: str) -> Draw:
    def draw(row: RankRow, width: int, context: RenderContext) -> list[Part]:
        return context.number(
            units.plain_seconds(row.of(getattr(row.crew, field))), quantity, width
        )

    return draw
