"""Compute and communication time per step, from trace files."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from trntop.core.errors import RecordingError

from . import content, kineto, system_trace
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

_MARKED = "its steps are marked: --executions does not apply"
_UNMARKED = "it marks no steps, and --executions does not apply: one step"


def load(paths: Iterable[Path], executions: int | None = None) -> list[Capture]:
    """The captures in trace files: one per rank of torch.profiler, one per core of the runtime.

    Args:
        paths: the files, plain or compressed.
        executions: executions of a core per step, for traces of the runtime.

    Raises:
        RecordingError: a file is not a trace, or two have the same step of a rank.
    """
    captures: list[Capture] = []
    for order, path in enumerate(paths):
        members = content.read(path)
        if content.present(members.traceEvents):
            capture = kineto.read(path, members, order)
            if executions:
                note = _MARKED if capture.windows else _UNMARKED
                capture = replace(capture, notes=(*capture.notes, note))
            captures.append(capture)
        elif content.present(members.events):
            captures += system_trace.read(path, members, executions)
        else:
            raise RecordingError(
                f"{path}: not a trace: it has neither `traceEvents` (torch.profiler) nor `events` "
                "(Neuron runtime)"
            )
    refuse_duplicates(captures)
    return captures
