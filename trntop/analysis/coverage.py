"""From when on each rule has enough data: without incidents before that, nothing is known."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trntop.analysis.detector import Detector
from trntop.analysis.rule import Rule, WarmUp
from trntop.analysis.runbook import kind_name
from trntop.catalog import Entity, all_inputs, sources_of
from trntop.core import units
from trntop.core.model import Coverage, RuleCoverage
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.axis import Axis, PartAxis, realigned
from trntop.pipeline.tick import Tick

CHECK_SECONDS = 5.0
"""Interval at which the inputs of rules are checked."""
MANY_NODES = 100
"""Up to so many nodes, they are checked each tick in the first minute."""
LOST_SECONDS = 60.0
"""Seconds without any input of a rule after which it starts over."""
PROMPT_SECONDS = 60.0
"""Rules that need more data than of so many seconds are not waited for."""

_STAMPS = "link_probe_timestamp_seconds"


@dataclass(slots=True)
class _Progress:
    """What a rule has had so far."""

    rule: Rule
    needed: WarmUp
    inputs: tuple[str, ...]
    """Any of these lets it judge; without any it goes by silence."""
    begin: float | None = None
    """When its first input came."""
    steps: int = 0
    """The steps counted before that."""
    seen: float = 0.0
    """When any input was last there."""
    since: float | None = None
    """From when on it has judged."""

    @property
    def is_prompt(self) -> bool:
        needed = self.needed
        return not needed.results and max(needed.seconds, needed.without_steps) <= PROMPT_SECONDS


class CoverageTracker:
    """Follows the data of all rules, tick by tick."""

    def __init__(self, rules: Iterable[tuple[Rule, Detector]], settings: Settings) -> None:
        self._rules = [
            _Progress(rule, rule.needed(settings), _inputs(rule, detector))
            for rule, detector in rules
        ]
        self._counts_results = any(progress.needed.results for progress in self._rules)
        self.reset()

    def reset(self) -> None:
        """Starts over: the stream's clock was set back."""
        self.coverage = Coverage()
        self._since: float | None = None
        self._due = -math.inf
        self._step: dict[str, float] = {}
        """Job → its newest step."""
        self._steps: dict[str, int] = {}
        """Job → number of ticks that brought a step."""
        self._links = PartAxis(Axis(), ())
        self._stamps = self._results = np.empty(0)
        """Of each link its newest result, and their number."""
        for progress in self._rules:
            progress.begin = progress.since = None

    def opened(self, kind: str, time: float) -> None:
        """An incident of this kind has opened, so its rule had enough data."""
        for progress in self._rules:
            if progress.rule.kind == kind and progress.since is None:
                progress.since = time

    def update(self, tick: Tick) -> None:
        """Takes one tick, after the rules have."""
        watching = self.coverage.watching
        if watching is None:
            if not any(view.frame.columns for view in tick.views):
                return
            watching = tick.time
        counted = self._most_steps
        self._count(tick)
        if tick.time >= self._due:
            self._check(tick, counted)
            is_new = tick.time - watching < LOST_SECONDS and len(tick.nodes) <= MANY_NODES
            self._due = tick.time + (0.0 if is_new else CHECK_SECONDS)
        states = [self._state(progress, tick) for progress in self._rules]
        expected = self._since
        if expected is None:
            prompt = [
                state
                for state, progress in zip(states, self._rules, strict=True)
                if progress.is_prompt and progress.begin is not None
            ]
            times = [state.since for state in prompt if state.since is not None]
            expected = max(times) if times and len(times) == len(prompt) else None
            if all(state.judges(tick.time) for state in prompt):
                self._since = expected
        self.coverage = Coverage(watching, expected, tuple(states))

    @property
    def _most_steps(self) -> int:
        return max(self._steps.values(), default=0)

    def _check(self, tick: Tick, counted: int) -> None:
        """Finds out which rules have input; `counted` is the number of steps before this tick."""
        known = _Known(tick)
        for progress in self._rules:
            if not progress.inputs or any(name in known for name in progress.inputs):
                progress.seen = tick.time
                if progress.begin is None:
                    progress.begin = tick.time
                    progress.steps = counted
            elif progress.begin is not None and tick.time - progress.seen > LOST_SECONDS:
                progress.begin = progress.since = None

    def _count(self, tick: Tick) -> None:
        """Counts steps and probe results."""
        for job, run in tick.runs.by_job.items():
            if job is not None and run.step == run.step and run.step != self._step.get(job):
                self._step[job] = run.step
                self._steps[job] = self._steps.get(job, 0) + 1
        if not self._counts_results:
            return
        axis = tick.parts(Entity.LINK)
        if axis is not self._links:
            self._stamps = realigned(self._stamps, self._links, axis)
            self._results = np.nan_to_num(realigned(self._results, self._links, axis))
            self._links = axis
        if len(axis):
            stamps = tick.column(_STAMPS)
            new = ~np.isnan(stamps) & (stamps != self._stamps)
            self._stamps = np.where(new, stamps, self._stamps)
            self._results = self._results + new

    def _state(self, progress: _Progress, tick: Tick) -> RuleCoverage:
        kind, needed = progress.rule.kind, progress.needed
        if progress.since is not None:
            return RuleCoverage(kind, progress.since)
        if progress.begin is None:
            return RuleCoverage(kind, missing=progress.rule.needs)
        steps = results = 0
        seconds = max(needed.seconds, needed.without_steps)
        if needed.steps and self._steps:
            seconds = needed.seconds
            steps = max(0, progress.steps + needed.steps - self._most_steps)
        if needed.results:
            results = max(0, needed.results - int(self._results.max(initial=0)))
        expected: float | None = progress.begin + seconds
        if not (steps or results) and tick.time >= progress.begin + seconds:
            progress.since = tick.time
            return RuleCoverage(kind, tick.time)
        if results:
            expected = None
        elif steps:
            runs = (run for job, run in tick.runs.by_job.items() if job in self._steps)
            usual = min((run.usual for run in runs if run.usual), default=0.0)
            expected = max(progress.begin + seconds, tick.time + steps * usual) if usual else None
        return RuleCoverage(kind, expected, steps, results)


