"""The steps that ranks report, compared step by step."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trntop.analysis.detector import Verdict
from trntop.analysis.peers import TUNING as PEERS
from trntop.analysis.peers import Peers
from trntop.analysis.roles import lone_slow, roles
from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import NO_VALUE, Column, Evidence, NodeView
from trntop.pipeline.axis import Axis, Indices, PartAxis
from trntop.pipeline.statistics import Mask, Members, group_mean, group_median, median
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class RankTuning:
    """When a step is compared, and when a node is slow as a whole."""

    quorum: float = 0.9
    """Share of a job's ranks that have reported a step before it is compared."""
    timeout_steps: float = 1.0
    """Steps after which the others are not waited for any longer."""
    late_quorum: float = 0.5
    """The quorum from then on."""
    whole: float = 0.5
    """Share of the limit from which the effect on a node's median rank shows that the whole node
    is slow, not a part of it.
    """
    pair_held: float = 0.3
    """Share of the limit from which a node of a pair keeps its usual time: it may be slow."""
    pair_steps: float = 20.0
    """Steps over which the usual time of a node of a pair follows the newest ones."""
    wait: float = 0.02
    """Share of their compute time for which the others wait, at least, to be mentioned."""


TUNING = RankTuning()
_REPORTED = {
    "rank_compute_seconds": "computes",
    "rank_exposed_comm_seconds": "waits",
    "rank_comm_seconds": "is in collectives for",
}
"""Quantities of the evidence, and how they are worded."""


@dataclass(slots=True)
class _Layout:
    """The jobs and nodes of a tick's ranks; arrays are `[rank]`."""

    axis: PartAxis
    job: Indices
    jobs: tuple[str, ...]
    pair: Indices
    """Number of the rank's (job, node), for whole nodes."""
    pairs: Axis
    """(job, node) of each pair."""
    pair_job: Indices
    pair_node: Indices

    @classmethod
    def of(cls, axis: PartAxis) -> "_Layout":
        names: dict[str, int] = {}
        pairs: dict[tuple[int, int], int] = {}
        job = np.zeros(len(axis), np.int64)
        pair = np.zeros(len(axis), np.int64)
        rank = 0
        for node, keys in enumerate(axis.parts):
            for key in keys:
                name = str(key).rpartition("/")[0]
                number = names.setdefault(name, len(names))
                job[rank] = number
                pair[rank] = pairs.setdefault((number, node), len(pairs))
                rank += 1
        jobs = tuple(names)
        return cls(
            axis, job, jobs, pair,
            Axis([(jobs[number], axis.nodes.keys[node]) for number, node in pairs]),
            np.array([number for number, _ in pairs], np.int64),
            np.array([node for _, node in pairs], np.int64),
        )  # fmt: skip


