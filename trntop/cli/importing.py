"""The commands that import profiler output: traces, and profiles of NEFFs."""

import os
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trntop.cli.opening import settings_of
from trntop.core import units
from trntop.core.errors import UsageError
from trntop.pipeline import profiles

if TYPE_CHECKING:
    from trntop.collectors.traces import Capture, Step, Total

STEPS = ("node", "rank", "step", "time", "compute", "comm", "overlap", "exposed",
         "comm/step", "exposed/step", "comm/compute")  # fmt: skip
SPARE = ("comm/compute", "overlap", "compute", "exposed", "time", "comm")
"""Columns hidden in a narrow terminal, the least useful first."""
PROFILES = ("name", "uuid", "read", "written", "time", "comm")


def import_trace(args: Namespace) -> int:
    """Step times from traces: a table or JSON, and optionally a recording."""
    from trntop.collectors import traces

    if args.output:
        # Known before minutes are spent on reading traces.
        _check_output(args)
    captures = traces.load(args.files, args.format, args.executions)
    _print_notes(captures)
    steps = [step for capture in captures for step in traces.steps_of(capture)]
    totals = [traces.total_of(capture) for capture in captures]
    if args.json:
        files = [str(path) for path in args.files]
        document = {"schema": 1, "files": files, "steps": steps, "total": totals}
        print(msgspec.json.encode(document).decode())
    else:
        print(_fitted(STEPS, [_step(step) for step in steps]), end="\n\n")
        for total in totals:
            print(_sentence(total))
    return _record(args, steps) if args.output else 0


def _check_output(args: Namespace) -> None:
    from trntop.recording.writer import check_creatable

    path = args.output
    if any(path.exists() and file.exists() and path.samefile(file) for file in args.files):
        raise UsageError(f"{path} is also the trace; choose another file")
    check_creatable(path, overwrite=args.overwrite)


def _print_notes(captures: list["Capture"]) -> None:
    """Prints caveats about the figures."""
    from trntop.collectors.traces import gap

    notes = (f"{capture.path}: {note}" for capture in captures for note in capture.notes)
    for note in dict.fromkeys(notes):
        print(f"trntop: {note}", file=sys.stderr)
    if apart := gap(captures):
        seconds, before, after = apart
        print(
            f"trntop: these traces do not overlap in time: {units.seconds(seconds)} between"
            f" {before} and {after}",
            file=sys.stderr,
        )


def _step(step: "Step") -> tuple[str, ...]:
    comm, exposed = step.comm_seconds, step.exposed_comm_seconds
    return (
        step.node,
        str(step.rank),
        units.ABSENT if step.step is None else str(step.step),
        units.seconds(step.step_seconds),
        units.seconds(step.compute_seconds),
        units.seconds(comm),
        units.seconds(step.overlap_seconds),
        units.seconds(exposed),
        units.percent(_ratio(comm, step.step_seconds)),
        units.percent(_ratio(exposed, step.step_seconds)),
        units.percent(_ratio(comm, step.compute_seconds)),
    )


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _sentence(total: "Total") -> str:
    """One rank's whole capture."""
    parts = [
        f"{total.node}, rank {total.rank}: {units.seconds(total.seconds)}",
        f"compute {units.seconds(total.compute_seconds)}",
        f"comm {units.seconds(total.comm_seconds)}",
    ]
    if total.overlap_ratio is not None:
        parts.append(f"of which {100 * total.overlap_ratio:.2f} % overlap compute")
    if total.outside_seconds:
        parts.append(f"{units.seconds(total.outside_seconds)} outside of all steps")
    return ", ".join(parts)


def _record(args: Namespace, steps: list["Step"]) -> int:
    from trntop.collectors.traces import readings
    from trntop.recording.writer import Recorder

    note = "imported from " + ", ".join(path.name for path in args.files[:8])
    with Recorder(
        args.output, created=time.time(), note=note, overwrite=args.overwrite
    ) as recorder:
        for reading in readings(steps, args.job):
            recorder.write(reading)
    if recorder.failed:
        print(f"trntop: {args.output}: {recorder.failed}", file=sys.stderr)
        return 1
    print(f"trntop: {recorder.readings:,} steps in {args.output}", file=sys.stderr)
    return 0


def profile_add(args: Namespace) -> int:
    """Saves the profiles of NEFFs."""
    if len(args.files) > 1 and (args.neff or args.uuid):
        raise UsageError("--neff and --uuid need exactly one FILE")
    path = _path(args)
    default = path == profiles.default_path(os.environ)
    summaries = [profiles.read_summary(file, args.neff, args.uuid) for file in args.files]
    for file, summary in zip(args.files, summaries, strict=True):
        added = summary.profile
        former = profiles.add(path, added, make_folder=default)
        print(f"{added.name}: {_figures(summary)}{'; replaced the old profile' if former else ''}")
        if not summary.named:
            print(
                f"trntop: {file} does not name its NEFF: assuming {added.name};"
                " set it with --neff or --uuid",
                file=sys.stderr,
            )
    return 0


def _figures(summary: profiles.Summary) -> str:
    profile = summary.profile
    text = f"{units.bytes_iec(profile.hbm_read_bytes + profile.hbm_write_bytes)} per execution"
    if profile.seconds is not None:
        text += f" of {units.seconds(profile.seconds)}"
    if summary.cores > 1:
        text += f", mean of {summary.cores} cores"
    return text


def profile_list(args: Namespace) -> int:
    """Lists the saved profiles."""
    path = _path(args)
    known = profiles.load(path)
    if not known:
        print(f"trntop: no saved profiles in {path}", file=sys.stderr)
        return 0
    rows = (
        (
            one.name or units.ABSENT,
            one.uuid or units.ABSENT,
            units.bytes_iec(one.hbm_read_bytes),
            units.bytes_iec(one.hbm_write_bytes),
            units.seconds(one.seconds),
            units.seconds(one.comm_seconds),
        )
        for one in known
    )
    print(_table(PROFILES, rows))
    return 0


def profile_remove(args: Namespace) -> int:
    """Deletes a profile."""
    gone = profiles.remove(_path(args), args.name)
    print(f"trntop: removed {gone.name or gone.uuid}", file=sys.stderr)
    return 0


def _path(args: Namespace) -> Path:
    return profiles.path_of(settings_of(args).collect, os.environ)


def _fitted(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table without the columns of `SPARE` that do not fit the terminal."""
    # Into a file or a pipe, all of it goes.
    room = shutil.get_terminal_size((sys.maxsize, 24)).columns
    hidden: list[str] = []
    while True:
        places = [place for place, name in enumerate(header) if name not in hidden]
        text = _table(
            [header[place] for place in places], [[row[place] for place in places] for row in rows]
        )
        if text.find("\n") <= room or len(hidden) == len(SPARE):
            break
        hidden.append(SPARE[len(hidden)])
    if hidden:
        names = ", ".join(name for name in header if name in hidden)
        print(f"trntop: not shown in {room} columns: {names}", file=sys.stderr)
    return text


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of minimal width; names left, figures right."""
    lines = [tuple(header), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
