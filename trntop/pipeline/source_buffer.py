"""One source of a node: its newest columns, its interval, and whether they still count.

A column is absent three periods after the last reading of its source. Counters become rates here,
because only here both readings and both times are known. Rates expire after three periods even
where a source has longer: without another reading nothing may move.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from trntop.catalog import (
    CATALOG,
    NEURON_MONITOR,
    PROBE,
    Combine,
    Entity,
)
from trntop.core.model import STALE_PERIODS, Column, Key, Sample, SourceState, State, Status
from trntop.pipeline.derive import LINE_LIMITED, LINE_RATE, RATES, combine_rows, rate
from trntop.sources import STALE_AFTER

LATE_PERIODS = 2.0
SLACK = 0.5
"""Seconds of jitter forgiven before a source is called late."""
DEFAULT_PERIOD = 5.0
"""neuron-monitor's own, used until a source's interval is known."""
PROBE_PERIOD = 300.0
"""The same for a link."""
MAX_STEP = 600.0
"""Seconds; a longer step does not indicate when the next one is due."""
MAX_PARTS = 4096
"""Ranks kept for one node."""
MAX_JOBS = 64
"""Jobs kept for one node, one for each logical core of a trn2.48xlarge: any user may report some,
and the rules compare the ranks of each.
"""
MAX_LINE_RATES = 2.0
"""A byte counter that moves faster than this many line rates is damaged."""
MAX_RATE = 1e15
"""The same for other counters, per second."""

Layer = tuple[Mapping[Entity, tuple[Key, ...]], dict[str, Column]]
"""The values of one source: keys per entity, and columns along them."""


@dataclass(slots=True)
class _Part:
    """The newest sample of a part of a source: a rank."""

    time: float
    sample: Sample
    period: float
    """Seconds to its next sample, as it states or as its last two were apart."""
    expires: float
    """When it is stale without another sample."""
    rates: dict[str, Column]
    """Of its counters, since its sample before."""

    @property
    def rates_expire(self) -> float:
        """When its rates are stale: a rate does not show a standstill."""
        return min(self.expires, self.time + STALE_PERIODS * self.period + SLACK)

    def columns(self, now: float) -> dict[str, Column]:
        """Its values that count at `now`."""
        columns = self.sample.columns
        return columns | self.rates if self.rates and now <= self.rates_expire else columns

    def changes(self, now: float) -> float:
        """When `columns` are next less than at `now`."""
        return self.rates_expire if self.rates and now <= self.rates_expire else self.expires


@dataclass(frozen=True, slots=True)
class _Merged:
    """Several parts as one: columns along the keys of all of them."""

    expires: float
    """When the first of them falls silent, or its rates are stale."""
    columns: dict[str, Column]
    keys: dict[Entity, tuple[Key, ...]]


@dataclass(slots=True)
class SourceBuffer:
    """One source of one node."""

    name: str
    time: float | None = None
    period: float | None = None
    declared: Status | None = None
    """The collector's status, until the next reading overrides STARTING or LATE."""
    problem: str = ""
    """The newest problem of a payload, cleared by a clean one."""
    unusable: str = ""
    """Why the newest payload has no values."""
    counts: dict[str, int] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    """Node counters summed up from the changes that payloads state."""
    parts: dict[str, _Part] = field(default_factory=dict)
    columns: dict[str, Column] = field(default_factory=dict)
    """The values of its newest reading, the rates since the one before, and the totals."""
    expires: float = 0.0
    """When that is stale."""
    machine: str = ""
    """The instance that it reports, if it does."""
    kept: dict[str, tuple[Column, float, float]] = field(default_factory=dict)
    """Quantity → values, when they expire, and when they were reported: of older readings, whose
    group the newest lacks.
    """
    intervals: dict[str, float] = field(default_factory=dict)
    """Quantity → seconds between its reports, where that is more than one reading."""
    keys: dict[Entity, tuple[Key, ...]] = field(default_factory=dict)
    merged: "_Merged | None" = None
    """The parts as one; rebuilt when one reports or expires."""
    absent: dict[str, str] = field(default_factory=dict)

    def count(self, what: str, by: int = 1) -> None:
        """Adds to a count."""
        self.counts[what] = self.counts.get(what, 0) + by

    @property
    def stale_after(self) -> float:
        """Seconds after which a reading of this source no longer counts."""
        period = self.period or DEFAULT_PERIOD
        return max(STALE_PERIODS * period + SLACK, STALE_AFTER.get(self.name, 0.0))

    def _learn_interval(self, time: float, before: float | None, stated: float | None) -> None:
        """Takes the period that a reading states, else the time since the one before."""
        if stated is not None:
            self.period = min(stated, MAX_STEP)
        elif before is not None and time > before:
            step = time - before
            # Fast towards a shorter period, slow towards a longer one: a gap is no new interval.
            known = self.period or step
            if step > known / 10:  # a burst shows no interval
                self.period = min(step, 0.9 * known + 0.1 * step)

    def add(self, time: float, sample: Sample) -> None:
        """Takes one decoded reading."""
        self.count("readings")
        if sample.problems:
            self.count("problems", len(sample.problems))
        self.problem = sample.problems[0] if sample.problems else ""
        self.unusable = sample.unusable
        before = self.time
        if before is not None and time < before - STALE_PERIODS * (self.period or 1.0):
            self.clear()
            self.count("clock_steps")
            before = None
        if not sample.part:  # each part of a source has its own interval
            self._learn_interval(time, before, sample.period)
        self.time = time
        if self.declared and self.declared.state is not State.ENDED:
            self.declared = _fresh(self.declared) if self.declared.counts else None
        for name, change in sample.deltas.items():
            self.totals[name] = self.totals.get(name, 0.0) + change
        if sample.part:
            self._add_part(time, sample)
        else:
            self._add_whole(time, before, sample)

    def clear(self) -> None:
        """Drops all values."""
        self.parts.clear()
        self.merged = None
        self.columns = {}
        self.kept = {}

    def current(self, at: float) -> Layer:
        """Keys and columns that count at `at`."""
        if self.parts:
            if self.merged is None or self.merged.expires < at:
                self.merged = _merge(self.parts, at)
            expired = self.time is None or at - self.time > self.stale_after
            if self.columns and not expired:
                return self.merged.keys, self.merged.columns | self.columns
            return self.merged.keys, self.merged.columns
        if self.time is None or at - self.time > self.stale_after:
            return {}, {}
        if not self.kept:
            return self.keys, self.columns
        older = {name: values for name, (values, expires, _) in self.kept.items() if expires >= at}
        return self.keys, older | self.columns

    def state(self, now: float) -> SourceState:
        """The state by the collector's status and by age, whichever is worse."""
        declared = self.declared
        counts = {**self.counts, **declared.counts} if declared else self.counts.copy()
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

    def _add_part(self, time: float, sample: Sample) -> None:
        self.columns = {name: np.array([total]) for name, total in self.totals.items()}
        if not sample.columns:
            return  # a note, which does not show the interval of values
        self.merged = None
        if links := sample.keys.get(Entity.LINK):
            # A link's own time distinguishes a new result from an old one.
            sample.columns["link_probe_timestamp_seconds"] = np.full(len(links), time)
        rates: dict[str, Column] = {}
        if (before := self.parts.get(sample.part)) is not None:
            past = before.sample
            rates = self._rates(sample, past.columns, past.keys, time - before.time)
        if before is not None or self._has_room(sample):
            period = sample.period
            if period is None:
                first = PROBE_PERIOD if self.name == PROBE else DEFAULT_PERIOD
                period = first if before is None else time - before.time
            period = min(period, MAX_STEP)
            lasts = max(STALE_PERIODS * period + SLACK, STALE_AFTER.get(self.name, 0.0))
            self.parts[sample.part] = _Part(time, sample, period, time + lasts, rates)
            # The slowest rank sets the interval of the source.
            if self.period is None or period >= self.period:
                self.period = period
            elif before is not None and before.period >= self.period:
                self.period = max(part.period for part in self.parts.values())
        else:
            self.count("dropped")

    def _has_room(self, sample: Sample) -> bool:
        """Whether a new part is kept."""
        if len(self.parts) >= MAX_PARTS:
            return False
        mine = sample.keys.get(Entity.JOB)
        if mine is None:
            return True
        jobs = {part.sample.keys.get(Entity.JOB) for part in self.parts.values()}
        return mine in jobs or len(jobs) < MAX_JOBS

    def _add_whole(self, time: float, before: float | None, sample: Sample) -> None:
        if self.name == NEURON_MONITOR:
            self._keep_devices(sample)
        columns = sample.columns
        if before is not None:
            columns = columns | self._rates(sample, self.columns, self.keys, time - before)
        totals = np.array(list(self.totals.values()))
        columns.update({name: totals[index : index + 1] for index, name in enumerate(self.totals)})
        if self.name == NEURON_MONITOR:  # the others report everything: what is missing is lost
            self._keep_older(columns, sample, time)
        for name in sample.absent:
            columns.pop(name, None)
        self.columns = columns
        self.expires = time + self.stale_after
        self.keys.update(sample.keys)
        self.absent = sample.absent

    def _keep_devices(self, sample: Sample) -> None:
        """A report without a list of devices has their number, but not which they are."""
        known, reported = self.keys.get(Entity.DEVICE, ()), sample.keys.get(Entity.DEVICE, ())
        machine = sample.facts.get("facts", {}).get("instance_id", "")
        if reported != known and set(reported) < set(known) and machine == self.machine:
            sample.keys[Entity.DEVICE] = known
            for name, values in sample.columns.items():
                if CATALOG[name].entity is Entity.DEVICE:
                    sample.columns[name] = aligned(values, reported, known)
        self.machine = machine

    def _keep_older(self, columns: dict[str, Column], sample: Sample, time: float) -> None:
        """Keeps what the newest sample lacks: a group may have its own interval."""
        kept = self.kept
        for name in self.columns.keys() - columns.keys():
            reported = self.expires - self.stale_after
            lasts = STALE_PERIODS * self.intervals.get(name, 0.0) + SLACK
            kept[name] = (self.columns[name], reported + max(self.stale_after, lasts), reported)
        if self.intervals:
            for name in self.intervals.keys() & self.columns.keys() & columns.keys():
                del self.intervals[name]
        if not kept:
            return
        for name in kept.keys() & columns.keys():
            self.intervals[name] = min(time - kept[name][2], MAX_STEP)
        # Other cores or processes: columns by the old keys mean nothing any more.
        changed = {entity for entity, keys in sample.keys.items() if self.keys.get(entity) != keys}
        self.kept = {
            name: value
            for name, value in kept.items()
            if name not in columns
            and name not in sample.absent
            and CATALOG[name].entity not in changed
        }

    def _rates(
        self,
        sample: Sample,
        past: Mapping[str, Column],
        past_keys: Mapping[Entity, tuple[Key, ...]],
        seconds: float,
    ) -> dict[str, Column]:
        """Rates of the counters that a sample shares with the one before, `seconds` ago."""
        if RATES.keys().isdisjoint(sample.columns):
            return {}
        names = [name for name in sample.columns if name in RATES and name in past]
        if not names:
            return {}
        rates: dict[str, Column] = {}
        limit = MAX_RATE
        links = sample.columns.get(LINE_RATE)
        if links is not None and not np.isnan(links).all():
            limit = MAX_LINE_RATES * float(np.nanmax(links))
        by_entity: dict[Entity, list[str]] = {}
        for name in names:
            by_entity.setdefault(CATALOG[name].entity, []).append(name)
        for entity, counters in by_entity.items():
            keys, known = sample.keys.get(entity, ()), past_keys.get(entity, ())
            old = [past[name] for name in counters]
            if keys != known:
                old = [aligned(values, known, keys) for values in old]
            # All counters of an entity at once: NumPy's calls cost more than the numbers.
            after, before = np.array([sample.columns[name] for name in counters]), np.array(old)
            limits = [limit if name in LINE_LIMITED else MAX_RATE for name in counters]
            changes = rate(before, after, seconds, np.array(limits)[:, None])
            rates.update(zip([RATES[name] for name in counters], changes, strict=True))
            if (after < before).any():
                self.count("counter_resets", int((after < before).any(axis=1).sum()))
        return rates


