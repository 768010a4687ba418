"""Communication of finished training stages, and what twice the nodes would make of it.

A stage is a recording of a run with step telemetry. The forecast is a line, not a simulation:

- From two stages of n and m nodes: communication of a step grows by the same time with each
  doubling, as that of trees and hierarchical rings does: comm(2m) = comm(m) + (comm(m) - comm(n)) ÷
  log2(m ÷ n), and the exposed part likewise.
- From one stage of n nodes: the volume of a ring all-reduce for each rank grows as (n - 1) ÷ n, so
  that comm(2n) is at least comm(n) x (2n - 1) ÷ 2(n - 1), and what is added is not hidden. That is
  the least it can be: latency, other paths and stragglers come on top.

Both take the work of each node to stay the same (weak scaling): a step takes what it took, and the
communication that is newly exposed.
"""

import math
from collections.abc import Iterable
from itertools import pairwise
from statistics import median

import msgspec

from trntop.check.model import Action, Finding, Outcome
from trntop.core import units
from trntop.core.errors import UsageError
from trntop.core.model import View
from trntop.core.settings import Analysis
from trntop.pipeline.jobs import means_of

STEP = "job_step_seconds"
COMM = "job_comm_seconds"
EXPOSED = "job_exposed_comm_seconds"


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A step of one job in a recording: medians over its time, means over its nodes; seconds."""

    name: str
    """The recording."""
    job: str
    nodes: int
    step_seconds: float
    comm_seconds: float | None
    exposed_comm_seconds: float | None
    forecast: bool = False
    simulated: bool = False

    @property
    def comm_share(self) -> float | None:
        """Share of the step in which a collective ran."""
        return None if self.comm_seconds is None else self.comm_seconds / self.step_seconds

    @property
    def exposed_share(self) -> float | None:
        """Share of the step spent in communication alone."""
        exposed = self.exposed_comm_seconds
        return None if exposed is None else exposed / self.step_seconds


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Stages by their numbers of nodes, the forecast last if there is one."""

    stages: list[Stage]
    sentences: list[str]


def stage_of(name: str, views: Iterable[View]) -> Stage:
    """What a recording tells of the job that has most nodes.

    Raises:
        UsageError: no job in it reports its steps.
    """
    seen: dict[str, dict[str, list[float]]] = {}
    nodes: dict[str, int] = {}
    simulated = False
    for view in views:
        simulated |= view.cluster.simulated
        for job, members in view.cluster.jobs.items():
            nodes[job] = max(nodes.get(job, 0), len(members))
            for quantity, value in means_of(view.cluster, job, (STEP, COMM, EXPOSED)).items():
                seen.setdefault(job, {}).setdefault(quantity, []).append(value)
    told = [job for job, own in seen.items() if STEP in own]
    if not told:
        raise UsageError(f"{name}: no job reports steps (docs/steps.md)")
    job = max(told, key=lambda one: (nodes[one], len(seen[one][STEP])))
    own = {quantity: median(values) for quantity, values in seen[job].items()}
    return Stage(
        name=name,
        job=job,
        nodes=nodes[job],
        step_seconds=own[STEP],
        comm_seconds=own.get(COMM),
        exposed_comm_seconds=own.get(EXPOSED),
        simulated=simulated,
    )


def outlook_of(stages: Iterable[Stage], limits: Analysis) -> Outlook:
    """Finished stages, and the next doubling.

    Raises:
        UsageError: two of them have the same number of nodes.
    """
    known = sorted(stages, key=lambda one: one.nodes)
    twice = [one.nodes for one, two in pairwise(known) if one.nodes == two.nodes]
    if twice:
        raise UsageError(f"two stages ran on {twice[0]} nodes; give stages of different sizes")
    *_, last = known
    before = known[-2] if len(known) > 1 else None
    forecast = _with_line(before, last) if before is not None else _with_ring(last)
    all_of_them = [*known, *([forecast] if forecast is not None else [])]
    return Outlook(stages=all_of_them, sentences=_sentences(all_of_them, before, limits))


