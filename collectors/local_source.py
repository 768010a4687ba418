"""What a module that reads a source of this machine declares as `LOCAL`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trntop.core.settings import Collect
from trntop.session.collector import Collector, Examination


@dataclass(frozen=True, slots=True)
class Context:
    """What collectors of this machine are made from."""

    node: str
    """Name of this machine."""
    settings: Collect
    observer: bool = False
    """Leave what only one process can receive to an agent on this machine."""

    @property
    def root(self) -> Path:
        """Where `/sys`, `/proc` and `/dev` hang."""
        return Path(self.settings.root)


@dataclass(frozen=True, slots=True)
class LocalSource:
    """How one source of this machine is read and examined."""

    collect: Callable[[Context], Collector | None]
    """Makes the collector; None where the settings name nothing to read. Raises SettingsError."""
    examine: Callable[[Collect], Examination]
    """Whether the source can be read here. May block: it runs in a thread of its own."""
