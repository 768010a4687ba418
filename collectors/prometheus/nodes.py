"""Inventories and frames from series, by the label `node`."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from trntop.catalog import CATALOG, METRIC_PREFIX, Entity, Provenance, page_of
from trntop.core.model import (
    Allocation,
    Column,
    Frame,
    Inventory,
    Key,
    NodeView,
    Phase,
    SourceState,
    Stage,
    State,
)
from trntop.core.text import clean
from trntop.pipeline.derive import ComputePlan, compute_plan, derive
from trntop.remote.wire import FrameEncoder

from .client import Labels

INSTANCE = f"{METRIC_PREFIX}instance_info"
PHASE = f"{METRIC_PREFIX}node_phase"
JOB = f"{METRIC_PREFIX}job_info"
ALLOCATION = f"{METRIC_PREFIX}allocation_info"
CORE_ALLOCATION = f"{METRIC_PREFIX}neuroncore_allocation_info"
DEVICE = f"{METRIC_PREFIX}device_info"
SOURCE_UP = "trntop_source_up"

SIMULATED = "simulated"
_NO_FACTS = frozenset(("job", "instance", "__name__", "node", "lnc", "simulated", "provenance"))
_PLACES = {"pci": "pci", "numa_node": "numa_node", "serial": "serial_number"}
_KEY_LABEL = {
    Entity.DEVICE: "neuron_device",
    Entity.CORE: "neuroncore",
    Entity.PHYSICAL_CORE: "physical_core",
    Entity.EFA: "efa_device",
    Entity.JOB: "training_job",
    Entity.LINK: "peer",
}
_NUMBERED = (Entity.DEVICE, Entity.CORE, Entity.PHYSICAL_CORE)
_LINE = "efa_link_bytes_per_second"
_DIGITS = re.compile(r"(\d+)", re.ASCII)
MAX_KEYS = 4096
"""Entities of one kind on one node."""

ROUTES: Mapping[str, tuple[str, Entity]] = {
    quantity.metric: (quantity.name, quantity.entity)
    for quantity in CATALOG.values()
    if page_of(quantity) is not None
}

OF_EFA = compute_plan(("efa_tx_sibling_ratio",))
"""Derived from the traffic of EFA devices."""
OF_PARTS = compute_plan(
    tuple(name for name, row in CATALOG.items() if row.entity in (*_NUMBERED, Entity.EFA))
)
"""Derived from all series of a node; its agent exports the roll-ups."""

_clean = lru_cache(maxsize=1 << 16)(clean)


@dataclass(slots=True)
class Draft:
    """The rows of one refresh about one node."""

    label: str
    """Its label `node`, not cleaned."""
    instance: str = ""
    """The target that exports it."""
    time: float | None = None
    """The time of its newest sample, by the server's clock; None if unknown."""
    facts: dict[str, str] = field(default_factory=dict)
    lnc: int = 1
    simulated: bool = False
    phase: Phase | None = None
    values: dict[str, dict[Key, float]] = field(default_factory=dict)
    """Quantity → entity → value; the key of a node quantity is empty."""
    jobs: set[str] = field(default_factory=set)
    owners: dict[tuple[Entity, Key], int] = field(default_factory=dict)
    """Core → device."""
    places: dict[int, dict[str, str]] = field(default_factory=dict)
    allocations: dict[tuple[str, str, str, str], tuple[set[int], set[int], bool]] = field(
        default_factory=dict
    )
    """Holder → devices, cores, and whether the whole node is allocated to it."""
    sources: dict[str, SourceState] = field(default_factory=dict)


