"""The agent on a stand-in for a trn2.48xlarge: every source at once, scraped each 5 s.

The stand-in is a fake tree of sysfs whose counters move, and a program that prints simulated
neuron-monitor reports at 1 Hz; neither is counted. AWS's way, for comparison, is what
neuron-monitor-prometheus.py does with the same reports and no other source: json, and
prometheus_client's gauges and server.
"""

import contextlib
import itertools
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.payloads import readings
from benchmarks.terminal import TRNTOP, cpu_seconds, rss_mib
from tests.fakes import sysfs_tree

SCRAPE = 5.0
WARM_UP = 12.0
RANKS = 16
STEP = 4

_NEURON_MONITOR = """\
#!{python}
import itertools, sys, time
due = time.monotonic()
for report in itertools.cycle(open({reports!r}, "rb").read().splitlines()):
    sys.stdout.buffer.write(report + b"\\n")
    sys.stdout.buffer.flush()
    due += 1.0
    time.sleep(max(0.0, due - time.monotonic()))
"""


def run(*, quick: bool) -> list[Figure]:
    seconds = 15.0 if quick else 60.0
    with tempfile.TemporaryDirectory() as folder, _node(Path(folder)) as options:
        agent, memory = _cost((*TRNTOP, "export", *options), ("metrics", "metrics/cores"), seconds)
        each_second = ("--set", "collect.host_period=1", "--set", "collect.sysfs_period=1")
        hasty, _ = _cost(
            (*TRNTOP, "export", *options, *each_second), ("metrics", "metrics/cores"), seconds
        )
        monitor = str(Path(folder) / "neuron-monitor")
        aws, aws_memory = _cost(
            (sys.executable, "-m", "benchmarks.aws_way", monitor), ("metrics",), seconds
        )
    what = "agent, all sources of a trn2.48xlarge, scraped each 5 s"
    beside = f"AWS's way, neuron-monitor alone: {aws:.2f} %, {aws_memory:.0f} MiB"
    return [
        Figure(f"{what}: CPU", agent, "%", 1.0, beside),
        Figure(
            "the same, slow sources at 1 Hz as well",
            hasty,
            "%",
            None,
            "their defaults are 10 and 30 s",
        ),
        Figure("agent: resident memory", memory, "MiB", 60),
    ]


@contextlib.contextmanager
def _node(folder: Path) -> Iterator[Sequence[str]]:
    """The stand-in while it is alive; the options that make the agent read it."""
    root = folder / "root"
    sysfs_tree.trn2_48xlarge(root)
    reports = folder / "reports.jsonl"
    payloads = itertools.islice(readings(1, 1, "neuron-monitor"), 5, 35)
    reports.write_bytes(b"\n".join(payload.data for payload in payloads))
    monitor = folder / "neuron-monitor"
    monitor.write_text(_NEURON_MONITOR.format(python=sys.executable, reports=str(reports)))
    monitor.chmod(0o755)
    steps = folder / "steps.sock"
    stopped = threading.Event()
    mover = threading.Thread(target=_move, args=(root, steps, stopped))
    mover.start()
    try:
        yield [
            item
            for key, value in (
                ("neuron_monitor", monitor),
                ("neuron_ls", folder / "neuron-ls"),
                ("root", root),
                ("steps_socket", steps),
            )
            for item in ("--set", f"collect.{key}={value}")
        ]
    finally:
        stopped.set()
        mover.join()


def _move(root: Path, steps: Path, stopped: threading.Event) -> None:
    """Counters that grow each second, and a step of every rank each few seconds."""
    files = [*root.glob("sys/class/infiniband/*/ports/1/hw_counters/*x_*")]
    engines = [*root.glob("sys/devices/virtual/neuron_device/**/pe_cntrs")]
    for second in itertools.count(1):
        if stopped.wait(1.0):
            return
        for file in files:
            file.write_text(f"{second * 10**9}\n")
        rows = "".join(f"{row},{second * 7**9},{second},{second * 6**9}\n" for row in range(4))
        for engine in engines:
            engine.write_text("xrow_grp,mm_active,wl_active,idle\n" + rows)
        if second % STEP == 0:
            # Between two agents the port is closed.
            with (
                contextlib.suppress(OSError),
                socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sender,
            ):
                sender.connect(str(steps))
                for rank in range(RANKS):
                    record = {"job": "bench", "rank": rank, "step": second // STEP,
                              "step_seconds": 4.0, "compute_seconds": 3.0,
                              "comm_seconds": 1.2, "exposed_comm_seconds": 0.7}  # fmt: skip
                    sender.send(json.dumps(record).encode())


def _cost(command: Sequence[str], pages: Sequence[str], seconds: float) -> tuple[float, float]:
    """CPU in percent of a core and resident MiB of a server, scraped as Prometheus would."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    listen = ("--listen", f"127.0.0.1:{port}")
    process = subprocess.Popen((*command, *listen), stderr=subprocess.DEVNULL)
    try:
        time.sleep(WARM_UP)
        cpu, start = cpu_seconds(process.pid), time.monotonic()
        while (passed := time.monotonic() - start) < seconds:
            for page in pages:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5).read()
            time.sleep(min(SCRAPE, max(0.0, seconds - passed)))
        used = cpu_seconds(process.pid) - cpu
        return 100 * used / (time.monotonic() - start), rss_mib(process.pid)
    finally:
        process.terminate()
        process.wait(5)
