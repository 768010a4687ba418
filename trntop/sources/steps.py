"""Step telemetry: a training process reports one step of one rank, or its stage.

Times are seconds of the rank's own clock. `comm_seconds` is the union of its collectives,
`overlap_seconds` the part of it covered by compute, `exposed_comm_seconds` the part that is not.
`collectives` has the kinds of collectives, as far as they are known: their number, the union of
their times, their bytes, and these times the factor of their bus bandwidth; `reduction_seconds` is
the union of all-reduces and reduce-scatters. A note has a `stage` instead, and since when it
lasts, in unix seconds.
"""

import math

import msgspec
import numpy as np

from trntop.catalog import COLLECTIVES, STEPS, Entity
from trntop.core.errors import DecodeError
from trntop.core.model import Sample, Stage
from trntop.core.text import clean
from trntop.sources import tolerant
from trntop.sources.source import Role, Source

MAX_SECONDS = 1e6


class _Collective(msgspec.Struct):
    count: float | None = None
    seconds: float | None = None
    bytes: float | None = None
    bus_bytes: float | None = None


class _Step(msgspec.Struct):
    job: str = ""
    rank: int = 0
    step: float | None = None
    step_seconds: float | None = None
    compute_seconds: float | None = None
    comm_seconds: float | None = None
    overlap_seconds: float | None = None
    exposed_comm_seconds: float | None = None
    reduction_seconds: float | None = None
    collectives: dict[str, _Collective] | None = None
    tokens: float | None = None
    loss: float | None = None
    mfu: float | None = None
    pipeline_stage: float | None = None
    stage: str | None = None
    since: float | None = None


_decoder = msgspec.json.Decoder(_Step)
_NAMES = {
    kind: [f"job_{kind}_{what}" for what in ("seconds", "calls", "bytes", "bus_bytes")]
    for kind in COLLECTIVES
}
"""Quantities of a kind of collective."""


def decode(data: bytes) -> Sample:
    """One record.

    Raises:
        DecodeError: no JSON object of this kind, without a usable `step_seconds`, or of an
            unknown stage.
    """
    record, problems = tolerant.decode(data, _decoder)
    job = clean(record.job, 128) or "job"
    part = f"{job}/{record.rank}"
    if record.stage is not None:
        stages = {job: (_stage(record.stage), _since(record.since))}
        return Sample(facts={"stages": stages}, problems=problems, part=f"{part}/stage")
    seconds = record.step_seconds
    if seconds is None or not 0 < seconds <= MAX_SECONDS:
        raise DecodeError("no usable `step_seconds`")
    comm = _part(record.comm_seconds, seconds)
    exposed = _part(record.exposed_comm_seconds, seconds)
    overlap = None if comm is None else _part(record.overlap_seconds, comm)
    if exposed is None and comm is not None and overlap is not None:
        exposed = comm - overlap
    step, compute = _within(record.step), _part(record.compute_seconds, seconds)
    values: dict[str, float | None] = {
        "job_step": step,
        "job_ranks": 1.0,
        "job_step_seconds": seconds,
        "job_compute_seconds": compute,
        "job_comm_seconds": comm,
        "job_exposed_comm_seconds": exposed,
        "job_reduction_seconds": _part(record.reduction_seconds, seconds),
        **_by_kind(record.collectives, seconds),
        "job_tokens_per_second": _within(record.tokens, per=seconds),
        "job_loss": _within(record.loss, least=-math.inf),
        "job_mfu_ratio": _within(record.mfu, most=1.0),
        "rank_step": step,
        "rank_step_seconds": seconds,
        "rank_compute_seconds": compute,
        "rank_comm_seconds": comm,
        "rank_exposed_comm_seconds": exposed,
        "rank_pipeline_stage": _within(record.pipeline_stage),
    }
    known = {name: value for name, value in values.items() if value is not None}
    rows = np.array([*known.values()]).reshape(-1, 1)
    return Sample(
        keys={Entity.JOB: (job,), Entity.RANK: (part,)},
        columns=dict(zip(known, rows, strict=True)),
        period=seconds,
        problems=problems,
        part=part,
    )


def _by_kind(collectives: dict[str, _Collective] | None, seconds: float) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for kind, names in _NAMES.items() if collectives else ():
        if found := (collectives or {}).get(kind):
            time, calls, size, bus_size = names
            values[time] = _part(found.seconds, seconds)
            values[calls] = _within(found.count)
            values[size] = _within(found.bytes)
            values[bus_size] = _within(found.bus_bytes)
    return values


def _part(value: float | None, whole: float) -> float | None:
    """A part of the step; clocks may disagree a little, nonsense is absent."""
    if value is None or not 0 <= value <= whole * 1.05:
        return None
    return min(value, whole)


def _within(
    value: float | None, *, least: float = 0.0, most: float = math.inf, per: float = 1.0
) -> float | None:
    """`value` ÷ `per`, if it is finite and within its bounds."""
    if value is None or not least <= (value := value / per) <= most or math.isinf(value):
        return None
    return value


def _stage(name: str) -> Stage:
    try:
        return Stage(name)
    except ValueError:
        known = ", ".join(Stage)
        raise DecodeError(f"unknown stage {clean(name, 64)!r}; known are {known}") from None


def _since(value: float | None) -> float:
    if value is None or not 0 <= value < math.inf:
        raise DecodeError("no usable `since`")
    return value


SOURCE = Source(
    name=STEPS,
    decode=decode,
    role=Role.TRAINING,
    stale_after=15.0,  # a checkpoint pauses the loop for longer than three steps
    gives="step time, compute, total and exposed communication time, collectives by kind, tokens, "
    "loss, as reported by the training process",
    origin="a Unix socket or JSON lines in files, written by `trntop.steps`",
    needs="a few lines in the training loop (docs/steps.md)",
    without="step time from the log where one is followed; the communication share becomes an "
    "estimated range, marked `~`",
)
