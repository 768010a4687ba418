"""What the pages say beside the catalog's quantities: who, in what state, and what is wrong.

Identity stands in `_info` series of value 1, joined where it is wanted and repeated nowhere.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from trntop.analysis.rule import Rule
from trntop.catalog import METRIC_PREFIX, Entity, Kind
from trntop.core.model import Incident, Inventory, NodeView, State

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
"""The facts that become labels of `trn_instance_info`; others stay off the page."""

UP = (State.FRESH, State.LATE)
"""States in which a source is heard."""

INSTANCE = Family(
    f"{METRIC_PREFIX}instance_info",
    Kind.GAUGE,
    "Identity of the node; join it on node instead of labelling every series",
)
PHASE = Family(
    f"{METRIC_PREFIX}node_phase",
    Kind.GAUGE,
    "What the run on the node is busy with: 1 for its phase, no series for the others",
)
DEVICE = Family(
    f"{METRIC_PREFIX}device_info",
    Kind.GAUGE,
    "Place and serial number of a device; join it on node and neuron_device",
)
JOB = Family(
    f"{METRIC_PREFIX}job_info",
    Kind.GAUGE,
    "Which training job reports from which node; join it on node",
)
INCIDENT = Family(
    f"{METRIC_PREFIX}incident_active",
    Kind.GAUGE,
    "Incidents that last, as trntop analyze names them",
)
INCIDENT_OPENED = Family(
    f"{METRIC_PREFIX}incident_opened_timestamp_seconds",
    Kind.GAUGE,
    "Since when an incident lasts, in unix time, by the data",
)
INCIDENTS = Family(
    f"{METRIC_PREFIX}incidents",
    Kind.GAUGE,
    "Open incidents of a kind; no series for a kind that cannot be judged",
)
SOURCE_UP = Family(
    "trntop_source_up", Kind.GAUGE, "Whether the source was heard within its last three periods"
)
SOURCE_AGE = Family(
    "trntop_source_age_seconds", Kind.GAUGE, "Seconds since the last reading of the source"
)
SOURCE_EVENTS = Family(
    "trntop_source_events_total",
    Kind.COUNTER,
    "What happened to the source since the start: readings, problems, restarts and others",
)


class Identity:
    """One node's lines that stand as long as its inventory does."""

    def __init__(self, inventory: Inventory, *, simulated: bool) -> None:
        self.instance = _instance(inventory, simulated)
        self.devices = _devices(inventory)
        node = ("node", inventory.node)
        self.jobs = [
            f"{JOB.name}{labels([('training_job', job), node])} 1\n"
            for job in inventory.of(Entity.JOB)
        ]
        # One holder may be listed twice, by two schedulers or with two claims.
        self.held_devices = list(dict.fromkeys(allocations.of_devices(inventory)))
        self.held_cores = list(dict.fromkeys(allocations.of_cores(inventory)))
        self._node = node
        self._sources: dict[str, str] = {}

    def source(self, name: str) -> str:
        """The labels of a source of the node."""
        text = self._sources.get(name)
        if text is None:
            text = self._sources[name] = labels([self._node, ("source", name)])
        return text


def phases(views: Iterable[NodeView]) -> list[str]:
    """One line per node of which something tells."""
    return [
        f"{PHASE.name}{labels([('node', view.name), ('phase', view.frame.phase.stage)])} 1\n"
        for view in views
        if view.frame.phase is not None
    ]


def sources(nodes: Sequence[tuple[NodeView, Identity]]) -> Iterator[Block]:
    """Whether each source of each node is heard, and its age."""
    up: list[str] = []
    ages: list[str] = []
    for view, identity in nodes:
        for source in view.frame.sources:
            place = identity.source(source.name)
            up.append(f"{SOURCE_UP.name}{place} {int(source.state in UP)}\n")
            age = source.age(view.frame.time)
            if age is not None and math.isfinite(age):
                ages.append(f"{SOURCE_AGE.name}{place} {number(round(age, 3))}\n")
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


def incidents(found: Iterable[Incident], *, simulated: bool) -> Iterator[Block]:
    """That each lasts, and since when.

    Two may have the same labels: then the series is that of the one which opened first.

    Args:
        found: open ones, worst first.
        simulated: whether any node is.
    """
    opened: dict[str, float] = {}
    for incident in found:
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


def tally(rules: Iterable[Rule], views: Sequence[NodeView], found: Iterable[Incident]) -> list[str]:
    """How many incidents of each kind are open, so that health is told from ignorance.

    A kind whose rule has nothing to go by on any node has no line, unless one is still open.
    """
    known = _Known(views)
    kinds = Counter({rule.kind: 0 for rule in rules if views and rule.judges(known)})
    kinds.update(incident.kind for incident in found)
    return [f"{INCIDENTS.name}{labels([('kind', one)])} {kinds[one]}\n" for one in kinds]


class _Known:
    """The quantities that any node has; looked up, not collected: rules ask for few."""

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
    """One line per device of which a place is known."""
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
    """A runtime without its pid: each restart would leave a series behind."""
    return "runtime" if component.startswith("runtime:") else component
