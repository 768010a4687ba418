"""Nodes without reported steps, compared by latency, operations and utilization."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from trntop.analysis.detector import Verdict
from trntop.analysis.peers import TUNING as PEERS
from trntop.analysis.peers import Peers
from trntop.analysis.roles import lone_slow, roles
from trntop.catalog import NEURON_MONITOR
from trntop.core import units
from trntop.core.model import NO_VALUE, Column, Evidence
from trntop.pipeline.axis import Axis, Indices
from trntop.pipeline.statistics import Mask, Mean, excess, group_median
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class NodeTuning:
    """How nodes without reported steps are compared."""

    block: float = 5.0
    """Seconds whose values are compared as one."""
    min_of_usual: float = 0.8
    """Share of its usual utilization below which a group has paused."""
    paused: float = 0.9
    """The same of one node."""
    max_paused: float = 0.2
    """Share of a job's nodes, one at least, that may have paused: at the edges of a pause,
    reports that come at different times show it on some nodes only. Where only the rate of
    executions makes nodes one group, two that pause alone are another job of that rate.
    """
    usual_blocks: float = 20.0
    """Blocks over which it is a mean."""
    min_steps: float = 2.0
    """Steps that a block has at least, where their length is known: parts of steps differ."""


TUNING = NodeTuning()
_COLUMNS = (
    "node_device_latency_p50_seconds",
    "node_neuroncore_flops_per_second",
    "node_neuroncore_utilization_mean_ratio",
)
LATENCY, FLOPS, UTILIZATION = range(3)
_PHRASES = (
    "an execution takes {:.3g} s, peers {:.3g} s",
    "{:.3g} FLOP/s, peers {:.3g}",
    "utilization {:.0%}, peers {:.0%}",
)
_SIGNS = ((LATENCY,), (FLOPS, UTILIZATION))
"""Signs of a slow node: executions that take longer, or less work in less time.

