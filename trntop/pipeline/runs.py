"""The runs of a cluster: which nodes work on which job, and what each job is doing."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trntop.catalog import NEURON_MONITOR, Entity, Provenance
from trntop.core.model import NO_VALUE, Column, NodeView, Phase
from trntop.pipeline.axis import Indices, PartAxis
from trntop.pipeline.phase import INPUTS, Observation, Run
from trntop.pipeline.phase import TUNING as PHASE
from trntop.pipeline.statistics import Ewma, Mask, Members, median
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class RunTuning:
    """When nodes count as part of a job."""

    evict_after: float = 600.0
    """Seconds after its last report at which a job without nodes is dropped."""
    rate_weight: float = 0.1
    """Weight of the newest report in the usual rate of a node's executions."""
    rate_half_life: float = 20.0
    min_rate_age: float = 30.0
    """Seconds of data before rates of nodes are compared."""
    match_interval: float = 10.0
    """Seconds between two comparisons."""
    same_rate: float = 0.08
    """Share by which the rates of nodes of one job may differ."""
    lockstep_gap: float = 0.05
    """Share by which the rates of two jobs that report nothing lie apart."""
    steady: float = 0.02
    """Share by which a mean rate may have changed between two comparisons: on its way to its usual
    one after a pause, it is then within 5 % of that.
    """
    lockstep_left: float = 0.12
    """Share by which a node is off its group from which it is no longer in lockstep with it."""


TUNING = RunTuning()
_NO_INDICES: Indices = np.empty(0, np.int64)


class _Nodes(Members):
    """What is known of each node."""

    BLANK: ClassVar = {
        **dict.fromkeys(("active", "idle_since", "last_rate", "usual_rate"), NO_VALUE),
        "cooperates": False,
    }
    active: Column
    """When it last computed."""
    idle_since: Column
    """When its cores became idle; NaN while they are busy."""
    last_rate: Column
    """Executions per second that it reported then."""
    usual_rate: Column
    """The same as a mean over the reports before."""
    cooperates: Mask
    """Whether it works with others: it is part of a job, or has exchanged data over EFA."""


