"""Small files that the kernel writes."""

import os
import resource
from pathlib import Path

from trntop.text import clean

PAGE = 4096
"""Bytes; no sysfs attribute is larger."""
MAX_COUNTER = 1 << 64
SPARE_DESCRIPTORS = 256
"""Left free below the process's limit, for connections and children."""


def first_line(path: Path) -> str:
    """First line of `path`, cleaned; empty when it cannot be read."""
    try:
        with path.open(errors="replace") as file:
            return clean(file.readline(256).strip())
    except OSError:
        return ""


def read(path: str, folder: int | None = None) -> bytes:
    """What `path` holds, from the folder opened as `folder` if given.

    Raises:
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.read(descriptor, PAGE)
    finally:
        os.close(descriptor)


def number(data: bytes) -> int:
    """The counter or size in `data`.

    Raises:
        ValueError: there is none.
    """
    value = int(data)
    if not 0 <= value < MAX_COUNTER:
        raise ValueError("out of range")
    return value


def text(data: bytes) -> str:
    """The text in `data`, without the white space around it."""
    return data.decode(errors="replace").strip()


def reason(error: OSError | ValueError) -> str:
    """Why a file gave nothing."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else "not a number"


class Held:
    """A small file that is read over and over; its descriptor stays open.

    The kernel writes the text anew for each read from the start, and reading an open file costs
    an eighth of opening it. After an error the file is opened by its path again. Near the
    process's limit of descriptors nothing is held.
    """

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def read(self) -> bytes:
        """What the file holds now.

        Raises:
            OSError: it cannot be read.
        """
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            if self._descriptor >= _highest_held():
                try:
                    return os.read(self._descriptor, PAGE)
                finally:
                    self._release()
        try:
            return os.pread(self._descriptor, PAGE, 0)
        except OSError:
            self._release()
            raise

    def _release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    __del__ = _release


def _highest_held() -> int:
    """The kernel gives out the lowest free number: a high one says that few are left."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (1 << 20 if soft == resource.RLIM_INFINITY else soft) - SPARE_DESCRIPTORS
