"""The input of all drawings: one tick, its history, and the state of the playback."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from trntop.catalog import DEVICE_SOURCES
from trntop.core.custom_rule import CustomRule
from trntop.core.model import Cluster, Incident, NodeView, Phase, Severity, Stage, State, View
from trntop.core.settings import Analysis, Check, Settings
from trntop.pipeline.history import History
from trntop.pipeline.jobs import means_of, newest_step

from .measures import COMM, EXPOSED, LOG_STEP, STEP, TOKENS
from .view_history import HistoryUntil

CHECK = Settings().check


class Mode(StrEnum):
    """The relation of the shown tick to the stream."""

    WAITING = "waiting"
    """No data yet."""
    LIVE = "live"
    PLAYING = "playing"
    """A recording plays."""
    PAUSED = "paused"
    HISTORY = "history"
    """An earlier tick is shown; collection continues."""
    ENDED = "ended"
    FAILED = "failed"
    """The collection stopped with an error."""


@dataclass(frozen=True, slots=True)
class JobFigures:
    """The numbers of a job."""

    job: str
    nodes: int
    values: Mapping[str, float]
    """Quantity → mean over the nodes that report it; the newest step."""

    def value(self, quantity: str) -> float | None:
        return self.values.get(quantity)

    @property
    def step_quantity(self) -> str:
        """The step time, or the interval of the steps in the log if only that is known."""
        is_logged = STEP not in self.values and LOG_STEP in self.values
        return LOG_STEP if is_logged else STEP


@dataclass(frozen=True, eq=False)
class ViewModel:
    """The input of one picture. Immutable; derived values are computed when first used."""

    view: View
    history: History | HistoryUntil
    limits: Analysis
    check: Check = CHECK
    """Limits of slow links."""
    custom_rules: tuple[CustomRule, ...] = ()
    """Custom rules."""
    description: str = ""
    mode: Mode = Mode.LIVE
    speed: float = 1.0
    loaded: float | None = None
    """Share of the history that a stream has caught up with; None once it has."""
    failure: str = ""
    notes: tuple[str, ...] = ()
    """Damage in recordings."""
    behind: float = 0.0
    """Seconds by which the shown tick is older than the newest."""
    later: tuple[Incident, ...] = ()
    """Incidents that opened after the shown tick."""
    span: tuple[float, float] | None = None
    """Start and end of a recording, if known."""
    acknowledged: Mapping[str, float] = field(default_factory=dict)
    """Id of an incident → unix seconds at which the user acknowledged it."""
    utc: bool = False
    """Whether clock times are shown in UTC instead of local time."""

    @property
    def cluster(self) -> Cluster:
        return self.view.cluster

    @cached_property
    def incidents(self) -> tuple[Incident, ...]:
        """Open incidents, worst first; acknowledged ones last."""
        return tuple(sorted(self.view.open_incidents, key=lambda i: i.id in self.acknowledged))

    @property
    def all_incidents(self) -> tuple[Incident, ...]:
        """Open, closed and later ones."""
        return (*self.view.incidents, *self.later)

    def incident(self, id: str | None) -> Incident | None:  # noqa: A002
        return next((incident for incident in self.all_incidents if incident.id == id), None)

    @cached_property
    def by_node(self) -> Mapping[str, tuple[Incident, ...]]:
        """Node → its open incidents, worst first."""
        table: dict[str, list[Incident]] = {}
        for incident in self.incidents:
            if incident.node is not None:
                table.setdefault(incident.node, []).append(incident)
        return {node: tuple(found) for node, found in table.items()}

    def by_part(self, node: NodeView, places: Mapping[str, int]) -> dict[int, Incident]:
        """Place of a part → its worst open incident, for components in `places`."""
        return {
            places[component]: incident
            for incident in reversed(self.by_node.get(node.name, ()))
            if (component := incident.component or "") in places
        }

    @cached_property
    def jobs(self) -> tuple[JobFigures, ...]:
        """All jobs, worst first: those with an incident, then by comm share.

        A job that has stalled for so long that its last report is stale is one of them.
        """
        troubled = {
            incident.job: incident.severity.rank
            for incident in reversed(self.incidents)
            if incident.job
        }
        names = dict.fromkeys([*self.cluster.jobs, *troubled])
        figures = [job_figures(self.cluster, job) for job in names]

        def key(job: JobFigures) -> tuple[int, float, int]:
            return troubled.get(job.job, -1), job.value(COMM) or 0.0, job.nodes

        return tuple(sorted(figures, key=key, reverse=True))

    @property
    def job(self) -> JobFigures | None:
        """The worst job."""
        return next(iter(self.jobs), None)

    @cached_property
    def states(self) -> Mapping[State, int]:
        counts: dict[State, int] = {}
        for node in self.cluster.nodes.values():
            counts[node.state] = counts.get(node.state, 0) + 1
        return counts

    @property
    def starting(self) -> int:
        """Nodes without data so far."""
        return self.states.get(State.STARTING, 0)

    @cached_property
    def phases(self) -> Mapping[Stage, tuple[Phase, ...]]:
        """Stage → the phases of the nodes in it, most frequent first."""
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
        """Whether any source ever reported a device or a job."""
        return self.cluster.has_parts


_MEANS = (
    STEP,
    LOG_STEP,
    TOKENS,
    "job_tokens_per_second_per_device",
    "job_loss",
    "job_mfu_ratio",
    COMM,
    EXPOSED,
)


def job_figures(cluster: Cluster, job: str) -> JobFigures:
    known = {} if cluster.whole is None else cluster.whole.jobs.get(job, {})
    values = means_of(cluster, job, _MEANS)
    if (step := known.get("job_step", newest_step(cluster, job))) is not None:
        values["job_step"] = step
    return JobFigures(job, int(known.get("nodes", len(cluster.jobs.get(job, ())))), values)


def worst(node: NodeView, view_model: ViewModel) -> Severity | None:
    """The worst open severity of a node."""
    found = view_model.by_node.get(node.name)
    return found[0].severity if found else None
