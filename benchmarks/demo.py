"""From the command to a picture of the demo that names what is wrong."""

import os
import statistics
import subprocess
import sys

from benchmarks.cold_start import BARE
from benchmarks.figure import Figure
from benchmarks.terminal import TRNTOP, Terminal
from trntop.collectors.simulator import parse, truth

SIZES = ((80, 24), (120, 36), (200, 60))


def named(columns: int, rows: int) -> tuple[float, float]:
    """Seconds, and CPU seconds, until the alert names the node and its EFA device."""
    faulty = next(fault for fault in truth(parse("sim:demo"), 0.0) if fault.kind == "efa_degraded")
    assert faulty.node is not None
    assert faulty.component is not None
    device = faulty.component.removeprefix("efa:")
    terminal = Terminal(*TRNTOP, "demo", columns=columns, rows=rows)
    try:
        seconds = terminal.until_shown("●", faulty.node, device)
        return seconds, terminal.cpu_seconds()
    finally:
        terminal.close()


def bare() -> float:
    terminal = Terminal(sys.executable, "-c", BARE)
    try:
        return terminal.until_shown("first frame")
    finally:
        terminal.close()


def printed() -> float:
    """CPU seconds of the demo without a terminal."""
    process = subprocess.Popen(
        (*TRNTOP, "demo"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"the demo exited with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def run(*, quick: bool) -> list[Figure]:
    rounds = 1 if quick else 5
    screens: dict[tuple[int, int], list[tuple[float, float]]] = {size: [] for size in SIZES}
    yardstick, texts = [], []
    for _ in range(rounds):
        yardstick.append(bare())
        for size, found in screens.items():
            found.append(named(*size))
        texts.append(printed())
    frame = statistics.median(yardstick)
    figures = []
    for (columns, rows), found in screens.items():
        seconds = statistics.median(wall for wall, _ in found)
        cpu = statistics.median(used for _, used in found)
        beside = f"{seconds / frame:.2f} × a bare Textual app ({frame:.2f} s); {cpu:.2f} s of CPU"
        what = f"the demo names the faulty EFA device, {columns} × {rows}"
        figures.append(Figure(what, seconds, "s", 3.0, beside))
    text = statistics.median(texts)
    return [*figures, Figure("the demo without a terminal, CPU", text, "s", 1.5)]
