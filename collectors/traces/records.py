"""Captures, and their compute and communication time per step.

Of one rank, from the unions of its intervals: compute, comm (a collective runs), overlap (both),
exposed = comm − overlap; and comm by kind of collective. An activity that crosses the edge of a
step is cut there; one outside all steps only counts in the total.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

import msgspec
import numpy as np
import numpy.typing as npt

from trntop.catalog import STEPS
from trntop.core.errors import RecordingError
from trntop.core.model import Reading
from trntop.steps import REDUCTIONS

from .intervals import EMPTY, Intervals, clip, length, overlap, union

NANO = 1_000_000_000
FIRST, LAST = 10**9 * NANO, 4 * 10**9 * NANO
"""Plausible start of a capture in unix nanoseconds: 2001 to 2096."""


@dataclass(frozen=True, slots=True)
class Window:
    """The time of one step, in nanoseconds of the capture."""

    number: int | None
    """None if the capture marks no steps."""
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Calls:
    """The collectives of one kind."""

    busy: Intervals
    """The union of their times."""
    stops: npt.NDArray[np.int64]
    """The end of each."""
    sizes: npt.NDArray[np.float64]
    """Bytes of each, and bytes on the bus: `[n, 2]`, NaN if unknown."""

    def between(self, start: int, stop: int) -> "Collective | None":
        """Those that run between two times; a call counts where it ends."""
        seconds = length(clip(self.busy, start, stop)) / NANO
        if not seconds:
            return None
        sizes = self.sizes[(self.stops > start) & (self.stops <= stop)]
        size, bus_size = (
            None if not len(sizes) or math.isnan(total) else total
            for total in sizes.sum(axis=0).tolist()
        )
        return Collective(count=len(sizes), seconds=seconds, bytes=size, bus_bytes=bus_size)


class Collective(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The collectives of one kind in a step."""

    count: int
    seconds: float
    """Of the union of their times."""
    bytes: float | None = None
    """As nccl-tests counts them; absent if unknown of one."""
    bus_bytes: float | None = None
    """The same times the factor of the bus bandwidth."""