class Ranks(Members):
    """Ranks that report their steps."""

    inputs = frozenset(
        ("job_step", "rank_pipeline_stage", "rank_step", "rank_step_seconds", *_REPORTED)
    )
    BLANK: ClassVar = {"_seen": NO_VALUE, "_waiting": False, "_stage": 0, "_reported": NO_VALUE}
    _seen: Column
    """Step and seconds, as one number that identifies a record."""
    _waiting: Mask
    """Ranks whose newest record was not compared yet."""
    _stage: Indices
    _reported: Column
    """`[quantity, rank]`, of the step that was compared last."""

    def __init__(self, least: float) -> None:
        super().__init__()
        self._reported = np.empty((len(_REPORTED), 0))
        self._least = least
        self._layout: _Layout | None = None
        self._single = Peers(least)
        """Each rank and the others of its role."""
        self._whole = Peers(least)
        """Each node of a job and its others."""
        self._pairs = _Pairs()
        self._job_steps: Column | None = None
        """The newest steps of the jobs when the ranks were last compared."""
        self._first: dict[str, float] = {}
        """Job → when the first of the waiting records came."""
        self._settled: set[str] = set()
        """Jobs of which ranks that were slow from the start are known."""
        self.worst: Column = np.empty(0)
        self.reporting: Mask = np.empty(0, bool)
        """Nodes that report steps of a job that others report, too, `[node]`."""

    def update(self, tick: Tick) -> None:
        """Takes a tick; where a job's ranks have all ended a step, compares them."""
        axis = tick.parts(Entity.RANK)
        job_steps = tick.column("job_step")
        if self._layout is None or axis is not self._layout.axis:
            self._move(axis)
        elif (
            not self._first
            and self._job_steps is not None
            and np.array_equal(job_steps, self._job_steps, equal_nan=True)
        ):
            return  # no step has ended since, but for ranks that were not waited for
        # Where steps have no numbers, every tick may bring one.
        self._job_steps = None if np.isnan(job_steps).all() else job_steps
        layout = self._layout
        assert layout is not None
        seconds, steps = tick.columns(("rank_step_seconds", "rank_step"))
        known = ~np.isnan(seconds)
        mark = np.where(known, np.nan_to_num(steps) * 4096.0 + seconds, np.nan)
        new = known & (mark != self._seen)
        self._seen = np.where(known, mark, self._seen)
        self._waiting |= new
        self.reporting = _comparable(layout, known, len(tick.nodes))
        for number, job in enumerate(layout.jobs):
            mine = layout.job == number
            if self._complete(job, mine & known, mine & self._waiting, seconds, tick.time):
                self._compare(tick, layout, job, mine & self._waiting)
                self._waiting &= ~mine
                self._first.pop(job, None)
        self._collect(tick, layout)

    def verdict(self, node: str, index: int, tick: Tick) -> Verdict:
        layout = self._layout
        assert layout is not None
        mine = layout.axis.owner == index
        slow = mine & (self._single.value > 1.0)
        pairs = layout.pair_node == index
        pair = int(np.flatnonzero(pairs)[np.argmax(self._whole.value[pairs])])
        job = layout.jobs[int(layout.pair_job[pair])]
        ranks = np.flatnonzero(mine & (layout.pair == pair))
        view = tick.view(node)
        component = None
        usual = median(self._single.effect[ranks])
        whole = self._whole.value[pair] > 1.0 and usual > TUNING.whole * self._least
        if whole or not slow.any():
            effect, since = float(self._whole.effect[pair]), float(self._whole.since[pair])
            if self._whole.value[pair] <= 1.0:
                effect = usual
            if since <= 0:
                begins = self._single.since[ranks]
                since = float(begins[begins > 0].min(initial=np.inf))
            where = node
        else:
            worst = int(np.flatnonzero(slow)[np.argmax(self._single.effect[slow])])
            effect, since = float(self._single.effect[worst]), float(self._single.since[worst])
            component, part = _part_of(layout, ranks, worst, view)
            where = f"{part} of {node}"
            mine = np.arange(len(layout.axis)) == worst
        others = (layout.job == layout.job[ranks[0]]) & ~mine
        return Verdict(
            fields={
                "where": where,
                "node": node,
                "slower": units.percent(effect),
                "job": job,
                "wait": self._waits(others, mine),
                "basis": "step telemetry",
            },
            job=job,
            node=node,
            component=component,
            evidence=tuple(self._evidence(node, where, mine, others)),
            since=since if 0 < since < np.inf else None,
        )

    def _waits(self, others: Mask, mine: Mask) -> str:
        """What the others wait for in a step, beyond what the slow one does."""
        exposed = self._reported[list(_REPORTED).index("rank_exposed_comm_seconds")]
        theirs, own = exposed[others], exposed[mine]
        if np.isnan(theirs).all() or np.isnan(own).all():
            return ""
        wait = median(theirs) - float(np.nanmin(own))
        if not wait > TUNING.wait * median(self._reported[0][others]):
            return ""  # in a pipeline they wait in its bubble
        return f"; others wait {units.seconds(wait)} per step"

    def _evidence(self, node: str, where: str, mine: Mask, others: Mask) -> Iterator[Evidence]:
        """What the slow ranks and the others report."""
        for (quantity, what), values in zip(_REPORTED.items(), self._reported, strict=True):
            if np.isnan(values[mine]).all() or np.isnan(values[others]).all():
                continue
            own, usual = median(values[mine]), median(values[others])
            text = f"{where} {what} {units.seconds(own)} per step, "
            text += f"median of its peers {units.seconds(usual)}"
            yield Evidence(text, node, quantity, own, usual)

    def _move(self, axis: PartAxis) -> None:
        self.follow(axis)
        self._layout = _Layout.of(axis)
        self._single.follow(axis)
        self._whole.follow(self._layout.pairs)

    def _complete(
        self,
        job: str,
        known: Mask,
        waiting: Mask,
        seconds: Column,
        now: float,
    ) -> bool:
        """Whether enough ranks have ended a step, or the others were waited for long enough."""
        count = int(waiting.sum())
        if not count:
            return False
        first = self._first.setdefault(job, now)
        if count >= TUNING.quorum * int(known.sum()):
            return True
        timeout = max(2.0, TUNING.timeout_steps * median(seconds[waiting]))
        return count >= TUNING.late_quorum * int(known.sum()) and now - first >= timeout

    def _compare(self, tick: Tick, layout: _Layout, job: str, chosen: Mask) -> None:
        stage, *_ = tick.columns(("rank_pipeline_stage", *_REPORTED))
        mine = np.flatnonzero(layout.job == layout.jobs.index(job))
        if not np.isnan(stage[mine]).any():
            self._stage[mine] = stage[mine].astype(np.int64)
        compute, own, step = (np.where(chosen, column, np.nan) for column in _times(tick))
        off = self._deviation(layout, compute, own, step)
        self._reported = np.where(chosen, np.stack(tick.columns(tuple(_REPORTED))), self._reported)
        interval = median(step[chosen])
        run = tick.runs.by_job.get(job)
        if run is not None and run.usual:
            interval = min(interval, run.usual)  # all ranks wait for a hiccup of one
        self._single.round(tick.time, layout.axis, off, interval, job)
        whole = self._of_nodes(layout, compute, own, off)
        self._whole.round(tick.time, layout.pairs, whole, interval, job)
        if (
            job not in self._settled
            and self._single.count[mine].min(initial=np.inf) >= PEERS.learning
        ):
            self._find_lone(layout, job, mine)
            self._settled.add(job)

    def _deviation(self, layout: _Layout, compute: Column, own: Column, step: Column) -> Column:
        """By which share each rank is slower than its peers, `[rank]`.

        Compute time counts. The rest of what is not communication holds the bubble of a pipeline,
        so it counts only where it alone sets one node apart, as slow loading of data does.
        """
        peers = self._single
        # Of all stages of a pipeline: one of them may slow down as a whole.
        off, outside = (peers.deviation(values, layout.job) for values in (compute, own))
        off = np.where(np.isnan(off), outside, off)
        if np.isnan(off).any():
            off = np.where(np.isnan(off), peers.deviation(step, layout.job), off)
        half = 0.5 * self._least
        odd = np.flatnonzero(np.bincount(layout.pair[outside - off > half]))
        known = np.flatnonzero(np.bincount(layout.pair[~np.isnan(off)]))
        if len(odd) == 1 and len(known) > 2 and not (off - peers.bias > half).any():
            off = np.where(layout.pair == odd[0], np.fmax(off, outside), off)
        return off

    def _of_nodes(self, layout: _Layout, compute: Column, own: Column, off: Column) -> Column:
        """By which share whole nodes are off, `[pair]`; of one of two, by its own past."""
        size = len(layout.pairs)
        mean = group_mean(off, layout.pair, size)
        reporting = np.bincount(layout.pair[~np.isnan(off)], minlength=size) > 0
        two = np.bincount(layout.pair_job, reporting)[layout.pair_job] == 2
        if two.any():
            # A rank that reports only the whole step reports nothing of its own part in it.
            seconds = group_mean(np.where(np.isnan(compute), own, compute), layout.pair, size)
            mean = np.where(
                two, self._pairs.off(layout, seconds, self._whole.value > TUNING.pair_held), mean
            )
        return mean

    def _find_lone(self, layout: _Layout, job: str, mine: Indices) -> None:
        """Finds a node that has been slow from the start, once a job's steady times are known."""
        stage = self._stage[mine]
        usual = group_median(self._single.bias[mine], stage)
        levels = (1.0 + self._single.bias[mine]) / (1.0 + usual) - 1.0
        found = roles(levels, self._single.noise(job))
        slow_in = lone_slow(levels, found, layout.pair[mine])
        lone = slow_in >= 0
        if not lone.any():
            return
        level = median(levels[found == slow_in[lone][0]])
        bias = self._single.bias.copy()
        bias[mine[lone]] = (1.0 + usual[lone]) * (1.0 + level) - 1.0
        self._single.bias = bias
        # The nodes' biases follow from their ranks'.
        whole = group_mean(bias[mine], layout.pair[mine], len(layout.pairs))
        self._whole.bias = np.where(np.isnan(whole), self._whole.bias, whole)

    def _collect(self, tick: Tick, layout: _Layout) -> None:
        worst = np.full(len(tick.nodes), np.nan)
        if len(layout.axis):
            np.fmax.at(worst, layout.axis.owner, self._single.value)
            np.fmax.at(worst, layout.pair_node, self._whole.value)
        self.worst = worst


