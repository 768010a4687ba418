"""Runs everything that lasts, with real processes, and prints what it holds: first and last third.

Two agents on the fake neuron-monitor, of which one is killed and started again each minute; a
training loop that begins a new job each minute; a real Prometheus that scrapes both each second; a
dashboard of both agents and one of that Prometheus, in tmux. Measured of those that run throughout:
memory, descriptors, threads, series, temporary files.

    python -m tools.soak --minutes 60
"""

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.prometheus_server import Scrape, prometheus
from tests.test_end_to_end import FAKE, ROOT, Pane

STEADY, RESTARTED = "127.0.0.1:18042", "127.0.0.2:18042"
MINUTE = 60.0
SAMPLE_SECONDS = 10.0
TRNTOP = (sys.executable, "-m", "trntop")
LOOP = """
import time
from trntop import steps
while True:
    with steps.step(tokens=1000):
        with steps.compute():
            time.sleep(0.05)
        with steps.collective("all_reduce", bytes=1 << 20, ranks=2):
            time.sleep(0.02)
"""
Sample = dict[tuple[str, str], float]
"""Process and quantity → value."""


class Restarted:
    """A process that is killed and started again.

    Args:
        environment: of the process; `{run}` in a value is the number of the run.
    """

    def __init__(self, *command: str, **environment: str) -> None:
        self._command = command
        self._environment = environment
        self._runs = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.restart()

    def restart(self) -> None:
        self.kill()
        self._runs += 1
        own = {name: text.format(run=self._runs) for name, text in self._environment.items()}
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, env=os.environ | own,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()


def agent(listen: str, folder: Path, socket: Path) -> Restarted:
    options = (
        "export", "--listen", listen, "--state", str(folder),
        "--set", f"collect.neuron_monitor={FAKE}",
        "--set", f"collect.steps_socket={socket}",
    )  # fmt: skip
    return Restarted(*TRNTOP, *options, FAKE_NEURON_MONITOR="ok")


@contextlib.contextmanager
def dashboard(folder: Path, *sources: str) -> Iterator[Pane]:
    folder.mkdir()
    pane = Pane(folder / "tmux", 160, 48)
    pane.start(*sources)
    try:
        pane.until("trn", seconds=MINUTE)
        yield pane
    finally:
        pane.kill()


def sampled(processes: dict[str, int], temporary: Path) -> Sample:
    """What the processes and their neuron-monitors hold now.

    Raises:
        psutil.NoSuchProcess: one of them has ended.
    """
    found: Sample = {}
    for name, pid in processes.items():
        process = psutil.Process(pid)
        found[name, "memory, MiB"] = process.memory_info().rss / (1 << 20)
        found[name, "descriptors"] = process.num_fds()
        found[name, "threads"] = process.num_threads()
        found[name, "child processes"] = len(process.children(recursive=True))
    found["all", "temporary files"] = sum(1 for _ in temporary.rglob("*"))
    return found


def table(samples: list[Sample]) -> str:
    """Each quantity: its median in the first and the last third, and its largest value."""
    third = max(1, len(samples) // 3)
    rows = ["| process | quantity | first third | last third | largest |", "|---|---|---|---|---|"]
    for key in samples[-1]:
        values = [sample[key] for sample in samples if key in sample]
        first, last = statistics.median(values[:third]), statistics.median(values[-third:])
        rows.append(f"| {key[0]} | {key[1]} | {first:.1f} | {last:.1f} | {max(values):.1f} |")
    return "\n".join(rows)


def soak(seconds: float, settle: float) -> list[Sample]:
    """Samples of the time after the first `settle` seconds."""
    samples: list[Sample] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-", dir="/tmp")))
        temporary, socket = folder / "tmp", folder / "steps.sock"
        store = folder / "prometheus"
        temporary.mkdir()
        store.mkdir()
        os.environ |= {"TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
        steady = agent(STEADY, folder / "steady", socket)
        other = agent(RESTARTED, folder / "other", folder / "other.sock")
        loop = Restarted(
            sys.executable, "-c", LOOP, TRNTOP_STEPS=f"unix:{socket}", TRNTOP_JOB="job-{run}",
        )  # fmt: skip
        for process in (steady, other, loop):
            stack.callback(process.kill)
        scrapes = [Scrape("trntop", [STEADY, RESTARTED])]
        server = stack.enter_context(prometheus(store, scrapes, interval=1.0))
        server.until("sum(up) == 2", seconds=MINUTE)
        direct = stack.enter_context(dashboard(folder / "a", f"http://{STEADY},{RESTARTED}"))
        stored = stack.enter_context(dashboard(folder / "b", f"prometheus+{server.url}"))
        processes = {
            "agent": steady.pid,
            "dashboard of streams": direct.pid,
            "dashboard of Prometheus": stored.pid,
        }
        began = restarted = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            if now > restarted + MINUTE:
                restarted = now
                other.restart()
                loop.restart()
            if now > began + settle:
                sample = sampled(processes, temporary)
                series = server.query(f'scrape_samples_scraped{{instance="{STEADY}"}}')
                sample["agent", "series on /metrics"] = series[0].value if series else float("nan")
                samples.append(sample)
            time.sleep(SAMPLE_SECONDS)
        print("dashboard of streams, at the end:", *direct.text().splitlines()[:12], sep="\n")
        print("dashboard of Prometheus, at the end:", *stored.text().splitlines()[:12], sep="\n")
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument(
        "--settle", type=float, default=16.0,
        help="minutes that are not measured: the history of 15 minutes fills",
    )  # fmt: skip
    args = parser.parse_args()
    # A SIGTERM ends the children too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    samples = soak(MINUTE * args.minutes, MINUTE * args.settle)
    print(f"\n{args.minutes:g} minutes, {len(samples)} samples after {args.settle:g} minutes:\n")
    print(table(samples))


if __name__ == "__main__":
    main()
