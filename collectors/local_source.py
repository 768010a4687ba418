"""The declaration of a source of this machine, `LOCAL` in its module."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trntop.core.settings import Collect
from trntop.session.collector import Collector, Examination


@dataclass(frozen=True, slots=True)
class Context:
    """Arguments of a collector of this machine."""

    node: str
    """Name of this machine."""
    settings: Collect
    observer: bool = False
    """Leave sources with a single reader to an agent on this machine."""

    @property
    def root(self) -> Path:
        """Directory of `/sys`, `/proc` and `/dev`."""
        return Path(self.settings.root)


@dataclass(frozen=True, slots=True)
class LocalSource:
    """How a source of this machine is read and examined."""

    collect: Callable[[Context], Collector | None]
    """Creates the collector; None if there is nothing to read. Raises SettingsError."""
    examine: Callable[[Collect], Examination]
    """Examines the source. May block: it runs in its own thread."""
