"""One node: samples of its sources in, an inventory and a frame out.

A column lives as long as its source is heard: three periods after the last word it is absent.
Counters become rates here, because only here both readings and both times are known.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trntop.catalog import CATALOG, NEURON_MONITOR, STEPS, Entity
from trntop.derive import RATES, combine_rows, derive, rate
from trntop.model import (
    Column,
    Frame,
    Inventory,
    Key,
    NodeView,
    Reading,
    Sample,
    SourceState,
    State,
    Status,
)

LATE_PERIODS = 2.0
STALE_PERIODS = 3.0
SLACK = 0.5
"""Seconds of jitter forgiven before a source is called late."""
MIN_STALE = {STEPS: 15.0}
"""Seconds; steps come by the loop's pace, not by ours, and a checkpoint is no silence."""
DEFAULT_PERIOD = 5.0
"""neuron-monitor's own, taken until a source's pace is known."""
MAX_STEP = 600.0
"""Seconds; a longer step says nothing about when the next one is due."""
MAX_CARDS = 256
"""EFA cards remembered on a node; beyond, only those that are there are listed."""
MAX_PARTS = 4096
"""Ranks kept for one node."""
MAX_LINE_RATES = 2.0
"""A byte counter that moves faster than this many line rates is damaged."""
MAX_RATE = 1e15
"""The same for other counters, per second."""


@dataclass(slots=True)
class _Part:
    """What one speaker of a source said last: a rank, or the source itself."""

    time: float
    sample: Sample
    expires: float
    """When it is stale without another word."""


@dataclass(frozen=True, slots=True)
class _Merged:
    """Several parts as one: columns along the keys of all of them."""

    expires: float
    """When the first of them falls silent."""
    columns: dict[str, Column]
    keys: dict[Entity, tuple[Key, ...]]


