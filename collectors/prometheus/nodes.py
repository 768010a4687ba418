"""From series to nodes: an inventory and a frame for each `node` that the rows name.

A node that two targets speak for counts once, by the first of them: an agent and a relay that
stands in for it export the same series.
"""

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
_TARGET = ("job", "instance")
"""Labels that Prometheus puts on what it scrapes."""
_NO_FACTS = frozenset((*_TARGET, "__name__", "node", "lnc", "simulated", "provenance"))
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
MAX_KEYS = 4096
"""Parts of one kind on one node."""

ROUTES: Mapping[str, tuple[str, Entity]] = {
    one.metric: (one.name, one.entity) for one in CATALOG.values() if page_of(one) is not None
}
"""Metric → quantity, and what there is one value of."""

OF_CARDS = compute_plan(("efa_tx_sibling_ratio",))
"""What is computed of cards, where their traffic is known."""
OF_PARTS = compute_plan(
    tuple(name for name, one in CATALOG.items() if one.entity in (*_NUMBERED, Entity.EFA))
)
"""What is computed where all series of a node are known; roll-ups its agent has told."""

_clean = lru_cache(maxsize=1 << 16)(clean)


@dataclass(slots=True)
class Draft:
    """What the rows of one refresh say of one node."""

    label: str
    """The value of its label `node`, as the server has it."""
    instance: str = ""
    """The target that speaks for it."""
    time: float | None = None
    """When its newest sample was taken, by the server's clock; None where nobody tells."""
    facts: dict[str, str] = field(default_factory=dict)
    lnc: int = 1
    simulated: bool = False
    phase: Phase | None = None
    values: dict[str, dict[Key, float]] = field(default_factory=dict)
    """Quantity → part → value; a node's own has an empty name for its part."""
    jobs: set[str] = field(default_factory=set)
    owners: dict[tuple[Entity, Key], int] = field(default_factory=dict)
    """Core → device."""
    places: dict[int, dict[str, str]] = field(default_factory=dict)
    allocations: dict[tuple[str, str, str, str], tuple[set[int], set[int], bool]] = field(
        default_factory=dict
    )
    """Holder → devices, cores, whether it has the whole node."""
    sources: dict[str, SourceState] = field(default_factory=dict)


class Drafts:
    """The nodes of one refresh.

    Args:
        targets: node → the target that spoke for it until now.
    """

    def __init__(self, targets: Mapping[str, str] | None = None) -> None:
        self._targets = targets or {}
        self.nodes: dict[str, Draft] = {}
        self.duplicates: dict[str, str] = {}
        """Node → a second target that speaks for it."""

    def __len__(self) -> int:
        return len(self.nodes)

    def of(self, labels: Labels) -> Draft | None:
        """The node of a row, None where it names none or its target is not the first."""
        label = labels.get("node", "")
        if not label:
            return None
        instance = labels.get("instance", "")
        draft = self.nodes.get(label)
        known = self._targets.get(label, instance) if draft is None else draft.instance
        if known != instance:
            self.duplicates.setdefault(label, instance)
            return None
        if draft is None:
            draft = self.nodes[label] = Draft(label, instance)
        return draft

    def add(self, rows: Iterable[tuple[Labels, float]]) -> None:
        """Takes series by their names; those of other names are left out."""
        for labels, value in rows:
            if (draft := self.of(labels)) is None:
                continue
            name = labels.get("__name__", "")
            if (route := ROUTES.get(name)) is not None:
                _put(draft, route[0], route[1], labels, value)
            elif (learn := _FACTS.get(name)) is not None:
                learn(draft, labels, value)

    def add_as(self, quantity: str, rows: Iterable[tuple[Labels, float]]) -> None:
        """Takes series that lost their name in a function: values of one quantity."""
        entity = CATALOG[quantity].entity
        for labels, value in rows:
            if (draft := self.of(labels)) is not None:
                _put(draft, quantity, entity, labels, value)

    def add_instances(self, rows: Iterable[tuple[Labels, float]]) -> None:
        """Takes when the samples of `trn_instance_info` were taken; its labels tell of the node."""
        for labels, time in rows:
            if (draft := self.of(labels)) is not None and time > (draft.time or 0.0):
                draft.time = time
                _instance(draft, labels, time)

    def add_times(self, rows: Iterable[tuple[Labels, float]]) -> None:
        """Takes when samples were taken."""
        for labels, time in rows:
            if (draft := self.of(labels)) is not None and time > (draft.time or 0.0):
                draft.time = time


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
        device = _whole(labels.get("neuron_device", ""))
        if device is not None:
            draft.owners[entity, key] = device


