"""`trntop profile scan`: finds programs without a profile, and profiles them."""

import argparse
import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trntop.cli import arguments
from trntop.cli.opening import settings_of
from trntop.core import units
from trntop.core.errors import DecodeError, UsageError
from trntop.core.model import Neff, NeffProfile
from trntop.core.settings import Collect
from trntop.core.text import clean
from trntop.exporters.grid import Column, lines, plural
from trntop.pipeline import profiles

if TYPE_CHECKING:
    from trntop.collectors.neffs import NeffFile

LIMIT = 64
SECONDS = 600.0


def add_scan_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "cache", nargs="?", type=Path, metavar="CACHE",
        help="directory of NEFFs (default: the compile cache)",
    )  # fmt: skip
    parser.add_argument(
        "--dry-run", action="store_true", help="only list the programs and their profiles"
    )
    parser.add_argument(
        "--limit", type=arguments.count, default=LIMIT, metavar="N",
        help=f"profile at most N programs (default: {LIMIT}); the next run continues",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", type=arguments.positive, default=SECONDS, metavar="SECONDS",
        help=f"timeout of each command of the capture tool (default: {SECONDS:.0f})",
    )  # fmt: skip


def profile_scan(args: Namespace) -> int:
    """Lists the NEFFs of the cache and of running processes, and profiles those without a profile.

    Each profile is saved immediately, so an interrupted scan can be continued.
    """
    from trntop.collectors import neffs

    settings = settings_of(args).collect
    path = profiles.path_of(settings, os.environ)
    known = profiles.load(path)
    folder = args.cache or _cache(settings)
    try:
        files, problems = neffs.files(folder)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from error
    running, why = _running(settings)
    _note([*problems, *([f"running programs are unknown: {why}"] if why else [])])
    missing = [file for file in files if profiles.find(known, file.neff) is None]
    # Running programs first: their bandwidth is on the screen.
    active = {neff.uuid for neff in running if neff.uuid}
    missing.sort(key=lambda file: file.uuid not in active)
    _list(files, missing, running, known)
    known_uuids = {file.uuid for file in files}
    elsewhere = [neff for neff in running if neff.uuid not in known_uuids]
    _note(f"{neff.name} is running but not in {folder}: pass its directory" for neff in elsewhere)
    if not missing or args.dry_run:
        return 0
    return _profile(missing[: args.limit], len(missing), args, settings, path)


def _cache(settings: Collect) -> Path:
    from trntop.collectors.compiler import cache_url

    url = cache_url(Path(settings.root), settings.compile_cache)
    if not url.startswith("/"):
        raise UsageError(f"{clean(url)} is not a directory; pass one with a copy of its NEFFs")
    return Path(url)


def _running(settings: Collect) -> tuple[list[Neff], str]:
    """The programs of running processes, or why they are unknown."""
    from trntop.collectors import neffs
    from trntop.collectors.executable import NotRunnableError
    from trntop.collectors.neuron_examination import NoReportError

    try:
        return asyncio.run(neffs.running(settings.neuron_monitor)), ""
    except (NotRunnableError, NoReportError, DecodeError, OSError) as error:
        return [], str(error)


def _profile(
    files: Sequence["NeffFile"], missing: int, args: Namespace, settings: Collect, path: Path
) -> int:
    from trntop.collectors import capture, neffs
    from trntop.collectors.executable import NotRunnableError
    from trntop.collectors.neuron_ls import FailedError

    try:
        command = capture.tool()
        holders, cores = asyncio.run(neffs.holders(settings.neuron_ls))
    except (NotRunnableError, FailedError, DecodeError, OSError) as error:
        _note([f"{error}; nothing was profiled"])
        return 1
    if holders:
        _note(
            [
                f"the Neuron devices are in use by {', '.join(holders[:4])}; "
                "run this on an idle node with the same cache"
            ]
        )
        return 1
    failed = 0
    default = path == profiles.default_path(os.environ)
    for number, file in enumerate(files, 1):
        print(f"{number}/{len(files)} {file.path}", file=sys.stderr)
        try:
            summary = capture.profile(command, file, cores, args.timeout)
        except capture.CaptureError as error:
            failed += 1
            _note([f"{file.path}: {error}"])
            continue
        profiles.add(path, summary.profile, make_folder=default)
    done = len(files) - failed
    remaining = missing - done
    print(f"{plural(done, 'profile')} saved in {path}; {plural(remaining, 'program')} without one")
    return 1 if failed else 0


def _list(
    files: Sequence["NeffFile"],
    missing: Sequence["NeffFile"],
    running: Sequence[Neff],
    known: Sequence[NeffProfile],
) -> None:
    active = {neff.uuid for neff in running if neff.uuid}
    without = {file.uuid for file in missing}
    rows = sorted(files, key=lambda file: (file.uuid not in active, str(file.path)))
    cells = [
        Column("uuid", left=True, cells=[file.uuid for file in rows]),
        Column("running", left=True, cells=["yes" * (file.uuid in active) for file in rows]),
        Column("profile", left=True, cells=[_state(file, without, known) for file in rows]),
        Column("file", left=True, cells=[str(file.path) for file in rows]),
    ]
    if rows:
        print("\n".join(line.rstrip() for line in lines(cells, sys.maxsize)))
    print(f"{plural(len(files), 'program')}, {len(without):,} without a profile")


def _state(file: "NeffFile", without: set[str], known: Sequence[NeffProfile]) -> str:
    found = None if file.uuid in without else profiles.find(known, file.neff)
    if found is None:
        return "none"
    return f"{units.bytes_iec(found.hbm_read_bytes + found.hbm_write_bytes)} per execution"


def _note(notes: Iterable[str]) -> None:
    for note in notes:
        print(f"trntop: {note}", file=sys.stderr)
