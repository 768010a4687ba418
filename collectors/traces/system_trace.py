"""System traces of the Neuron runtime, as `nrt_sys_trace_fetch_events` returns them.

    {"events": [{"event_type", "phase": "start" | "stop", "tracking_id", "nc_idx",
                 "timestamp_ns", "data"}]}

`nc_exec_running` is computation, `cc_running` communication. An execution includes the time in
which its engines wait for a collective, so overlap and exposed time are unknown. Cores are ranks.
Without `executions` per step, a capture is one step without a number.

There is no public capture of `cc_running`.
"""

from collections import defaultdict, deque
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import TypeGuard

import msgspec
import numpy as np

from trntop.core.errors import RecordingError
from trntop.core.text import clean

from .content import Members, items
from .intervals import Intervals, union
from .records import Capture, Window, dated

COMPUTE = "nc_exec_running"
COMM = "cc_running"
MAX_CORES = 4096
MAX_TIME = 4 * 10**18

_SHORT = "a core has fewer executions, which are one step"
_WAITS = "executions include waiting for collectives, so exposed communication is unknown"


class _Event(msgspec.Struct, gc=False):
    event_type: str = ""
    phase: str = ""
    tracking_id: int | str | None = None
    nc_idx: int | None = None
    timestamp_ns: int | None = None


Row = tuple[int, int]
Rows = dict[str, dict[int, list[Row]]]
"""Event type → core → start and stop."""
Mark = tuple[int, bool, int | str | None]
"""Time of an event, whether it is a start, and its tracking id."""


def read(path: Path, members: Members, executions: int | None) -> list[Capture]:
    """The captures in a trace, one a core.

    Args:
        path: the file.
        members: its members.
        executions: executions of a core per step.

    Raises:
        RecordingError: it has neither an execution nor a collective.
    """
    rows, notes = _events(path, members)
    cores = sorted({core for kind in rows.values() for core in kind})
    if len(cores) > MAX_CORES:
        raise RecordingError(f"{path}: not a trace: {len(cores):,} cores")
    if not rows[COMM]:
        notes += (f"no {COMM} events in it: communication is unknown",)
    elif rows[COMPUTE]:
        notes += (_WAITS,)
    node = clean(path.name.partition(".")[0], 128) or "trace"
    captures = []
    for core in cores:
        compute, comm = (_union(rows[kind], core) for kind in (COMPUTE, COMM))
        both = np.concatenate([part for part in (compute, comm) if part is not None])
        if not len(both):
            continue
        origin, stop = int(both[:, 0].min()), int(both[:, 1].max())
        epoch, guess = dated(path, origin, stop - origin)
        capture = Capture(
            path=path,
            node=node,
            rank=core,
            epoch=epoch,
            start=0,
            stop=stop - origin,
            compute=None if compute is None else compute - origin,
            comm=None if comm is None else comm - origin,
            notes=notes + guess,
            waits=True,
        )
        if executions:
            windows = () if compute is None else _windows(compute - origin, executions)
            if not windows:
                short = f"--executions {executions:,} does not apply: {_SHORT}"
                capture = replace(capture, notes=(*capture.notes, short))
            capture = replace(capture, windows=windows)
        captures.append(capture)
    if not captures:
        found = f"neither {COMPUTE} nor {COMM} in it"
        raise RecordingError("; ".join((f"{path}: no device activity: {found}", *notes)))
    return captures


def _union(rows: dict[int, list[Row]], core: int) -> Intervals | None:
    """The union of a core's events of one type; None if the trace has no event of this type."""
    return union(np.array(rows.get(core, []), np.int64).reshape(-1, 2)) if rows else None


def _windows(compute: Intervals, executions: int) -> tuple[Window, ...]:
    """Steps of so many executions; an incomplete last one is skipped.

    Overlapping executions count once: those of the two physical cores of a logical one.
    """
    edges = [*compute[:, 0].tolist(), *compute[-1:, 1].tolist()][::executions]
    return tuple(Window(number, *span) for number, span in enumerate(pairwise(edges)))


def _events(path: Path, members: Members) -> tuple[Rows, tuple[str, ...]]:
    marks: dict[str, dict[int, list[Mark]]] = {COMPUTE: {}, COMM: {}}
    first, last = MAX_TIME, 0
    damaged = 0
    for event in items(path, members.events, _Event):
        if event is None:
            damaged += 1
            continue
        if event.event_type not in marks:
            continue
        index, time, phase = event.nc_idx, event.timestamp_ns, event.phase
        if not (_possible(index) and _possible(time) and phase in ("start", "stop")):
            damaged += 1
            continue
        first, last = min(first, time), max(last, time)
        own = marks[event.event_type].setdefault(index, [])
        own.append((time, phase == "start", event.tracking_id))
    rows: Rows = {}
    unpaired = 0
    for kind, cores in marks.items():
        rows[kind] = {}
        for core, own in cores.items():
            rows[kind][core], alone = _pair(own, first, last)
            unpaired += alone
    notes = []
    if damaged:
        notes.append(f"damaged events skipped: {damaged:,}")
    if unpaired:
        notes.append(f"events without a partner, cut at the ends of the capture: {unpaired:,}")
    return rows, tuple(notes)


def _pair(marks: list[Mark], first: int, last: int) -> tuple[list[Row], int]:
    """Starts with their stops, by tracking id or in order, and the number without a partner.

    An event without a start runs from the start of the capture, one without a stop to its end.
    """
    begun: defaultdict[int | str | None, deque[int]] = defaultdict(deque)
    rows: list[Row] = []
    orphans = 0
    for time, starts, tracking_id in sorted(marks, key=itemgetter(0)):
        waiting = begun[tracking_id]
        if starts:
            waiting.append(time)
        elif waiting:
            rows.append((waiting.popleft(), time))
        else:
            rows.append((first, time))
            orphans += 1
    unended = [(start, last) for waiting in begun.values() for start in waiting]
    return rows + unended, orphans + len(unended)


def _possible(value: int | None) -> TypeGuard[int]:
    return value is not None and 0 <= value < MAX_TIME