class Runs:
    """All runs, tick by tick."""

    inputs = INPUTS | {"node_efa_tx_bytes_per_second"}

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Starts over: the stream's clock was set back."""
        self.by_job: dict[str | None, Run] = {}
        self.job_of: dict[str, str] = {}
        """Node → the job that it last reported steps of, or that its rate assigns it to."""
        self.nodes = _Nodes()
        self._without_job: set[str] = set()
        """The nodes of the run without a job."""
        self._reports: dict[str, Indices] = {}
        """Job → the indices of its parts on the axis of the tick."""
        self._reporting: frozenset[str] = frozenset()
        """Nodes that report steps."""
        self._rates = Ewma(TUNING.rate_half_life)
        self._likely: dict[str, str] = {}
        """Nodes that report no steps → the job with the same rate in the last comparison."""
        self._version = -1
        self._announcing: list[int] = []
        """Indices of nodes whose training processes ever announced a stage."""
        self.lockstep: dict[str, str] = {}
        """Nodes that belong to no known job → a node with which they execute in lockstep."""
        self._in_step: dict[str, str] = {}
        """The same by the last comparison alone."""
        self._matched_rates: dict[str, float] = {}
        """The rates of that."""
        self._next_match = float("-inf")
        self._jobs: PartAxis | None = None

    def update(self, tick: Tick) -> None:
        """Takes one tick, and marks the nodes of quiet runs in it."""
        self._follow(tick)
        if tick.version != self._version:
            self._version = tick.version
            self._announcing = [
                index for index, view in enumerate(tick.views) if view.inventory.stages
            ]
        phases = ((index, tick.views[index].frame.phase) for index in self._announcing)
        announced = {
            index: phase.stage
            for index, phase in phases
            if phase is not None and phase.provenance is Provenance.REPORTED
        }
        seen = Observation(
            tick.time, tick.column, announced, lambda index: newest_report(tick.views[index])[0]
        )
        self._note_activity(tick, seen)
        self._rates.push(tick.time, tick.nodes, seen.rates)
        self._match(tick)
        for job, run in self.by_job.items():
            run.reports = _NO_INDICES if job is None else self._reports.get(job, _NO_INDICES)
            run.cooperates = job is not None or bool(self.nodes.cooperates[run.indices].any())
            run.update(seen)
            if run.quiet:
                tick.quiet[run.indices] = True
        tick.job_of = self.job_of
        tick.runs = self

    def run_of(self, node: str) -> Run | None:
        return self.by_job.get(self.job_of.get(node))

    def phases(self, now: float) -> dict[str, Phase]:
        """Job → what it is doing; under the empty name the nodes without a job."""
        found = {job or "": run.phase(now) for job, run in self.by_job.items()}
        return {job: phase for job, phase in found.items() if phase is not None}

    def first_steps(self) -> dict[str, float]:
        """Job → seconds of its first step, where that was seen."""
        return {
            job: run.first_step
            for job, run in self.by_job.items()
            if job is not None and run.first_step is not None
        }

    def _note_activity(self, tick: Tick, seen: Observation) -> None:
        nodes, works, rates = self.nodes, seen.works, seen.rates
        nodes.active[works] = tick.time
        nodes.last_rate[works] = rates[works]
        usual = np.where(np.isnan(nodes.usual_rate), rates, nodes.usual_rate)
        usual = usual + TUNING.rate_weight * (rates - usual)
        nodes.usual_rate = np.where(works, usual, nodes.usual_rate)
        if not nodes.cooperates.all():
            nodes.cooperates |= tick.column("node_efa_tx_bytes_per_second") > PHASE.min_traffic
        utilization = tick.column("node_neuroncore_utilization_mean_ratio")
        since = np.where(utilization > PHASE.busy, NO_VALUE, np.fmin(nodes.idle_since, tick.time))
        nodes.idle_since = np.where(np.isnan(utilization), nodes.idle_since, since)

    def _follow(self, tick: Tick) -> None:
        """Assigns nodes to jobs again when a node or a job joins or leaves."""
        jobs = tick.parts(Entity.JOB)
        if not self.nodes.follow(tick.nodes) and jobs is self._jobs:
            return
        self._jobs = jobs
        reporting: dict[str, str] = {}
        reports: dict[str, list[int]] = {}
        index = 0
        for node, names in zip(tick.nodes.keys, jobs.parts, strict=True):
            for name in names:
                reports.setdefault(str(name), []).append(index)
                index += 1
            if names:
                reporting[str(node)] = str(names[0])
        self._reports = {job: np.array(indices, np.int64) for job, indices in reports.items()}
        # Nodes assigned to a job whose reporters have moved on to another one are free again.
        left = {job for node, job in self.job_of.items() if reporting.get(node, job) != job}
        left -= reports.keys()
        known = {
            node: job
            for node, job in self.job_of.items()
            if node in tick.nodes.index_of and job not in left
        }
        self.job_of = known | reporting
        self._reporting = frozenset(reporting)
        self._assign(tick)

    def _assign(self, tick: Tick) -> None:
        members: dict[str | None, list[int]] = {}
        for index, node in enumerate(tick.nodes.keys):
            members.setdefault(self.job_of.get(str(node)), []).append(index)
        for job in self.by_job.keys() | members.keys():
            run = self.by_job.setdefault(job, Run(job))
            run.indices = np.array(members.get(job, ()), np.int64)
            if job is not None:
                self.nodes.cooperates[run.indices] = True
        if not self.job_of.keys().isdisjoint(self._without_job):
            self.by_job[None].began = None  # its progress was that of nodes that have left it
        self._without_job = {str(node) for node in tick.nodes.keys} - self.job_of.keys()
        self.by_job = {
            job: run
            for job, run in self.by_job.items()
            if len(run.indices) or tick.time - run.seen < TUNING.evict_after
        }

    def _match(self, tick: Tick) -> None:
        """Assigns nodes that report no steps to the job with their rate of executions.

        All nodes of a synchronous job execute the same programs in the same time, and often only
        some ranks report steps.
        """
        rates = self._rates.mean
        if tick.time < self._next_match or self._rates.age.max(initial=0.0) < TUNING.min_rate_age:
            return
        self._next_match = tick.time + TUNING.match_interval
        self._find_lockstep(tick, rates)
        index = tick.nodes.index_of
        usual = {
            job: median(
                rates[[index[node] for node in self._reporting if self.job_of[node] == job]]
            )
            for job in set(self.job_of.values())
        }
        found = {}
        for node in map(str, tick.nodes.keys):
            if node in self.job_of:
                continue
            rate = float(rates[index[node]])
            same = [
                job for job, own in usual.items() if own and abs(rate / own - 1) < TUNING.same_rate
            ]
            if len(same) == 1:
                found[node] = same[0]
        # Twice in a row: two jobs may have the same rate for a moment.
        sure = {node: job for node, job in found.items() if self._likely.get(node) == job}
        self._likely = found
        if sure:
            self.job_of = self.job_of | sure
            self._assign(tick)

    def _find_lockstep(self, tick: Tick, rates: Column) -> None:
        """Groups nodes that belong to no known job by their rates of executions.

        Twice in a row, as jobs; a node then stays until its rate departs from that of its group.
        The mean rate of nodes that pause or resume passes through those of other jobs, so only
        nodes whose rate is steady join a group.
        """
        nodes = list(map(str, tick.nodes.keys))
        free = self.nodes.cooperates & (rates > 0) & (self._rates.age >= TUNING.min_rate_age)
        free[[tick.nodes.index_of[node] for node in self.job_of]] = False
        rate = {nodes[index]: float(rates[index]) for index in np.flatnonzero(free).tolist()}
        usual: dict[str, list[float]] = {}
        for node, first in self.lockstep.items():
            if node in rate:
                usual.setdefault(first, []).append(rate[node])
        kept = {
            node: first
            for node, first in self.lockstep.items()
            if node in rate and abs(rate[node] / median(usual[first]) - 1) < TUNING.lockstep_left
        }
        steady = [
            node
            for node, value in rate.items()
            if abs(value / self._matched_rates.get(node, value) - 1) < TUNING.steady
        ]
        self._matched_rates = rate
        ordered = sorted(steady, key=rate.__getitem__)
        groups: list[list[str]] = []
        for before, node in zip([None, *ordered], ordered, strict=False):
            if before is None or rate[node] > rate[before] * (1.0 + TUNING.lockstep_gap):
                groups.append([])
            groups[-1].append(node)
        found: dict[str, str] = {}
        used = set(kept.values())
        for group in groups:
            names = Counter(kept[node] for node in group if node in kept)
            unused = set(group) - used  # a node may have left the group that it named
            if names or unused:
                name = names.most_common(1)[0][0] if names else min(unused)
                found |= {node: kept.get(node, name) for node in group}
        sure = {node: first for node, first in found.items() if self._in_step.get(node) == first}
        self._in_step = found
        if (lockstep := sure | kept) != self.lockstep:
            self.lockstep = lockstep


def newest_report(view: NodeView) -> tuple[float | None, float]:
    """When neuron-monitor last reported on a node, and the seconds between its reports."""
    for source in view.frame.sources:
        if source.name == NEURON_MONITOR:
            return source.time, source.period or 0.0
    return None, 0.0
