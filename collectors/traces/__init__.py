"""Traces of devices, read from files: what ran when, and how much of it was communication."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from trntop.core.errors import RecordingError

from . import content, kineto, system_trace
from .records import Capture, Step, Total, gap, readings, refuse_twins, steps_of, total_of

__all__ = [
    "FORMATS",
    "Capture",
    "Step",
    "Total",
    "gap",
    "load",
    "readings",
    "steps_of",
    "total_of",
]

FORMATS = ("auto", "kineto", "nrt")
_MARKED = "its steps are marked in it: --executions does not apply"
_UNMARKED = "it marks no steps, and --executions does not apply: taken as one"


def load(paths: Iterable[Path], form: str = "auto", executions: int | None = None) -> list[Capture]:
    """The captures in trace files: one a rank of torch.profiler, one a core of the runtime.

    Args:
        paths: the files, plain or compressed.
        form: one of `FORMATS`; `auto` goes by what is in a file.
        executions: how many executions of a core are a step, for traces of the runtime.

    Raises:
        RecordingError: a file is no trace of this form, or two hold the same step of a rank;
            names the files and the reason.
    """
    captures: list[Capture] = []
    for order, path in enumerate(paths):
        members = content.read(path)
        torch = content.present(members.traceEvents)
        neuron = content.present(members.events) or content.present(members.trace_event)
        if torch and form != "nrt":
            capture = kineto.read(path, members, order)
            if executions:
                note = _MARKED if capture.windows else _UNMARKED
                capture = replace(capture, notes=(*capture.notes, note))
            captures.append(capture)
        elif neuron and form != "kineto":
            captures += system_trace.read(path, members, executions)
        else:
            wanted = {
                "auto": "neither `traceEvents` (torch.profiler) nor `events` (Neuron runtime)",
                "kineto": "no `traceEvents`",
                "nrt": "neither `events` nor `trace_event`",
            }
            raise RecordingError(f"{path}: not a trace: {wanted[form]} in it")
    refuse_twins(captures)
    return captures