class _Pairs:
    """Jobs of two nodes: which of them has changed."""

    def __init__(self) -> None:
        self._usual: dict[Hashable, float] = {}

    def off(self, layout: _Layout, seconds: Column, held: Mask) -> Column:
        """By which share more each has changed than the other, `[pair]`."""
        now = dict(zip(layout.pairs.keys, seconds.tolist(), strict=True))
        change = np.full(len(seconds), np.nan)
        for index, (key, value) in enumerate(now.items()):
            if value > 0:
                usual = self._usual.setdefault(key, value)
                change[index] = value / usual - 1.0
                if not held[index]:
                    self._usual[key] = usual + (value - usual) / TUNING.pair_steps
        least = np.full(int(layout.pair_job.max()) + 1, np.inf)
        np.fmin.at(least, layout.pair_job, change)
        off: Column = change - least[layout.pair_job]
        return off


def _times(tick: Tick) -> tuple[Column, Column, Column]:
    """Seconds of the newest step in which each rank computed, did not wait, and all of them."""
    step = tick.column("rank_step_seconds")
    exposed = tick.column("rank_exposed_comm_seconds")
    comm = tick.column("rank_comm_seconds")
    own = step - np.where(np.isnan(exposed), comm, exposed)
    return _positive(tick.column("rank_compute_seconds")), _positive(own), step


