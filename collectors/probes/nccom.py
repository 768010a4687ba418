"""Reports of AWS's nccom-test: collectives between NeuronCores, with percentiles.

Format: the JSON file of `--report-to-json-file` in the nccom-test guide of the Neuron SDK. Columns
are found by their names, for `time(us)`, once the median, is `time:avg(us)` and others now. Its GB
is 2³⁰ bytes. A latency is that of a whole collective.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from trntop.check.model import ProbeError, ProbeResult
from trntop.core.text import clean

PROGRAM = "nccom-test"
MAX_BYTES = 4 << 20
MAX_ROWS = 256
SIZE = "size(B)"
RATE = "busbw(GB/s)"
STATISTICS = {
    "time:p50(us)": "p50",
    "time:avg(us)": "mean",
    "time:min(us)": "min",
    "time:p90(us)": "p90",
    "time:p99(us)": "p99",
    "time:max(us)": "max",
    "time(us)": "p50",
}
"""Column → statistic."""


def results_of(path: Path) -> list[ProbeResult]:
    """The results in a report, one for each size and statistic.

    Raises:
        ProbeError: the file cannot be read, or has no results.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ProbeError(f"{path}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise ProbeError(f"{path}: longer than {MAX_BYTES >> 20} MiB")
    try:
        report = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise ProbeError(f"{path} is not JSON: {clean(str(error))}") from error
    rows = report.get("results") if isinstance(report, dict) else None
    if not isinstance(rows, list):
        raise ProbeError(f"{path} is not a report of {PROGRAM}: it has no list `results`")
    tables = [row for row in rows[:MAX_ROWS] if isinstance(row, dict)]
    found = [result for row in tables for result in _of_row(row)]
    if not found:
        raise ProbeError(f"{path}: its `results` have no size and time")
    return found


def _of_row(row: Mapping[str, Any]) -> Iterator[ProbeResult]:
    size, rate = _number(row.get(SIZE)), _number(row.get(RATE))
    for column, statistic in STATISTICS.items():
        micros = _number(row.get(column))
        if size is not None and micros:
            yield ProbeResult(
                tool=PROGRAM,
                peer="",
                size_bytes=int(size),
                statistic=statistic,
                seconds=micros * 1e-6,
                bytes_per_second=None if rate is None else rate * (1 << 30),
            )


def _number(value: object) -> float | None:
    """A finite number, at least 0."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < 1e18 else None