class Drafts:
    """The nodes of one refresh, by label."""

    def __init__(self) -> None:
        self.nodes: dict[str, Draft] = {}

    def _draft(self, labels: Labels) -> Draft | None:
        """The node of a row; None without one."""
        label = labels.get("node", "")
        if not label:
            return None
        draft = self.nodes.get(label)
        if draft is None:
            draft = self.nodes[label] = Draft(label)
        draft.instance = labels.get("instance", draft.instance)
        return draft

    def add(self, rows: Iterable[tuple[Labels, float]]) -> None:
        for labels, value in rows:
            if (draft := self._draft(labels)) is None:
                continue
            name = labels.get("__name__", "")
            if (route := ROUTES.get(name)) is not None:
                _put(draft, route[0], route[1], labels, value)
            elif (update := _FACTS.get(name)) is not None:
                update(draft, labels, value)

    def add_values(self, quantity: str, rows: Iterable[tuple[Labels, float]]) -> None:
        """Series of one quantity, whose names a PromQL function removed."""
        entity = CATALOG[quantity].entity
        for labels, value in rows:
            if (draft := self._draft(labels)) is not None:
                _put(draft, quantity, entity, labels, value)

    def add_instances(self, rows: Iterable[tuple[Labels, float]]) -> None:
        """Times of the samples of `trn_instance_info`, whose labels are facts of the node."""
        for labels, time in rows:
            if (draft := self._draft(labels)) is not None and time > (draft.time or 0.0):
                draft.time = time
                _instance(draft, labels, time)


def _put(draft: Draft, quantity: str, entity: Entity, labels: Labels, value: float) -> None:
    if labels.get("provenance") == SIMULATED:
        draft.simulated = True
    table = draft.values.get(quantity)
    if table is None:
        table = draft.values[quantity] = {}
    if entity is Entity.NODE:
        table[""] = value
        return
    key = _key(entity, labels)
    if key is None or (len(table) >= MAX_KEYS and key not in table):
        return
    table[key] = value
    if entity is Entity.JOB:
        draft.jobs.add(str(key))
    elif entity in (Entity.CORE, Entity.PHYSICAL_CORE):
        device = _index(labels.get("neuron_device", ""))
        if device is not None:
            draft.owners[entity, key] = device


def _key(entity: Entity, labels: Labels) -> Key | None:
    text = labels.get(_KEY_LABEL[entity], "")
    if entity in _NUMBERED:
        return _index(text)
    if entity is Entity.LINK and (device := labels.get("efa_device")):
        return f"{_clean(device)}>{_clean(text)}"
    return _clean(text) or None


