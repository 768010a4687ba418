"""The series of the pages besides the catalog's quantities: identity, sources, incidents.

Identity is in `_info` series of value 1, to be joined in queries.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from trntop.analysis.rule import Rule
from trntop.catalog import METRIC_PREFIX, Entity, Kind
from trntop.core.model import Incident, Inventory, NodeView, State
from trntop.core.settings import Analysis

from . import allocations
from .exposition import Block, Family, labels, number

INSTANCE_LABELS = (
    "instance_type",
    "instance_id",
    "instance_name",
    "availability_zone",
    "region",
    "subnet_id",
    "ultraserver_id",
    "neuron_device_type",
    "neuroncore_version",
)
"""The facts that become labels of `trn_instance_info`."""

UP = (State.FRESH, State.LATE)
"""States in which a source has values."""

INSTANCE = Family(
    f"{METRIC_PREFIX}instance_info",
    Kind.GAUGE,
    "Identity of the node; join it on node",
)
PHASE = Family(
    f"{METRIC_PREFIX}node_phase",
    Kind.GAUGE,
    "Phase of the training run on the node: 1 for the current phase, no series for others",
)
DEVICE = Family(
    f"{METRIC_PREFIX}device_info",
    Kind.GAUGE,
    "Location and serial number of a device; join it on node and neuron_device",
)
JOB = Family(
    f"{METRIC_PREFIX}job_info",
    Kind.GAUGE,
    "Training jobs that report from the node; join it on node",
)
INCIDENT = Family(
    f"{METRIC_PREFIX}incident_active",
    Kind.GAUGE,
    "Open incidents, as trntop analyze lists them",
)
INCIDENT_OPENED = Family(
    f"{METRIC_PREFIX}incident_opened_timestamp_seconds",
    Kind.GAUGE,
    "Start time of an open incident since unix epoch, by the time of the data",
)
INCIDENTS = Family(
    f"{METRIC_PREFIX}incidents",
    Kind.GAUGE,
    "Open incidents of a kind; no series for a kind whose rule cannot be evaluated",
)
RULE = Family(
    f"{METRIC_PREFIX}rule_info",
    Kind.GAUGE,
    "Condition of the rule of each open incident, with the limits of this exporter",
)
SOURCE_UP = Family(
    "trntop_source_up", Kind.GAUGE, "Whether the source reported within its last three periods"
)
SOURCE_AGE = Family(
    "trntop_source_age_seconds", Kind.GAUGE, "Seconds since the last reading of the source"
)
SOURCE_EVENTS = Family(
    "trntop_source_events_total",
    Kind.COUNTER,
    "Events of the source since the start: readings, problems, restarts and others",
)


class Identity:
    """The lines of a node that change only with its inventory."""

    def __init__(self, inventory: Inventory, *, simulated: bool) -> None:
        self.instance = _instance(inventory, simulated)
        self.devices = _devices(inventory)
        node = ("node", inventory.node)
        self.jobs = [
            f"{JOB.name}{labels([('training_job', job), node])} 1\n"
            for job in inventory.of(Entity.JOB)
        ]
        # A job may be listed twice, by two schedulers or with two claims.
        self.allocated_devices = list(dict.fromkeys(allocations.of_devices(inventory)))
        self.allocated_cores = list(dict.fromkeys(allocations.of_cores(inventory)))
        self._node = node
        self._sources: dict[str, str] = {}

    def source(self, name: str) -> str:
        text = self._sources.get(name)
        if text is None:
            text = self._sources[name] = labels([self._node, ("source", name)])
        return text


def phases(views: Iterable[NodeView]) -> list[str]:
    """One line per node with a known phase."""
    return [
        f"{PHASE.name}{labels([('node', view.name), ('phase', view.frame.phase.stage)])} 1\n"
        for view in views
        if view.frame.phase is not None
    ]


def sources(nodes: Sequence[tuple[NodeView, Identity]]) -> Iterator[Block]:
    """Whether each source of each node is up, and its age."""
    up: list[str] = []
    ages: list[str] = []
    for view, identity in nodes:
        for source in view.frame.sources:
            source_labels = identity.source(source.name)
            up.append(f"{SOURCE_UP.name}{source_labels} {int(source.state in UP)}\n")
            age = source.age(view.frame.time)
            if age is not None and math.isfinite(age):
                ages.append(f"{SOURCE_AGE.name}{source_labels} {number(round(age, 3))}\n")
    yield SOURCE_UP, up
    yield SOURCE_AGE, ages


def source_events(views: Iterable[NodeView]) -> list[str]:
    """One line per source and event."""
    return [
        SOURCE_EVENTS.name
        + labels([("node", view.name), ("source", source.name), ("event", event)])
        + f" {count}\n"
        for view in views
        for source in view.frame.sources
        for event, count in source.counts.items()
    ]


def incidents(open_incidents: Iterable[Incident], *, simulated: bool) -> Iterator[Block]:
    """Open incidents and their start times, worst first.

    Of several incidents with the same labels, the series has the earliest start.
    """
    opened: dict[str, float] = {}
    for incident in open_incidents:
        text = labels(
            [
                ("kind", incident.kind),
                ("severity", incident.severity),
                ("training_job", incident.job or ""),
                ("node", incident.node or ""),
                ("component", _component(incident.component or "")),
                ("provenance", "simulated" if simulated else ""),
            ]
        )
        opened[text] = min(incident.opened_at, opened.get(text, math.inf))
    yield INCIDENT, [f"{INCIDENT.name}{text} 1\n" for text in opened]
    yield (
        INCIDENT_OPENED,
        [f"{INCIDENT_OPENED.name}{text} {number(since)}\n" for text, since in opened.items()],
    )


def counts(
    rules: Iterable[Rule], views: Sequence[NodeView], open_incidents: Iterable[Incident]
) -> list[str]:
    """The number of open incidents of each kind.

    A kind whose rule has no input data on any node has no line, unless an incident is open.
    """
    known = _Known(views)
    kinds = Counter({rule.kind: 0 for rule in rules if views and rule.judges(known)})
    kinds.update(incident.kind for incident in open_incidents)
    return [f"{INCIDENTS.name}{labels([('kind', kind)])} {kinds[kind]}\n" for kind in kinds]


def conditions(
    rules: Iterable[Rule], settings: Analysis, open_incidents: Iterable[Incident]
) -> list[str]:
    """One line per rule with open incidents."""
    kinds = {incident.kind for incident in open_incidents}
    return [
        f"{RULE.name}{labels([('kind', rule.kind), ('condition', rule.stated(settings))])} 1\n"
        for rule in rules
        if rule.kind in kinds
    ]


class _Known:
    """The quantities that any node has; looked up on demand, as rules need few."""

    def __init__(self, views: Sequence[NodeView]) -> None:
        self._views = views

    def __contains__(self, name: object) -> bool:
        return any(name in view.frame.columns for view in self._views)


def _instance(inventory: Inventory, simulated: bool) -> str:
    facts = ((name, inventory.facts.get(name, "")) for name in INSTANCE_LABELS)
    pairs: list[tuple[str, object]] = [
        ("node", inventory.node),
        *facts,
        ("lnc", inventory.lnc),
        ("simulated", "true" if simulated else "false"),
    ]
    return f"{INSTANCE.name}{labels(pairs)} 1\n"


def _devices(inventory: Inventory) -> list[str]:
    """One line per device with a known location."""
    lines = []
    for device, link in inventory.device_links.items():
        facts = [
            ("pci", link.get("pci", "")),
            ("numa_node", link.get("numa_node", "")),
            ("serial", link.get("serial_number", "")),
        ]
        if any(value for _, value in facts):
            pairs = [("neuron_device", device), *facts, ("node", inventory.node)]
            lines.append(f"{DEVICE.name}{labels(pairs)} 1\n")
    return lines


def _component(component: str) -> str:
    """A runtime without its pid, which would make a new series at each restart."""
    return "runtime" if component.startswith("runtime:") else component