def _key(entity: Entity, labels: Labels) -> Key | None:
    text = labels.get(_KEY_LABEL[entity], "")
    if entity in _NUMBERED:
        return _whole(text)
    if entity is Entity.LINK and (card := labels.get("efa_device")):
        return f"{_clean(card)}>{_clean(text)}"
    return _clean(text) or None


@lru_cache(maxsize=1 << 16)
def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


def _instance(draft: Draft, labels: Labels, _value: float) -> None:
    draft.facts = {
        _clean(name): _clean(text) for name, text in labels.items() if name not in _NO_FACTS
    }
    draft.lnc = min(max(_whole(labels.get("lnc", "")) or 1, 1), 64)
    draft.simulated |= labels.get("simulated") == "true"


def _phase(draft: Draft, labels: Labels, _value: float) -> None:
    try:
        stage = Stage(labels.get("phase", ""))
    except ValueError:
        return
    draft.phase = Phase(stage, None, "as its agent says", Provenance.DERIVED)


def _job(draft: Draft, labels: Labels, _value: float) -> None:
    if job := labels.get("training_job"):
        draft.jobs.add(_clean(job))


def _allocation(draft: Draft, labels: Labels, _value: float) -> None:
    job, namespace, pod, container = (
        _clean(labels.get(name, "")) for name in ("hpc_job", "namespace", "pod", "container")
    )
    holder = job, namespace, pod, container
    devices, cores, whole = draft.allocations.get(holder, (set(), set(), False))
    device = _whole(labels.get("neuron_device", ""))
    core = _whole(labels.get("neuroncore", ""))
    if core is not None:
        cores.add(core)
    elif device is not None:
        devices.add(device)
    else:
        whole = True
    draft.allocations[holder] = devices, cores, whole


def _device(draft: Draft, labels: Labels, _value: float) -> None:
    device = _whole(labels.get("neuron_device", ""))
    if device is not None and len(draft.places) < MAX_KEYS:
        draft.places[device] = {
            ours: _clean(labels[theirs]) for theirs, ours in _PLACES.items() if theirs in labels
        }


def _source_up(draft: Draft, labels: Labels, value: float) -> None:
    name = _clean(labels.get("source", ""))
    if name and len(draft.sources) < 64:
        state, reason = (State.FRESH, "") if value else (State.DOWN, "its agent does not hear it")
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
    """What is kept of a node from refresh to refresh.

    Args:
        name: what it goes by here.
        period: seconds between its samples.
    """

    def __init__(self, name: str, label: str, period: float) -> None:
        self.name = name
        self.label = label
        self.seen = 0.0
        """When it was last among the answers."""
        self._encoder = FrameEncoder(name, period)
        self._inventory = Inventory(name)
        self._keys: tuple[object, ...] = ()

    def messages(self, draft: Draft, time: float, what: ComputePlan) -> Iterator[bytes]:
        """What an agent would say of it.

        Args:
            draft: the newest answers.
            time: when the samples were taken, by our clock.
            what: what is computed beside what was told.
        """
        inventory = self._learn(draft)
        columns = _columns(draft, inventory)
        told = dict(columns)
        derive(columns, inventory, what)
        columns = what.pick(columns) | told
        _line_rate(columns, inventory)
        frame = Frame(
            self.name, time, columns, tuple(draft.sources.values()), draft.simulated,
            phase=draft.phase,
        )  # fmt: skip
        before, message = self._encoder.messages(NodeView(inventory, frame))
        yield from before
        yield message

    def _learn(self, draft: Draft) -> Inventory:
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
    """By number, and names by the numbers in them."""
    return tuple(sorted(keys, key=_natural))


@lru_cache(maxsize=1 << 14)
def _natural(key: Key) -> tuple[tuple[int, str], ...]:
    if isinstance(key, int):
        return ((key, ""),)
    parts: list[tuple[int, str]] = []
    digits = ""
    for char in f"{key}\0":
        if char.isdigit() and char.isascii():
            digits += char
            continue
        if digits:
            parts.append((int(digits[:18]), ""))
            digits = ""
        parts.append((0, char))
    return tuple(parts)


def _line_rate(columns: dict[str, Column], inventory: Inventory) -> None:
    """Of each card, where the node's sum and how many share it are all that was told."""
    cards = len(inventory.of(Entity.EFA))
    whole, count = (
        columns.get(name) for name in ("node_efa_link_bytes_per_second", "node_efa_cards")
    )
    if cards and whole is not None and count is not None and count[0] > 0:
        columns.setdefault(_LINE, np.full(cards, whole[0] / count[0]))


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
