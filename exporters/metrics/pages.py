"""The metrics pages, in Prometheus' text format 0.0.4.

Rendered by hand: prefixes (`name{labels} `) change only with a node's inventory and are kept,
so that a page costs little more than formatting its numbers. An absent value has no line.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import math
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from trntop import __version__
from trntop.catalog import METRIC_PREFIX, Entity, Kind, Quantity, of_entity
from trntop.model import Cluster, Incident, Inventory, State, View

from .process import ProcessUsage

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
DEFAULT_MAX_SERIES = 20_000

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

_WHOLE = 1e15
"""Below this an integral float is exact and written without a fraction."""


@dataclass(frozen=True)
class Family:
    """A metric: its name, kind and help."""

    name: str
    kind: Kind
    help: str

    @cached_property
    def header(self) -> str:
        """The HELP and TYPE lines."""
        text = self.help.replace("\\", "\\\\").replace("\n", "\\n")
        return f"# HELP {self.name} {text}\n# TYPE {self.name} {self.kind}\n"


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of one view, encoded."""

    metrics: bytes
    """`/metrics`: node roll-ups, jobs, devices, EFA cards, incidents, sources, the exporter."""
    cores: bytes
    """`/metrics/cores`: what there is one of per NeuronCore, logical or physical."""


def escape(value: str) -> str:
    """A label's value between its quotes."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def labels(pairs: Iterable[tuple[str, object]]) -> str:
    """`{name="value",…}`, empty values left out: to Prometheus they are the same."""
    inside = ",".join(f'{name}="{escape(str(value))}"' for name, value in pairs if value != "")
    return f"{{{inside}}}" if inside else ""


def number(value: float) -> str:
    """A finite value as short as it is exact."""
    if value == int(value) and -_WHOLE < value < _WHOLE:
        return str(int(value))
    return repr(value)


@dataclass(frozen=True, slots=True)
class _Column:
    """A catalog quantity as a metric."""

    quantity: Quantity
    family: Family


def _columns(*entities: Entity) -> tuple[_Column, ...]:
    return tuple(
        _Column(quantity, Family(quantity.metric, quantity.kind, quantity.help))
        for entity in entities
        for quantity in of_entity(entity)
        if quantity.exported
    )


# The guard on series cuts from the end, so what there is most of comes last.
_METRICS_COLUMNS = _columns(Entity.NODE, Entity.JOB, Entity.DEVICE, Entity.EFA)
_CORES_COLUMNS = _columns(Entity.CORE, Entity.PHYSICAL_CORE)

_BUILD = Family("trntop_build_info", Kind.GAUGE, "Version of the exporter and of its Python")
_PROCESS = tuple(Family(*family) for family in ProcessUsage.FAMILIES)
_DROPPED = Family(
    "trntop_series_dropped",
    Kind.GAUGE,
    "Series left off this page because it would exceed the limit on series",
)
_SOURCE_UP = Family(
    "trntop_source_up", Kind.GAUGE, "Whether the source was heard within its last three periods"
)
_SOURCE_AGE = Family(
    "trntop_source_age_seconds", Kind.GAUGE, "Seconds since the last reading of the source"
)
_SOURCE_EVENTS = Family(
    "trntop_source_events_total",
    Kind.COUNTER,
    "What happened to the source since the start: readings, problems, restarts and others",
)
_INSTANCE = Family(
    f"{METRIC_PREFIX}instance_info",
    Kind.GAUGE,
    "Identity of the node; join it on node instead of labelling every series",
)
_PHASE = Family(
    f"{METRIC_PREFIX}node_phase",
    Kind.GAUGE,
    "What the run on the node is busy with: 1 for its phase, no series for the others",
)
_DEVICE = Family(
    f"{METRIC_PREFIX}device_info",
    Kind.GAUGE,
    "Place and serial number of a device; join it on node and neuron_device",
)
_INCIDENT = Family(
    f"{METRIC_PREFIX}incident_active",
    Kind.GAUGE,
    "Incidents that last, as trntop analyze names them",
)


@dataclass(slots=True)
class _Node:
    """One node's prefixes, as long as its inventory stands."""

    inventory: Inventory
    simulated: bool
    instance: str = ""
    devices: list[str] = field(default_factory=list)
    """Lines of `trn_device_info`."""
    labels: dict[Entity, list[str]] = field(default_factory=dict)
    prefixes: dict[str, list[str]] = field(default_factory=dict)
    """Metric → prefix per key; filled when first rendered."""

    def of(self, column: _Column) -> list[str]:
        """`name{labels} ` per key of the quantity's entity."""
        name = column.family.name
        prefixes = self.prefixes.get(name)
        if prefixes is None:
            entity = column.quantity.entity
            if entity not in self.labels:
                self.labels[entity] = self._labels(entity)
            prefixes = self.prefixes[name] = [f"{name}{text} " for text in self.labels[entity]]
        return prefixes

    def _labels(self, entity: Entity) -> list[str]:
        inventory = self.inventory
        node = [("node", inventory.node)]
        if self.simulated:
            node.append(("provenance", "simulated"))
        keys = inventory.of(entity)
        own: Iterable[list[tuple[str, object]]]
        if entity is Entity.NODE:
            own = [[]]
        elif entity in _CORE_LABELS:
            label, owner = _CORE_LABELS[entity]
            own = (
                [("neuron_device", device), (label, core)]
                for core, device in zip(keys, _owners(owner(inventory), len(keys)), strict=True)
            )
        else:
            own = ([(_KEY_LABELS[entity], key)] for key in keys)
        return [labels([*pairs, *node]) for pairs in own]


