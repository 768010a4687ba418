"""Whether neuron-monitor can be read on this machine, for `trntop doctor`."""

import asyncio
import re
import time
from collections.abc import Sequence
from pathlib import Path

from trntop.catalog import NEURON_MONITOR, Entity
from trntop.core.errors import DecodeError
from trntop.core.text import clean
from trntop.session.collector import Examination
from trntop.sources import neuron_monitor

from .child import Child, LastLine, obituary
from .executable import NotRunnableError, locate
from .intake import Intake
from .neuron_config import configuration_file
from .sysfs import first_line

VERSION_SECONDS = 2.0
REPORT_SECONDS = 8.0
GRACE = 0.2
"""Seconds a process gets to end by itself once it has been heard."""
MAX_COMPLAINTS = 3

DRIVER_REMEDY = "install aws-neuronx-dkms and load the driver: modprobe neuron"
TRY_REMEDY = "run it by hand and look at what it writes; kill what hangs, update aws-neuronx-tools"


def examine(
    command: str | Sequence[str] = "neuron-monitor",
    *,
    root: Path = Path("/"),
    seconds: float = REPORT_SECONDS,
) -> Examination:
    """Runs neuron-monitor for one report; takes `seconds` + 2.5 s at most.

    Args:
        command: neuron-monitor's name, path, or argument list.
        root: where `/sys` hangs.
        seconds: how long to wait for a report.
    """
    driver = first_line(root / "sys/module/neuron/version")
    try:
        argv = locate(command)
        version, report = asyncio.run(_hear(argv, seconds))
        verdict = _read(report)
    except NotRunnableError as error:
        return Examination(NEURON_MONITOR, False, error.found, error.remedy)
    except OSError as error:
        return Examination(
            NEURON_MONITOR, False, f"cannot be started: {error.strerror or error}", TRY_REMEDY
        )
    except _NoReportError as error:
        remedy = TRY_REMEDY if driver else DRIVER_REMEDY
        return Examination(NEURON_MONITOR, False, f"{error}; {_driver(driver)}", remedy)
    devices, sentence = verdict
    found = f"{version or 'unknown version'} at {clean(argv[0])}, {_driver(driver)}: {sentence}"
    return Examination(NEURON_MONITOR, devices > 0, found, "" if devices else DRIVER_REMEDY)


class _NoReportError(Exception):
    """Why there is no report."""


def _driver(version: str) -> str:
    return f"Neuron driver {version}" if version else "the Neuron driver is not loaded"


async def _hear(argv: Sequence[str], seconds: float) -> tuple[str, bytes]:
    """The program's version (empty when it does not say) and one report."""
    return await _version(argv), await _first_report(argv, seconds)


async def _version(argv: Sequence[str]) -> str:
    output = LastLine()
    child = await Child.start([*argv, "--version"], output.feed)
    try:
        await asyncio.wait([child.ended], timeout=VERSION_SECONDS)
    finally:
        await child.end(GRACE)
    number = re.search(r"\d+(?:\.\d+)+", output.text())
    return number[0] if number else ""


async def _first_report(argv: Sequence[str], seconds: float) -> bytes:
    intake = Intake(time.monotonic)
    with configuration_file(1.0) as config:
        child = await Child.start([*argv, "-c", str(config)], intake.feed)
        child.ended.add_done_callback(lambda _: intake.close())
        try:
            async with asyncio.timeout(seconds):
                await intake.arrived.wait()
            reason = ""
        except TimeoutError:
            reason = f"no report within {seconds:g} s"
        finally:
            await child.end(GRACE)
    if newest := intake.take():
        return newest[1]
    reason = reason or f"{obituary(child.ended.result())} without a report"
    if skipped := intake.counts["skipped"] + intake.counts["oversize"]:
        reason += f", {skipped} pieces of its output are not reports"
    if said := child.errors.text():
        reason += f"; it said: {said}"
    raise _NoReportError(reason)


def _read(report: bytes) -> tuple[int, str]:
    """Number of devices, and what the report says."""
    try:
        sample = neuron_monitor.decode(report)
    except DecodeError as error:
        raise _NoReportError(f"its report cannot be read: {error}") from error
    devices = len(sample.keys.get(Entity.DEVICE, ()))
    cores = len(sample.keys.get(Entity.CORE, ()))
    kind = sample.facts["facts"].get("neuron_device_type", "Neuron")
    if devices:
        sentence = f"{_many(devices, f'{kind} device')}, {_many(cores, 'NeuronCore')}"
    else:
        sentence = "no Neuron device"
    for complaint in sample.problems[:MAX_COMPLAINTS]:
        sentence += f"; {complaint}"
    return devices, sentence


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
