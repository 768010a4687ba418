"""`trntop analyze` of a recording of 64 nodes, by as many processes as there are CPUs."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.payloads import START, readings
from trntop.recording.writer import Recorder

NODES = 64
MINUTES = 10
BUDGET = 20.0
"""Seconds for ten minutes."""
COMMON = frozenset({"neuron-monitor", "efa", "steps"})
"""The sources that most recordings hold."""


def run(*, quick: bool) -> list[Figure]:
    minutes = 1 if quick else MINUTES
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        for what, sources in (("the usual sources", COMMON), ("every source", None)):
            path = Path(folder, f"{what}.jsonl.zst")
            _record(path, minutes, sources)
            seconds = _seconds(path) * MINUTES / minutes
            figures.append(
                Figure(
                    f"analyze {MINUTES} minutes of {NODES} nodes, {what}", seconds, "s", BUDGET,
                    f"{path.stat().st_size >> 20} MiB for {minutes} min",
                )
            )  # fmt: skip
            path.unlink()
    return figures


def _record(path: Path, minutes: int, sources: frozenset[str] | None) -> None:
    with Recorder(path, created=START) as recorder:
        for reading in readings(NODES, minutes):
            if sources is None or reading.source in sources:
                recorder.write(reading)


def _seconds(path: Path) -> float:
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "trntop", "analyze", str(path)], check=True, capture_output=True
    )
    return time.perf_counter() - start