def _merge(parts: dict[str, _Part], now: float) -> _Merged:
    """Merges the parts that count at `now`, one row each, and removes the silent ones."""
    for name in [name for name, part in parts.items() if part.expires < now]:
        del parts[name]
    columns: dict[str, Column] = {}
    keys: dict[Entity, tuple[Key, ...]] = {}
    samples = [part.sample for part in parts.values()]
    current = [part.columns(now) for part in parts.values()]
    for entity in dict.fromkeys(chain.from_iterable(sample.keys for sample in samples)):
        key_sets = [sample.keys.get(entity, ()) for sample in samples]
        labels = tuple(sorted(set(chain.from_iterable(key_sets)), key=str))
        keys[entity] = labels
        index_of = {label: index for index, label in enumerate(labels)}
        indices = [index_of[key] for key in chain.from_iterable(key_sets)]
        rows = np.repeat(
            np.arange(len(samples)), [len(keys_of_sample) for keys_of_sample in key_sets]
        )
        nothing = [np.full(len(keys_of_sample), np.nan) for keys_of_sample in key_sets]
        rules: dict[Combine, list[str]] = {}
        for name in dict.fromkeys(chain.from_iterable(current)):
            if CATALOG[name].entity is entity:
                rules.setdefault(CATALOG[name].combine, []).append(name)
        # Merged together by combine rule: NumPy's calls cost more than the numbers.
        for rule, names in rules.items():
            rows_of_parts = [
                keys_of_sample.get(name, absent)
                for name in names
                for keys_of_sample, absent in zip(current, nothing, strict=True)
            ]
            table = np.full((len(samples), len(names), len(labels)), np.nan)
            table[rows, :, indices] = np.concatenate(rows_of_parts).reshape(len(names), -1).T
            merged = combine_rows(table.reshape(len(samples), -1), rule)
            columns.update(zip(names, merged.reshape(len(names), -1), strict=True))
    expires = min((part.changes(now) for part in parts.values()), default=now)
    return _Merged(expires, columns, keys)


def _fresh(status: Status) -> Status:
    """The same counts, without a verdict: a reading has come."""
    return Status(status.node, status.source, State.FRESH, "", status.counts)


def aligned(values: Column, old: tuple[Key, ...], new: tuple[Key, ...]) -> Column:
    """`values` along `old` laid out along `new`; what `old` lacks is absent."""
    index_of = {key: index for index, key in enumerate(old)}
    result = np.full(len(new), np.nan)
    for index, key in enumerate(new):
        if key in index_of:
            result[index] = values[index_of[key]]
    return result
