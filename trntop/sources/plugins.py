"""Sources of other packages: the entry points of the group `trntop.sources`."""

import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from trntop.catalog import CATALOG
from trntop.core.text import clean
from trntop.sources.source import Source

GROUP = "trntop.sources"
_HEADER = f"[{GROUP}]".encode()


def load(taken: Collection[str]) -> tuple[tuple[Source, ...], tuple[str, ...]]:
    """The sources that other packages declare, and one line for each that cannot be used.

    Args:
        taken: names of the sources that exist already.
    """
    if not _declared():
        return (), ()
    from importlib.metadata import entry_points

    sources: dict[str, Source] = {}
    problems = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            source = entry.load()
            _check(source, {*taken, *sources})
        except Exception as error:  # whatever a plug-in does, trntop starts
            package = entry.dist.name if entry.dist else "unknown package"
            why = (
                str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            )
            problems.append(clean(f"plug-in {entry.name} of {package} ignored: {why}"))
        else:
            sources[source.name] = source
    return tuple(sources.values()), tuple(problems)


def _declared() -> bool:
    """Whether any installed package has such an entry point.

    Without one, this saves the import of importlib.metadata: 60 ms of each start.
    """
    for folder in sys.path:
        for path in Path(folder).glob("*.dist-info/entry_points.txt"):
            with suppress(OSError):
                if _HEADER in path.read_bytes():
                    return True
    return False


def _check(source: object, taken: Collection[str]) -> None:
    if not isinstance(source, Source):
        raise ValueError(f"{type(source).__name__} is not a trntop.sources.Source")
    if source.name in taken:
        raise ValueError(f"source {source.name} exists already")
    if not source.role.local or not source.collector:
        raise ValueError("it names no module with a collector of this machine")
    for quantity in source.quantities:
        if quantity.name in CATALOG:
            raise ValueError(f"quantity {quantity.name} exists already")
        if quantity.source != source.name:
            raise ValueError(f"quantity {quantity.name} does not name it as its source")
