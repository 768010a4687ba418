#!/usr/bin/env python3
"""A SIMULATED srun: runs the command of a step on this machine, whichever node it is for.

It knows the options that trntop gives, refuses others, and ends its step when it is ended. The
environment variable FAKE_SRUN names a file to which the node and the command of each step are
appended; without a job (`--jobid=0`) it says what Slurm says.
"""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Runs one step."""
    parser = argparse.ArgumentParser(prog="srun", allow_abbrev=False)
    for option in ("--jobid", "--nodelist", "--nodes", "--ntasks", "--input"):
        parser.add_argument(option)
    for flag in ("--overlap", "--quiet", "--unbuffered"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if args.jobid == "0":
        print(
            "srun: error: Unable to confirm allocation for job 0: Invalid job id", file=sys.stderr
        )
        return 1
    if noted := os.environ.get("FAKE_SRUN"):
        with Path(noted).open("a") as file:
            print(args.nodelist, *args.command[:6], file=file)
    source = subprocess.DEVNULL if args.input == "none" else None
    step = subprocess.Popen(args.command, stdin=source, start_new_session=True)

    def end(number: int, _: object) -> None:
        os.killpg(step.pid, number)

    signal.signal(signal.SIGTERM, end)
    return step.wait()


if __name__ == "__main__":
    sys.exit(main())
