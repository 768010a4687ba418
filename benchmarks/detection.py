"""How well the analysis finds what went wrong: simulated runs against their truth.

    python -m benchmarks.detection [--tune] [--seeds A-B] [--kind KIND] [--verbose] [--quick]

Each run is drawn from its seed (`random_runs`). Rules are tuned on other seeds (`--tune`) than are
reported. An
incident finds a truth if its kind is the same and it is first seen from 2 s before the onset to
60 s after the end. One cause is one incident: a second one for the same truth is a false alarm.
All input is simulated.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

import numpy as np

from benchmarks.figure import Figure
from benchmarks.random_runs import random_run
from trntop.analysis.rule_inputs import rule_inputs
from trntop.collectors.simulator import Simulation, Truth, simulate, truth
from trntop.core.model import Incident
from trntop.core.settings import Settings
from trntop.session.monitor import Monitor, play

START = 1.76e9
REPORTED = range(5000, 5300)
TUNED = range(1000, 1300)
QUICK = 12
"""Runs when it has to be quick."""
EARLY, LATE = 2.0, 60.0
"""Seconds before the onset and after the end of a truth in which an incident may come."""
DEEP = 0.1
"""From this depth on a fault is no trifle; what has no depth is none."""

PRECISION, RECALL, NODE, COMPONENT = 0.98, 0.95, 0.97, 0.95
"""At least so much is wanted of each."""
SECONDS = 20.0
"""Median time to detect, at most."""
FALSE_ALARMS = 1.0
"""In 1,000 node-hours, at most."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """An incident as a person would have seen it."""

    kind: str
    seen: float
    """Second of the stream at which it was first shown."""
    job: str | None
    node: str | None
    component: str | None

    def finds(self, real: Truth) -> bool:
        """Whether it may be what really went wrong."""
        return self.kind == real.kind and real.onset - EARLY <= self.seen <= real.end + LATE

    def names(self, real: Truth) -> int:
        """How much of the culprit it names."""
        right = self.job == real.job or real.job is None
        return 4 * right + 2 * (self.node == real.node) + (self.component == real.component)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One simulated run, analyzed. Truths and alarms are in seconds of the stream."""

    simulation: str
    node_hours: float
    found: tuple[tuple[Truth, Alarm], ...]
    missed: tuple[Truth, ...]
    false: tuple[Alarm, ...]


def analyze(simulation: Simulation) -> Outcome:
    """Runs a simulation through the monitor."""
    first: dict[str, float] = {}
    last: dict[str, Incident] = {}
    for view in play(simulate(simulation, START), Monitor(Settings(), wanted=rule_inputs())):
        for incident in view.incidents:
            first.setdefault(incident.id, view.time - START)
            last[incident.id] = incident
    alarms = [
        Alarm(incident.kind, first[name], incident.job, incident.node, incident.component)
        for name, incident in last.items()
    ]
    found, missed = [], []
    for real in truth(simulation, 0.0):
        alarm = max(
            (alarm for alarm in alarms if alarm.finds(real)),
            key=lambda alarm: (alarm.names(real), -alarm.seen),
            default=None,
        )
        if alarm is None:
            missed.append(real)
        else:
            alarms.remove(alarm)
            found.append((real, alarm))
    hours = simulation.nodes * simulation.length / 3600.0
    return Outcome(str(simulation), hours, tuple(found), tuple(missed), tuple(alarms))


class Score:
    """The outcomes of one kind of incident, or of all."""

    def __init__(self, outcomes: Iterable[Outcome], kind: str = "") -> None:
        outcomes_ = list(outcomes)
        self.found = [
            pair for outcome in outcomes_ for pair in outcome.found if kind in ("", pair[0].kind)
        ]
        self.missed = [
            real for outcome in outcomes_ for real in outcome.missed if kind in ("", real.kind)
        ]
        self.false = [
            alarm for outcome in outcomes_ for alarm in outcome.false if kind in ("", alarm.kind)
        ]
        self.node_hours = sum(outcome.node_hours for outcome in outcomes_)

    @property
    def truths(self) -> int:
        """How many there were to be found."""
        return len(self.found) + len(self.missed)

    @property
    def precision(self) -> float:
        """Share of the incidents that were real."""
        return _share(len(self.found), len(self.found) + len(self.false))

    @property
    def recall(self) -> float:
        """Share of what was real that was found."""
        return _share(len(self.found), self.truths)

    @property
    def f1(self) -> float:
        """Harmonic mean of both."""
        return _share(2 * len(self.found), 2 * len(self.found) + len(self.false) + len(self.missed))

    @property
    def node(self) -> float:
        """Share of what was found that names the node, or rightly none."""
        return _share(sum(a.node == real.node for real, a in self.found), len(self.found))

    @property
    def component(self) -> float:
        """The same for the component."""
        right = sum(a.component == real.component for real, a in self.found)
        return _share(right, len(self.found))

    def seconds(self, quantile: float, *, deep: bool = False) -> float:
        """Seconds to detect; with `deep`, of what was no trifle."""
        outcomes_ = [
            alarm.seen - real.onset
            for real, alarm in self.found
            if not deep or not real.depth or real.depth >= DEEP
        ]
        return float(np.quantile(outcomes_, quantile)) if outcomes_ else float("nan")

    @property
    def false_alarms(self) -> float:
        """In 1,000 node-hours."""
        return 1000.0 * len(self.false) / self.node_hours if self.node_hours else float("nan")

    def row(self, name: str) -> str:
        """A line of the table."""
        seconds = "".join(
            f" {self.seconds(quantile, deep=deep):>6.1f}"
            for deep in (False, True)
            for quantile in (0.5, 0.9)
        )
        return (
            f"{name:<20} {self.truths:>6} {len(self.found):>6} {self.precision:>9.3f}"
            f" {self.recall:>7.3f} {self.f1:>7.3f} {self.node:>7.3f} {self.component:>7.3f}"
            f"{seconds} {len(self.false):>6}"
        )


