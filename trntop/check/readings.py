"""The probes of a check as readings of the source `probe`, and the file of the newest check."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from trntop.catalog import names
from trntop.check.result import Check
from trntop.core.errors import RecordingError
from trntop.core.folders import state_folder
from trntop.core.model import Reading
from trntop.recording.writer import Recorder


def readings(check: Check) -> Iterator[Reading]:
    """One reading for each probe, of the node that was its client."""
    for run in sorted(check.probe_runs, key=lambda run: run.time):
        devices: dict[str, object] = {"card": run.efa_device, "peer_card": run.peer_efa_device}
        # A result without `statistic` would not be known to be the mean.
        results = [
            devices | {"statistic": result.statistic} | msgspec.to_builtins(result)
            for result in run.results
        ]
        document: dict[str, object] = {"results": results}
        if not results:
            document = devices | {
                "tool": check.plan.spec.tool, "peer": run.server, "error": run.error
            }  # fmt: skip
        data = msgspec.json.encode(document)
        yield Reading(run.client, names.PROBE, run.time, data, check.simulated)


def write(check: Check, path: Path) -> None:
    """Writes the probes as a recording.

    Raises:
        RecordingError: the file cannot be written.
    """
    with Recorder(path, created=check.started, note=check.verdict) as recorder:
        for reading in readings(check):
            recorder.write(reading)
    if recorder.failed:
        raise RecordingError(f"{path}: {recorder.failed}")


def save(check: Check, path: Path) -> None:
    """Replaces the newest check, for a dashboard on this machine.

    Raises:
        OSError: the directory cannot be made or written.
        RecordingError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = path.with_suffix(f".{os.getpid()}.jsonl")
    try:
        write(check, unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def newest_file(environ: Mapping[str, str]) -> Path | None:
    """The recording of the newest check on this machine; None without a home directory."""
    state = state_folder(environ)
    return None if state is None else state / "check.jsonl"
