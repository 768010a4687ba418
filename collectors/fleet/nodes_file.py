"""Nodes from a file, `@FILE`: looked at again when it changes.

A line is a host list (`trn-[001-016]`, `trn-001:9000`), an address (`http://trn-001:8000/metrics`)
or `ssh://HOST`; several may stand in one line, `#` begins a comment. What begins with `[` or `{` is
read as Prometheus' file_sd (`[{"targets": ["trn-001:8000"], "labels": {…}}]`): `__scheme__` and
`__metrics_path__` say how targets are reached, labels without a leading underscore are facts.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trntop.core.errors import UsageError
from trntop.core.settings import Fleet
from trntop.core.text import clean

from ..worker import StuckError, Worker
from .addresses import Place, expand, targets_of
from .target import FindError, Target

MAX_BYTES = 16 << 20
DEADLINE = 30.0
"""Seconds for reading it: it may be long, and lie on a network."""
MAX_LABELS = 16

_WORDS = re.compile(r"(?:\[[^\[\]]*\]|[^\s,\[\]])+|[\[\]]")
_LINE = re.compile(r"byte (\d+)")


class _Group(msgspec.Struct):
    targets: list[str]
    labels: dict[str, str] = {}


_sd = msgspec.json.Decoder(list[_Group])


class NodesFile:
    """The nodes that a file lists.

    Args:
        path: the file.
        fleet: how hosts are reached that it only names, and how often it is looked at.
    """

    def __init__(self, path: Path, fleet: Fleet) -> None:
        self.text = f"@{clean(str(path))}"
        self.period: float | None = fleet.refresh
        self._path = path
        self._fleet = fleet
        self._worker = Worker("trntop nodes file")
        self._seen: tuple[int, int, int] | None = None
        self._targets: list[Target] = []

    async def find(self) -> list[Target]:
        """The nodes that the file lists now.

        Raises:
            FindError: it cannot be read, or a line of it; the text says which.
        """
        try:
            return await self._worker.call(self.look, DEADLINE)
        except StuckError as error:
            raise FindError(f"{self.text[1:]}: {error}") from None

    def close(self) -> None:
        """See `Finder`."""
        self._worker.close()

    def look(self) -> list[Target]:
        """The same, at once.

        Raises:
            FindError: as `find`.
        """
        name = self.text[1:]
        try:
            found = self._path.stat()
            # Opening a FIFO would wait for a writer.
            if not stat.S_ISREG(found.st_mode):
                raise FindError(f"{name}: not a regular file")
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if seen == self._seen:
                return self._targets
            with self._path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise FindError(f"{name}: {os.strerror(error.errno or 0)}") from None
        except ValueError:
            raise FindError(f"{name}: not a path") from None
        if len(data) > MAX_BYTES:
            raise FindError(f"{name}: a list of nodes has at most {MAX_BYTES >> 20} MiB")
        try:
            self._targets = targets_of(places(data, name, self._fleet))
        except UsageError as error:
            raise FindError(str(error)) from None
        self._seen = seen
        return self._targets


def places(data: bytes, name: str, fleet: Fleet) -> Iterator[Place]:
    """The entries of a file.

    Raises:
        UsageError: one of them is wrong; the text says where.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name}, line {at}: not UTF-8") from None
    if text.lstrip()[:1] in ("[", "{"):
        yield from _discovered(text, name, fleet)
        return
    for number, line in enumerate(text.split("\n"), 1):
        for word in _WORDS.findall(line.partition("#")[0]):
            try:
                for address in expand(word, fleet):
                    yield Place(address)
            except UsageError as error:
                raise UsageError(f"{name}, line {number}: {error}") from None


def _discovered(text: str, name: str, fleet: Fleet) -> Iterator[Place]:
    """The targets of a file for Prometheus."""
    try:
        groups = _sd.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        at = _LINE.search(str(error))
        line = f", line {text.encode()[: int(at[1])].count(10) + 1}" if at else ""
        reason = str(error) or "nested too deeply"
        raise UsageError(f"{name}{line}: no list of targets: {clean(reason)}") from None
    for index, group in enumerate(groups):
        facts = _facts(group.labels)
        for place, target in enumerate(group.targets):
            try:
                yield Place(_address(target, group.labels, fleet), facts)
            except UsageError as error:
                where = f"{name}, [{index}].targets[{place}]"
                raise UsageError(f"{where}: {error}") from None


def _address(target: str, labels: dict[str, str], fleet: Fleet) -> str:
    scheme = labels.get("__scheme__", "")
    path = labels.get("__metrics_path__", "")
    written = target
    if "://" not in target and (scheme or path):
        written = f"{scheme or 'http'}://{target}{path}"
    found = expand(written, fleet)
    if len(found) != 1:
        raise UsageError(f"{clean(target, 80)}: a target is one host, not a list")
    return found[0]


def _facts(labels: dict[str, str]) -> dict[str, Any]:
    plain = [(name, value) for name, value in labels.items() if not name.startswith("_")]
    return {clean(name, 64): clean(value) for name, value in plain[:MAX_LABELS]}
