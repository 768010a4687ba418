"""CPU, memory and bytes to the terminal of the running dashboard, simulator included."""

from benchmarks.figure import Figure
from benchmarks.terminal import TRNTOP, Terminal, rss_mib

SETTLE = 12.0
"""Seconds until the demo has caught up with its past."""


def run(*, quick: bool) -> list[Figure]:
    seconds = 15 if quick else 60
    figures = []
    for nodes, cpu_budget, command in (
        (1, 2.0, ("top", "sim:demo?nodes=1")),
        (16, 5.0, ("demo",)),
    ):
        terminal = Terminal(*TRNTOP, *command)
        try:
            terminal.until(b"SIMULATED")
            terminal.drain(SETTLE)
            cpu, written = terminal.cpu_seconds(), terminal.output
            terminal.drain(seconds)
            cpu = 100 * (terminal.cpu_seconds() - cpu) / seconds
            rate = (terminal.output - written) / seconds / 1024
            memory = rss_mib(terminal.process.pid)
        finally:
            terminal.close()
        label = f"dashboard, {nodes} simulated node{'s' * (nodes > 1)}, {seconds} s"
        figures += [
            Figure(f"{label}: CPU", cpu, "%", cpu_budget, f"{memory:.0f} MiB"),
            Figure(f"{label}: to the terminal", rate, "KiB/s", 30),
        ]
    return figures
