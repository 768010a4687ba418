"""Communication time of finished training runs, from recordings with step telemetry."""

from collections.abc import Iterable
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
    """Finished runs by their number of nodes, and what the report prints of them."""

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
    known = sorted(stages, key=lambda stage: stage.nodes)
    return Outlook(stages=known, sentences=[_sentence(stage, limits) for stage in known])


def findings(outlook: Outlook, limits: Analysis) -> list[Finding]:
    """Runs above a limit, or without communication times."""
    found = []
    for one in outlook.stages:
        share, exposed = one.comm_share, one.exposed_share
        if exposed is not None and exposed > limits.exposed_comm_share:
            fault = "exposed communication high"
            text = (
                f"{one.job} was at {units.percent(exposed)} exposed communication on"
                f" {one.nodes} nodes"
            )
            limit = limits.exposed_comm_share
            outcome = Outcome.FAIL
        elif share is not None and share > limits.comm_share:
            fault = "communication high"
            text = f"{one.job} was at {units.percent(share)} communication on {one.nodes} nodes"
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


def _sentence(stage: Stage, limits: Analysis) -> str:
    nodes = "node" if stage.nodes == 1 else "nodes"
    source = f"{stage.name}, SIMULATED" if stage.simulated else stage.name
    return (
        f"{stage.job} on {stage.nodes} {nodes} ({source}):"
        f" step {units.seconds(stage.step_seconds)}, {_shares(stage, limits)}"
    )


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
