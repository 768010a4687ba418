"""What a node is called, and how it is reached."""

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol
from urllib.parse import urlsplit

from trntop.core.errors import TrntopError
from trntop.core.text import clean


class FindError(TrntopError):
    """A list of nodes cannot be had now; the list before stands."""


@dataclass(frozen=True, slots=True)
class Target:
    """One node that is to be watched."""

    name: str
    """What it goes by on the screen, cleaned; unique in a list."""
    address: str
    """`http://HOST:PORT`, `https://HOST:PORT/PATH` or `ssh://[USER@]HOST[:PORT]`."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the list tells of the node: its instance id, zone, state, …"""


class Finder(Protocol):
    """A list of nodes."""

    text: str
    """What the user wrote, cleaned."""
    period: float | None
    """Seconds between looks; None where the list never changes."""

    async def find(self) -> list[Target]:
        """The nodes now.

        Raises:
            FindError: why there is no answer.
        """
        ...

    def close(self) -> None:
        """The list is not looked at any more."""
        ...


def named(addresses: Iterable[str]) -> list[Target]:
    """Targets for addresses, each by the shortest name that tells it from the others.

    That is the host without its domain, the host, host and port, or the whole address.
    """
    choices = [_names(address) for address in dict.fromkeys(addresses)]
    counts = [Counter(names) for names in zip(*choices, strict=True)]
    shortest = [
        next(n for n, seen in zip(names, counts, strict=True) if seen[n] == 1) for names in choices
    ]
    return told_apart(
        [Target(clean(n), names[-1]) for n, names in zip(shortest, choices, strict=True)]
    )


def told_apart(targets: Sequence[Target]) -> list[Target]:
    """The targets; those whose names are not theirs alone go by their addresses.

    Nobody goes by the address of another either.
    """
    count = Counter(one.name for one in targets) + Counter({clean(one.address) for one in targets})
    return [
        one if count[one.name] == 1 else replace(one, name=clean(one.address)) for one in targets
    ]


def is_address(host: str) -> bool:
    """Whether a host is an IP address rather than a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _names(address: str) -> tuple[str, ...]:
    """What an address may go by, the shortest first."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    short = host if is_address(host) else host.partition(".")[0]
    return short, host, f"{host}:{parts.port}", address
