"""What one source of a node said: its newest columns, its pace, and whether it still counts.

A column lives as long as its source is heard: three periods after the last word it is absent.
Counters become rates here, because only here both readings and both times are known.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from trntop.catalog import CATALOG, LOG, NEURON_MONITOR, STEPS, Entity
from trntop.derive import RATES, combine_rows, rate
from trntop.model import STALE_PERIODS, Column, Key, Sample, SourceState, State, Status

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
MAX_PARTS = 4096
"""Ranks kept for one node."""
MAX_LINE_RATES = 2.0
"""A byte counter that moves faster than this many line rates is damaged."""
MAX_RATE = 1e15
"""The same for other counters, per second."""

Layer = tuple[Mapping[Entity, tuple[Key, ...]], dict[str, Column]]
"""What one source says: keys per entity, and columns along them."""


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
class Heard:
    """One source of one node."""

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
        """Adds to a count."""
        self.counts[what] = self.counts.get(what, 0) + by

    @property
    def stale_after(self) -> float:
        """Seconds after which a word of this source no longer counts."""
        period = self.period or DEFAULT_PERIOD
        return max(STALE_PERIODS * period + SLACK, MIN_STALE.get(self.name, 0.0))

    def _learn_pace(self, time: float, before: float | None, stated: float | None) -> None:
        """Takes the period that a reading states, else its distance from the one before."""
        if stated is not None:
            self.period = min(stated, MAX_STEP)
        elif before is not None and time > before:
            step = time - before
            # Fast towards a shorter period, slow towards a longer one: a gap is no new pace.
            known = self.period or step
            if step > known / 10:  # what came in one burst tells no pace
                self.period = min(step, 0.9 * known + 0.1 * step)

    def take(self, time: float, sample: Sample) -> None:
        """Takes one decoded reading."""
        self.count("readings")
        if sample.problems:
            self.count("problems", len(sample.problems))
        self.problem = sample.problems[0] if sample.problems else ""
        self.unusable = sample.unusable
        before = self.time
        if before is not None and time < before - STALE_PERIODS * (self.period or 1.0):
            self.forget()
            self.count("clock_steps")
            before = None
        if not sample.part:  # each speaker of a source has a pace of its own
            self._learn_pace(time, before, sample.period)
        self.time = time
        if self.declared and self.declared.state is not State.ENDED:
            self.declared = _fresh(self.declared) if self.declared.counts else None
        for name, change in sample.deltas.items():
            self.totals[name] = self.totals.get(name, 0.0) + change
        if sample.part:
            self._take_part(time, sample)
        else:
            self._take_whole(time, sample)

    def forget(self) -> None:
        """Drops all values."""
        self.parts.clear()
        self.merged = None
        self.columns.clear()

    def current(self, at: float) -> Layer:
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

    def _take_part(self, time: float, sample: Sample) -> None:
        if not sample.columns:
            return  # a note, which says nothing of the pace of values
        self.merged = None
        if (before := self.parts.get(sample.part)) is not None:
            past = before.sample
            sample.columns |= self._rates(
                sample, time, past.keys,
                lambda name: (past.columns[name], before.time) if name in past.columns else None,
            )  # fmt: skip
        if before is not None or len(self.parts) < MAX_PARTS:
            period = sample.period
            if period is None:
                period = DEFAULT_PERIOD if before is None else time - before.time
            period = min(period, MAX_STEP)
            patience = max(STALE_PERIODS * period + SLACK, MIN_STALE.get(self.name, 0.0))
            self.parts[sample.part] = _Part(time, sample, period, time + patience)
            # The slowest rank sets the pace by which the source is judged.
            self.period = max(part.period for part in self.parts.values())
        else:
            self.count("dropped")

    def _take_whole(self, time: float, sample: Sample) -> None:
        known = self.columns
        rates = self._rates(
            sample, time, self.keys, lambda name: known[name][:2] if name in known else None
        )
        changed = {entity for entity, keys in sample.keys.items() if self.keys.get(entity) != keys}
        if self.name != NEURON_MONITOR:
            known = {}  # the others tell everything each time: what is missing is lost
        elif changed:
            # Other cores or processes: columns by the old keys mean nothing any more.
            known = {
                name: value for name, value in known.items() if CATALOG[name].entity not in changed
            }
        self.keys.update(sample.keys)
        self.absent = sample.absent
        expires = time + self.stale_after
        for name, values in (sample.columns | rates).items():
            known[name] = (values, time, expires)
        for name in sample.absent:
            known.pop(name, None)
        self.columns = known

    def _rates(
        self,
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
            old = before[0] if keys == known else aligned(before[0], known, keys)
            limited = entity is Entity.EFA and name.endswith("_bytes_total")
            rates[target] = rate(old, values, time - before[1], line_rates if limited else MAX_RATE)
            if (values < old).any():
                self.count("counter_resets")
        return rates


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


def aligned(values: Column, old: tuple[Key, ...], new: tuple[Key, ...]) -> Column:
    """`values` along `old` laid out along `new`; what `old` lacks is absent."""
    place = {key: index for index, key in enumerate(old)}
    result = np.full(len(new), np.nan)
    for index, key in enumerate(new):
        if key in place:
            result[index] = values[place[key]]
    return result
