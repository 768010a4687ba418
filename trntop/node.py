"""One node: samples of its sources in, an inventory and a frame out.

A column lives as long as its source is heard: three periods after the last word it is absent.
Counters become rates here, because only here both readings and both times are known.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trntop import hbm
from trntop.catalog import CATALOG, HOST, LOG, NEURON_LS, NEURON_MONITOR, SOURCES, STEPS, Entity
from trntop.derive import RATES, combine_rows, derive, rate
from trntop.estimate import CommEstimate
from trntop.model import (
    STALE_PERIODS,
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
from trntop.phase import PhaseTracker
from trntop.smooth import Smoother

LATE_PERIODS = 2.0
SLACK = 0.5
"""Seconds of jitter forgiven before a source is called late."""
MIN_STALE = {STEPS: 15.0, LOG: 60.0}
"""Seconds; these come by the loop's pace, not by ours, and a checkpoint is no silence. A log may
tell of each tenth step only.
"""
DEFAULT_PERIOD = 5.0
"""neuron-monitor's own, taken until a source's pace is known."""
MAX_STEP = 600.0
"""Seconds; a longer step says nothing about when the next one is due."""
MAX_REMEMBERED = 256
"""Devices or cards remembered on a node; beyond, only those that are there are listed."""
MAX_PARTS = 4096
"""Ranks kept for one node."""
MAX_STAGES = 512
"""Ranks whose announced stage is kept."""
MAX_LINE_RATES = 2.0
"""A byte counter that moves faster than this many line rates is damaged."""
MAX_RATE = 1e15
"""The same for other counters, per second."""
_RANKS = {name: place for place, name in enumerate(SOURCES)}
_REMEMBERED = (Entity.DEVICE, Entity.EFA)
_REPLACED = ("pods", "device_links", "stages")
"""Mappings of the inventory that are learnt whole."""


_Layer = tuple[Mapping[Entity, tuple[Key, ...]], dict[str, Column]]
"""What one source says: keys per entity, and columns along them."""

_PERISHABLE: dict[str, dict[str, Any]] = {
    NEURON_LS: {"processes": ()},
    HOST: {"compilation": None},
    NEURON_MONITOR: {"runtimes": (), "pods": {}},
}
"""Facts that are true only while their source is heard, and what they are without it."""


@dataclass(slots=True)
class _Part:
    """What one speaker of a source said last: a rank, or the source itself."""

    time: float
    sample: Sample
    period: float
    """Seconds to its next word, as it says itself or as its last two were apart."""
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
    totals: dict[str, float] = field(default_factory=dict)
    """Node counters summed up from the changes that payloads state."""
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

    def learn_pace(self, time: float, before: float | None, stated: float | None) -> None:
        """Takes the period that a reading states, else its distance from the one before."""
        if stated is not None:
            self.period = min(stated, MAX_STEP)
        elif before is not None and time > before:
            step = time - before
            # Fast towards a shorter period, slow towards a longer one: a gap is no new pace.
            known = self.period or step
            if step > known / 10:  # what came in one burst tells no pace
                self.period = min(step, 0.9 * known + 0.1 * step)

    def forget(self) -> None:
        """Drops all values."""
        self.parts.clear()
        self.merged = None
        self.columns.clear()

    def current(self, at: float) -> "_Layer":
        """Keys and columns that count at `at`."""
        if self.parts:
            if self.merged is None or self.merged.expires < at:
                self.merged = _merge(self.parts, at)
            return self.merged.keys, self.merged.columns
        if self.time is None or at - self.time > self.stale_after:
            return {}, {}
        columns = {
            name: values for name, (values, _, expires) in self.columns.items() if expires >= at
        }
        columns.update((name, np.array([total])) for name, total in self.totals.items())
        return self.keys, columns

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
    """What is known of one node; fed in stream time, read once a tick.

    Args:
        node: its name.
        profiles: what is known of NEFFs before a source tells.
    """

    def __init__(self, node: str, profiles: tuple[NeffProfile, ...] = ()) -> None:
        self.node = node
        self.simulated = False
        self._sources: dict[str, _Source] = {}
        self._inventory = Inventory(node=node, profiles=profiles)
        self._profiles = profiles
        self._links: dict[str, dict[int, dict[str, str]]] = {}
        """What each source last said of the devices."""
        self._stages: dict[str, tuple[str, Stage, float]] = {}
        """Rank → its job, the stage it announced last, and since when."""
        self._estimate = CommEstimate()
        self._phase = PhaseTracker()
        self._smoother = Smoother()

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
        if not sample.part:  # each speaker of a source has a pace of its own
            source.learn_pace(reading.time, before, sample.period)
        source.time = reading.time
        if source.declared and source.declared.state is not State.ENDED:
            source.declared = None if not source.declared.counts else _fresh(source.declared)
        for name, change in sample.deltas.items():
            source.totals[name] = source.totals.get(name, 0.0) + change
        if sample.part:
            self._feed_part(source, reading.time, sample)
        else:
            self._feed_whole(source, reading.time, sample)
        facts = dict(sample.facts)
        if "device_links" in facts:
            self._links[reading.source] = facts["device_links"]
            facts["device_links"] = _joined(self._links.values())
        if "stages" in facts:
            facts["stages"] = self._note_stages(sample.part, facts["stages"], reading.time)
        if "profiles" in facts:
            facts["profiles"] = (*facts["profiles"], *self._profiles)
        self._learn(facts)

    def _note_stages(
        self, part: str, stages: Mapping[str, tuple[Stage, float]], now: float
    ) -> dict[str, tuple[Stage, float]]:
        """What each job's ranks last announced: the stage that any of them entered last."""
        for job, (stage, since) in stages.items():
            # A rank's clock may be ahead of ours.
            self._stages[part] = (job, stage, min(since, now))
        while len(self._stages) > MAX_STAGES:
            del self._stages[next(iter(self._stages))]
        entered = {}
        # A rank that trains on says nothing of those that still save.
        known = sorted(
            self._stages.values(), key=lambda one: (one[1] is not Stage.TRAINING, one[2])
        )
        for job, stage, since in known:
            entered[job] = (stage, since)
        return entered

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
        self._estimate.clear()
        self._smoother.clear()
        self._phase = PhaseTracker()
        self._stages.clear()
        self._learn({"stages": {}})

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
        reasons: dict[str, str] = {}
        layers: list[_Layer] = []
        for source, state in zip(self._sources.values(), states, strict=True):
            reasons.update(source.absent)
            ended = source.time if state.state is State.ENDED else None
            layers.append(source.current(now if ended is None else ended))
            if state.state in (State.STALE, State.DOWN):
                self._forget_facts(source.name)
        columns = self._lay(layers)
        inventory = self._inventory
        derive(columns, inventory)
        if "job_comm_share_ratio" not in columns:
            self._estimate.update(now, columns)
        if why := hbm.why_unknown(columns, inventory):
            reasons.update(dict.fromkeys(hbm.QUANTITIES, why))
        phase = self._phase.update(now, columns, inventory)
        self._smoother.update(now, columns)
        frame = Frame(
            node=self.node,
            time=now,
            columns=columns,
            sources=states,
            simulated=self.simulated,
            reasons={name: why for name, why in reasons.items() if name not in columns},
            phase=phase,
        )
        return NodeView(inventory, frame)

    def _forget_facts(self, source: str) -> None:
        """Takes back what was true only while `source` was heard."""
        self._learn(_PERISHABLE.get(source, {}))
        if self._links.pop(source, None):
            self._learn({"device_links": _joined(self._links.values())})

    def _lay(self, layers: list[_Layer]) -> dict[str, Column]:
        """What all sources say, along the keys of all of them; earlier layers count first."""
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
                    values = _aligned(values, own[entity], final[entity])
                known_values = columns.get(name)
                if known_values is not None:
                    values = np.where(np.isnan(known_values), values, known_values)
                columns[name] = values
        return columns

    def _source(self, name: str) -> _Source:
        source = self._sources.get(name)
        if source is None:
            source = _Source(name)
            known = [*self._sources.values(), source]
            known.sort(key=lambda one: _RANKS.get(one.name, len(SOURCES)))
            self._sources = {one.name: one for one in known}
        return source

    def _feed_part(self, source: _Source, time: float, sample: Sample) -> None:
        if not sample.columns:
            return  # a note, which says nothing of the pace of values
        source.merged = None
        if (before := source.parts.get(sample.part)) is not None:
            past = before.sample
            sample.columns |= _rates(
                source, sample, time, past.keys,
                lambda name: (past.columns[name], before.time) if name in past.columns else None,
            )  # fmt: skip
        if before is not None or len(source.parts) < MAX_PARTS:
            period = sample.period
            if period is None:
                period = DEFAULT_PERIOD if before is None else time - before.time
            period = min(period, MAX_STEP)
            patience = max(STALE_PERIODS * period + SLACK, MIN_STALE.get(source.name, 0.0))
            source.parts[sample.part] = _Part(time, sample, period, time + patience)
            # The slowest rank sets the pace by which the source is judged.
            source.period = max(part.period for part in source.parts.values())
        else:
            source.count("dropped")

    def _feed_whole(self, source: _Source, time: float, sample: Sample) -> None:
        columns = source.columns
        rates = _rates(
            source, sample, time, source.keys,
            lambda name: columns[name][:2] if name in columns else None,
        )  # fmt: skip
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
            self._rekey({one: sample.keys[one] for one in _REMEMBERED if one in changed})
        if source.name != NEURON_MONITOR:
            source.columns = {}  # the others tell everything each time: what is missing is lost
        source.absent = sample.absent
        expires = time + source.stale_after
        for name, values in (sample.columns | rates).items():
            source.columns[name] = (values, time, expires)
        for name in sample.absent:
            source.columns.pop(name, None)

    def _rekey(self, keys: Mapping[Entity, tuple[Key, ...]]) -> None:
        """Takes over new keys. A device or card once seen stays listed: lost, not forgotten."""
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
    """Several sources may each tell a part of one device."""
    joined: dict[int, dict[str, str]] = {}
    for links in sources:
        for device, facts in links.items():
            joined.setdefault(device, {}).update(facts)
    return joined