def findings(outlook: Outlook, limits: Analysis) -> list[Finding]:
    """Stages above a limit, expected to exceed it, or without data."""
    found = []
    for one in outlook.stages:
        share, exposed = one.comm_share, one.exposed_share
        where = f"{one.job} {'would be' if one.forecast else 'was'} at"
        if exposed is not None and exposed > limits.exposed_comm_share:
            fault = "exposed communication high"
            text = f"{where} {units.percent(exposed)} exposed communication on {one.nodes} nodes"
            limit = limits.exposed_comm_share
            outcome = Outcome.WARN if one.forecast else Outcome.FAIL
        elif share is not None and share > limits.comm_share:
            fault = "communication high"
            text = f"{where} {units.percent(share)} communication on {one.nodes} nodes"
            limit, outcome = limits.comm_share, Outcome.WARN
        elif share is None:
            found.append(
                Finding(
                    check="communication",
                    outcome=Outcome.UNKNOWN,
                    fault="communication share unknown",
                    text=f"the steps of {one.job} on {one.nodes} nodes report no communication"
                    " time",
                    next_step="Mark the collectives, see docs/steps.md.",
                )
            )
            continue
        else:
            continue
        found.append(
            Finding(
                check="communication",
                outcome=outcome,
                fault=fault,
                text=f"{text}, limit {units.percent(limit)} of a step",
                action=Action.MONITOR,
                next_step="Overlap more communication with compute before adding nodes; trntop"
                " replay shows the collectives of a recording.",
            )
        )
    return found


def _with_line(before: Stage, last: Stage) -> Stage | None:
    """From two stages: the same time more for each doubling."""
    if last.comm_seconds is None or before.comm_seconds is None:
        return None
    doublings = math.log2(last.nodes / before.nodes)
    more = max(last.comm_seconds - before.comm_seconds, 0.0) / doublings
    exposed = more_exposed = None
    if last.exposed_comm_seconds is not None and before.exposed_comm_seconds is not None:
        grown = max(last.exposed_comm_seconds - before.exposed_comm_seconds, 0.0)
        more_exposed = grown / doublings
        exposed = last.exposed_comm_seconds + more_exposed
    return _doubled(last, last.comm_seconds + more, exposed, more_exposed or 0.0)


def _with_ring(last: Stage) -> Stage | None:
    """From one: what the volume of a ring adds, none of it hidden."""
    if last.comm_seconds is None or last.nodes < 2:
        return None
    more = last.comm_seconds / (2 * (last.nodes - 1))
    exposed = last.exposed_comm_seconds
    return _doubled(
        last, last.comm_seconds + more, None if exposed is None else exposed + more, more
    )


def _doubled(last: Stage, comm: float, exposed: float | None, longer: float) -> Stage:
    return msgspec.structs.replace(
        last,
        name="forecast",
        nodes=2 * last.nodes,
        step_seconds=last.step_seconds + longer,
        comm_seconds=comm,
        exposed_comm_seconds=exposed,
        forecast=True,
    )


def _sentences(stages: list[Stage], before: Stage | None, limits: Analysis) -> list[str]:
    told = []
    for one in stages:
        if one.forecast:
            how = "by the growth of the last doubling" if before else "at least"
            head = f"{one.job} on {one.nodes} nodes, forecast {how}"
        else:
            nodes = "node" if one.nodes == 1 else "nodes"
            source = f"{one.name}, SIMULATED" if one.simulated else one.name
            head = f"{one.job} on {one.nodes} {nodes} ({source})"
        told.append(f"{head}: step {units.seconds(one.step_seconds)}, {_shares(one, limits)}")
    if not stages[-1].forecast:
        why = (
            "one node has no communication"
            if stages[-1].nodes < 2 and stages[-1].comm_seconds is not None
            else "the recordings have no communication times (docs/steps.md)"
        )
        told.append(f"no forecast: {why}")
    return told


def _shares(one: Stage, limits: Analysis) -> str:
    share, exposed = one.comm_share, one.exposed_share
    if share is None:
        return "communication not reported"
    side = "above" if share > limits.comm_share else "below"
    text = (
        f"communication {units.seconds(one.comm_seconds)}, {units.percent(share)} of the step,"
        f" {side} the limit of {units.percent(limits.comm_share)}"
    )
    return text if exposed is None else f"{text}; exposed {units.percent(exposed)}"
