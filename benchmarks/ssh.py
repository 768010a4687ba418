"""Nodes over ssh: what runs on one of them, and what 64 cost on this side.

There: the real script, each second, on a stand-in for a trn2.48xlarge (some 700 EFA files,
128 tensor engines, and 5,800 other files each 30 s); neuron-monitor and sshd are not counted.
Here: real connections to an sshd on loopback, whose nodes return what that stand-in returned,
from memory, because 64 nodes' worth of kernel files would be the load of this machine.
"""

import asyncio
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import msgspec

from benchmarks.figure import Figure
from benchmarks.payloads import report
from benchmarks.terminal import TICKS, TRNTOP, cpu_seconds, rss_mib
from tests.fakes import sysfs_tree
from tests.sshd import descendants, sshd
from trntop.catalog import EFA_SOURCE, HOST, NEURON_MONITOR, NEURON_SYSFS, TENSOR_ENGINE
from trntop.collectors.ssh.connection import Connection
from trntop.core.settings import Collect

NODES = 64
WARM_UP = 30.0
PERIODS = {EFA_SOURCE: 1, TENSOR_ENGINE: 1, HOST: 10, NEURON_SYSFS: 30}
"""Seconds between reads, as the settings have them."""

_CANNED = """\
import json, os, re, sys, threading, time
answers = json.load(open({answers!r}))
line = open({report!r}, "rb").read() + b"\\n"
tag = re.search(r"^tag=(\\S+)$", sys.stdin.readline(), re.M)[1]
for text in sys.stdin:
    if text == "main\\n":
        break
def write(text):
    os.write(2, text) if len(text) < 4096 else sys.stderr.buffer.write(text)
    sys.stderr.flush()
def monitor():
    due = time.monotonic()
    while True:
        sys.stdout.buffer.write(line)
        sys.stdout.flush()
        due += 1
        time.sleep(max(0.0, due - time.monotonic()))
write(f"{{tag}} ready\\n".encode())
ready = []
for text in sys.stdin:
    match text.split():
        case ["start"]:
            threading.Thread(target=monitor, daemon=True).start()
            write(f"{{tag}} monitor started\\n".encode())
        case ["read", source, number, *_]:
            if source in answers:
                ready.append(f"{{tag}} begin {{source}} {{number}}\\n{{answers[source]}}"
                             f"\\n{{tag}} end {{source}} {{number}}\\n")
        case ["flush"]:
            write(("".join(ready) + f"{{tag}} idle\\n").encode())
            ready.clear()
os._exit(0)
"""


def run(*, quick: bool) -> list[Figure]:
    seconds = 20.0 if quick else 60.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sysfs_tree.trn2_48xlarge(folder / "root")
        cpu, answers = asyncio.run(_over_there(folder / "root", seconds))
        size = sum(len(text) / PERIODS[source] for source, text in answers.items())
        own, memory, ssh, ssh_memory = _on_this_side(folder, answers, seconds)
    what = f"{NODES} nodes over ssh"
    return [
        Figure("a node over ssh: CPU of what runs there", cpu, "%", 5.0, "of one core there"),
        Figure("what a node sends, before encryption", (size + len(report())) / 1e3, "kB/s"),
        Figure(f"{what}: CPU of trntop", own, "%", 50.0, f"{own / NODES:.2f} % a node"),
        Figure(f"{what}: CPU of the ssh processes", ssh, "%", None, f"{ssh / NODES:.2f} % a node"),
        Figure(f"{what}: resident memory of trntop", memory, "MiB", 400),
        Figure(
            f"{what}: memory of the ssh processes",
            ssh_memory,
            "MiB",
            None,
            "each page counted once (PSS)",
        ),
    ]


async def _over_there(root: Path, seconds: float) -> tuple[float, dict[str, str]]:
    """CPU in percent of the script with all it starts, and its dumps."""
    settings = Collect(root=str(root), neuron_monitor="none", neuron_ls="none")
    connection = await Connection.open(["sh", "-s"], os.environ, settings)
    try:
        await asyncio.wait_for(connection.ready, 10)
        answers = {source: (await connection.request(source)).decode() for source in PERIODS}
        pid = connection._transport.get_pid()
        before, began = _with_children(pid), time.monotonic()
        second = 0
        while (passed := time.monotonic() - began) < seconds:
            due = [source for source, period in PERIODS.items() if second % period == 0]
            await asyncio.gather(*(connection.request(source) for source in due))
            second += 1
            await asyncio.sleep(max(0.0, second - (time.monotonic() - began)))
        used = _with_children(pid) - before
    finally:
        connection.close()
        await connection.end(0.2)
    return 100 * used / passed, answers


def _on_this_side(
    folder: Path, answers: dict[str, str], seconds: float
) -> tuple[float, float, float, float]:
    """CPU in percent and MiB of trntop, and of its ssh processes."""
    canned, kept, line = folder / "canned.py", folder / "answers.json", folder / "report.json"
    kept.write_bytes(msgspec.json.encode(answers))
    line.write_bytes(report().strip())
    canned.write_text(_CANNED.format(answers=str(kept), report=str(line)))
    command = shlex.join([sys.executable, "-S", "-E", str(canned)])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with sshd(folder, f"ForceCommand exec {command}") as server:
        trntop = subprocess.Popen(
            (*TRNTOP, "export", f"ssh://trn-[1-{NODES}]", "--listen", f"127.0.0.1:{port}",
             "--set", f"fleet.ssh={server.ssh()}", "--set", "collect.disabled=neuron-ls"),
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            time.sleep(WARM_UP)
            children = descendants(trntop.pid) - {trntop.pid}
            page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read()
            for source in (NEURON_MONITOR, *PERIODS):
                up = len(re.findall(rf'trntop_source_up{{.*"{source}".*}} 1\n'.encode(), page))
                if up < NODES:
                    raise RuntimeError(f"{source} is there on {up} of {NODES} nodes only")
            before = cpu_seconds(trntop.pid), sum(map(cpu_seconds, children))
            began = time.monotonic()
            time.sleep(seconds)
            passed = time.monotonic() - began
            if lost := children - descendants(trntop.pid):
                raise RuntimeError(f"{len(lost)} connections were lost meanwhile")
            own = cpu_seconds(trntop.pid) - before[0]
            ssh = sum(map(cpu_seconds, children)) - before[1]
            return (
                100 * own / passed,
                rss_mib(trntop.pid),
                100 * ssh / passed,
                sum(map(_pss_mib, children)),
            )
        finally:
            trntop.terminate()
            trntop.wait(10)


def _with_children(pid: int) -> float:
    """CPU seconds of a shell and of all its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def _pss_mib(pid: int) -> float:
    """Memory of a process, each shared page divided among those that share it."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