@dataclass(frozen=True, slots=True)
class Capture:
    """The device activity of one rank; times are nanoseconds since `epoch`."""

    path: Path
    node: str
    rank: int
    epoch: int
    """Unix nanoseconds."""
    start: int
    stop: int
    """End of the last activity, including copies."""
    compute: Intervals | None
    """A union; None if unknown."""
    comm: Intervals | None
    """A union; None if unknown."""
    windows: tuple[Window, ...] = ()
    """In order, without overlap."""
    notes: tuple[str, ...] = ()
    """Damage and guesses."""
    calls: Mapping[str, Calls] = field(default_factory=dict)
    """Kind of collective → those of this kind; empty if no kind is known."""
    active: Intervals | None = None
    """The union of all device activity, also copies; None if unknown."""
    waits: bool = False
    """Compute includes waiting for collectives, so overlap and exposed time are unknown."""

    @property
    def steps(self) -> tuple[Window, ...]:
        """Its windows; without marks, the capture is one step without a number."""
        return self.windows or (Window(None, self.start, self.stop),)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one rank."""

    node: str
    rank: int
    step: int | None
    time: float
    """Unix seconds of its end."""
    step_seconds: float
    compute_seconds: float | None
    comm_seconds: float | None
    overlap_seconds: float | None
    exposed_comm_seconds: float | None
    reduction_seconds: float | None
    """Of the union of all-reduces and reduce-scatters."""
    collectives: dict[str, Collective] | None
    """By kind; None if no kind is known."""


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """A whole capture."""

    file: str
    node: str
    rank: int
    steps: int
    """Marked steps."""
    seconds: float
    """From the first device activity to the end of the last."""
    compute_seconds: float | None
    comm_seconds: float | None
    overlap_seconds: float | None
    exposed_comm_seconds: float | None
    reduction_seconds: float | None
    collectives: dict[str, Collective] | None
    overlap_ratio: float | None
    """overlap ÷ comm; None without communication."""
    steps_overlap_ratio: float | None
    """The same of the time within steps; None without marked steps."""
    idle_seconds: float | None
    """Without any device activity."""
    non_compute_seconds: float | None
    """With device activity, but no compute: exposed communication, copies, memsets."""
    outside_seconds: float
    """Compute or communication in no step."""


def dated(path: Path, began: int, length: int) -> tuple[int, tuple[str, ...]]:
    """The start of a capture in unix nanoseconds, and a note if it is a guess.

    Args:
        path: its file.
        began: the same by the clock of the capture, which may have any origin.
        length: its duration in nanoseconds.
    """
    if FIRST < began < LAST:
        return began, ()
    guess = "it has no date: its end is the modification time of the file"
    return path.stat().st_mtime_ns - length, (guess,)


def steps_of(capture: Capture) -> list[Step]:
    """The steps of a capture."""
    return [
        Step(
            node=capture.node,
            rank=capture.rank,
            step=window.number,
            time=(capture.epoch + window.stop) / NANO,
            step_seconds=(window.stop - window.start) / NANO,
            **_parts(capture, window.start, window.stop),
            **_by_kind(capture, window.start, window.stop),
        )
        for window in capture.steps
    ]


def total_of(capture: Capture) -> Total:
    """The whole of a capture."""
    parts = _parts(capture, capture.start, capture.stop)
    comm, both = parts["comm_seconds"], parts["overlap_seconds"]
    active = None if capture.active is None else length(capture.active) / NANO
    compute = parts["compute_seconds"]
    seconds = (capture.stop - capture.start) / NANO
    known = [part for part in (capture.compute, capture.comm) if part is not None]
    busy = union(np.concatenate(known))
    inside = sum(length(clip(busy, window.start, window.stop)) for window in capture.steps)
    return Total(
        file=str(capture.path),
        node=capture.node,
        rank=capture.rank,
        steps=len(capture.windows),
        seconds=seconds,
        **parts,
        **_by_kind(capture, capture.start, capture.stop),
        overlap_ratio=both / comm if comm and both is not None else None,
        steps_overlap_ratio=_overlap_in_steps(capture),
        idle_seconds=None if active is None else seconds - active,
        non_compute_seconds=None if active is None or compute is None else active - compute,
        outside_seconds=(length(busy) - inside) / NANO,
    )


def _overlap_in_steps(capture: Capture) -> float | None:
    parts = [_parts(capture, window.start, window.stop) for window in capture.windows]
    comm = sum(part["comm_seconds"] or 0.0 for part in parts)
    both = [part["overlap_seconds"] for part in parts]
    known = [seconds for seconds in both if seconds is not None]
    return sum(known) / comm if comm and len(known) == len(both) else None


def refuse_duplicates(captures: Iterable[Capture]) -> None:
    """Ensures that no step of a rank is counted twice.

    Raises:
        RecordingError: two captures have the same step.
    """
    seen: dict[tuple[str, int, int | None], Path] = {}
    for capture in captures:
        for window in capture.steps:
            other = seen.setdefault((capture.node, capture.rank, window.number), capture.path)
            if other is not capture.path:  # by identity: one file may be given twice
                step = "a step" if window.number is None else f"step {window.number}"
                raise RecordingError(
                    f"{other} and {capture.path} both have {step} of rank {capture.rank}"
                    f" on {capture.node}: omit one, or rename a file"
                )


def gap(captures: Iterable[Capture]) -> tuple[float, Path, Path] | None:
    """The longest gap between captures: seconds, the file before it and the one after."""
    spans = sorted(
        (capture.epoch + capture.start, capture.epoch + capture.stop, capture.path)
        for capture in captures
    )
    longest = None
    reach, last = spans[0][1:]
    for start, stop, path in spans[1:]:
        if path != last and start - reach > (longest[0] if longest else 0):
            longest = start - reach, last, path
        if stop > reach:
            reach, last = stop, path
    return longest and (longest[0] / NANO, *longest[1:])


def readings(steps: Iterable[Step], job: str) -> Iterator[Reading]:
    """Steps as readings of source `steps`, by time."""
    for step in sorted(steps, key=lambda capture: capture.time):
        members = msgspec.structs.asdict(step) | {"node": None, "job": job}
        record = {name: value for name, value in members.items() if value is not None}
        yield Reading(step.node, STEPS, step.time, msgspec.json.encode(record))


class _ByKind(TypedDict):
    reduction_seconds: float | None
    collectives: dict[str, Collective] | None


def _by_kind(capture: Capture, start: int, stop: int) -> _ByKind:
    if not capture.calls:
        return {"reduction_seconds": None, "collectives": None}
    reductions = [capture.calls[kind].busy for kind in REDUCTIONS if kind in capture.calls]
    reduction = clip(union(np.concatenate([EMPTY, *reductions])), start, stop)
    found = {kind: calls.between(start, stop) for kind, calls in capture.calls.items()}
    return {
        "reduction_seconds": length(reduction) / NANO,
        "collectives": {kind: calls for kind, calls in found.items() if calls is not None},
    }


def _parts(capture: Capture, start: int, stop: int) -> dict[str, float | None]:
    compute = None if capture.compute is None else clip(capture.compute, start, stop)
    comm = None if capture.comm is None else clip(capture.comm, start, stop)
    both = None
    if compute is not None and comm is not None and not capture.waits:
        both = overlap(compute, comm)
    return {
        "compute_seconds": None if compute is None else length(compute) / NANO,
        "comm_seconds": None if comm is None else length(comm) / NANO,
        "overlap_seconds": None if both is None else both / NANO,
        "exposed_comm_seconds": (
            None if comm is None or both is None else (length(comm) - both) / NANO
        ),
    }
