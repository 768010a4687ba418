"""Compute and communication time per step, from trace files."""

from collections.abc import Iterable
from pathlib import Path

from . import content, kineto
from .records import Capture, Step, Total, gap, readings, refuse_duplicates, steps_of, total_of

__all__ = [
    "Capture",
    "Step",
    "Total",
    "gap",
    "load",
    "readings",
    "steps_of",
    "total_of",
]


def load(paths: Iterable[Path]) -> list[Capture]:
    """The captures in trace files of torch.profiler, one per rank.

    Raises:
        RecordingError: a file is not a trace, or two have the same step of a rank.
    """
    captures = [kineto.read(path, content.read(path), order) for order, path in enumerate(paths)]
    refuse_duplicates(captures)
    return captures
