#!/usr/bin/env python3
"""A SIMULATED neuron-explorer, or neuron-profile: two commands of AWS's programs.

    capture -n FILE.neff -s OUT.ntff [--collectives-workers-per-node N] [--collectives-profile-id I]
    view -n FILE.neff -s OUT.ntff --output-format summary-json

With several workers the profile of worker I is OUT_rank_I.ntff. FAKE_NEURON_EXPLORER is how it
behaves: `ok`; `collectives`, which fails with fewer than two workers; `fail`; `hang`; `garbage`, a
summary without figures. FAKE_NEURON_EXPLORER_RUNS names a file to which its arguments are appended.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

GIB = 1 << 30
MODE = os.environ.get("FAKE_NEURON_EXPLORER", "ok")


def fail(text: str) -> None:
    print(f'level=error msg="{text}"', file=sys.stderr)
    raise SystemExit(1)


def capture(args: argparse.Namespace) -> None:
    if MODE == "hang":
        signal.pause()
    if MODE == "fail" or (MODE == "collectives" and args.workers < 2):
        fail("failed to execute model: NRT_LOAD_NOT_ENOUGH_NC")
    trace = args.session
    if args.workers > 1:
        trace = trace.with_name(f"{trace.stem}_rank_{args.worker}.ntff")
    trace.write_bytes(args.neff.read_bytes()[204:220])


def view(args: argparse.Namespace) -> None:
    if args.session.read_bytes() != args.neff.read_bytes()[204:220]:
        fail("NEFF and NTFF do not match")
    figures = {
        "hbm_read_bytes": 3.995 * GIB, "hbm_write_bytes": 2.702 * GIB, "total_time": 0.05482,
    }  # fmt: skip
    print(json.dumps({"n_0": {} if MODE == "garbage" else figures}))


def main() -> None:
    if runs := os.environ.get("FAKE_NEURON_EXPLORER_RUNS"):
        with Path(runs).open("a") as file:
            print(Path(sys.argv[0]).name, *sys.argv[1:], file=file)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    commands = parser.add_subparsers(required=True)
    for function in (capture, view):
        command = commands.add_parser(function.__name__, allow_abbrev=False)
        command.set_defaults(run=function)
        command.add_argument("-n", dest="neff", type=Path, required=True)
        command.add_argument("-s", dest="session", type=Path, required=True)
        if function is view:
            command.add_argument("--output-format", choices=["summary-json"], required=True)
        else:
            command.add_argument(
                "--collectives-workers-per-node", dest="workers", type=int, default=1
            )
            command.add_argument("--collectives-profile-id", dest="worker", type=int, default=0)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