def _rates(
    source: _Source,
    sample: Sample,
    time: float,
    old_keys: Mapping[Entity, tuple[Key, ...]],
    past: Callable[[str], tuple[Column, float] | None],
) -> dict[str, Column]:
    """Rates of the counters that a sample shares with the one before.

    `past` gives the values of a counter and their time, laid out along `old_keys`.
    """
    rates: dict[str, Column] = {}
    links = sample.columns.get("efa_stated_link_bytes_per_second")
    line_rates = MAX_RATE
    if links is not None and not np.isnan(links).all():
        line_rates = MAX_LINE_RATES * float(np.nanmax(links))
    for name, target in RATES.items():
        values = sample.columns.get(name)
        before = past(name) if values is not None else None
        if values is None or before is None:
            continue
        entity = CATALOG[name].entity
        keys, known = sample.keys.get(entity, ()), old_keys.get(entity, ())
        old = before[0] if keys == known else _aligned(before[0], known, keys)
        limited = entity is Entity.EFA and name.endswith("_bytes_total")
        rates[target] = rate(old, values, time - before[1], line_rates if limited else MAX_RATE)
        if (values < old).any():
            source.count("counter_resets")
    return rates


def _natural(key: Key) -> tuple[bool, Key]:
    """Sorts numbers by value and words among themselves."""
    return (isinstance(key, str), key)


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
