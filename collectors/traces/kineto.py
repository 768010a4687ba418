"""Traces of torch.profiler: Chrome's trace format, written by the Kineto library.

As in HolisticTraceAnalysis (`get_comm_comp_overlap`), whose overlap percentage is `overlap_ratio` ×
100 of the total:

    device activity  complete events (`"ph": "X"`) of category kernel, gpu_memcpy or gpu_memset
    communication    kernels whose name begins with `nccl…Kernel`, or with `cc_` (Neuron)
    computation      the other kernels
    neither          copies, memsets and synchronisation, whatever their category

All streams and devices of a trace are one rank. Two differences: HolisticTraceAnalysis omits the
last profiler step without `include_last_profiler_step=True`, and rounds times to whole
microseconds.

Steps are the annotations `ProfilerStep#N` of the device (`gpu_user_annotation`, one per stream): a
step lasts from the first of them to the start of the next step. Without them, those of the host
are used; device work that the host started late in a step then counts for the next one.
"""

import math
import re
from itertools import zip_longest
from pathlib import Path

import msgspec
import numpy as np

from trntop.core.errors import RecordingError
from trntop.core.text import clean

from .content import Members, items, value
from .intervals import Intervals, union
from .records import Capture, Window, dated

MICRO = 1_000
MAX_TS = 4e15
"""Microseconds; as unix time the year 2096."""
MAX_DUR = 1e12

_KERNEL = frozenset({"kernel", "Kernel"})
_DEVICE = _KERNEL | {"gpu_memcpy", "gpu_memset", "Memcpy", "Memset"}
_DEVICE_MARK = "gpu_user_annotation"
_MARKS = frozenset({_DEVICE_MARK, "user_annotation", "cpu_op", "Operator"})
_COMM = re.compile(r"nccl.*Kernel|cc_")
_NEITHER = re.compile(r"(.*Memcpy)|Memset|dma|(.*Sync)")
_STEP = re.compile(r"ProfilerStep\s*#\s*(\d{1,15})")
_RANK_IN_NAME = re.compile(r"rank[-_]?(\d{1,9})", re.IGNORECASE)
_HOST_IN_NAME = re.compile(r"(.+)_\d+\.\d+\.pt\.trace\.json")
"""File names of torch.profiler.tensorboard_trace_handler: host, process, time."""


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float | None = None
    dur: float | None = None

    def usable(self) -> bool:
        """Whether it is complete, with plausible time and duration."""
        ts, dur = self.ts, self.dur
        if self.ph != "X" or ts is None or dur is None:
            return False
        return abs(ts) < MAX_TS and 0 <= dur < MAX_DUR


class _Distributed(msgspec.Struct):
    rank: int | None = None


def read(path: Path, members: Members, order: int) -> Capture:
    """The capture in a trace; `order` is its rank if there is no other.

    Raises:
        RecordingError: it has no kernel.
    """
    active: list[_Event] = []
    marks: list[_Event] = []
    damaged = seen = 0
    for event in items(path, members.traceEvents, _Event):
        seen += 1
        if event is None:
            damaged += 1
            continue
        if event.cat in _DEVICE:
            kind = active
        elif event.cat in _MARKS and event.name.startswith("ProfilerStep"):
            kind = marks
        else:
            continue
        if event.usable():
            kind.append(event)
        else:
            damaged += 1
    kernels = [event for event in active if event.cat in _KERNEL]
    notes = (f"damaged events skipped: {damaged:,}",) if damaged else ()
    if not kernels:
        found = f"{seen:,} events, none of them a kernel"
        raise RecordingError("; ".join((f"{path}: no device activity: {found}", *notes)))
    origin = min(event.ts or 0.0 for event in active)
    names = {event.name for event in kernels}
    collectives = {name for name in names if _COMM.match(name)}
    computing = {name for name in names - collectives if not _NEITHER.match(name)}
    span = _intervals(active, origin)
    stop = int(span[:, 1].max())
    epoch, guess = dated(path, _began(members, origin), stop)
    rank = _rank(path, members, order)
    return Capture(
        path=path,
        node=_host(path, members) or f"rank-{rank}",
        rank=rank,
        epoch=epoch,
        start=0,
        stop=stop,
        compute=union(_intervals([e for e in kernels if e.name in computing], origin)),
        comm=union(_intervals([e for e in kernels if e.name in collectives], origin)),
        windows=_windows(marks, origin),
        notes=notes + guess,
    )


def _intervals(events: list[_Event], origin: float) -> Intervals:
    """Nanoseconds since `origin`."""
    times = np.array([(event.ts, event.dur) for event in events], np.float64).reshape(-1, 2)
    start = np.rint((times[:, 0] - origin) * MICRO).astype(np.int64)
    return np.column_stack((start, start + np.rint(times[:, 1] * MICRO).astype(np.int64)))


def _windows(marks: list[_Event], origin: float) -> tuple[Window, ...]:
    """The windows of steps, by the marks of the device, else of the host."""
    of_device = [event for event in marks if event.cat == _DEVICE_MARK]
    used = of_device or marks
    spans: dict[int, tuple[int, int]] = {}
    for event, (start, stop) in zip(used, _intervals(used, origin).tolist(), strict=True):
        if named := _STEP.match(event.name):
            number = int(named[1])
            first, last = spans.get(number, (start, stop))
            spans[number] = min(first, start), max(last, stop)
    order = sorted(spans, key=lambda number: spans[number])
    windows = []
    for number, after in zip_longest(order, order[1:]):
        start, stop = spans[number]
        if after is not None:
            follows = of_device and after == number + 1
            stop = spans[after][0] if follows else min(stop, spans[after][0])
        if start < stop:
            windows.append(Window(number, start, stop))
    return tuple(windows)


def _began(members: Members, origin: float) -> int:
    """`origin` in nanoseconds, of unix time if the trace has a base time."""
    # In parts: a float is too imprecise for nanoseconds since 1970.
    whole = math.floor(origin)
    base = value(members.baseTimeNanoseconds, int) or 0
    return base + whole * MICRO + round((origin - whole) * MICRO)


def _rank(path: Path, members: Members, order: int) -> int:
    distributed = value(members.distributedInfo, _Distributed)
    if distributed and distributed.rank is not None and 0 <= distributed.rank < 2**31:
        return distributed.rank
    named = _RANK_IN_NAME.search(path.name)
    return int(named[1]) if named else order


def _host(path: Path, members: Members) -> str:
    named = _HOST_IN_NAME.match(path.name)
    return clean(value(members.hostname, str) or (named[1] if named else ""), 128)