_KEY_LABELS = {
    Entity.DEVICE: "neuron_device",
    Entity.EFA: "efa_device",
    # Not `job`: Prometheus puts its own label of that name on every series.
    Entity.JOB: "training_job",
}


_CORE_LABELS: Mapping[Entity, tuple[str, Callable[[Inventory], npt.NDArray[np.int64]]]] = {
    Entity.CORE: ("neuroncore", lambda inventory: inventory.core_device),
    Entity.PHYSICAL_CORE: ("physical_core", lambda inventory: inventory.physical_device),
}
"""The label of a core, and the device of each."""


def _owners(devices: npt.NDArray[np.int64], cores: int) -> list[object]:
    """The device of each core; empty where the inventory does not tell."""
    known: list[object] = list(devices.tolist()[:cores])
    return known + [""] * (cores - len(known))


class Page:
    """Renders views to metrics pages; keeps what does not change between them.

    Args:
        max_series: most series on one page. Whole families are cut from the end, and
            `trntop_series_dropped` says how many series that were.
        usage: reads the process's own cost; metric name → value.
    """

    def __init__(
        self,
        max_series: int = DEFAULT_MAX_SERIES,
        usage: Callable[[], Mapping[str, float]] | None = None,
    ) -> None:
        self._max_series = max_series
        self._usage = usage or ProcessUsage().read
        self._nodes: dict[str, _Node] = {}
        build = [("version", __version__), ("python", platform.python_version())]
        self._build = f"{_BUILD.name}{labels(build)} 1\n"

    def render(self, view: View | None) -> Pages:
        """Both pages; without a view, what is known of the exporter alone."""
        cluster = view.cluster if view is not None else Cluster()
        self._remember(cluster)
        metrics = _Text(self._max_series)
        self._about_itself(metrics)
        if view is not None:
            # What a page cut short must keep comes first.
            incidents = _incidents(view.open_incidents)
            metrics.add(_INCIDENT, len(incidents), incidents)
            self._about_sources(metrics, cluster)
            self._columns(metrics, _METRICS_COLUMNS, cluster)
        cores = _Text(self._max_series)
        self._columns(cores, _CORES_COLUMNS, cluster)
        return Pages(metrics.encode("metrics"), cores.encode("cores"))

    def _remember(self, cluster: Cluster) -> None:
        """Keeps the prefixes of nodes whose inventory stands, forgets those that left."""
        nodes: dict[str, _Node] = {}
        for name, view in cluster.nodes.items():
            node = self._nodes.get(name)
            inventory, simulated = view.inventory, view.frame.simulated
            # An inventory is replaced when it changes: identity is its version.
            if node is None or node.inventory is not inventory or node.simulated != simulated:
                node = _Node(
                    inventory, simulated, _instance(inventory, simulated), _devices(inventory)
                )
            nodes[name] = node
        self._nodes = nodes

    def _about_itself(self, text: "_Text") -> None:
        text.add(_BUILD, 1, [self._build])
        usage = self._usage()
        for family in _PROCESS:
            if family.name in usage:
                text.add(family, 1, [f"{family.name} {number(usage[family.name])}\n"])

    def _about_sources(self, text: "_Text", cluster: Cluster) -> None:
        text.add(_INSTANCE, len(self._nodes), (node.instance for node in self._nodes.values()))
        phases = [
            f"{_PHASE.name}{labels([('node', name), ('phase', view.frame.phase.stage)])} 1\n"
            for name, view in cluster.nodes.items()
            if view.frame.phase is not None
        ]
        text.add(_PHASE, len(phases), phases)
        devices = [line for node in self._nodes.values() for line in node.devices]
        text.add(_DEVICE, len(devices), devices)
        up: list[str] = []
        ages: list[str] = []
        events: list[str] = []
        for name, view in cluster.nodes.items():
            for source in view.frame.sources:
                pairs = [("node", name), ("source", source.name)]
                place = labels(pairs)
                up.append(f"{_SOURCE_UP.name}{place} {int(source.state in UP)}\n")
                age = source.age(view.frame.time)
                if age is not None and math.isfinite(age):
                    ages.append(f"{_SOURCE_AGE.name}{place} {number(age)}\n")
                events += [
                    f"{_SOURCE_EVENTS.name}{labels([*pairs, ('event', event)])} {count}\n"
                    for event, count in source.counts.items()
                ]
        text.add(_SOURCE_UP, len(up), up)
        text.add(_SOURCE_AGE, len(ages), ages)
        text.add(_SOURCE_EVENTS, len(events), events)

    def _columns(self, text: "_Text", columns: Iterable[_Column], cluster: Cluster) -> None:
        nodes = [(view, self._nodes[name]) for name, view in cluster.nodes.items()]
        for column in columns:
            name = column.quantity.name
            present = [
                (view.frame.columns[name], node)
                for view, node in nodes
                if name in view.frame.columns
            ]
            if not present:
                continue
            count = sum(int(np.isfinite(values).sum()) for values, _ in present)
            text.add(
                column.family,
                count,
                (
                    f"{prefix}{number(value)}\n"
                    for values, node in present
                    for prefix, value in zip(node.of(column), values.tolist(), strict=True)
                    if math.isfinite(value)
                ),
            )


