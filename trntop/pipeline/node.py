"""One node: samples of its sources in, an inventory and a frame out."""

import dataclasses
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np

from trntop.catalog import CATALOG, HBM_QUANTITIES, HOST, NEURON_LS, NEURON_MONITOR, Entity
from trntop.core.model import (
    Allocation,
    Column,
    Frame,
    Inventory,
    Key,
    NeffProfile,
    NodeView,
    Reading,
    Sample,
    SourceState,
    Stage,
    State,
    Status,
)
from trntop.pipeline import hbm
from trntop.pipeline.derive import FULL_PLAN, ComputePlan, derive
from trntop.pipeline.phase import NodePhase
from trntop.pipeline.smooth import BOUNDS, Smoother
from trntop.pipeline.source_buffer import Layer, SourceBuffer, aligned
from trntop.sources import BY_NAME, SCHEDULERS

MAX_REMEMBERED = 256
"""Devices remembered on a node; beyond, only those that are there are listed."""
MAX_STAGES = 512
"""Ranks whose announced stage is kept."""
_RANKS = {name: index for index, name in enumerate(BY_NAME)}
_REMEMBERED = frozenset((Entity.DEVICE, Entity.EFA))
_REPLACED = ("device_links", "stages")
"""Mappings of the inventory that are replaced as a whole."""
_PERISHABLE: dict[str, dict[str, Any]] = {
    NEURON_LS: {"processes": ()},
    HOST: {"compilation": None},
    NEURON_MONITOR: {"runtimes": ()},
}
"""Facts that hold only while their source reports, and their values without it."""


