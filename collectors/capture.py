"""Profiles of NEFFs, made with the capture tool of aws-neuronx-tools.

    neuron-explorer capture -n FILE.neff -s OUT/profile.ntff
    neuron-explorer view -n FILE.neff -s OUT/profile.ntff --output-format summary-json

`neuron-profile`, its predecessor, has the same options (Neuron SDK, neuron-profile-user-guide.rst).
A program with collectives needs all its workers: `--collectives-workers-per-node N`, of which one
is profiled (`--collectives-profile-id 0`), into `profile_rank_0.ntff`.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from trntop.core.errors import DecodeError
from trntop.core.text import clean
from trntop.pipeline.profiles import MAX_BYTES, Summary, read_summary

from .child import exit_reason
from .executable import NotRunnableError, locate
from .neffs import NeffFile
from .probes.process import Ended, Process

TOOLS = ("neuron-explorer", "neuron-profile")


class CaptureError(Exception):
    """A program could not be profiled; the text is the reason."""


def tool() -> list[str]:
    """The command of the newest capture tool that is installed.

    Raises:
        NotRunnableError: none is.
    """
    for name in TOOLS[:-1]:
        try:
            return locate(name)
        except NotRunnableError:
            continue
    return locate(TOOLS[-1])


def profile(command: Sequence[str], neff: NeffFile, workers: int, seconds: float) -> Summary:
    """Executes a program under the profiler, alone, else with so many workers.

    Args:
        command: the capture tool.
        neff: the program.
        workers: NeuronCores of this machine.
        seconds: deadline of each of the tool's commands.

    Raises:
        CaptureError: the tool failed, or its summary is not usable.
    """
    with tempfile.TemporaryDirectory(prefix="trntop-profile-") as folder:
        trace = Path(folder, "profile.ntff")
        start = [*command, "capture", "-n", str(neff.path), "-s", str(trace)]
        try:
            _execute(start, seconds)
        except CaptureError as error:
            if workers < 2:
                raise
            options = ("--collectives-workers-per-node", str(workers))
            try:
                _execute([*start, *options, "--collectives-profile-id", "0"], seconds)
            except CaptureError as second:
                raise CaptureError(f"{error}; with {workers} workers: {second}") from None
            trace = trace.with_name("profile_rank_0.ntff")
        view = [*command, "view", "-n", str(neff.path), "-s", str(trace)]
        summary = Path(folder, "summary.json")
        ended = _execute([*view, "--output-format", "summary-json"], seconds)
        summary.write_text(ended.out, encoding="utf-8")
        try:
            return read_summary(summary, neff.path.name, neff.uuid)
        except DecodeError as error:
            reason = str(error).removeprefix(f"{summary}: ")
            raise CaptureError(f"its summary is not usable: {reason}") from None


def _execute(argv: Sequence[str], seconds: float) -> Ended:
    return asyncio.run(_run(argv, seconds))


async def _run(argv: Sequence[str], seconds: float) -> Ended:
    name = f"{Path(argv[0]).name} {argv[1]}"
    try:
        started = await Process.start(argv, seconds, kept_bytes=MAX_BYTES)
        ended = await started.wait()
    except OSError as error:
        raise CaptureError(f"{name} cannot be started: {error.strerror}") from None
    if ended.code == 0:
        return ended
    if ended.code is None:
        raise CaptureError(f"{name} took longer than {seconds:g} s")
    lines = [line for line in ended.errors.splitlines() if line.strip()]
    last = f": {clean(lines[-1], 200)}" if lines else ""
    raise CaptureError(f"{name} {exit_reason(ended.code)}{last}")
