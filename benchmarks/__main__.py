"""Runs the benchmarks and prints one table.

Machines differ and are noisy: figures are medians, and where a yardstick exists (json.loads,
prometheus_client, a bare Textual app) it is measured in the same run and the ratio printed.
"""

import argparse
import importlib
import sys

from benchmarks.figure import Figure

NAMES = (
    "decode", "page", "soak", "analyzer", "cold_start", "demo", "dashboard", "steps", "traces",
    "agent", "detection", "analyze", "seek", "history", "prometheus", "ssh", "streams", "hanging",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="shorter runs, rougher figures")
    args = parser.parse_args()
    if unknown := set(args.names) - set(NAMES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    print(f"{'what':<58} {'budget':>12} {'figure':>12}  beside it")
    missed = False
    for name in args.names or NAMES:
        figures: list[Figure] = importlib.import_module(f"benchmarks.{name}").run(quick=args.quick)
        for figure in figures:
            print(figure.line(), flush=True)
            missed |= figure.missed
    print("! over budget" if missed else "all within budget")
    return 0


if __name__ == "__main__":  # some benchmarks start processes that import this again
    sys.exit(main())