@lru_cache(maxsize=1 << 16)
def _index(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


def _instance(draft: Draft, labels: Labels, _value: float) -> None:
    draft.facts = {
        _clean(name): _clean(text) for name, text in labels.items() if name not in _NO_FACTS
    }
    draft.lnc = min(max(_index(labels.get("lnc", "")) or 1, 1), 64)
    draft.simulated |= labels.get("simulated") == "true"


def _phase(draft: Draft, labels: Labels, _value: float) -> None:
    try:
        stage = Stage(labels.get("phase", ""))
    except ValueError:
        return
    draft.phase = Phase(stage, None, "reported by its agent", Provenance.DERIVED)


def _job(draft: Draft, labels: Labels, _value: float) -> None:
    if job := labels.get("training_job"):
        draft.jobs.add(_clean(job))


def _allocation(draft: Draft, labels: Labels, _value: float) -> None:
    job, namespace, pod, container = (
        _clean(labels.get(name, "")) for name in ("hpc_job", "namespace", "pod", "container")
    )
    holder = job, namespace, pod, container
    devices, cores, whole = draft.allocations.get(holder, (set(), set(), False))
    device = _index(labels.get("neuron_device", ""))
    core = _index(labels.get("neuroncore", ""))
    if core is not None:
        cores.add(core)
    elif device is not None:
        devices.add(device)
    else:
        whole = True
    draft.allocations[holder] = devices, cores, whole


def _device(draft: Draft, labels: Labels, _value: float) -> None:
    device = _index(labels.get("neuron_device", ""))
    if device is not None and len(draft.places) < MAX_KEYS:
        draft.places[device] = {
            ours: _clean(labels[theirs]) for theirs, ours in _PLACES.items() if theirs in labels
        }


def _source_up(draft: Draft, labels: Labels, value: float) -> None:
    name = _clean(labels.get("source", ""))
    if name and len(draft.sources) < 64:
        state, reason = (State.FRESH, "") if value else (State.DOWN, "its agent has no data of it")
        draft.sources[name] = SourceState(name, state, reason)


_FACTS = {
    INSTANCE: _instance,
    PHASE: _phase,
    JOB: _job,
    ALLOCATION: _allocation,
    CORE_ALLOCATION: _allocation,
    DEVICE: _device,
    SOURCE_UP: _source_up,
}


class Node:
    """The state of a node between refreshes.

    Args:
        name: its name here.
        label: its label `node`.
        period: seconds between its samples.
    """

    def __init__(self, name: str, label: str, period: float) -> None:
        self.name = name
        self.label = label
        self.seen = 0.0
        """Time of the last refresh that had it."""
        self._encoder = FrameEncoder(name, period)
        self._inventory = Inventory(name)
        self._keys: tuple[object, ...] = ()

    def messages(self, draft: Draft, time: float, plan: ComputePlan) -> Iterator[bytes]:
        """The messages that its agent would stream.

        Args:
            draft: the newest rows.
            time: time of the samples, by the session's clock.
            plan: the quantities to derive.
        """
        inventory = self._update(draft)
        columns = _columns(draft, inventory)
        exported = dict(columns)
        derive(columns, inventory, plan)
        columns = plan.pick(columns) | exported
        _line_rate(columns, inventory)
        frame = Frame(
            self.name, time, columns, tuple(draft.sources.values()), draft.simulated,
            phase=draft.phase,
        )  # fmt: skip
        before, message = self._encoder.messages(NodeView(inventory, frame))
        yield from before
        yield message

    def _update(self, draft: Draft) -> Inventory:
        keys = _all_keys(draft)
        places = {device: draft.places[device] for device in sorted(draft.places)}
        allocations = tuple(
            Allocation(*holder, "", tuple(sorted(devices)), tuple(sorted(cores)), whole)
            for holder, (devices, cores, whole) in sorted(draft.allocations.items())
        )
        owners = tuple(
            tuple(draft.owners.get((entity, key), 0) for key in keys.get(entity, ()))
            for entity in (Entity.CORE, Entity.PHYSICAL_CORE)
        )
        known = (draft.facts, draft.lnc, keys, places, allocations, owners)
        if known != self._keys:
            self._keys = known
            self._inventory = Inventory(
                node=self.name,
                version=self._inventory.version + 1,
                facts=draft.facts,
                lnc=draft.lnc,
                keys=keys,
                core_device=np.array(owners[0], np.int64),
                physical_device=np.array(owners[1], np.int64),
                device_links=places,
                allocations=allocations or None,
            )
        return self._inventory


def _all_keys(draft: Draft) -> dict[Entity, tuple[Key, ...]]:
    found: dict[Entity, set[Key]] = {}
    for quantity, table in draft.values.items():
        entity = CATALOG[quantity].entity
        if entity is not Entity.NODE:
            found.setdefault(entity, set()).update(table)
    for (entity, _), device in draft.owners.items():
        if entity in found:
            found.setdefault(Entity.DEVICE, set()).add(device)
    if draft.jobs:
        found.setdefault(Entity.JOB, set()).update(draft.jobs)
    return {entity: _ordered(keys) for entity, keys in found.items()}


def _ordered(keys: set[Key]) -> tuple[Key, ...]:
    """Sorted by numbers, also those in names."""
    return tuple(sorted(keys, key=_natural))


@lru_cache(maxsize=1 << 14)
def _natural(key: Key) -> tuple[tuple[int, str], ...]:
    if isinstance(key, int):
        return ((key, ""),)
    parts = _DIGITS.split(key)
    return tuple(
        (int(part[:18]), "") if place % 2 else (-1, part) for place, part in enumerate(parts)
    )


def _line_rate(columns: dict[str, Column], inventory: Inventory) -> None:
    """The line rate of each EFA device, from the total and the number of devices."""
    devices = len(inventory.of(Entity.EFA))
    total, count = (
        columns.get(name) for name in ("node_efa_link_bytes_per_second", "node_efa_cards")
    )
    if devices and total is not None and count is not None and count[0] > 0:
        columns.setdefault(_LINE, np.full(devices, total[0] / count[0]))


def _columns(draft: Draft, inventory: Inventory) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for quantity, table in draft.values.items():
        entity = CATALOG[quantity].entity
        if entity is Entity.NODE:
            columns[quantity] = np.array([table[""]])
            continue
        keys = inventory.of(entity)
        columns[quantity] = np.array([table.get(key, np.nan) for key in keys])
    return columns
