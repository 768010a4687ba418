"""neuronx-cc at work on this machine: its processes, and the cache it fills."""

import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from .sysfs import read

COMPILERS = ("neuronx-cc", "neuron-cc")
COMMAND = "compile"
"""The subcommand that takes long; others only say something of the compiler itself."""
DEFAULT_CACHE = "var/tmp/neuron-compile-cache"
MAX_COMPILERS = 256
MAX_ANCESTORS = 64
MAX_VERSIONS = 64
"""Compiler versions in one cache."""
MAX_MODULES = 50_000
SETTLED = 1_000_000_000
"""Nanoseconds after which a folder's time of change tells a further change apart."""

_PYTHON = re.compile(r"python[\d.]*")
_BATCH = 64
"""Processes between two looks at the clock."""
_PARENT, _START = 1, 19
"""Fields of `/proc/PID/stat` behind the program's name (proc(5): 4 and 22)."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """One run of the compiler."""

    pid: int
    since: float
    """Unix seconds at which it started."""
    command: str
    """Program and subcommand."""


@dataclass(frozen=True, slots=True)
class Processes:
    """One look at all processes."""

    count: int
    """Of all that can be seen, also where `partial`."""
    compilers: tuple[Compiler, ...]
    partial: bool
    """Time ran out before all were looked at: there may be more compilers."""


def look(proc: Path, seconds: float, clock: Callable[[], float] = time.monotonic) -> Processes:
    """Counts the processes and finds the compilers among them, the newest processes first.

    A compiler starts helpers and copies of itself; only the topmost counts.

    Args:
        proc: where procfs is mounted.
        seconds: how long it may take.
        clock: monotonic seconds.

    Raises:
        OSError: procfs cannot be read.
    """
    deadline = clock() + seconds
    with os.scandir(proc) as entries:
        pids = sorted((int(each.name) for each in entries if each.name.isdecimal()), reverse=True)
    commands: dict[int, str] = {}
    partial = False
    for start in range(0, len(pids), _BATCH):
        if partial := clock() > deadline:
            break
        for pid in pids[start : start + _BATCH]:
            try:
                line = read(f"{proc}/{pid}/cmdline")
            except OSError:  # it has just ended
                continue
            if b"neuron" in line and (command := title(os.fsdecode(line).split("\0"))):
                commands[pid] = command
    compilers = tuple(_topmost(proc, commands)) if commands else ()
    return Processes(len(pids), compilers[:MAX_COMPILERS], partial)


def title(arguments: Sequence[str]) -> str:
    """`neuronx-cc compile` if that is what these arguments run, otherwise nothing.

    The compiler is a Python script: its name comes first, or behind the interpreter's.
    """
    program, *rest = arguments
    if _PYTHON.fullmatch(_name(program)):
        while rest and rest[0].startswith("-"):
            del rest[0]
        program = rest.pop(0) if rest else ""
    if _name(program) in COMPILERS and COMMAND in rest:
        return f"{_name(program)} {COMMAND}"
    return ""


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _topmost(proc: Path, commands: dict[int, str]) -> Iterable[Compiler]:
    """Those processes that run under no other one of them."""
    booted = _boot_time(proc)
    tick = os.sysconf("SC_CLK_TCK")
    for pid, command in commands.items():
        try:
            fields = _stat(proc, pid)
            if not _below(proc, int(fields[_PARENT]), commands):
                yield Compiler(pid, booted + int(fields[_START]) / tick, command)
        except (OSError, ValueError, IndexError):  # it has just ended
            continue


def _below(proc: Path, pid: int, commands: dict[int, str]) -> bool:
    """Whether `pid` or one of its ancestors is among `commands`."""
    for _ in range(MAX_ANCESTORS):
        if pid in commands:
            return True
        if pid <= 1:
            return False
        pid = int(_stat(proc, pid)[_PARENT])
    return False


def _stat(proc: Path, pid: int) -> list[bytes]:
    # The name, in brackets, may hold anything, blanks and brackets as well.
    return read(f"{proc}/{pid}/stat").rpartition(b")")[2].split()


def _boot_time(proc: Path) -> float:
    """Unix seconds.

    Raises:
        OSError: it cannot be read.
    """
    with (proc / "stat").open() as file:
        for line in file:
            if line.startswith("btime "):
                return float(line.split()[1])
    raise OSError(f"no boot time in {proc}/stat")


def cache_folder(root: Path, setting: str = "") -> Path | None:
    """Where the compiler keeps what it has compiled; None if that is not on a file system.

    By the setting, else by the variable that the compiler's users set for it, else its default.

    Args:
        root: where the default folder hangs.
        setting: a path, or empty.
    """
    place = setting or os.environ.get("NEURON_COMPILE_CACHE_URL", "").removeprefix("file://")
    if not place:
        return root / DEFAULT_CACHE
    return Path(place) if place.startswith("/") else None


@dataclass(slots=True)
class _Version:
    """The modules of one compiler version."""

    changed: int = -1
    """Time of change of the folder that was listed, ns."""
    finished: set[str] = field(default_factory=set)
    unfinished: set[str] = field(default_factory=set)


class CompileCache:
    """The folder `neuronxcc-VERSION/MODULE_ID/`, in which `model.done` marks what is finished.

    The cache may be large and on a network file system: a folder is listed again only when it
    has changed, and a module that was seen finished is not looked at again.

    Args:
        path: of the cache.
        clock: monotonic seconds.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._clock = clock
        self._versions: dict[str, _Version] = {}

    def count(self, seconds: float) -> tuple[int, bool]:
        """Finished modules, and whether there may be more than could be looked at.

        What did not fit into `seconds` is looked at by the next call.

        Raises:
            OSError: there is no cache, or it cannot be read.
        """
        deadline = self._clock() + seconds
        names = _listed(self.path, "neuronxcc-", MAX_VERSIONS)
        self._versions = {name: self._versions.get(name, _Version()) for name in names}
        partial = len(names) == MAX_VERSIONS
        for name, version in self._versions.items():
            folder = self.path / name
            _list_again(folder, version)
            if len(version.finished) + len(version.unfinished) == MAX_MODULES:
                partial = True
            for module in tuple(version.unfinished):
                if self._clock() > deadline:
                    partial = True
                    break
                if (folder / module / "model.done").exists():
                    version.unfinished.remove(module)
                    version.finished.add(module)
        return sum(len(version.finished) for version in self._versions.values()), partial


def _list_again(folder: Path, version: _Version) -> None:
    """Brings the modules' names up to date, if the folder has changed."""
    changed = folder.stat().st_mtime_ns
    if changed == version.changed:
        return
    modules = _listed(folder, "MODULE_", MAX_MODULES)
    version.finished &= modules
    version.unfinished = modules - version.finished
    version.changed = changed if time.time_ns() - changed > SETTLED else -1


def _listed(folder: Path, prefix: str, most: int) -> set[str]:
    with os.scandir(folder) as entries:
        return set(islice((entry.name for entry in entries if entry.name.startswith(prefix)), most))
