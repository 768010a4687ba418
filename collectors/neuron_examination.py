"""Examination of neuron-monitor, for `trntop doctor`."""

import asyncio
import contextlib
import re
import time
from collections.abc import Sequence
from pathlib import Path

from trntop.catalog import NEURON_MONITOR, Entity
from trntop.core.errors import DecodeError
from trntop.core.text import clean
from trntop.session.collector import Examination
from trntop.sources import neuron_monitor

from .child import GRACE, Child, OutputError, exit_reason, output
from .executable import NotRunnableError, locate
from .intake import Intake
from .neuron_config import PATH, configuration_file
from .sysfs import first_line

VERSION_SECONDS = 2.0
REPORT_SECONDS = 8.0
MAX_PROBLEMS = 3

DRIVER_REMEDY = "install aws-neuronx-dkms and load the driver: modprobe neuron"
TRY_REMEDY = "run it by hand; end processes that hang, update aws-neuronx-tools"


def examine(
    command: str | Sequence[str] = "neuron-monitor",
    *,
    root: Path = Path("/"),
    seconds: float = REPORT_SECONDS,
) -> Examination:
    """Runs neuron-monitor for one report; takes `seconds` + 2.5 s at most.

    Args:
        command: its name, path, or argument list.
        root: directory of `/sys`.
        seconds: timeout of the report.
    """
    driver = first_line(root / "sys/module/neuron/version")
    try:
        argv = locate(command)
        version, report = asyncio.run(_run(argv, seconds))
        devices, summary = _summary(report)
    except NotRunnableError as error:
        return Examination(NEURON_MONITOR, False, error.found, error.remedy)
    except OSError as error:
        return Examination(
            NEURON_MONITOR, False, f"cannot be started: {error.strerror or error}", TRY_REMEDY
        )
    except NoReportError as error:
        remedy = TRY_REMEDY if driver else DRIVER_REMEDY
        return Examination(NEURON_MONITOR, False, f"{error}; {_driver(driver)}", remedy)
    found = f"{version or 'unknown version'} at {clean(argv[0])}, {_driver(driver)}: {summary}"
    return Examination(NEURON_MONITOR, devices > 0, found, "" if devices else DRIVER_REMEDY)


class NoReportError(Exception):
    """The reason why there is no report."""


def _driver(version: str) -> str:
    return f"Neuron driver {version}" if version else "the Neuron driver is not loaded"


async def _run(argv: Sequence[str], seconds: float) -> tuple[str, bytes]:
    """The program's version (empty if unknown) and one report."""
    version = ""
    with contextlib.suppress(OutputError):
        text = (await output([*argv, "--version"], VERSION_SECONDS)).data.decode(errors="replace")
        number = re.search(r"\d+(?:\.\d+)+", text)
        version = number[0] if number else ""
    return version, await first_report(argv, seconds)


async def first_report(argv: Sequence[str], seconds: float) -> bytes:
    """The first report of neuron-monitor.

    Raises:
        NoReportError: there is none within `seconds`.
        OSError: it cannot be started.
    """
    intake = Intake(time.monotonic)
    with configuration_file(1.0) as config:
        child = await Child.start([*argv, "-c", PATH], intake.feed, config)
        child.ended.add_done_callback(lambda _: intake.close())
        try:
            async with asyncio.timeout(seconds):
                await intake.arrived.wait()
            reason = ""
        except TimeoutError:
            reason = f"no report within {seconds:g} s"
        finally:
            await child.end(GRACE)
    if newest := intake.pop_newest():
        return newest[1]
    reason = reason or f"{exit_reason(child.ended.result())} without a report"
    if skipped := intake.counts["skipped"] + intake.counts["oversize"]:
        reason += f", {skipped} parts of its output are not reports"
    if error := child.errors.text():
        reason += f"; its last error: {error}"
    raise NoReportError(reason)


def _summary(report: bytes) -> tuple[int, str]:
    """The number of devices, and a summary of the report."""
    try:
        sample = neuron_monitor.decode(report)
    except DecodeError as error:
        raise NoReportError(f"its report cannot be read: {error}") from error
    devices = len(sample.keys.get(Entity.DEVICE, ()))
    cores = len(sample.keys.get(Entity.CORE, ()))
    kind = sample.facts["facts"].get("neuron_device_type", "Neuron")
    if devices:
        summary = f"{_count(devices, f'{kind} device')}, {_count(cores, 'NeuronCore')}"
    else:
        summary = "no Neuron device"
    return devices, "; ".join([summary, *sample.problems[:MAX_PROBLEMS]])


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
