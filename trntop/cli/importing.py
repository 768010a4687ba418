"""The commands that import profiler output: traces, and profiles of NEFFs."""

import argparse
import os
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trntop.catalog import COLLECTIVES
from trntop.cli import arguments
from trntop.cli.opening import settings_of
from trntop.cli.scanning import add_scan_arguments, profile_scan
from trntop.core import units
from trntop.core.errors import UsageError
from trntop.exporters.grid import Column, lines
from trntop.pipeline import profiles

if TYPE_CHECKING:
    from trntop.collectors.traces import Capture, Step, Total


def add_subcommands(name: str, parser: argparse.ArgumentParser) -> None:
    """The subcommands of `import` or `profile`."""
    subcommands = parser.add_subparsers(metavar="COMMAND", parser_class=type(parser))
    parser.set_defaults(subcommands=subcommands.choices)
    for function, help_text, add in _SUBCOMMANDS:
        group, _, command = function.__name__.partition("_")
        if group != name:
            continue
        sub = subcommands.add_parser(command, help=help_text, description=help_text)
        sub.set_defaults(run=function, prog=sub.prog, format_help=sub.format_help)
        arguments.settings(sub)
        add(sub)


def add_trace_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="plain, .gz or .zst")
    arguments.output_form(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="also write a recording for trntop replay"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")
    parser.add_argument(
        "--job", default="trace", help="name of the job in the recording (default: trace)"
    )
    parser.add_argument(
        "--executions", type=arguments.count, metavar="N",
        help="executions of a core per step (nrt; default: the whole trace is one step)",
    )  # fmt: skip


def import_trace(args: Namespace) -> int:
    """Step times from traces: a table or JSON, and optionally a recording."""
    from trntop.collectors import traces

    if args.output:
        # Known before minutes are spent on reading traces.
        _check_output(args)
    captures = traces.load(args.files, args.executions)
    _print_notes(captures)
    steps = [step for capture in captures for step in traces.steps_of(capture)]
    totals = [traces.total_of(capture) for capture in captures]
    if args.json:
        files = [str(path) for path in args.files]
        document = {"schema": 1, "files": files, "steps": steps, "total": totals}
        print(msgspec.json.encode(document).decode())
    else:
        print(_table(_steps(steps)), end="\n\n")
        for total in totals:
            print(_sentence(total))
        if kinds := _kinds(totals):
            print("", _table(kinds), sep="\n")
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


def _steps(steps: Sequence["Step"]) -> list[Column]:
    def seconds(values: Iterable[float | None]) -> list[str]:
        return [units.seconds(value) for value in values]

    def shares(pairs: Iterable[tuple[float | None, float | None]]) -> list[str]:
        return [units.percent(_ratio(part, whole)) for part, whole in pairs]

    numbers = [units.ABSENT if step.step is None else str(step.step) for step in steps]
    comm = [step.comm_seconds for step in steps]
    exposed = [step.exposed_comm_seconds for step in steps]
    times = [step.step_seconds for step in steps]
    compute = [step.compute_seconds for step in steps]
    return [
        Column("node", left=True, cells=[step.node for step in steps]),
        Column("rank", cells=[str(step.rank) for step in steps]),
        Column("step", cells=numbers),
        Column("time", rank=2, cells=seconds(times)),
        Column("compute", rank=3, cells=seconds(compute)),
        Column("comm", rank=1, cells=seconds(comm)),
        Column("overlap", rank=5, cells=seconds(step.overlap_seconds for step in steps)),
        Column("exposed", rank=4, cells=seconds(exposed)),
        Column("comm/step", cells=shares(zip(comm, times, strict=True))),
        Column("exposed/step", cells=shares(zip(exposed, times, strict=True))),
        Column("comm/compute", rank=6, cells=shares(zip(comm, compute, strict=True))),
    ]


def _kinds(totals: Sequence["Total"]) -> list[Column]:
    """The collectives of all ranks by kind; nothing where no kind is known."""
    rows = [
        (total, kind, found)
        for total in totals
        for kind, found in (total.collectives or {}).items()
    ]
    if not rows:
        return []

    def bandwidths(sizes: Iterable[float | None]) -> list[str]:
        return [
            units.bytes_rate(_ratio(size, found.seconds))
            for size, (_, _, found) in zip(sizes, rows, strict=True)
        ]

    return [
        Column("node", left=True, rank=2, cells=[total.node for total, _, _ in rows]),
        Column("rank", cells=[str(total.rank) for total, _, _ in rows]),
        Column("collective", left=True, cells=[COLLECTIVES[kind] for _, kind, _ in rows]),
        Column("calls", cells=[f"{found.count:,}" for _, _, found in rows]),
        Column("time", cells=[units.seconds(found.seconds) for _, _, found in rows]),
        Column("of the trace", rank=1, cells=[
            units.percent(_ratio(found.seconds, total.seconds)) for total, _, found in rows
        ]),
        Column("bytes", cells=[units.bytes_iec(found.bytes) for _, _, found in rows]),
        Column("algbw", rank=3, cells=bandwidths(found.bytes for _, _, found in rows)),
        Column("busbw", cells=bandwidths(found.bus_bytes for _, _, found in rows)),
    ]  # fmt: skip


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
        inside = total.steps_overlap_ratio
        of_steps = f" ({100 * inside:.2f} % in steps)" if inside is not None else ""
        parts.append(f"of which {100 * total.overlap_ratio:.2f} % overlap compute{of_steps}")
    if total.non_compute_seconds is not None:
        parts.append(f"non-compute {units.seconds(total.non_compute_seconds)}")
    if total.idle_seconds is not None:
        parts.append(f"idle {units.seconds(total.idle_seconds)}")
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


def add_add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--neff", default="", metavar="NAME", help="file name of the NEFF")
    parser.add_argument("--uuid", default="", help="UUID of the NEFF")


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
    columns = [
        Column("name", left=True, cells=[profile.name or units.ABSENT for profile in known]),
        Column("uuid", cells=[profile.uuid or units.ABSENT for profile in known]),
        Column("read", cells=[units.bytes_iec(profile.hbm_read_bytes) for profile in known]),
        Column("written", cells=[units.bytes_iec(profile.hbm_write_bytes) for profile in known]),
        Column("time", cells=[units.seconds(profile.seconds) for profile in known]),
        Column("comm", cells=[units.seconds(profile.comm_seconds) for profile in known]),
    ]
    print(_table(columns))
    return 0


def add_remove_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name or UUID of the NEFF")


def profile_remove(args: Namespace) -> int:
    """Deletes a profile."""
    gone = profiles.remove(_path(args), args.name)
    print(f"trntop: removed {gone.name or gone.uuid}", file=sys.stderr)
    return 0


def _path(args: Namespace) -> Path:
    return profiles.path_of(settings_of(args).collect, os.environ)


def _table(columns: Sequence[Column]) -> str:
    # A file or a pipe gets all columns.
    width = shutil.get_terminal_size((sys.maxsize, 24)).columns
    return "\n".join(line.rstrip() for line in lines(columns, width))


_SUBCOMMANDS = (
    (
        import_trace,
        "traces of torch.profiler or of the Neuron runtime",
        add_trace_arguments,
    ),
    (profile_add, "save summary-json files of neuron-explorer", add_add_arguments),
    (
        profile_scan,
        "find the NEFFs of the compile cache and profile those without a profile",
        add_scan_arguments,
    ),
    (profile_list, "list saved profiles", lambda parser: None),
    (profile_remove, "delete a saved profile", add_remove_arguments),
)
"""Function, help, arguments."""
