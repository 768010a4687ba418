"""NEFF files: those of a compile cache, and the programs of running processes.

The header is public: 1,024 bytes before the archive (Neuron SDK, work-with-neff-files.rst).
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trntop.core.errors import DecodeError
from trntop.core.model import Neff
from trntop.sources import neuron_ls, neuron_monitor

from .executable import locate
from .neuron_examination import first_report
from .neuron_ls import Lister, run_here

HEADER_BYTES = 1024
MAX_FILES = 10_000
MAX_ENTRIES = 200_000
"""Entries of a cache that are listed."""
REPORT_SECONDS = 8.0
LIST_SECONDS = 10.0

_SIZES = struct.Struct("<QQQQ")
_UUID = slice(204, 220)
"""Behind five numbers of 8 bytes, the build's version (128), a number (4) and a hash (32)."""
_NEWEST_MAJOR = 2


@dataclass(frozen=True, slots=True)
class NeffFile:
    """A compiled program on this machine."""

    path: Path
    uuid: str
    """As neuron-monitor writes it: 32 hexadecimal digits."""

    @property
    def neff(self) -> Neff:
        return Neff(self.path.name, self.uuid)


def read_uuid(path: Path) -> str:
    """The UUID in a NEFF's header.

    Raises:
        DecodeError: it is not a NEFF.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
        size = path.stat().st_size
    if len(header) < HEADER_BYTES:
        raise DecodeError("shorter than the header of a NEFF")
    version, header_bytes, data_bytes, major = _SIZES.unpack_from(header)
    if not (version > 0 and 0 < header_bytes <= size and data_bytes <= size - HEADER_BYTES):
        raise DecodeError("not a NEFF")
    if major > _NEWEST_MAJOR:
        raise DecodeError(f"a NEFF of version {major}, which is not known")
    return header[_UUID].hex()


def files(folder: Path) -> tuple[list[NeffFile], list[str]]:
    """The programs below a directory, each once, and why others cannot be read.

    Raises:
        OSError: it is not a directory that can be listed.
    """
    found: dict[str, NeffFile] = {}
    problems: list[str] = []
    for path in _paths(folder, problems):
        try:
            uuid = read_uuid(path)
        except (DecodeError, OSError) as error:
            problems.append(f"{path}: {getattr(error, 'strerror', None) or error}")
            continue
        found.setdefault(uuid, NeffFile(path, uuid))
        if len(found) >= MAX_FILES:
            problems.append(f"{folder}: more than {MAX_FILES:,} programs; the rest is skipped")
            break
    return list(found.values()), problems


def _paths(top: Path, problems: list[str]) -> Iterator[Path]:
    """The NEFFs below a directory, in order; what cannot be listed is a problem."""
    folders, entries = [top], 0
    while folders:
        folder = folders.pop()
        try:
            listed = sorted(folder.iterdir())
        except OSError as error:
            if folder == top:
                raise
            problems.append(f"{folder}: {error.strerror}")
            continue
        entries += len(listed)
        if entries > MAX_ENTRIES:
            problems.append(f"{top}: more than {MAX_ENTRIES:,} entries; the rest is skipped")
            return
        folders += (entry for entry in reversed(listed) if _is_folder(entry))
        yield from (entry for entry in listed if entry.suffix == ".neff" and entry.is_file())


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


async def running(command: str | Sequence[str]) -> list[Neff]:
    """The programs that processes on this machine have loaded, by neuron-monitor.

    Raises:
        NotRunnableError: it is not installed.
        NoReportError: it gave no report.
        DecodeError: its report is not valid.
        OSError: it cannot be started.
    """
    sample = neuron_monitor.decode(await first_report(locate(command), REPORT_SECONDS))
    runtimes = sample.facts.get("runtimes", ())
    return list(dict.fromkeys(neff for runtime in runtimes for neff in runtime.neffs))


async def holders(command: str | Sequence[str]) -> tuple[list[str], int]:
    """The processes that hold Neuron devices, `4242 (python3 train.py)`, and the number of cores.

    Raises:
        NotRunnableError: neuron-ls is not installed.
        FailedError: it gave no usable output.
        DecodeError: its output is not valid.
        OSError: it cannot be started.
    """
    lister = Lister(lambda arguments: run_here(command, LIST_SECONDS, arguments))
    answer = await lister.ask()
    sample = neuron_ls.decode(answer)
    processes = [
        f"{process.pid} ({process.command})"
        for process in sample.facts.get("processes", ())
        if not process.command.startswith("neuron-")
    ]
    return processes, neuron_ls.cores(answer)