class NodeState:
    """The state of one node; fed in stream time, read once a tick.

    Args:
        node: its name.
        profiles: known NEFF profiles, to which sources add.
        compute_plan: the quantities that its views contain.
    """

    def __init__(
        self,
        node: str,
        profiles: tuple[NeffProfile, ...] = (),
        compute_plan: ComputePlan = FULL_PLAN,
    ) -> None:
        self.node = node
        self._compute_plan = compute_plan
        self.simulated = False
        self._sources: dict[str, SourceBuffer] = {}
        self._inventory = Inventory(node=node, profiles=profiles)
        self._profiles = profiles
        self._links: dict[str, dict[int, dict[str, str]]] = {}
        """Source → its newest facts on devices."""
        self._allocations: dict[str, tuple[Allocation, ...]] = {}
        """Source → its newest allocations."""
        self._stages: dict[str, tuple[str, Stage, float]] = {}
        """Rank → its job, the stage it announced last, and since when."""
        self._phase = NodePhase()
        self._smoother = Smoother()

    def feed(self, reading: Reading, sample: Sample) -> None:
        """Takes one decoded reading."""
        # A sample without any column is a note, which counts otherwise.
        sample.columns = self._compute_plan.prune(sample.columns) or sample.columns
        self._source(reading.source).add(reading.time, sample)
        self.simulated = self.simulated or reading.simulated or sample.simulated
        if not _REMEMBERED.isdisjoint(sample.keys):
            self._rekey(
                {entity: sample.keys[entity] for entity in _REMEMBERED if entity in sample.keys}
            )
        if not sample.facts:
            return
        facts = dict(sample.facts)
        if "device_links" in facts:
            self._links[reading.source] = facts["device_links"]
            facts["device_links"] = _joined(self._links.values())
        if "allocations" in facts:
            self._allocations[reading.source] = facts["allocations"]
            facts["allocations"] = self._all_allocations()
        if "stages" in facts:
            facts["stages"] = self._note_stages(sample.part, facts["stages"], reading.time)
        if "profiles" in facts:
            facts["profiles"] = (*facts["profiles"], *self._profiles)
        self._learn(facts)

    def is_up(self, source: str) -> bool:
        """Whether a source has reported, and its newest payload was readable."""
        buffer = self._sources.get(source)
        if buffer is None or buffer.time is None:
            return False
        return not (buffer.problem or buffer.unusable)

    def _note_stages(
        self, part: str, stages: Mapping[str, tuple[Stage, float]], now: float
    ) -> dict[str, tuple[Stage, float]]:
        """Job → the stage that any of its ranks entered last."""
        for job, (stage, since) in stages.items():
            # A rank's clock may be ahead of ours.
            self._stages[part] = (job, stage, min(since, now))
        while len(self._stages) > MAX_STAGES:
            del self._stages[next(iter(self._stages))]
        entered = {}
        # Some ranks train on while others still save.
        known = sorted(
            self._stages.values(), key=lambda entry: (entry[1] is not Stage.TRAINING, entry[2])
        )
        for job, stage, since in known:
            entered[job] = (stage, since)
        return entered

    def status(self, status: Status) -> None:
        """Takes a collector's status of its source."""
        self._source(status.source).declared = status

    def problem(self, name: str, text: str) -> None:
        """Counts a payload of source `name` that could not be decoded; earlier values remain."""
        source = self._source(name)
        source.count("undecodable")
        source.problem = text

    def drop_sources(self, sources: Iterable[str]) -> bool:
        """Some sources are no longer watched; whether any is left."""
        for name in sources:
            if self._sources.pop(name, None) is not None:
                self._drop_facts(name)
        return bool(self._sources)

    def restart(self) -> None:
        """The stream's clock was set back: what was known belongs to another time."""
        for source in self._sources.values():
            source.clear()
            source.time = None
        self._smoother.clear()
        self._phase = NodePhase()
        self._stages.clear()
        self._learn({"stages": {}})

    def end(self, now: float) -> None:
        """The recording is over: the newest values of fresh sources remain."""
        for source in self._sources.values():
            if source.time is not None and now - source.time <= source.stale_after:
                source.declared = Status(self.node, source.name, State.ENDED, "recording ended")

    def resume(self) -> None:
        """Takes back `end`."""
        for source in self._sources.values():
            source.declared = None

    def view(self, now: float) -> NodeView:
        """The node at time `now`."""
        states = tuple(source.state(now) for source in self._sources.values())
        reasons: dict[str, str] = {}
        layers: list[Layer] = []
        for source, state in zip(self._sources.values(), states, strict=True):
            reasons.update(source.absent)
            ended = source.time if state.state is State.ENDED else None
            layers.append(source.current(now if ended is None else ended))
            if _gone(state, source, now):
                self._drop_facts(source.name)
        columns = self._lay(layers)
        inventory, compute_plan = self._inventory, self._compute_plan
        derive(columns, inventory, compute_plan)
        if (
            compute_plan.wants(BOUNDS)
            and "job_comm_share_ratio" not in columns
            and (why := self._smoother.add_bounds(now, columns))
        ):
            reasons.update(dict.fromkeys(BOUNDS, why))
        if compute_plan.wants(HBM_QUANTITIES) and (
            why := hbm.why_unknown(columns, inventory, reasons)
        ):
            reasons.update(dict.fromkeys(HBM_QUANTITIES, why))
        phase = self._phase.update(now, columns, inventory)
        self._smoother.update(now, columns)
        frame = Frame(
            node=self.node,
            time=now,
            columns=compute_plan.pick(columns),
            sources=states,
            simulated=self.simulated,
            reasons={name: why for name, why in reasons.items() if name not in columns},
            phase=phase,
        )
        return NodeView(inventory, frame)

    def _drop_facts(self, source: str) -> None:
        """Drops what holds only while `source` reports."""
        self._learn(_PERISHABLE.get(source, {}))
        if self._links.pop(source, None):
            self._learn({"device_links": _joined(self._links.values())})
        if self._allocations.pop(source, None) is not None:
            self._learn({"allocations": self._all_allocations()})

    def _all_allocations(self) -> tuple[Allocation, ...] | None:
        """None where no scheduler reports."""
        return tuple(chain.from_iterable(self._allocations.values())) if self._allocations else None

    def _lay(self, layers: list[Layer]) -> dict[str, Column]:
        """The columns of all sources, along the keys of all; earlier layers take precedence."""
        keys: dict[Entity, tuple[Key, ...]] = {}
        if Entity.JOB in self._inventory.keys:
            keys[Entity.JOB] = ()
        for own, _ in layers:
            for entity, labels in own.items():
                known = keys.get(entity)
                if not known:
                    keys[entity] = labels
                elif known != labels:
                    keys[entity] = tuple(sorted({*known, *labels}, key=_natural))
        self._rekey(keys)
        final = self._inventory.keys
        columns: dict[str, Column] = {}
        for own, layer in layers:
            moved = {entity for entity, labels in own.items() if final[entity] != labels}
            if not moved and columns.keys().isdisjoint(layer):
                columns.update(layer)
                continue
            for name, values in layer.items():
                entity = CATALOG[name].entity
                if entity in moved:
                    values = aligned(values, own[entity], final[entity])
                known_values = columns.get(name)
                if known_values is not None:
                    values = np.where(np.isnan(known_values), values, known_values)
                columns[name] = values
        return columns

    def _source(self, name: str) -> SourceBuffer:
        source = self._sources.get(name)
        if source is None:
            source = SourceBuffer(name)
            known = [*self._sources.values(), source]
            known.sort(key=lambda state: _RANKS.get(state.name, len(_RANKS)))
            self._sources = {state.name: state for state in known}
        return source

    def _rekey(self, keys: Mapping[Entity, tuple[Key, ...]]) -> None:
        """Takes over new keys. A device once seen stays listed: lost, not forgotten."""
        now = dict(self._inventory.keys)
        for entity, labels in keys.items():
            known = now.get(entity)
            if known == labels:
                continue
            if entity in _REMEMBERED and known:
                union = tuple(sorted({*known, *labels}, key=_natural))
                labels = union if len(union) <= MAX_REMEMBERED else labels
            now[entity] = labels
        if now != self._inventory.keys:
            self._inventory = dataclasses.replace(
                self._inventory, keys=now, version=self._inventory.version + 1
            )

    def _learn(self, facts: Mapping[str, Any]) -> None:
        """Takes over changed facts of the inventory."""
        known_id = self._inventory.facts.get("instance_id")
        if known_id and facts.get("facts", {}).get("instance_id", known_id) != known_id:
            # Another machine under the same name: what the old one had is not lost.
            self._inventory = dataclasses.replace(self._inventory, keys={})
        changes = {}
        for name, value in facts.items():
            known = getattr(self._inventory, name)
            if value is known:
                continue
            if isinstance(value, np.ndarray):
                if np.array_equal(value, known):
                    continue
            elif isinstance(value, dict) and name not in _REPLACED:
                value = {**known, **value}
                if value == known:
                    continue
            elif value == known:
                continue
            changes[name] = value
        if changes:
            self._inventory = dataclasses.replace(
                self._inventory, version=self._inventory.version + 1, **changes
            )


def _joined(sources: Iterable[dict[int, dict[str, str]]]) -> dict[int, dict[str, str]]:
    """Several sources may each report a part of one device."""
    joined: dict[int, dict[str, str]] = {}
    for links in sources:
        for device, facts in links.items():
            joined.setdefault(device, {}).update(facts)
    return joined


def _gone(state: SourceState, source: SourceBuffer, now: float) -> bool:
    """Whether what holds only while a source reports has expired.

    A kubelet that restarts takes no devices away: allocations hold until they are stale.
    """
    patient = source.name in SCHEDULERS and now <= source.expires
    return state.state is State.STALE or (state.state is State.DOWN and not patient)


def _natural(key: Key) -> tuple[bool, Key]:
    """Sorts numbers by value and words among themselves."""
    return (isinstance(key, str), key)