class _Text:
    """A page as it grows, up to a number of series."""

    def __init__(self, max_series: int) -> None:
        self._parts: list[str] = []
        self._left = max_series
        self._full = False
        self.dropped = 0

    def add(self, family: Family, count: int, lines: Iterable[str]) -> None:
        """Appends a family of `count` lines, if it fits; after the first that does not, none does.

        `lines` is not looked at otherwise, so what is dropped costs nothing.
        """
        self._full = self._full or count > self._left
        if self._full:
            self.dropped += count
        elif count:
            self._left -= count
            self._parts.append(family.header)
            self._parts += lines

    def encode(self, page: str) -> bytes:
        """The page, its last series telling what was dropped from it."""
        dropped = f"{_DROPPED.name}{labels([('page', page)])} {self.dropped}\n"
        # Text is cleaned where it comes in; one stray surrogate must not cost the whole page.
        return "".join([*self._parts, _DROPPED.header, dropped]).encode("utf-8", "replace")


def _instance(inventory: Inventory, simulated: bool) -> str:
    facts = ((name, inventory.facts.get(name, "")) for name in INSTANCE_LABELS)
    pairs: list[tuple[str, object]] = [
        ("node", inventory.node),
        *facts,
        ("lnc", inventory.lnc),
        ("simulated", "true" if simulated else "false"),
    ]
    return f"{_INSTANCE.name}{labels(pairs)} 1\n"


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
            lines.append(f"{_DEVICE.name}{labels(pairs)} 1\n")
    return lines


def _incidents(incidents: Iterable[Incident]) -> list[str]:
    """One line per set of labels; two incidents may share one."""
    lines = (
        labels(
            [
                ("kind", incident.kind),
                ("severity", incident.severity),
                ("training_job", incident.job or ""),
                ("node", incident.node or ""),
                ("component", _component(incident.component or "")),
            ]
        )
        for incident in incidents
    )
    return [f"{_INCIDENT.name}{line} 1\n" for line in dict.fromkeys(lines)]


def _component(component: str) -> str:
    """A runtime without its pid: each restart would leave a series behind."""
    return "runtime" if component.startswith("runtime:") else component
