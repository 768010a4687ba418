"""Runs the hardening benchmark: see the package's own documentation."""

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice

import benchmarks.hardening
from benchmarks.hardening.kinds import FAULTY, HEALTHY
from benchmarks.hardening.score import Outcome, analyze, table

REPORTED, TUNED = 70_000, 20_000
"""First seeds."""
RUNS = 8
"""Of each kind, unless --seeds or --hours is given."""


def pairs(kinds: list[str], seeds: range | None, first: int) -> Iterator[tuple[str, int]]:
    """Kinds and seeds, in turn; without an end if `seeds` is None."""
    for seed in seeds if seeds is not None else count(first):
        for kind in kinds:
            yield kind, seed


def outcomes(
    wanted: Iterator[tuple[str, int]], hours: float, jobs: int, period: float
) -> Iterator[Outcome]:
    """Outcomes of runs, until their node-hours add up."""
    with ProcessPoolExecutor(jobs) as pool:
        total = 0.0
        waiting = [pool.submit(analyze, *pair, period) for pair in islice(wanted, 2 * jobs)]
        while waiting:
            outcome = waiting.pop(0).result()
            total += outcome.node_hours
            yield outcome
            if total < hours:
                waiting += [pool.submit(analyze, *pair, period) for pair in islice(wanted, 1)]


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hardening",
        description=benchmarks.hardening.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = {"healthy": list(HEALTHY), "faulty": list(FAULTY)}
    parser.add_argument("--tune", action="store_true", help="the seeds that rules are tuned on")
    parser.add_argument("--kind", default="", help="a kind of run, `healthy` or `faulty`")
    parser.add_argument("--seeds", type=_seeds, metavar="A-B", help="these instead")
    parser.add_argument("--hours", type=float, metavar="N", help="as many node-hours as this")
    parser.add_argument("--verbose", action="store_true", help="each false alarm and each miss")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--period", type=float, default=1.0, help="`collect.period`: 5 needs a third of the time"
    )
    args = parser.parse_args()
    chosen = kinds.get(args.kind) or ([args.kind] if args.kind else [*HEALTHY, *FAULTY])
    if unknown := set(chosen) - {*HEALTHY, *FAULTY}:
        parser.error(f"unknown kind: {', '.join(unknown)}; known are {', '.join(HEALTHY | FAULTY)}")
    first = TUNED if args.tune else REPORTED
    seeds = args.seeds or (None if args.hours else range(first, first + RUNS))
    done = []
    hours = args.hours or float("inf")
    for outcome in outcomes(pairs(chosen, seeds, first), hours, args.jobs, args.period):
        done.append(outcome)
        for line in outcome.lines() if args.verbose else ():
            print(line, flush=True)
    for line in table(done):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
