"""AWS's nccom-test: collectives between NeuronCores, with percentiles.

Format: the nccom-test guide of the Neuron SDK. A report of `--report-to-json-file`, or the printed
table; columns are found by their names, for `time(us)`, once the median, is `time:avg(us)` and
others now. What it calls GB is 2³⁰ bytes. A latency is that of a whole collective.

It occupies NeuronCores, so it is run on idle nodes only, and it starts its other side itself, over
ssh without a password.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from trntop.check.model import ProbeError, ProbeResult, ProbeSpec
from trntop.core.text import clean

from .process import Ended

PROGRAM = "nccom-test"
OPERATION = "allr"
WARM_UP = 5
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
"""The columns of times, and what they are."""
_FAILURES = (
    ("Neuron DKMS Driver is not running", "the Neuron driver is not loaded"),
    ("Permission denied (publickey", "ssh to the other node is refused: it needs a key"),
    ("Host key verification failed", "ssh does not know the other node's host key"),
    ("in use", "NeuronCores are in use"),
)
_TROUBLE = re.compile(r"^.*(?:error|fail|denied).*$", re.IGNORECASE | re.MULTILINE)


def results_of(path: Path) -> list[ProbeResult]:
    """The figures in a file: a JSON report, or what was printed.

    Raises:
        ProbeError: it cannot be read, or has none.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ProbeError(f"{path}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise ProbeError(f"{path}: longer than {MAX_BYTES >> 20} MiB")
    try:
        return results(data)
    except ProbeError as error:
        raise ProbeError(f"{path}: {error}") from error


def results(data: bytes, peer: str = "") -> list[ProbeResult]:
    """The figures of a report, a result for each size and statistic.

    Args:
        data: a JSON report, or what was printed.
        peer: the other node, where there are only two.

    Raises:
        ProbeError: it has none.
    """
    if data.lstrip().startswith(b"{"):
        rows, partial = _from_json(data)
    else:
        rows, partial = _from_table(data.decode(errors="replace"))
    found = [result for row in rows[:MAX_ROWS] for result in _of_row(row, peer, partial=partial)]
    if not found:
        raise ProbeError(f"no figures of {PROGRAM}: {failure(data.decode(errors='replace'))}")
    return found


def failure(said: str) -> str:
    """Why it gave no figures, by what it said."""
    for mark, reason in _FAILURES:
        if mark in said:
            return reason
    trouble = _TROUBLE.search(said)
    return clean(trouble[0].strip(), 160) if trouble else "neither its JSON nor its table"


def command(spec: ProbeSpec, own: str, peer: str, port: int) -> list[str]:
    """What runs it between two nodes, one NeuronCore each, as env(1) takes it.

    Args:
        spec: the probe.
        own: this node's address.
        peer: the other node's.
        port: on which the two find each other.
    """
    size = str(spec.size_bytes)
    return [
        f"NEURON_RT_ROOT_COMM_ID={own}:{port}", PROGRAM, "-r", "2", "-N", "2",
        "-b", size, "-e", size, "-n", str(spec.iterations), "-w", str(WARM_UP), "-d", "fp32",
        "--stats", "avg", "p50", "p90", "p99", "--non-interactive",
        OPERATION, "--hosts", own, peer,
    ]  # fmt: skip


def read(spec: ProbeSpec, ended: Ended, peer: str) -> list[ProbeResult]:
    """What a run gave; a failure is a result with an error."""
    said = f"{ended.out}\n{ended.errors}"
    if ended.code == 127:
        why = f"{PROGRAM} is not installed; aws-neuronx-tools has it"
    elif ended.code is None:
        why = f"{PROGRAM} was not through after {ended.seconds:.0f} s"
    elif ended.code != 0:
        why = f"{PROGRAM} failed: {failure(said)}"
    else:
        try:
            return results(ended.out.encode(), peer)
        except ProbeError as error:
            why = str(error)
    return [ProbeResult(tool=PROGRAM, peer=peer, size_bytes=spec.size_bytes, error=why)]


def _from_json(data: bytes) -> tuple[list[Mapping[str, Any]], bool]:
    try:
        report = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise ProbeError(f"no JSON: {clean(str(error))}") from error
    rows = report.get("results")
    if not isinstance(rows, list):
        raise ProbeError(f"a JSON file without `results`, so no report of {PROGRAM}")
    return [row for row in rows if isinstance(row, dict)], False


def _from_table(text: str) -> tuple[list[Mapping[str, Any]], bool]:
    """The rows, and whether one of them is cut off."""
    names: list[str] = []
    rows: list[Mapping[str, Any]] = []
    partial = False
    for line in text.splitlines():
        cells = line.split()
        if cells[:1] == [SIZE]:
            names = cells
        elif names and cells and cells[0].isdecimal():
            if len(cells) == len(names):
                rows.append(dict(zip(names, cells, strict=True)))
            else:
                partial = True
    return rows, partial


def _of_row(row: Mapping[str, Any], peer: str, *, partial: bool) -> Iterator[ProbeResult]:
    size, rate = _number(row.get(SIZE)), _number(row.get(RATE))
    for column, statistic in STATISTICS.items():
        micros = _number(row.get(column))
        if size is not None and micros:
            yield ProbeResult(
                tool=PROGRAM,
                peer=peer,
                size_bytes=int(size),
                statistic=statistic,
                seconds=micros * 1e-6,
                bytes_per_second=None if rate is None else rate * (1 << 30),
                partial=partial,
            )


def _number(value: object) -> float | None:
    """A finite number that is not below 0."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < 1e18 else None
