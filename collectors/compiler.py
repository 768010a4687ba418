"""neuronx-cc on this machine: its processes, and its cache."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import psutil

from .sysfs import read

COMPILERS = ("neuronx-cc", "neuron-cc")
COMMAND = "compile"
"""The subcommand that takes long."""
DEFAULT_CACHE = "var/tmp/neuron-compile-cache"
MAX_COMPILERS = 256
MAX_MODULES = 50_000

_PYTHON = re.compile(r"python[\d.]*")


@dataclass(frozen=True, slots=True)
class Compiler:
    """One run of the compiler."""

    pid: int
    since: float
    """Unix seconds of its start."""
    command: str
    """Program and subcommand."""


def processes(
    seconds: float, clock: Callable[[], float] = time.monotonic
) -> tuple[int, list[Compiler], bool]:
    """The number of processes, the compilers among them, and whether some were not checked within
    `seconds`.

    A compiler starts copies of itself; only the topmost counts.

    Args:
        seconds: budget.
        clock: monotonic seconds.

    Raises:
        OSError: procfs cannot be read.
    """
    deadline = clock() + seconds
    proc = psutil.PROCFS_PATH
    pids = psutil.pids()
    commands: dict[int, str] = {}
    partial = False
    for pid in pids:
        if clock() > deadline:
            partial = True
            break
        try:
            # psutil's cmdline() takes four times as long.
            line = read(f"{proc}/{pid}/cmdline")
        except OSError:  # it has just ended
            continue
        if b"neuron" in line and (command := title(os.fsdecode(line).split("\0"))):
            commands[pid] = command
    compilers = []
    for pid, command in islice(commands.items(), MAX_COMPILERS):
        try:
            process = psutil.Process(pid)
            if not any(parent.pid in commands for parent in process.parents()):
                compilers.append(Compiler(pid, process.create_time(), command))
        except psutil.Error:  # it has just ended
            continue
    return len(pids), compilers[:MAX_COMPILERS], partial


def title(arguments: Sequence[str]) -> str:
    """`neuronx-cc compile` if these arguments run it, otherwise empty.

    The compiler is a Python script: its name comes first, or after the interpreter's.
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


def cache_url(root: Path, setting: str = "") -> str:
    """The compile cache: the setting, else the compiler's variable, else its default.

    A path, or a URL such as `s3://bucket/cache`, whose modules are not counted.

    Args:
        root: directory of the default cache.
        setting: a path or a URL, or empty.
    """
    place = setting or os.environ.get("NEURON_COMPILE_CACHE_URL", "")
    return place.removeprefix("file://") or str(root / DEFAULT_CACHE)


class CompileCache:
    """The directory `neuronxcc-VERSION/MODULE_ID/`, in which `model.done` marks finished modules.

    It may be large and on a network file system: a module seen finished is not checked again.

    Args:
        path: of the cache.
        clock: monotonic seconds.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._clock = clock
        self._finished: set[str] = set()

    def count(self, seconds: float) -> tuple[int, bool]:
        """The number of finished modules, and whether some were not checked within `seconds`.

        Raises:
            OSError: there is no cache, or it cannot be read.
        """
        deadline = self._clock() + seconds
        modules = set(islice(self._modules(), MAX_MODULES))
        partial = len(modules) == MAX_MODULES
        self._finished &= modules
        for module in modules - self._finished:
            if self._clock() > deadline:
                partial = True
                break
            if (self.path / module / "model.done").exists():
                self._finished.add(module)
        return len(self._finished), partial

    def _modules(self) -> Iterator[str]:
        for version in self.path.iterdir():
            if version.name.startswith("neuronxcc-"):
                for name in os.listdir(version):  # noqa: PTH208 (a cache may have 50,000 modules)
                    if name.startswith("MODULE_"):
                        yield f"{version.name}/{name}"
