"""The exporter on one simulated trn2.48xlarge at 1 Hz, scraped each 5 s."""

import socket
import subprocess
import time
import urllib.request

from benchmarks.figure import Figure
from benchmarks.terminal import TRNTOP, cpu_seconds, rss_mib

SCRAPE = 5.0


def run(*, quick: bool) -> list[Figure]:
    seconds = 15 if quick else 60
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = (*TRNTOP, "export", "sim:healthy?nodes=1", "--listen", f"127.0.0.1:{port}")
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        time.sleep(10)
        cpu, deadline = cpu_seconds(process.pid), time.monotonic() + seconds
        while time.monotonic() < deadline:
            for page in ("metrics", "metrics/cores"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5).read()
            time.sleep(SCRAPE)
        cpu = 100 * (cpu_seconds(process.pid) - cpu) / seconds
        memory = rss_mib(process.pid)
    finally:
        process.terminate()
        process.wait(5)
    beside = "simulator included"
    return [
        Figure("agent, 1 node at 1 Hz, scraped each 5 s: CPU", cpu, "%", 1.0, beside),
        Figure("agent: resident memory", memory, "MiB", 60, beside),
    ]
