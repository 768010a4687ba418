"""A server, and what can be asked of it."""

from dataclasses import dataclass

from .nodes import INSTANCE


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What was found out about it."""

    server: str
    """`Prometheus 2.42.0`; empty where it does not say."""
    names: frozenset[str]
    """Of the metrics that questions depend on, those that it has."""
    interval: float
    """Seconds between the samples of a node."""
    jobs: tuple[str, ...] = ()
    """Scrape jobs of trntop's pages."""

    @property
    def own(self) -> bool:
        """Whether there are series of trntop."""
        return INSTANCE in self.names
