"""Small files of the kernel, on this machine or in a dump of another one."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from trntop.core.text import clean

PAGE = 4096
"""Bytes; no sysfs attribute is larger."""
MAX_COUNTER = 1 << 64


def first_line(path: Path) -> str:
    """First line of `path`, cleaned; empty if it cannot be read."""
    try:
        with path.open(errors="replace") as file:
            return clean(file.readline(256).strip())
    except OSError:
        return ""


def read(path: str, folder: int | None = None) -> bytes:
    """The content of `path`, relative to the open directory `folder` if given.

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
        ValueError: it is not valid.
    """
    value = int(data)
    if not 0 <= value < MAX_COUNTER:
        raise ValueError("out of range")
    return value


def text(data: bytes) -> str:
    """The text in `data`, stripped."""
    return data.decode(errors="replace").strip()


def reason(error: OSError | ValueError) -> str:
    """Why a file has no value."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else "not a number"


class OpenFile:
    """A small file that is read repeatedly; its descriptor stays open.

    The kernel renders the text for each read from the start, and reading an open file costs an
    eighth of opening it first. After an error it is opened again.
    """

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def read(self) -> bytes:
        """The current content.

        Raises:
            OSError: it cannot be read.
        """
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
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


class Entry(NamedTuple):
    name: str
    inode: int
    """Changes if the entry is replaced by another one with the same name."""
    folder: bool
    """Whether it is a directory; a link to one is not."""
    link: bool


class Readable(Protocol):
    """A file that is read repeatedly."""

    def read(self) -> bytes:
        """The current content.

        Raises:
            OSError: it cannot be read.
        """
        ...


class Files(Protocol):
    """A tree of small files; paths start with `sys/` or `proc/`."""

    def entries(self, folder: str) -> list[Entry]:
        """The entries of `folder`, in any order.

        Raises:
            OSError: it cannot be listed.
        """
        ...

    def inode(self, path: str) -> int:
        """The inode of `path`, after links.

        Raises:
            OSError: it does not exist.
        """
        ...

    def read(self, path: str) -> bytes:
        """The content of a file.

        Raises:
            OSError: it cannot be read.
        """
        ...

    def keep_open(self, path: str) -> Readable:
        """A file that is read repeatedly."""
        ...

    def within(self, folder: str) -> contextlib.AbstractContextManager[Callable[[str], bytes]]:
        """A faster `read` for many files below `folder`.

        Raises:
            OSError: it does not exist.
        """
        ...


class LocalFiles:
    """The files of this machine.

    Args:
        root: directory of `/sys` and `/proc`.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = str(root).rstrip("/")

    def entries(self, folder: str) -> list[Entry]:
        """See `Files`."""
        with os.scandir(f"{self._root}/{folder}") as found:
            return [
                Entry(
                    entry.name,
                    entry.inode(),
                    entry.is_dir(follow_symlinks=False),
                    entry.is_symlink(),
                )
                for entry in found
            ]

    def inode(self, path: str) -> int:
        """See `Files`."""
        return Path(self._root, path).stat().st_ino

    def read(self, path: str) -> bytes:
        """See `Files`."""
        return read(f"{self._root}/{path}")

    def keep_open(self, path: str) -> OpenFile:
        """See `Files`."""
        return OpenFile(f"{self._root}/{path}")

    @contextlib.contextmanager
    def within(self, folder: str) -> Iterator[Callable[[str], bytes]]:
        """See `Files`."""
        # Paths relative to an open directory cost half of absolute ones.
        descriptor = os.open(f"{self._root}/{folder}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield lambda path: read(path, descriptor)
        finally:
            os.close(descriptor)


Root = Path | Files
"""A directory of `/sys` on this machine, or a dump of another one."""


def files_of(root: Root) -> Files:
    """The files below `root`."""
    return LocalFiles(root) if isinstance(root, Path) else root


def line_of(files: Files, path: str) -> str:
    """First line of the file at `path`, cleaned; empty if it cannot be read."""
    try:
        return clean(text(files.read(path)[:256]).partition("\n")[0].strip())
    except OSError:
        return ""
