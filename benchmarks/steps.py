"""What step telemetry costs the training loop, and the agent."""

import asyncio
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.figure import Figure
from trntop.collectors.steps import StepsCollector
from trntop.core.model import Reading, Status
from trntop.sources.steps import decode
from trntop.steps import Steps

BUDGET = 20.0
RANKS = 8
RANK = """
import statistics, sys, time
from trntop import steps
overheads = []
for _ in range(int(sys.argv[1])):
    began = time.thread_time()
    with steps.step(tokens=4096) as step:
        with steps.compute():
            before, ends = time.thread_time(), time.perf_counter() + 0.002
            while time.perf_counter() < ends:
                pass
            body = time.thread_time() - before
        with steps.collective():
            pass
        step.report(loss=2.5)
    overheads.append(time.thread_time() - began - body)
print(statistics.median(overheads))
"""
"""CPU time: eight processes on few cores wait for each other, which is not the emitter's doing."""


class Agent:
    """A collector on a thread of its own, with a sink that decodes."""

    def __init__(self, path: Path) -> None:
        self.records = 0
        self.cpu_seconds = 0.0
        self.listens = threading.Event()
        self._collector = StepsCollector("n", path)
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(),))

    def __enter__(self) -> "Agent":
        self._thread.start()
        self.listens.wait()
        return self

    def __exit__(self, *_: object) -> None:
        time.sleep(0.5)  # the newest records are still on their way
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._collector.run(self))
        began = time.thread_time()
        await asyncio.wait([self._task])
        self.cpu_seconds = time.thread_time() - began

    def now(self) -> float:
        return time.time()

    def reading(self, reading: Reading) -> None:
        decode(reading.data)
        self.records += 1

    def status(self, _: Status) -> None:
        self.listens.set()


def overhead(target: str, sections: int, repeats: int, kind: str | None = None) -> float:
    """Median microseconds of a step with so many sections of each kind and nothing in them."""
    emitter = Steps(target)
    times = []
    for number in range(repeats):
        began = time.perf_counter()
        with emitter.step(tokens=4096) as step:
            for _ in range(sections):
                with emitter.compute():
                    pass
                with emitter.collective(kind, bytes=1 << 26, ranks=64):
                    pass
            step.report(loss=2.5)
        times.append(time.perf_counter() - began)
        if number % 200 == 0:
            time.sleep(0.3)  # the agent keeps up
    emitter.close()
    return 1e6 * statistics.median(times)


def ranks(target: str, steps: int, count: int = RANKS) -> float:
    """Median microseconds over the steps of `count` processes."""
    processes = [
        subprocess.Popen(
            (sys.executable, "-S", "-c", RANK, str(steps)), stdout=subprocess.PIPE, text=True,
            env=os.environ | {"TRNTOP_STEPS": target, "RANK": str(rank)},
        )
        for rank in range(count)
    ]  # fmt: skip
    medians = [float(process.communicate()[0]) for process in processes]
    return 1e6 * statistics.median(medians)


def run(*, quick: bool) -> list[Figure]:
    repeats, steps = (300, 100) if quick else (3000, 1000)
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        # Not next to the agent's thread, with which it would share the interpreter.
        ProcessPoolExecutor(1, spawn) as loop,
    ):
        path = Path(folder) / "steps.sock"
        live = f"unix:{path}"

        def cost(target: str, sections: int, kind: str | None = None) -> float:
            return loop.submit(overhead, target, sections, repeats, kind).result()

        with Agent(path):
            single, eight = cost(live, 1), cost(live, 8)
            named = cost(live, 1, "all_reduce")
        cores = min(RANKS, os.cpu_count() or 1)
        with Agent(path):
            own = ranks(live, steps, cores)
        with Agent(path) as agent:
            received = ranks(live, steps)
        beside = f"{agent.records} of {RANKS * steps} records arrived"
        if cores < RANKS:
            beside += f"; on {cores} cores each finds cold caches"
        work = 1e6 * agent.cpu_seconds / agent.records
        file = f"file:{folder}/steps.jsonl"
        return [
            Figure("a step, 1 + 1 sections, agent listening", single, "µs", BUDGET),
            Figure("the same, the collective with its kind and bytes", named, "µs", BUDGET),
            Figure("the same with 8 + 8 sections", eight, "µs"),
            Figure("a step, 1 + 1 sections, nobody listening", cost(live, 1), "µs", BUDGET),
            Figure("a step, 1 + 1 sections, switched off", cost("off", 1), "µs", 2.0),
            Figure("a step, 1 + 1 sections, into a file", cost(file, 1), "µs", BUDGET),
            Figure(f"a step of {cores} working processes, a core each", own, "µs", BUDGET),
            Figure(f"a step of {RANKS} working processes", received, "µs", None, beside),
            Figure("the same, nobody listening", ranks(live, steps), "µs"),
            Figure("the same, switched off", ranks("off", steps), "µs"),
            Figure("the agent's work for a record", work, "µs"),
        ]
