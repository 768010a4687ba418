"""Step telemetry: what a training process says of one step of one rank.

Times are seconds of the rank's own clock. `comm_seconds` is the union of its collectives,
`exposed_comm_seconds` the part of it not covered by compute.
"""

import msgspec
import numpy as np

from trntop.catalog import Entity
from trntop.decode import tolerant
from trntop.errors import DecodeError
from trntop.model import Sample
from trntop.text import clean

MAX_SECONDS = 1e6


class _Step(msgspec.Struct):
    job: str = ""
    rank: int = 0
    step: float | None = None
    step_seconds: float | None = None
    compute_seconds: float | None = None
    comm_seconds: float | None = None
    exposed_comm_seconds: float | None = None
    tokens: float | None = None


_decoder = msgspec.json.Decoder(_Step)


def decode(data: bytes) -> Sample:
    """One record.

    Raises:
        DecodeError: no JSON object of this kind, or without a usable `step_seconds`.
    """
    record, problems = tolerant.decode(data, _decoder)
    seconds = record.step_seconds
    if seconds is None or not 0 < seconds <= MAX_SECONDS:
        raise DecodeError("no usable `step_seconds`")
    job = clean(record.job, 128) or "job"
    values: dict[str, float | None] = {
        "job_step": record.step,
        "job_ranks": 1.0,
        "job_step_seconds": seconds,
        "job_compute_seconds": _part(record.compute_seconds, seconds),
        "job_comm_seconds": _part(record.comm_seconds, seconds),
        "job_exposed_comm_seconds": _part(record.exposed_comm_seconds, seconds),
        "job_tokens_per_second": record.tokens / seconds if record.tokens is not None else None,
    }
    return Sample(
        keys={Entity.JOB: (job,)},
        columns={
            name: np.array([value])
            for name, value in values.items()
            if value is not None and 0 <= value < np.inf
        },
        period=seconds,
        problems=problems,
        part=f"{job}/{record.rank}",
    )


def _part(value: float | None, whole: float) -> float | None:
    """A part of the step; clocks may disagree a little, nonsense is absent."""
    if value is None or not 0 <= value <= whole * 1.05:
        return None
    return min(value, whole)