In a synchronous job all nodes do the same work in the same time, and only the latency differs.
"""


class Nodes:
    inputs = frozenset(_COLUMNS)

    def __init__(self, least: float) -> None:
        self._peers = [Peers(least) for _ in _SIGNS]
        self._block = Mean((len(_COLUMNS), 0))
        self._read_times: Column = np.empty(0)
        """When neuron-monitor last reported: a report that is kept for want of a newer one counts
        once, `[node]`.
        """
        self._axis: Axis | None = None
        self._jobs: Mapping[str, str] | None = None
        self._lockstep: Mapping[str, str] = {}
        self._begin = 0.0
        self._end: float | None = None
        self._means: Column = np.zeros((len(_COLUMNS), 0))
        self._kinds: dict[str, tuple[str, str]] = {}
        """Node → its job, or a node in lockstep with it, and its instance type."""
        self._groups: Indices = np.zeros(0, np.int64)
        """The same, less those that behave otherwise."""
        self._grouped = False
        self._named: Mask = np.empty(0, bool)
        """Nodes whose job is known."""
        self._usual: Column = np.empty(0)
        """Median utilization of each node's group."""
        self._newest: Column = np.empty(0)
        """Above 1 where a node stands out in the newest block, `[node]`."""
        self._confirmed: Column = np.empty(0)
        """The same, from the next block on that it is slow in: a hiccup is over by then, and so is
        the begin of a pause that one node shows first.
        """
        self.worst: Column = np.empty(0)

    def update(self, tick: Tick, reporting: Mask) -> None:
        """Takes a tick, and compares the nodes at the end of each block of seconds.

        Nodes that are `reporting` steps are peers, but judged by those.
        """
        if tick.nodes is not self._axis:
            self._axis, self._jobs = tick.nodes, None
            self._block = Mean((len(_COLUMNS), len(tick.nodes)))
            self._read_times = np.full(len(tick.nodes), NO_VALUE)
            self._newest = self._confirmed = np.zeros(len(tick.nodes))
            for peers in self._peers:
                peers.follow(tick.nodes)
        if tick.job_of is not self._jobs or tick.runs.lockstep is not self._lockstep:
            self._learn_kinds(tick)
        if reporting.all():
            self.worst = np.full(len(tick.nodes), np.nan)
            return
        before, self._read_times = self._read_times, tick.read_times(NEURON_MONITOR)
        unusable = tick.quiet | (self._read_times == before)
        self._block.add(np.stack(tick.columns(_COLUMNS)), unusable if unusable.any() else None)
        if self._end is None or tick.time >= self._end:
            self._compare(tick)
            self._block.clear()
            steps = [run.usual for run in tick.runs.by_job.values() if len(run.indices)]
            self._begin = tick.time
            self._end = tick.time + max(TUNING.block, TUNING.min_steps * max(steps, default=0.0))
        self.worst = np.where(reporting, np.nan, self._confirmed)
        if not self._grouped:
            self.worst[:] = np.nan  # the groups are not known yet

    def verdict(self, node: str, index: int, tick: Tick) -> Verdict:
        worst = int(np.argmax([peers.slower[index] for peers in self._peers]))
        effect = float(self._peers[worst].effect[index])
        evidence = []
        for column in _SIGNS[worst]:
            own = float(self._means[column][index])
            usual = float(group_median(self._means[column], self._groups)[index])
            if own == own and usual == usual:
                text = f"{node}: {_PHRASES[column].format(own, usual)}"
                evidence.append(Evidence(text, node, _COLUMNS[column], own, usual))
        since = float(self._peers[worst].since[index])
        fields = {"where": node, "slower": units.percent(effect), "basis": "neuron-monitor"}
        return Verdict.at(tick, node, fields, *evidence, since=since or None)

    def _learn_kinds(self, tick: Tick) -> None:
        """Groups nodes of one job and instance type; all start over if a node changes its group."""
        self._jobs, self._lockstep = jobs, lockstep = tick.job_of, tick.runs.lockstep
        kinds = {
            name: (jobs.get(name) or lockstep.get(name) or name, view.inventory.instance_type)
            for name, view in zip(map(str, tick.nodes.keys), tick.views, strict=True)
        }
        known = zip(self._kinds, self._usual.tolist(), strict=True)
        usual = np.array([dict(known).get(node, NO_VALUE) for node in kinds])
        moved = any(kinds.get(node, kind) != kind for node, kind in self._kinds.items())
        numbers: dict[Hashable, int] = {}
        groups = [numbers.setdefault(kind, len(numbers)) for kind in kinds.values()]
        self._groups = np.array(groups, np.int64)
        self._named = np.array([name in jobs for name in kinds], bool)
        self._kinds, self._grouped = kinds, False
        # A new node is assumed to do what its group does.
        self._usual = np.where(np.isnan(usual), group_median(usual, self._groups), usual)
        if moved:
            self._newest = self._confirmed = np.zeros(len(tick.nodes))
            for peers in self._peers:
                peers.restart()
                peers.follow(tick.nodes)

    def _compare(self, tick: Tick) -> None:
        self._means = self._block.mean
        sizes = np.bincount(self._groups[~tick.quiet], minlength=int(self._groups.max()) + 1)
        steady = self._steady()
        enough = (sizes[self._groups] >= 3) & tick.runs.nodes.cooperates & steady
        interval = tick.time - self._begin
        edge = self._edge(sizes)
        confirmed = self._confirmed > 1.0
        judged = np.zeros(len(tick.nodes), bool)
        for columns, peers in zip(_SIGNS, self._peers, strict=True):
            off = np.fmin.reduce([self._excess(column) for column in columns])
            if columns == (LATENCY,):
                # A node with more work takes longer, and does more operations per second.
                work = np.fmax(1.0 - self._excess(FLOPS), 1.0)
                off = (1.0 + off) / work - 1.0
            if UTILIZATION in columns:
                off[edge] = np.nan
            off[~enough] = np.nan
            judged |= ~np.isnan(off)
            peers.round(tick.time, tick.nodes, off, interval)
            # The blocks before and after a pause may hold parts of it.
            peers.interrupt((edge | ~steady) & ~confirmed)
        before, self._newest = self._newest, np.fmax.reduce([peers.slower for peers in self._peers])
        lasting = np.any([peers.lasts for peers in self._peers], axis=0)
        found = np.where(confirmed, self._newest, np.where(lasting, before, 0.0))
        self._confirmed = np.where(judged, found, self._confirmed)
        if not self._grouped and any(
            peers.count.max(initial=0.0) >= PEERS.learning for peers in self._peers
        ):
            self._group()
            self._grouped = True

    def _excess(self, column: int) -> Column:
        """By which share each node is worse than its group."""
        means = self._means[column]
        sign = 1.0 if column == LATENCY else -1.0
        return sign * excess(np.where(means > 0, means, np.nan), self._groups)

    def _group(self) -> None:
        """Separates nodes that do something else: those of another job that reports no steps.

        One that is far slower than nearly all others is slow from the start.
        """
        slow = np.zeros(len(self._groups), bool)
        peers = self._peers[LATENCY]
        levels = np.where(peers.count >= PEERS.learning, peers.bias, np.nan)
        found = roles(levels, peers.noise())
        for group in np.unique(self._groups):
            mine = np.flatnonzero(self._groups == group)
            slow_in = lone_slow(levels[mine], found[mine], mine)
            lone = slow_in >= 0
            found[mine[lone]] = slow_in[lone]
            slow[mine[lone]] = True
        both = np.stack([self._groups, found])
        self._groups = np.unique(both, axis=1, return_inverse=True)[1].ravel().astype(np.int64)
        for signal in self._peers:
            usual = group_median(signal.bias, self._groups)
            signal.bias = np.where(slow, 0.0, (1.0 + signal.bias) / (1.0 + usual) - 1.0)

    def _edge(self, sizes: Indices) -> Mask:
        """Nodes whose group has begun or ended a pause in the block."""
        paused = self._means[UTILIZATION] < TUNING.paused * self._usual
        many = np.bincount(self._groups[paused], minlength=len(sizes))[self._groups]
        allowed = np.where(self._named, TUNING.max_paused * sizes[self._groups], 1.0)
        edge: Mask = many > np.maximum(1.0, allowed)
        return edge

    def _steady(self) -> Mask:
        """Nodes whose group worked through the block as usual, without a pause."""
        now = group_median(self._means[UTILIZATION], self._groups)
        usual = np.where(np.isnan(self._usual), now, self._usual)
        steady: Mask = now >= TUNING.min_of_usual * usual
        self._usual = np.where(np.isnan(now), usual, usual + (now - usual) / TUNING.usual_blocks)
        return steady
