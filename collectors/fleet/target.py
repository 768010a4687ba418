"""Nodes of a list: names and addresses."""

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from trntop.core.errors import TrntopError
from trntop.core.text import clean

from ..worker import Worker


class FindError(TrntopError):
    """A node list cannot be read now; the previous one stays."""


@dataclass(frozen=True, slots=True)
class Target:
    """One node to monitor."""

    name: str
    """Cleaned, and unique among targets; a finder may leave it empty."""
    address: str
    """`http://HOST:PORT`, `https://HOST:PORT/PATH` or `ssh://[USER@]HOST[:PORT]`."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts of the list about the node: its instance id, zone, state, …"""


class Finder:
    """A list of nodes.

    Args:
        text: the text of the user, cleaned.
        period: seconds between refreshes; None if the list never changes.
    """

    def __init__(self, text: str, period: float | None) -> None:
        self.text = text
        self.period = period
        self._worker = Worker(f"trntop {self.text}")

    async def find(self) -> list[Target]:
        """The nodes now.

        Raises:
            FindError: the reason why the list cannot be read.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Releases what the list uses."""
        self._worker.close()


def named(addresses: Iterable[str]) -> list[Target]:
    """Targets with the shortest unique name of each address.

    That is the host without its domain, the host, host and port, or the whole address.
    """
    choices = [_names(address) for address in dict.fromkeys(addresses)]
    counts = [Counter(names) for names in zip(*choices, strict=True)]
    shortest = [
        next(n for n, count in zip(names, counts, strict=True) if count[n] == 1)
        for names in choices
    ]
    return with_unique_names(
        [Target(clean(n), names[-1]) for n, names in zip(shortest, choices, strict=True)]
    )


def with_unique_names(targets: Sequence[Target]) -> list[Target]:
    """The targets; the name of those without a unique one is their address."""
    count = Counter(target.name for target in targets)
    count.update({clean(target.address) for target in targets})
    return [
        target if count[target.name] == 1 else replace(target, name=clean(target.address))
        for target in targets
    ]


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _names(address: str) -> tuple[str, ...]:
    """Possible names, the shortest first."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    short = host if is_address(host) else host.partition(".")[0]
    return short, host, f"{host}:{parts.port}", address
