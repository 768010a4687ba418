"""The kernel's small files of another machine, for the readers of this one.

A dump has lines: `>FOLDER/` precedes paths below it, `PATH:LINE` is a line of a file, `PATH/` is a
directory, and `grep: PATH: REASON` is an error. It has the interface of
`collectors.sysfs.LocalFiles`.
"""

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator

from trntop.core.text import clean

from ..sysfs import Entry

_COMPLAINT = re.compile(rb" '?(?P<path>[^ ':]+)'?: (?P<reason>[^:]+)")
_NUMBERS = {os.strerror(number).encode(): number for number in errno.errorcode}
_ABSENT = (errno.ENOENT, errno.EISDIR)
"""A pattern without a match, or a directory among files: neither is an error."""

MAX_LINES = 100_000
"""Of one dump; the longest of a trn2.48xlarge has some 7,000."""
MAX_PATH = 256
"""Bytes of a path below its directory; longer ones are ignored."""
MAX_INDEXES = 64
"""Cached: the machines of a fleet have the same files."""

Index = dict[bytes, dict[bytes, bool]]
"""Directory → name → whether that is a directory."""

_indexes: dict[int, Index] = {}


class Dump:
    """The newest answer of one source; empty before the first, and after it was read."""

    def __init__(self) -> None:
        self._files: dict[bytes, bytes] = {}
        self._errors: dict[bytes, tuple[int, str]] = {}
        """Path → number and text."""
        self._folders: set[bytes] = set()
        self._shape = 0
        """Hash of its paths; the inode of every directory."""
        self._index: Index | None = None

    def load(self, payload: bytes) -> None:
        """Replaces the answer.

        Raises:
            OSError: it has too many lines.
        """
        self.clear()
        if payload.count(b"\n") > MAX_LINES:
            raise OSError(errno.E2BIG, f"its answer has more than {MAX_LINES:,} lines")
        files, prefix = self._files, b""
        for line in payload.split(b"\n"):
            path, colon, value = line.partition(b":")
            if len(path) > MAX_PATH:
                continue
            if not colon:
                if line.startswith(b">"):
                    prefix = line[1:]
                elif line.endswith(b"/"):
                    self._folders.add(prefix + line[:-1])
            elif path in (b"grep", b"find"):
                self._add_error(prefix, value, folder=path == b"find")
            else:
                path = prefix + path
                before = files.get(path)
                files[path] = value if before is None else before + b"\n" + value
        shape = hash(frozenset(files) | self._folders | frozenset(self._errors))
        if shape != self._shape:
            self._shape = shape
            self._index = None

    def clear(self) -> None:
        """Drops the contents until the next answer."""
        self._files = {}
        self._errors = {}
        self._folders = set()

    def _add_error(self, prefix: bytes, text: bytes, *, folder: bool) -> None:
        if match := _COMPLAINT.fullmatch(text):
            reason = match["reason"]
            number = _NUMBERS.get(reason, errno.EIO)
            path = prefix + match["path"]
            if number not in _ABSENT:
                self._errors[path] = (number, clean(reason.decode(errors="replace")))
                if folder:
                    self._folders.add(path)

    @property
    def index(self) -> Index:
        """Its paths; shared by all dumps with the same ones."""
        if self._index is None:
            self._index = _indexes.get(self._shape) or self._new_index()
        return self._index

    def _new_index(self) -> Index:
        index: Index = {b"": {}}
        for path in self._folders:
            _enter(index, path, folder=True)
        for path in (*self._files, *self._errors):
            _enter(index, path, folder=path in self._folders)
        while len(_indexes) >= MAX_INDEXES:
            del _indexes[next(iter(_indexes))]
        _indexes[self._shape] = index
        return index

    def _listed(self, folder: bytes) -> dict[bytes, bool]:
        names = self.index.get(folder)
        if names is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return names

    def entries(self, folder: str) -> list[Entry]:
        """See `Files`."""
        path = folder.encode()
        self._check(path)
        return [
            Entry(name.decode(errors="replace"), self._shape, is_folder, False)
            for name, is_folder in self._listed(path).items()
        ]

    def inode(self, path: str) -> int:
        """See `Files`; changes with the set of files."""
        self._listed(path.encode())
        return self._shape

    def read(self, path: str) -> bytes:
        """See `Files`."""
        return self.at(path.encode())

    def keep_open(self, path: str) -> "_OpenFile":
        """See `Files`."""
        return _OpenFile(self, path.encode())

    @contextlib.contextmanager
    def within(self, folder: str) -> Iterator[Callable[[str], bytes]]:
        """See `Files`."""
        self._listed(folder.encode())
        prefix = folder.encode() + b"/"
        yield lambda path: self.at(prefix + path.encode())

    def at(self, path: bytes) -> bytes:
        """The content of the file at `path`.

        Raises:
            OSError: it could not be read there, or does not exist.
        """
        data = self._files.get(path)
        if data is None:
            self._check(path)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return data

    def _check(self, path: bytes) -> None:
        if why := self._errors.get(path):
            raise OSError(*why)


def _enter(index: Index, path: bytes, *, folder: bool) -> None:
    while True:
        if folder:
            index.setdefault(path, {})
        parent, _, name = path.rpartition(b"/")
        level = index.setdefault(parent, {})
        if name in level or not path:
            return
        level[name] = folder
        path, folder = parent, True


class _OpenFile:
    """A file of the newest answer."""

    __slots__ = ("_dump", "_path")

    def __init__(self, dump: Dump, path: bytes) -> None:
        self._dump = dump
        self._path = path

    def read(self) -> bytes:
        """See `Readable`."""
        return self._dump.at(self._path)