HEAD = (
    f"{'kind':<20} {'truths':>6} {'found':>6} {'precision':>9} {'recall':>7} {'F1':>7} {'node':>7}"
    f" {'part':>7} {'50 %':>6} {'90 %':>6} {'deep50':>6} {'deep90':>6} {'false':>6}"
)


def outcomes(simulations: list[Simulation]) -> Iterator[Outcome]:
    """Every simulation's outcome, as each gets done: one process on each core."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        runs = {pool.submit(analyze, simulation): simulation for simulation in simulations}
        for run in as_completed(runs):
            try:
                yield run.result()
            except Exception as error:
                error.add_note(f"in '{runs[run]}'")
                raise


def drawn(seeds: Iterable[int], kind: str = "") -> list[Simulation]:
    """The random simulations, or those of them in which a kind of incident happens.

    `healthy` are those in which nothing does.
    """
    every = [random_run(seed) for seed in seeds]
    if not kind:
        return every
    kinds = {
        simulation: {real.kind for real in truth(simulation, 0.0)} or {"healthy"}
        for simulation in every
    }
    return [simulation for simulation in every if kind in kinds[simulation]]


def table(outcomes_: list[Outcome]) -> Iterator[str]:
    """The scores of each kind and of all, with what is wanted."""
    yield HEAD
    kinds = {
        real.kind
        for outcome in outcomes_
        for real in (*outcome.missed, *(p[0] for p in outcome.found))
    }
    kinds |= {alarm.kind for outcome in outcomes_ for alarm in outcome.false}
    for kind in sorted(kinds):
        yield Score(outcomes_, kind).row(kind)
    whole = Score(outcomes_)
    yield whole.row("all")
    yield (
        f"{'wanted':<20} {'':>6} {'':>6} {f'≥ {PRECISION}':>9} {f'≥ {RECALL}':>7} {'':>7}"
        f" {f'≥ {NODE}':>7} {f'≥ {COMPONENT}':>7} {f'≤ {SECONDS:g}':>6}"
    )
    yield (
        f"{len(outcomes_)} runs, {whole.node_hours:.0f} node-hours; {whole.false_alarms:.1f} false "
        f"alarms in 1,000 node-hours, wanted ≤ {FALSE_ALARMS:g}; seconds from onset to the first "
        f"view with it, of all and of what is {DEEP:.0%} deep or has no depth"
    )


def errors(outcome: Outcome) -> Iterator[str]:
    """A line for each thing that was not as it should be, and how to see it again."""
    for real in outcome.missed:
        yield f"missed {_text(real)} at {real.onset:.0f}…{real.end:.0f} s  '{outcome.simulation}'"
    for alarm in outcome.false:
        yield f"false  {_text(alarm)} at {alarm.seen:.0f} s  '{outcome.simulation}'"
    for real, alarm in outcome.found:
        if (alarm.node, alarm.component) != (real.node, real.component):
            yield f"named  {_text(alarm)}, but it was {_text(real)}  '{outcome.simulation}'"


def run(*, quick: bool) -> list[Figure]:
    seeds = REPORTED[:QUICK] if quick else REPORTED
    score = Score(outcomes(drawn(seeds)))
    beside = f"{len(seeds)} simulated runs"
    return [
        Figure("detection: incidents that were none", 1 - score.precision, "", 1 - PRECISION,
               beside),
        Figure("detection: missed incidents", 1 - score.recall, "", 1 - RECALL),
        Figure("detection: wrong node", 1 - score.node, "", 1 - NODE),
        Figure("detection: wrong component", 1 - score.component, "", 1 - COMPONENT),
        Figure("detection: median time", score.seconds(0.5), "s", SECONDS),
        Figure("detection: false alarms in 1,000 node-hours", score.false_alarms, "",
               FALSE_ALARMS, f"{score.node_hours:.0f} node-hours"),
    ]  # fmt: skip


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _text(event: Truth | Alarm) -> str:
    where = " ".join(str(part) for part in (event.job, event.node, event.component) if part)
    return f"{event.kind} ({where})"


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.detection",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tune", action="store_true", help="the seeds that rules are tuned on")
    parser.add_argument("--seeds", type=_seeds, metavar="A-B", help="these instead")
    parser.add_argument("--kind", default="", help="only runs with this kind, or `healthy`")
    parser.add_argument("--verbose", action="store_true", help="say what was missed or false")
    parser.add_argument("--quick", action="store_true", help=f"no more than {QUICK} runs")
    args = parser.parse_args()
    seeds = args.seeds or (TUNED if args.tune else REPORTED)
    simulations = drawn(seeds, args.kind)
    outcomes_ = []
    for outcome in outcomes(simulations[:QUICK] if args.quick else simulations):
        outcomes_.append(outcome)
        if args.verbose:
            for line in errors(outcome):
                print(line, flush=True)
    for line in table(outcomes_):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
