"""The limits of a probe, its runs, and their results."""

import re
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from msgspec import structs

from trntop.check.model import ProbeError, ProbeResult, ProbeSpec, Side

MAX_SIZE = 1 << 30
MAX_ITERATIONS = 1_000_000
MAX_REPEATS = 20
MAX_SECONDS = 300.0
_EFA_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}", re.ASCII)


class Failure(NamedTuple):
    """Why a run measured no latency."""

    text: str
    side: Side = ""


class Run(NamedTuple):
    """The measurement of one run."""

    seconds: float
    """Mean one-way latency."""
    messages: int
    lost: int = 0


def results(blank: ProbeResult, runs: Sequence[Run]) -> list[ProbeResult]:
    """The mean of the runs; of several runs also the minimum and the maximum."""
    means = [run.seconds for run in runs]
    figures = {"mean": fmean(means)}
    if len(runs) > 1:
        figures |= {"min": min(means), "max": max(means)}
    measured = structs.replace(
        blank, iterations=sum(run.messages for run in runs), lost=sum(run.lost for run in runs)
    )
    return [
        structs.replace(measured, statistic=statistic, seconds=seconds)
        for statistic, seconds in figures.items()
    ]


def blank_result(spec: ProbeSpec, peer: str, load: str) -> ProbeResult:
    """A result of this probe without its measurement."""
    efa = spec.provider == "efa"
    return ProbeResult(
        tool=spec.tool,
        peer=peer,
        provider=spec.provider,
        efa_device=spec.efa_device if efa else "",
        peer_efa_device=spec.peer_efa_device if efa else "",
        size_bytes=spec.size_bytes,
        load=load,
    )


def check_spec(spec: ProbeSpec) -> None:
    """Validates a probe.

    Raises:
        ProbeError: a field is out of bounds.
    """
    for name, efa_device in (
        ("efa_device", spec.efa_device),
        ("peer_efa_device", spec.peer_efa_device),
    ):
        if efa_device and not _EFA_DEVICE.fullmatch(efa_device):
            raise ProbeError(f"{name}: not the name of an EFA device")
    # NaN is out of bounds too.
    for name, value, low, high in (
        ("size_bytes", spec.size_bytes, 1, MAX_SIZE),
        ("iterations", spec.iterations, 5, MAX_ITERATIONS),
        ("repeats", spec.repeats, 1, MAX_REPEATS),
        ("seconds", spec.seconds, 0.5, MAX_SECONDS),
    ):
        if not low <= value <= high:
            shown = f"{value:g}" if isinstance(value, float) else value
            raise ProbeError(f"{name}: {shown} is not between {low:g} and {high:.10g}")
