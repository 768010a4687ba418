"""What the detection made of a run, against its truth."""

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.hardening.kinds import FAULTY, HEALTHY, Run, Truth, draw
from benchmarks.hardening.telemetry import START, DirectMonitor, readings
from trntop.core.model import Incident, Reading
from trntop.session.monitor import play

EARLY, LATE = 2.0, 60.0
"""Seconds before the onset and after the end of a truth in which an incident may come."""
PRECISION, RECALL, NODE, PART = 0.99, 0.97, 0.97, 0.97
"""At least so much is wanted of each in faulty runs."""
MEDIAN, NINTH = 15.0, 40.0
"""Seconds to detect, at most: median and 90th percentile."""
FALSE_ALARMS = 1.0
"""In 10,000 node-hours of healthy runs, at most."""
_NODE = re.compile(r"trn-\d{3}")


@dataclass(frozen=True, slots=True)
class Alarm:
    """An incident as it was when it was last shown."""

    kind: str
    detected: float
    node: str | None
    component: str | None
    summary: str

    def finds(self, truth: Truth) -> bool:
        return self.kind in truth.kinds and truth.onset - EARLY <= self.detected <= truth.end + LATE

    def innocents(self, truth: Truth) -> set[str]:
        """Nodes that it names and that are not faulty."""
        named = {*_NODE.findall(self.summary), *([self.node] if self.node else ())}
        return {name for name in named if name not in truth.culprits and name not in _ends(truth)}

    def right_node(self, truth: Truth) -> bool:
        if self.innocents(truth):
            return False
        single = truth.culprits[0] if len(truth.culprits) == 1 else None
        return self.node == single or (truth.optional and self.node is None)

    def right_part(self, truth: Truth) -> bool:
        return self.component == truth.component


def _ends(truth: Truth) -> str:
    """The other end of a link may be named as well."""
    return truth.component or ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One analyzed run."""

    kind: str
    seed: int
    node_hours: float
    cpu: float
    found: tuple[tuple[Truth, Alarm], ...]
    missed: tuple[Truth, ...]
    false: tuple[Alarm, ...]

    @property
    def healthy(self) -> bool:
        return self.kind in HEALTHY

    def lines(self) -> Iterator[str]:
        """What was not as it should be."""
        run = f"{self.kind} --seeds {self.seed}"
        for alarm in self.false:
            yield f"FALSE  {run}: {alarm.kind} at {alarm.detected:.0f} s: {alarm.summary}"
        for truth in self.missed:
            where = " ".join(filter(None, (*truth.culprits, truth.component)))
            yield f"MISSED {run}: {truth.kinds[0]} {where} at {truth.onset:.0f} s"
        for truth, alarm in self.found:
            if not alarm.right_node(truth) or not alarm.right_part(truth):
                named = " ".join(filter(None, (*truth.culprits, truth.component))) or "no node"
                was = f"{alarm.node} {alarm.component}, it was {named}"
                yield f"NAMED  {run}: {was}: {alarm.summary}"


def analyze(kind: str, seed: int, period: float = 1.0) -> Outcome:
    """Draws a run and plays it through the monitor.

    Args:
        kind: of the run.
        seed: of the run.
        period: seconds between ticks, and between the reports of a node at least.
    """
    begin = time.process_time()
    run = draw(kind, seed)
    run.world.period = max(run.world.period, period)
    found = alarms(readings(run.world), period)
    return outcome(run, found, time.process_time() - begin)


def alarms(stream: Iterable[Reading], period: float = 1.0) -> list[Alarm]:
    """The incidents of a stream."""
    last: dict[str, Incident] = {}
    for view in play(stream, DirectMonitor(period)):
        last.update((incident.id, incident) for incident in view.incidents)
    return [_alarm(incident) for incident in last.values()]


def _alarm(incident: Incident) -> Alarm:
    detected = (incident.detected_at or incident.opened_at) - START
    return Alarm(incident.kind, detected, incident.node, incident.component, incident.summary)


def outcome(run: Run, alarms: Iterable[Alarm], cpu: float = 0.0) -> Outcome:
    """Which alarms are right: one for each truth."""
    left = list(alarms)
    found, missed = [], []
    for truth in run.truths:
        best = max(
            (alarm for alarm in left if alarm.finds(truth)),
            key=lambda alarm: (
                2 * alarm.right_node(truth) + alarm.right_part(truth), -alarm.detected,
            ),
            default=None,
        )  # fmt: skip
        if best is None:
            missed.append(truth)
        else:
            left.remove(best)
            found.append((truth, best))
    return Outcome(
        run.kind, run.seed, run.node_hours, cpu, tuple(found), tuple(missed), tuple(left)
    )


HEAD = (
    f"{'kind':<22} {'runs':>5} {'truths':>6} {'found':>6} {'prec.':>6} {'recall':>6} {'node':>6}"
    f" {'part':>6} {'50 %':>6} {'90 %':>6} {'hours':>7} {'false':>5} {'/10,000 h':>9}"
)


def row(name: str, outcomes: Iterable[Outcome]) -> str:
    """A line of the table."""
    results = list(outcomes)
    pairs = [pair for outcome in results for pair in outcome.found]
    truths = len(pairs) + sum(len(outcome.missed) for outcome in results)
    false = sum(len(outcome.false) for outcome in results)
    hours = sum(outcome.node_hours for outcome in results)
    delays = [alarm.detected - truth.onset for truth, alarm in pairs]
    shares = (
        (len(pairs), len(pairs) + false),
        (len(pairs), truths),
        (sum(alarm.right_node(truth) for truth, alarm in pairs), len(pairs)),
        (sum(alarm.right_part(truth) for truth, alarm in pairs), len(pairs)),
    )
    texts = [f"{part / whole:6.3f}" if truths and whole else f"{'–':>6}" for part, whole in shares]
    times = [f"{np.quantile(delays, q):6.1f}" if delays else f"{'–':>6}" for q in (0.5, 0.9)]
    return (
        f"{name:<22} {len(results):>5} {truths:>6} {len(pairs):>6} {' '.join((*texts, *times))}"
        f" {hours:>7.1f} {false:>5} {1e4 * false / hours if hours else 0.0:>9.1f}"
    )


def table(outcomes: list[Outcome]) -> Iterator[str]:
    """A line of each kind, of all healthy and of all faulty runs."""
    yield HEAD
    for kind in (*HEALTHY, *FAULTY):
        mine = [outcome for outcome in outcomes if outcome.kind == kind]
        if mine:
            yield row(kind, mine)
    yield row("all healthy", (outcome for outcome in outcomes if outcome.healthy))
    yield row("all faulty", (outcome for outcome in outcomes if not outcome.healthy))
    yield (
        f"wanted of faulty runs: precision ≥ {PRECISION}, recall ≥ {RECALL}, node ≥ {NODE}, part ≥ "
        f"{PART}, 50 % ≤ {MEDIAN:g} s, 90 % ≤ {NINTH:g} s; of healthy ones: false alarms in 10,000 "
        f"node-hours ≤ {FALSE_ALARMS:g}"
    )
    hours, cpu = (
        sum(outcome.node_hours for outcome in outcomes),
        sum(outcome.cpu for outcome in outcomes),
    )
    yield f"{cpu:.0f} s of CPU, {cpu / max(hours, 1e-9):.2f} s per node-hour"