@dataclass(slots=True)
class _Source:
    """One source of the node."""

    name: str
    time: float | None = None
    period: float | None = None
    declared: Status | None = None
    """The collector's own word, until the next reading overrides STARTING or LATE."""
    problem: str = ""
    """The newest complaint about a payload, cleared by a clean one."""
    unusable: str = ""
    """Why the newest payload says nothing, though it came."""
    counts: dict[str, int] = field(default_factory=dict)
    parts: dict[str, _Part] = field(default_factory=dict)
    columns: dict[str, tuple[Column, float, float]] = field(default_factory=dict)
    """Quantity → values, time, and when they expire; kept over readings that lack their group."""
    keys: dict[Entity, tuple[Key, ...]] = field(default_factory=dict)
    merged: "_Merged | None" = None
    """The parts as one; made anew when one speaks or falls silent."""
    absent: dict[str, str] = field(default_factory=dict)

    def count(self, what: str, by: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + by

    @property
    def stale_after(self) -> float:
        """Seconds after which a word of this source no longer counts."""
        period = self.period or DEFAULT_PERIOD
        return max(STALE_PERIODS * period + SLACK, MIN_STALE.get(self.name, 0.0))

    def forget(self) -> None:
        """Drops all values."""
        self.parts.clear()
        self.merged = None
        self.columns.clear()

    def state(self, now: float) -> SourceState:
        """The state by the collector's word and by age, whichever is worse."""
        declared = self.declared
        counts = self.counts | dict(declared.counts if declared else {})
        reason = declared.reason if declared else ""
        if declared and declared.state is State.ENDED:
            state = State.ENDED
        elif declared and declared.state is State.DOWN:
            state = State.DOWN
        elif self.unusable:
            state, reason = State.DOWN, self.unusable
        elif self.time is None:
            state = State.STARTING
        else:
            age = now - self.time
            late = LATE_PERIODS * (self.period or DEFAULT_PERIOD) + SLACK
            if age > self.stale_after:
                state = State.STALE
            elif age > min(late, self.stale_after):
                state = State.LATE
            else:
                state = State.FRESH
            reason = reason or self.problem
            if state is State.STALE and not reason:
                reason = f"silent for {age:.0f} s"
        return SourceState(self.name, state, reason, self.time, self.period, counts)


class NodeState:
    """What is known of one node; fed in stream time, read once a tick."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.simulated = False
        self._sources: dict[str, _Source] = {}
        self._inventory = Inventory(node=node)
        self._totals: dict[str, float] = {}

    def feed(self, reading: Reading, sample: Sample) -> None:
        """Takes one decoded reading."""
        source = self._source(reading.source)
        source.count("readings")
        self.simulated = self.simulated or reading.simulated or sample.simulated
        if sample.problems:
            source.count("problems", len(sample.problems))
        source.problem = sample.problems[0] if sample.problems else ""
        source.unusable = sample.unusable
        before = source.time
        if before is not None and reading.time < before - STALE_PERIODS * (source.period or 1.0):
            source.forget()
            source.count("clock_steps")
            before = None
        if sample.period is not None:
            source.period = min(sample.period, MAX_STEP)
        elif before is not None and reading.time > before:
            step = reading.time - before
            # Fast towards a shorter period, slow towards a longer one: a gap is no new pace.
            known = source.period or step
            if step > known / 10:  # what came in one burst tells no pace
                source.period = min(step, 0.9 * known + 0.1 * step)
        source.time = reading.time
        if source.declared and source.declared.state is not State.ENDED:
            source.declared = None if not source.declared.counts else _fresh(source.declared)
        for name, change in sample.deltas.items():
            self._totals[name] = self._totals.get(name, 0.0) + change
        if sample.part:
            self._feed_part(source, reading.time, sample)
        else:
            self._feed_whole(source, reading.time, sample)
        self._learn(sample.facts)

    def status(self, status: Status) -> None:
        """Takes a collector's word on its source."""
        self._source(status.source).declared = status

    def problem(self, name: str, text: str) -> None:
        """Counts a payload of source `name` that could not be decoded; earlier values stand."""
        source = self._source(name)
        source.count("undecodable")
        source.problem = text

    def restart(self) -> None:
        """The stream's clock was set back: what was known belongs to another time."""
        for source in self._sources.values():
            source.forget()
            source.time = None

    def end(self, now: float) -> None:
        """The recording is over: what the sources that still spoke said last stands."""
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
        columns: dict[str, Column] = {}
        reasons: dict[str, str] = {}
        keys: dict[Entity, tuple[Key, ...]] = {}
        for source, state in zip(self._sources.values(), states, strict=True):
            reasons.update(source.absent)
            at = source.time if state.state is State.ENDED and source.time is not None else now
            if source.parts:
                if source.merged is None or source.merged.expires < at:
                    source.merged = _merge(source.parts, at)
                columns.update(source.merged.columns)
                keys.update(source.merged.keys)
            elif source.time is not None and at - source.time <= source.stale_after:
                keys.update(source.keys)
                for name, (values, _, expires) in source.columns.items():
                    if expires >= at:
                        columns[name] = values
        self._rekey({Entity.JOB: (), **keys} if Entity.JOB in self._inventory.keys else keys)
        inventory = self._inventory
        self._align(columns, keys, inventory)
        if self._totals and NEURON_MONITOR in self._sources:
            heard = self._sources[NEURON_MONITOR].state(now).state
            if heard in (State.FRESH, State.LATE, State.ENDED):
                columns.update({name: np.array([total]) for name, total in self._totals.items()})
        derive(columns, inventory)
        frame = Frame(
            node=self.node,
            time=now,
            columns=columns,
            sources=states,
            simulated=self.simulated,
            reasons={name: why for name, why in reasons.items() if name not in columns},
        )
        return NodeView(inventory, frame)

    def _source(self, name: str) -> _Source:
        source = self._sources.get(name)
        if source is None:
            source = self._sources[name] = _Source(name)
        return source

    def _feed_part(self, source: _Source, time: float, sample: Sample) -> None:
        source.merged = None
        if sample.part in source.parts or len(source.parts) < MAX_PARTS:
            period = min(sample.period or DEFAULT_PERIOD, MAX_STEP)
            patience = max(STALE_PERIODS * period + SLACK, MIN_STALE.get(source.name, 0.0))
            source.parts[sample.part] = _Part(time, sample, time + patience)
            # The slowest rank sets the pace by which the source is judged.
            source.period = max(
                min(part.sample.period or 0.0, MAX_STEP) for part in source.parts.values()
            )
        else:
            source.count("dropped")

    def _feed_whole(self, source: _Source, time: float, sample: Sample) -> None:
        rates = self._rates(source, time, sample)
        changed = {
            entity for entity, keys in sample.keys.items() if source.keys.get(entity) != keys
        }
        if changed:
            # Other cores, cards or processes: columns by the old keys mean nothing any more.
            source.columns = {
                name: value
                for name, value in source.columns.items()
                if CATALOG[name].entity not in changed
            }
            source.keys.update(sample.keys)
            self._rekey(sample.keys)
        source.absent = sample.absent
        expires = time + source.stale_after
        for name, values in (sample.columns | rates).items():
            source.columns[name] = (values, time, expires)
        for name in sample.absent:
            source.columns.pop(name, None)

    def _rates(self, source: _Source, time: float, sample: Sample) -> dict[str, Column]:
        """Rates of the counters that this and the previous sample share."""
        rates: dict[str, Column] = {}
        links = sample.columns.get("efa_link_bytes_per_second")
        line_rates = MAX_RATE
        if links is not None and not np.isnan(links).all():
            line_rates = MAX_LINE_RATES * float(np.nanmax(links))
        for name, target in RATES.items():
            values = sample.columns.get(name)
            before = source.columns.get(name)
            if values is None or before is None:
                continue
            entity = CATALOG[name].entity
            keys, old_keys = sample.keys.get(entity, ()), source.keys.get(entity, ())
            old = before[0] if keys == old_keys else _aligned(before[0], old_keys, keys)
            limit = line_rates if name.endswith("_bytes_total") else MAX_RATE
            change = rate(old, values, time - before[1], limit)
            if (values < old).any():
                source.count("counter_resets")
            rates[target] = change
        return rates

    def _rekey(self, keys: Mapping[Entity, tuple[Key, ...]]) -> None:
        """Takes over new keys. A card once seen stays listed: lost, not forgotten."""
        now = dict(self._inventory.keys)
        for entity, labels in keys.items():
            if entity is Entity.EFA and now.get(entity):
                known = sorted({*now[entity], *labels}, key=str)
                labels = tuple(known) if len(known) <= MAX_CARDS else labels
            now[entity] = labels
        if now != self._inventory.keys:
            self._inventory = dataclasses.replace(
                self._inventory, keys=now, version=self._inventory.version + 1
            )

    def _align(
        self,
        columns: dict[str, Column],
        keys: Mapping[Entity, tuple[Key, ...]],
        inventory: Inventory,
    ) -> None:
        """Lays columns along the inventory's keys where the sample's differ."""
        moved = {entity for entity, labels in keys.items() if inventory.keys.get(entity) != labels}
        if moved:
            for name, values in columns.items():
                entity = CATALOG[name].entity
                if entity in moved:
                    columns[name] = _aligned(values, keys[entity], inventory.keys[entity])

    def _learn(self, facts: Mapping[str, Any]) -> None:
        """Takes over changed facts of the inventory."""
        changes = {}
        for name, value in facts.items():
            known = getattr(self._inventory, name)
            if isinstance(value, np.ndarray):
                if np.array_equal(value, known):
                    continue
            elif name in ("facts", "efa_links"):
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


def _merge(parts: dict[str, _Part], now: float) -> _Merged:
    """Merges the parts that count at `now`, one row each, and removes the silent ones."""
    for name in [name for name, part in parts.items() if part.expires < now]:
        del parts[name]
    columns: dict[str, Column] = {}
    keys: dict[Entity, tuple[Key, ...]] = {}
    samples = [part.sample for part in parts.values()]
    for entity in {entity for sample in samples for entity in sample.keys}:
        labels = sorted({key for sample in samples for key in sample.keys.get(entity, ())}, key=str)
        keys[entity] = tuple(labels)
        place = {label: index for index, label in enumerate(labels)}
        tables: dict[str, Column] = {}
        for row, sample in enumerate(samples):
            index = [place[key] for key in sample.keys.get(entity, ())]
            for name, values in sample.columns.items():
                if CATALOG[name].entity is not entity:
                    continue
                table = tables.get(name)
                if table is None:
                    table = tables[name] = np.full((len(samples), len(labels)), np.nan)
                table[row, index] = values
        for name, table in tables.items():
            columns[name] = combine_rows(table, CATALOG[name].combine)
    return _Merged(min((part.expires for part in parts.values()), default=now), columns, keys)


def _fresh(status: Status) -> Status:
    """The same counts, without a verdict: a reading has come."""
    return Status(status.node, status.source, State.FRESH, "", status.counts)


def _aligned(values: Column, old: tuple[Key, ...], new: tuple[Key, ...]) -> Column:
    """`values` along `old` laid out along `new`; what `old` lacks is absent."""
    place = {key: index for index, key in enumerate(old)}
    result = np.full(len(new), np.nan)
    for index, key in enumerate(new):
        if key in place:
            result[index] = values[place[key]]
    return result
