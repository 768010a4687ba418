#!/usr/bin/env python3
"""A SIMULATED training loop of one rank: it sleeps where a real one would compute.

It reports by `trntop.steps`, by its environment, and prints one JSON line when it is done:
the `seconds` that it took and the records `lost`.

    training_loop.py STEPS [SECONDS]

SECONDS is what each of a step's three sleeps takes: two of compute, and one in which only the
collective runs, which began between the two, as on a device with cores for communication. Rank 0
prints TorchTitan's line after each step.
"""

import json
import os
import sys
import threading
import time

from trntop import steps

TOKENS = 8 * 4096


def reduce_gradients(both: threading.Barrier, seconds: float) -> None:
    with steps.collective():
        both.wait()  # it has begun
        both.wait()  # the compute is over
        time.sleep(seconds)


def train(number: int, seconds: float) -> None:
    with steps.step(number, tokens=TOKENS) as step:
        both = threading.Barrier(2)
        reducing = threading.Thread(target=reduce_gradients, args=(both, seconds))
        with steps.compute():
            time.sleep(seconds)
            reducing.start()
            both.wait()
            time.sleep(seconds)
        both.wait()
        reducing.join()
        step.report(loss=10.0 / number, mfu=0.38)


def main() -> None:
    count = int(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    began = time.perf_counter()
    for number in range(1, count + 1):
        train(number, seconds)
        if os.environ.get("RANK", "0") == "0":
            print(
                f"\x1b[31mstep: {number:2}  \x1b[32mloss: {10 / number:7.4f}  \x1b[38;2;180;60;0m"
                f"grad_norm:  1.5000  memory: 12.34GiB(51.42%)  tps: 1,234  tflops: 56.78  "
                f"mfu: 38.00%\x1b[39m",
                flush=True,
            )
    with steps.checkpoint():
        time.sleep(seconds)
    took = time.perf_counter() - began
    print(json.dumps({"seconds": took, "lost": steps.lost()}))


if __name__ == "__main__":
    main()
