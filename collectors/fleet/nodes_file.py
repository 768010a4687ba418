"""Nodes of a file, `@FILE`, read again when it changes.

A line has host lists (`trn-[001-016]`, `trn-001:9000`), addresses (`http://trn-001:8000/metrics`)
or `ssh://HOST`; `#` starts a comment.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from trntop.core.errors import UsageError
from trntop.core.settings import Fleet
from trntop.core.text import clean

from ..worker import StuckError
from .addresses import expand, targets_of
from .target import Finder, FindError, Target

MAX_BYTES = 16 << 20
DEADLINE = 30.0
"""Seconds to read it: it may be on a network file system."""

_WORDS = re.compile(r"(?:\[[^\[\]]*\]|[^\s,\[\]])+|[\[\]]")


class NodesFile(Finder):
    """The nodes listed in a file.

    Args:
        path: the file.
        fleet: the settings.
    """

    def __init__(self, path: Path, fleet: Fleet) -> None:
        super().__init__(f"@{clean(str(path))}", fleet.refresh)
        self._path = path
        self._fleet = fleet
        self._version: tuple[int, int, int] | None = None
        self._targets: list[Target] = []

    async def find(self) -> list[Target]:
        """See `Finder`."""
        try:
            return await self._worker.call(self.read, DEADLINE)
        except StuckError:
            raise FindError(f"{self.text[1:]}: no response for {DEADLINE:g} s") from None

    def read(self) -> list[Target]:
        """The nodes of the file.

        Raises:
            FindError: it cannot be read, or a line is not valid.
        """
        name = self.text[1:]
        try:
            found = self._path.stat()
            # Opening a FIFO would wait for a writer.
            if not stat.S_ISREG(found.st_mode):
                raise FindError(f"{name}: not a regular file")
            version = (found.st_mtime_ns, found.st_size, found.st_ino)
            if version == self._version:
                return self._targets
            if found.st_size > MAX_BYTES:
                raise FindError(f"{name}: larger than {MAX_BYTES >> 20} MiB")
            text = self._path.read_text("utf-8-sig")
            self._targets = targets_of(_places(text, name, self._fleet))
        except OSError as error:
            raise FindError(f"{name}: {os.strerror(error.errno or 0)}") from None
        except UnicodeDecodeError:
            raise FindError(f"{name}: not UTF-8") from None
        except ValueError:
            raise FindError(f"{name}: not a valid path") from None
        except UsageError as error:
            raise FindError(str(error)) from None
        self._version = version
        return self._targets


def _places(text: str, name: str, fleet: Fleet) -> Iterator[Target]:
    for number, line in enumerate(text.split("\n"), 1):
        for word in _WORDS.findall(line.partition("#")[0]):
            try:
                yield from (Target("", address) for address in expand(word, fleet))
            except UsageError as error:
                raise UsageError(f"{name}, line {number}: {error}") from None
