"""Traces of torch.profiler: Chrome's trace format, written by the Kineto library.

As in HolisticTraceAnalysis (`get_comm_comp_overlap`), whose overlap percentage is `overlap_ratio` ×
100 of the total:

    device activity  complete events (`"ph": "X"`) of category kernel, gpu_memcpy or gpu_memset
    communication    kernels whose name begins with `nccl…Kernel`, or with `cc_` (Neuron)
    computation      the other kernels
    kind             of a collective: by the argument `Collective name`, else by the kernel's name
    neither          copies, memsets and synchronization, whatever their category

All streams and devices of a trace are one rank. Idle and non-compute time are defined as in its
`get_temporal_breakdown`: no device activity at all, and device activity without computation.

The figures are equal where HolisticTraceAnalysis keeps all device work. It omits kernels whose
launch is not in the trace or lies before the first profiler step, and the last step without
`include_last_profiler_step=True`, and rounds times to whole microseconds; on such traces totals
differ by a few percent, and `steps_overlap_ratio`, of the marked steps only, is closer.

Steps are the annotations `ProfilerStep#N` of the device (`gpu_user_annotation`, one per stream): a
step lasts from the first of them to the start of the next step. Without them, those of the host
are used; device work that the host starts late in a step then counts for the next step.
"""

import math
import re
from collections import Counter
from itertools import zip_longest
from pathlib import Path

import msgspec
import numpy as np

from trntop.core.errors import RecordingError
from trntop.core.text import clean
from trntop.steps import bus_factor, kind_of

from .content import Members, items, value
from .intervals import Intervals, union
from .records import Calls, Capture, Window, dated

MICRO = 1_000
MAX_TS = 4e15
"""Microseconds; as unix time the year 2096."""
MAX_DUR = 1e12
MAX_CATEGORIES = 64

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


_ARGS = {
    "name": "Collective name",
    "sent": "In msg nelems",
    "received": "Out msg nelems",
    "ranks": "Group size",
}
_BITS = re.compile(r"\d+")
_BYTES = {
    "Bool": 1, "Byte": 1, "Char": 1, "Half": 2, "Short": 2, "Float": 4, "Int": 4, "Double": 8,
    "Long": 8,
}  # fmt: skip
"""Sizes of PyTorch's scalar types whose names do not contain the number of bits."""


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float | None = None
    dur: float | None = None
    args: msgspec.Raw = msgspec.Raw()

    def usable(self) -> bool:
        """Whether it is complete, with plausible time and duration."""
        ts, dur = self.ts, self.dur
        if self.ph != "X" or ts is None or dur is None:
            return False
        return abs(ts) < MAX_TS and 0 <= dur < MAX_DUR


class _Args(msgspec.Struct, rename=lambda name: _ARGS.get(name, name)):
    """What torch.profiler adds to the kernels of collectives (ParamCommsUtils.hpp)."""

    name: str = ""
    sent: float | None = None
    received: float | None = None
    dtype: str = ""
    ranks: float | None = None


_args = msgspec.json.Decoder(_Args)


class _Distributed(msgspec.Struct):
    rank: int | None = None


def read(path: Path, members: Members, order: int) -> Capture:
    """The capture in a trace; `order` is the rank if the trace does not have one.

    Raises:
        RecordingError: the trace has no kernel.
    """
    active: list[_Event] = []
    marks: list[_Event] = []
    damaged = seen = 0
    categories: Counter[str] = Counter()
    for event in items(path, members.traceEvents, _Event):
        seen += 1
        if event is None:
            damaged += 1
            continue
        if event.cat in categories or len(categories) < MAX_CATEGORIES:
            categories[event.cat] += 1
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
        named = [f"{clean(name, 32)} ({n:,})" for name, n in categories.most_common(6) if name]
        if named:
            # Other accelerators have their own categories, such as mtia_ccp_events of Kineto's
            # MTIA.
            found += f"; categories: {', '.join(named)}"
        raise RecordingError("; ".join((f"{path}: no device activity: {found}", *notes)))
    origin = min(event.ts or 0.0 for event in active)
    names = {event.name for event in kernels}
    collectives = {name for name in names if _COMM.match(name)}
    computing = {name for name in names - collectives if not _NEITHER.match(name)}
    span = _intervals(active, origin)
    stop = int(span[:, 1].max())
    epoch, guess = dated(path, _start_time(members, origin), stop)
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
        active=union(span),
        calls=_calls([event for event in kernels if event.name in collectives], origin),
        notes=notes + guess,
    )


def _calls(events: list[_Event], origin: float) -> dict[str, Calls]:
    """The collectives by kind, if names or arguments identify it."""
    by_kind: dict[str, tuple[list[_Event], list[tuple[float, float]]]] = {}
    for event in events:
        try:
            args = _args.decode(event.args)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            args = _Args()
        kind = kind_of(args.name) or kind_of(event.name)
        if kind is not None:
            same, sizes = by_kind.setdefault(kind, ([], []))
            same.append(event)
            # The larger side is the whole array: the input of a reduce-scatter, the output of an
            # all-gather.
            elements = max(args.sent or 0.0, args.received or 0.0, 0.0)
            size = elements * _element(args.dtype) or math.nan
            sizes.append((size, size * bus_factor(kind, args.ranks or math.nan)))
    calls = {}
    for kind, (same, sizes) in by_kind.items():
        rows = _intervals(same, origin)
        calls[kind] = Calls(union(rows), rows[:, 1], np.array(sizes))
    return calls


def _element(dtype: str) -> float:
    """Bytes of an element; NaN if unknown."""
    bits = _BITS.search(dtype)
    return int(bits[0]) / 8 if bits else _BYTES.get(dtype, math.nan)


def _intervals(events: list[_Event], origin: float) -> Intervals:
    """Nanoseconds since `origin`."""
    times = np.array([(event.ts, event.dur) for event in events], np.float64).reshape(-1, 2)
    start = np.rint((times[:, 0] - origin) * MICRO).astype(np.int64)
    return np.column_stack((start, start + np.rint(times[:, 1] * MICRO).astype(np.int64)))


def _windows(marks: list[_Event], origin: float) -> tuple[Window, ...]:
    """The windows of steps, from the annotations of the device, else of the host."""
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


def _start_time(members: Members, origin: float) -> int:
    """`origin` in nanoseconds; as unix time if the trace has a base time."""
    # Two parts, because a float is too imprecise for nanoseconds since 1970.
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
