"""System traces of the Neuron runtime, which say when a core executed and when a collective ran.

Two forms, both with times in nanoseconds:

    {"events": [{"event_type", "phase": "start" | "stop", "tracking_id", "nc_idx",
                 "timestamp_ns", "data"}]}             as nrt_sys_trace_fetch_events gives them
    {"trace_event": [{"name", "timestamp", "duration", "nc_idx", "process_id"}]}
                                                       as neuron-explorer view writes json

`nc_exec_running` counts as computation, `cc_running` as communication. An execution counts from
its start to its end, also while its engines wait for a collective: overlap and exposed
communication are therefore not known. Cores are ranks. Nothing marks steps: a capture is one step
without a number, of which shares are meaningful and the length is not, unless the user says how
many executions of a core are a step.

No public capture of `cc_running` exists; what its events hold besides is not known.
"""

from collections import defaultdict, deque
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TypeGuard

import msgspec
import numpy as np

from trntop.core.errors import RecordingError
from trntop.core.text import clean

from .content import Members, items, present
from .intervals import Intervals, union
from .records import Capture, Window, dated

COMPUTE = "nc_exec_running"
COMM = "cc_running"
MAX_CORES = 4096
MAX_TIME = 4 * 10**18

_SHORT = "a core has fewer of them, which are taken as one step"
_WAITS = "executions include waiting for collectives, so exposed communication is not known"


class _Event(msgspec.Struct, gc=False):
    event_type: str = ""
    phase: str = ""
    tracking_id: int | str | None = None
    nc_idx: int | None = None
    timestamp_ns: int | None = None


class _Span(msgspec.Struct, gc=False):
    name: str = ""
    nc_idx: int | None = None
    process_id: int | str | None = None
    timestamp: int | None = None
    duration: int | None = None


Core = tuple[str, int]
"""Process and index of the core; the process is empty where a trace is of one only."""
Row = tuple[int, int]
Rows = dict[str, dict[Core, list[Row]]]
"""Kind of event → core → start and stop of each."""
Mark = tuple[int, bool, int | str | None]
"""Time of an event, whether something starts there, and its tracking id."""


def read(path: Path, members: Members, executions: int | None) -> list[Capture]:
    """The captures in a trace, one a core.

    Args:
        path: the file.
        members: its content.
        executions: how many executions of a core are a step.

    Raises:
        RecordingError: no execution and no collective in it; names the file and the reason.
    """
    paired = present(members.events)
    rows, notes = _events(path, members) if paired else _spans(path, members)
    cores = sorted({core for kind in rows.values() for core in kind})
    if len(cores) > MAX_CORES:
        raise RecordingError(f"{path}: not a trace: {len(cores):,} cores")
    if not rows[COMM]:
        notes += (f"no {COMM} events in it: communication is not known",)
    elif rows[COMPUTE]:
        notes += (_WAITS,)
    node = clean(path.name.partition(".")[0], 128) or "trace"
    unique = len({index for _, index in cores}) == len(cores)
    captures = []
    for order, core in enumerate(cores):
        compute, comm = (_union(rows[kind], core) for kind in (COMPUTE, COMM))
        both = np.concatenate([part for part in (compute, comm) if part is not None])
        if not len(both):
            continue
        origin, stop = int(both[:, 0].min()), int(both[:, 1].max())
        epoch, guess = dated(path, origin, stop - origin)
        capture = Capture(
            path=path,
            node=node,
            rank=core[1] if unique else order,
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


def _union(rows: dict[Core, list[Row]], core: Core) -> Intervals | None:
    """What a core did of one kind; None where the trace has nothing of the kind at all."""
    return union(np.array(rows.get(core, []), np.int64).reshape(-1, 2)) if rows else None


def _windows(compute: Intervals, executions: int) -> tuple[Window, ...]:
    """A step each so many executions, to the start of the next; an unfinished last is left out.

    Executions that overlap are one: the two physical cores behind a logical one.
    """
    edges = [*compute[:, 0].tolist(), *compute[-1:, 1].tolist()][::executions]
    return tuple(Window(number, *span) for number, span in enumerate(pairwise(edges)))


def _events(path: Path, members: Members) -> tuple[Rows, tuple[str, ...]]:
    marks: dict[str, dict[Core, list[Mark]]] = {COMPUTE: {}, COMM: {}}
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
        own = marks[event.event_type].setdefault(("", index), [])
        own.append((time, phase == "start", event.tracking_id))
    rows: Rows = {}
    unpaired = 0
    for kind, cores in marks.items():
        rows[kind] = {}
        for core, own in cores.items():
            rows[kind][core], alone = _pair(own, first, last)
            unpaired += alone
    return rows, _counted(damaged=damaged, unpaired=unpaired)


def _spans(path: Path, members: Members) -> tuple[Rows, tuple[str, ...]]:
    rows: Rows = {COMPUTE: {}, COMM: {}}
    damaged = 0
    for span in items(path, members.trace_event, _Span):
        if span is None:
            damaged += 1
            continue
        if span.name not in rows:
            continue
        index, start, duration = span.nc_idx, span.timestamp, span.duration
        if not (_possible(index) and _possible(start) and _possible(duration)):
            damaged += 1
            continue
        core = (str(span.process_id or ""), index)
        rows[span.name].setdefault(core, []).append((start, start + duration))
    return rows, _counted(damaged=damaged, unpaired=0)


def _pair(marks: list[Mark], first: int, last: int) -> tuple[list[Row], int]:
    """Starts with their stops: by tracking id, else in order; and how many have no partner.

    What began before the capture is taken to run from its first moment, what did not end to
    its last.
    """
    begun: defaultdict[int | str | None, deque[int]] = defaultdict(deque)
    rows: list[Row] = []
    orphans = 0
    for time, starts, tracking_id in sorted(marks, key=_time):
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


def _time(mark: Mark) -> int:
    return mark[0]


def _possible(value: int | None) -> TypeGuard[int]:
    return value is not None and 0 <= value < MAX_TIME


def _counted(*, damaged: int, unpaired: int) -> tuple[str, ...]:
    """What to say of events that were of no or of limited use."""
    notes = []
    if damaged:
        notes.append(f"damaged events skipped: {damaged:,}")
    if unpaired:
        notes.append(f"events without a partner, cut at the ends of the capture: {unpaired:,}")
    return tuple(notes)