def _comparable(layout: _Layout, known: Mask, nodes: int) -> Mask:
    """Nodes whose steps can be compared with others', `[node]`: often rank 0 alone reports."""
    reporting = np.bincount(layout.pair[known], minlength=len(layout.pairs)) > 0
    sizes = np.bincount(layout.pair_job[reporting], minlength=len(layout.jobs))
    result = np.zeros(nodes, bool)
    result[layout.pair_node[reporting & (sizes[layout.pair_job] > 1)]] = True
    return result


def _positive(values: Column) -> Column:
    return np.where(values > 0, values, np.nan)


def _part_of(layout: _Layout, ranks: Indices, rank: int, view: NodeView) -> tuple[str | None, str]:
    """The device or core that a rank works on, where there is one rank for each; and a phrase."""
    names = [str(layout.axis.key(int(index))[1]) for index in ranks]
    numbers = sorted(int(name.rpartition("/")[2]) for name in names)
    number = int(str(layout.axis.key(rank)[1]).rpartition("/")[2])
    local = numbers.index(number)
    for entity in (Entity.DEVICE, Entity.CORE):
        parts = view.inventory.of(entity)
        if len(parts) == len(numbers):
            return f"{entity}:{parts[local]}", f"{entity} {parts[local]} (rank {number})"
    return None, f"rank {number}"
