"""What the screens draw from: one tick, the past behind it, and how it is being played."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from trntop.history import History
from trntop.jobs import job_mean, job_value
from trntop.model import Cluster, Incident, NodeView, Phase, Severity, Stage, State, View
from trntop.settings import Analysis


class Mode(StrEnum):
    """How the shown tick relates to the stream."""

    WAITING = "waiting"
    """Nothing has come yet."""
    LIVE = "live"
    PLAYING = "playing"
    """A recording moves on."""
    PAUSED = "paused"
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
class Scene:
    """One picture. Immutable; what is computed from it is computed once, when first asked for."""

    view: View
    history: History
    limits: Analysis
    description: str = ""
    mode: Mode = Mode.LIVE
    speed: float = 1.0
    cost: float | None = None
    """Share of one core that this process uses."""
    failure: str = ""
    notes: tuple[str, ...] = ()
    """What was lost in damaged recordings."""
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
    def has_data(self) -> bool:
        """Whether any source ever told of something that exists: a device, a card, a job."""
        return self.cluster.has_parts


def job_figures(cluster: Cluster, job: str) -> JobFigures:
    """The figures of one job."""
    steps = [
        step
        for name in cluster.jobs.get(job, ())
        if (step := job_value(cluster.nodes[name], job, "job_step")) is not None
    ]
    return JobFigures(
        job=job,
        nodes=len(cluster.jobs.get(job, ())),
        step=max(steps, default=None),
        step_seconds=job_mean(cluster, job, "job_step_seconds"),
        step_pace_seconds=job_mean(cluster, job, "job_step_pace_seconds"),
        tokens_per_second=job_mean(cluster, job, "job_tokens_per_second"),
        tokens_per_second_per_device=job_mean(cluster, job, "job_tokens_per_second_per_device"),
        loss=job_mean(cluster, job, "job_loss"),
        mfu=job_mean(cluster, job, "job_mfu_ratio"),
        comm_share=job_mean(cluster, job, "job_comm_share_ratio"),
        exposed_share=job_mean(cluster, job, "job_exposed_comm_share_ratio"),
    )


def worst(node: NodeView, scene: Scene) -> Severity | None:
    """The worst open severity of a node, None when it has no incident."""
    found = scene.by_node.get(node.name)
    return found[0].severity if found else None
