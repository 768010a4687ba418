"""What a trace says of each step: the times of compute and communication, and step records.

Of one rank, from the unions of its intervals:

    compute   time in which computation ran
    comm      time in which a collective ran
    overlap   time in which both did
    exposed   comm − overlap

Each moment of device time counts for the step in whose window it lies: an activity that reaches
over the edge of a window is cut there, so that no part is longer than its step. What lies in
no window counts in the total alone, which says how much that is.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from trntop.catalog import STEPS
from trntop.core.errors import RecordingError
from trntop.core.model import Reading

from .intervals import Intervals, clip, length, overlap, union

NANO = 1_000_000_000
FIRST, LAST = 10**9 * NANO, 4 * 10**9 * NANO
"""Unix nanoseconds between which a capture is believed to have begun: 2001 to 2096."""


@dataclass(frozen=True, slots=True)
class Window:
    """The time of one step, in nanoseconds of the capture."""

    number: int | None
    """As the framework counts; None where the capture marks no steps."""
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Capture:
    """What the device of one rank did; times are nanoseconds since `epoch`."""

    path: Path
    node: str
    rank: int
    epoch: int
    """Unix nanoseconds."""
    start: int
    stop: int
    """Of the first and the last activity, copies included."""
    compute: Intervals | None
    """A union; None where the capture cannot tell."""
    comm: Intervals | None
    """The same of collectives."""
    windows: tuple[Window, ...] = ()
    """In order, none reaching into the next."""
    notes: tuple[str, ...] = ()
    """What to know about the figures: damage, guesses."""
    waits: bool = False
    """Whether computation includes waiting for collectives: what of them is covered by work, and
    what is exposed, is then not known.
    """

    @property
    def steps(self) -> tuple[Window, ...]:
        """Its windows; one without marks is one step without a number."""
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


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """All of a capture, in steps or not."""

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
    overlap_ratio: float | None
    """overlap ÷ comm; None where there was no communication."""
    outside_seconds: float
    """Compute or communication in no step."""


def dated(path: Path, began: int, length: int) -> tuple[int, tuple[str, ...]]:
    """When a capture began, in unix nanoseconds, and what to say where that is a guess.

    Args:
        path: its file.
        began: the same by the capture's own clock, which may count from anywhere.
        length: nanoseconds that it lasts.
    """
    if FIRST < began < LAST:
        return began, ()
    guess = "no date in it: taken to end when the file was written"
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
        )
        for window in capture.steps
    ]


def total_of(capture: Capture) -> Total:
    """The whole of a capture."""
    parts = _parts(capture, capture.start, capture.stop)
    comm, both = parts["comm_seconds"], parts["overlap_seconds"]
    known = [part for part in (capture.compute, capture.comm) if part is not None]
    busy = union(np.concatenate(known))
    inside = sum(length(clip(busy, window.start, window.stop)) for window in capture.steps)
    return Total(
        file=str(capture.path),
        node=capture.node,
        rank=capture.rank,
        steps=len(capture.windows),
        seconds=(capture.stop - capture.start) / NANO,
        **parts,
        overlap_ratio=both / comm if comm and both is not None else None,
        outside_seconds=(length(busy) - inside) / NANO,
    )


def refuse_twins(captures: Iterable[Capture]) -> None:
    """Keeps one step of one rank from being counted twice.

    Raises:
        RecordingError: two captures hold the same; names both files.
    """
    seen: dict[tuple[str, int, int | None], Path] = {}
    for capture in captures:
        for window in capture.steps:
            other = seen.setdefault((capture.node, capture.rank, window.number), capture.path)
            if other is not capture.path:  # by identity: one file may be given twice
                step = "a step" if window.number is None else f"step {window.number}"
                raise RecordingError(
                    f"{other} and {capture.path} both hold {step} of rank {capture.rank}"
                    f" on {capture.node}: leave one out, or let their names tell them apart"
                )


def gap(captures: Iterable[Capture]) -> tuple[float, Path, Path] | None:
    """The longest time that no capture covers: seconds, the file before it and the one after."""
    spans = sorted((one.epoch + one.start, one.epoch + one.stop, one.path) for one in captures)
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
    for step in sorted(steps, key=lambda one: one.time):
        members = msgspec.structs.asdict(step) | {"node": None, "job": job}
        record = {name: value for name, value in members.items() if value is not None}
        yield Reading(step.node, STEPS, step.time, msgspec.json.encode(record))


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
