"""From the command to the first frame, compared with a bare Textual app."""

import statistics
import sys

from benchmarks.figure import Figure
from benchmarks.terminal import TRNTOP, Terminal

BARE = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    def compose(self):
        yield Static("first frame")
Bare().run()
"""


def first_frame(text: bytes, *command: str) -> float:
    terminal = Terminal(*command)
    try:
        return terminal.until(text)
    finally:
        terminal.close()


def run(*, quick: bool) -> list[Figure]:
    rounds = 3 if quick else 9
    ours, data, bare = [], [], []
    for _ in range(rounds):
        ours.append(first_frame(b"fleet", *TRNTOP, "demo"))
        data.append(first_frame(b"SIMULATED", *TRNTOP, "demo"))
        bare.append(first_frame(b"first frame", sys.executable, "-c", BARE))
    median, yardstick = statistics.median(ours), statistics.median(bare)
    beside = f"{median / yardstick:.2f} × a bare Textual app ({yardstick:.2f} s)"
    return [
        Figure("cold start of the demo to its first frame", median, "s", 0.5, beside),
        Figure("the same to the first data in it", statistics.median(data), "s"),
    ]