def _inputs(rule: Rule, detector: Detector) -> tuple[str, ...]:
    """What the rule needs, or what that is computed from: the part that its detector reads."""
    needs = dict.fromkeys(part for name in rule.needs for part in (name, *all_inputs(name)))
    return tuple(name for name in needs if name in detector.inputs)


class _Known:
    """The quantities that any node has a value of."""

    def __init__(self, tick: Tick) -> None:
        self._tick = tick
        self._found: dict[str, bool] = {}

    def __contains__(self, name: str) -> bool:
        found = self._found.get(name)
        if found is None:
            columns = (frame.columns.get(name) for frame in self._tick.frames)
            found = any(column is not None and (column == column).any() for column in columns)
            self._found[name] = found
        return found


def joined(coverages: Sequence[Coverage]) -> Coverage:
    """That of several judges, each of some nodes: it is that of the last one to begin."""
    reported = [coverage for coverage in coverages if coverage.rules]
    if not reported:
        return Coverage()

    def latest(times: Iterable[float | None]) -> float | None:
        known = [math.inf if time is None else time for time in times]
        return None if math.inf in known else max(known)

    rules: dict[str, RuleCoverage] = {}
    for rule in (rule for coverage in reported for rule in coverage.rules):
        known = rules.get(rule.kind)
        if known is None or known.missing:
            rules[rule.kind] = rule
        elif not rule.missing:
            rules[rule.kind] = RuleCoverage(
                rule.kind,
                latest((known.since, rule.since)),
                max(known.steps, rule.steps),
                max(known.results, rule.results),
            )
    return Coverage(
        latest(coverage.watching for coverage in reported),
        latest(coverage.since for coverage in reported),
        tuple(rules.values()),
    )


# Text


def lack(rule: RuleCoverage, now: float) -> str:
    """What a rule still needs; empty if it judges."""
    if rule.judges(now):
        return ""
    if rule.missing:
        return f"no input, needs {_sources(rule)}"
    for count, what in ((rule.steps, "step"), (rule.results, "probe result")):
        if count:
            return f"needs {count} more {what}{'s' * (count != 1)}"
    return "" if rule.since is None else f"needs {units.span(max(1.0, rule.since - now))} more"


def lacks(coverage: Coverage, now: float) -> list[str]:
    """What the rules with input still need, `Straggler: needs 5 more steps`; the same once."""
    by_lack: dict[str, list[str]] = {}
    for rule in coverage.rules:
        if not rule.missing and (text := lack(rule, now)):
            by_lack.setdefault(text, []).append(rule.kind)
    return [f"{', '.join(map(kind_name, kinds))}: {text}" for text, kinds in by_lack.items()]


def without_input(coverage: Coverage) -> list[str]:
    """The rules without input, `Latency regression (probe)`."""
    return [f"{kind_name(rule.kind)} ({_sources(rule)})" for rule in coverage.rules if rule.missing]


def beginning(coverage: Coverage, now: float, *, utc: bool) -> list[str]:
    """Why the absence of incidents means nothing yet; empty once it does."""
    if coverage.judges(now):
        return []
    watched = 0.0 if coverage.watching is None else now - coverage.watching
    found = [f"watching for {units.span(watched)}"]
    if coverage.since is not None:
        return [*found, f"judging from {units.clock(coverage.since, utc=utc)}"]
    unsure = (rule for rule in coverage.rules if rule.steps)
    return [*found, *(f"{kind_name(rule.kind)} {lack(rule, now)}" for rule in unsure)][:2]


def summary(coverage: Coverage, now: float) -> list[str]:
    """What a report states: from when on the rules judged, and which of them did not."""
    if not coverage.rules:
        return []
    since = coverage.since
    if since is None or since > now:
        found = ["Judged: not yet, too little data"]
    else:
        count = sum(rule.judges(now) for rule in coverage.rules)
        clock = units.clock(since, utc=True)
        found = [f"Judged: from {clock} UTC, {count} of {len(coverage.rules)} rules"]
    if texts := lacks(coverage, now):
        found.append(f"Too little data: {'; '.join(texts)}")
    if names := without_input(coverage):
        found.append(f"No input: {', '.join(names)}")
    return found


def givers(rule: RuleCoverage) -> list[str]:
    """The sources that would give a rule input, best first."""
    return list(dict.fromkeys(source for name in rule.missing for source in sources_of(name)))


def _sources(rule: RuleCoverage) -> str:
    *others, last = givers(rule) or ["unknown"]
    return f"{', '.join(others)} or {last}" if others else last
