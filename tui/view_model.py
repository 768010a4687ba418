"""What the screens draw from: one tick, the past behind it, and how it is being played."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from trntop.catalog import DEVICE_SOURCES
from trntop.core.custom_rule import OwnRule
from trntop.core.model import Cluster, Incident, NodeView, Phase, Severity, Stage, State, View
from trntop.core.settings import Analysis, Check, Settings
from trntop.pipeline.history import History
from trntop.pipeline.jobs import means_of

from .view_history import HistoryUntil

CHECK = Settings().check


class Mode(StrEnum):
    """How the shown tick relates to the stream."""

    WAITING = "waiting"
    """Nothing has come yet."""
    LIVE = "live"
    PLAYING = "playing"
    """A recording moves on."""
    PAUSED = "paused"
    PAST = "past"
    """An earlier tick is shown; what comes is kept meanwhile."""
    ENDED = "ended"
    FAILED = "failed"
    """The collection stopped by itself."""


@dataclass(frozen=True, slots=True)
class JobFigures:
    """A job in numbers: means over the nodes that report it; None where nobody does."""

    job: str
    nodes: int
    step: float | None
    step_seconds: float | None
    step_pace_seconds: float | None
    tokens_per_second: float | None
    tokens_per_second_per_device: float | None
    loss: float | None
    mfu: float | None
    comm_share: float | None
    exposed_share: float | None


@dataclass(frozen=True, eq=False)
class ViewModel:
    """One picture. Immutable; what is computed from it is computed once, when first asked for."""

    view: View
    history: History | HistoryUntil
    limits: Analysis
    check: Check = CHECK
    """From when on a link is slow beside the others."""
    own_rules: tuple[OwnRule, ...] = ()
    """The user's own, that values are judged by beside ours."""
    description: str = ""
    mode: Mode = Mode.LIVE
    speed: float = 1.0
    every: int = 1
    """Ticks to a picture: more than one where the terminal takes no more."""
    loaded: float | None = None
    """How much of the past has been caught up with, from 0 to 1; None where there is none."""
    failure: str = ""
    notes: tuple[str, ...] = ()
    """What was lost in damaged recordings."""
    behind: float = 0.0
    """Seconds by which the shown tick is older than the newest."""
    later: tuple[Incident, ...] = ()
    """Incidents that were not known yet at the shown tick, where it is an earlier one."""
    span: tuple[float, float] | None = None
    """Where a recording begins and ends, if that is known."""
    baseline: View | None = None
    """The tick that changes are shown against, once the user has marked one."""
    utc: bool = False
    """Whether clock times are shown in UTC instead of local time."""

    @property
    def cluster(self) -> Cluster:
        """All nodes."""
        return self.view.cluster

    @cached_property
    def incidents(self) -> tuple[Incident, ...]:
        """Open incidents, worst first."""
        return self.view.open_incidents

    @cached_property
    def by_node(self) -> Mapping[str, tuple[Incident, ...]]:
        """Node → its open incidents, worst first."""
        table: dict[str, list[Incident]] = {}
        for incident in self.incidents:
            if incident.node is not None:
                table.setdefault(incident.node, []).append(incident)
        return {node: tuple(found) for node, found in table.items()}

    @cached_property
    def job(self) -> JobFigures | None:
        """The job that most needs a look: one with an incident, else the largest comm share."""
        figures = [job_figures(self.cluster, job) for job in self.cluster.jobs]
        troubled = {incident.job: incident.severity.rank for incident in reversed(self.incidents)}
        return max(
            figures,
            key=lambda one: (troubled.get(one.job, -1), one.comm_share or 0.0, one.nodes),
            default=None,
        )

    @cached_property
    def states(self) -> Mapping[State, int]:
        """How many nodes are in which state."""
        counts: dict[State, int] = {}
        for node in self.cluster.nodes.values():
            counts[node.state] = counts.get(node.state, 0) + 1
        return counts

    @property
    def starting(self) -> int:
        """Nodes that have not been heard yet."""
        return self.states.get(State.STARTING, 0)

    @cached_property
    def phases(self) -> Mapping[Stage, tuple[Phase, ...]]:
        """Stage → the phases of the nodes that are in it; what most nodes are in comes first."""
        found: dict[Stage, list[Phase]] = {}
        for node in self.cluster.nodes.values():
            if (phase := node.frame.phase) is not None:
                found.setdefault(phase.stage, []).append(phase)
        ranked = sorted(found.items(), key=lambda entry: -len(entry[1]))
        return {stage: tuple(phases) for stage, phases in ranked}

    @property
    def no_devices(self) -> bool:
        """Whether no source of Neuron devices is available on any node."""
        states = [
            source.state
            for node in self.cluster.nodes.values()
            for source in node.frame.sources
            if source.name in DEVICE_SOURCES
        ]
        return bool(states) and all(state is State.DOWN for state in states)

    @property
    def has_data(self) -> bool:
        """Whether any source ever told of something that exists: a device, a card, a job."""
        return self.cluster.has_parts


_MEANS = (
    "job_step_seconds",
    "job_step_pace_seconds",
    "job_tokens_per_second",
    "job_tokens_per_second_per_device",
    "job_loss",
    "job_mfu_ratio",
    "job_comm_share_ratio",
    "job_exposed_comm_share_ratio",
)


def job_figures(cluster: Cluster, job: str) -> JobFigures:
    """The figures of one job."""
    steps = cluster.job_column(job, "job_step")
    steps = steps[~np.isnan(steps)]
    means = means_of(cluster, job, _MEANS)
    known = {} if cluster.whole is None else cluster.whole.jobs.get(job, {})
    return JobFigures(
        job=job,
        nodes=int(known.get("nodes", len(cluster.jobs.get(job, ())))),
        step=known.get("job_step", float(steps.max()) if len(steps) else None),
        step_seconds=means.get("job_step_seconds"),
        step_pace_seconds=means.get("job_step_pace_seconds"),
        tokens_per_second=means.get("job_tokens_per_second"),
        tokens_per_second_per_device=means.get("job_tokens_per_second_per_device"),
        loss=means.get("job_loss"),
        mfu=means.get("job_mfu_ratio"),
        comm_share=means.get("job_comm_share_ratio"),
        exposed_share=means.get("job_exposed_comm_share_ratio"),
    )


def worst(node: NodeView, view_model: ViewModel) -> Severity | None:
    """The worst open severity of a node, None when it has no incident."""
    found = view_model.by_node.get(node.name)
    return found[0].severity if found else None
