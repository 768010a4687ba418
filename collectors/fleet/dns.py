"""Nodes from a name's addresses, `dns:NAME[:PORT]`: a headless service of Kubernetes, say.

A node goes by the name that its address has (10-0-1-7, or the pod's), where the resolver tells
it quickly, else by the address; what it was called first it stays, as long as it is listed.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic

from trntop.core.errors import UsageError
from trntop.core.settings import Fleet
from trntop.core.text import clean

from ..worker import StuckError, Worker
from .addresses import Place, checked_host, checked_ip, host_address, host_of, targets_of
from .target import FindError, Target

DEADLINE = 10.0
"""Seconds for an answer of the resolver."""
NAMING = 2.0
"""Seconds that looking for names may take in one look."""
MAX_ADDRESSES = 100_000

Resolve = Callable[[str], Sequence[str]]
Reverse = Callable[[str], str]


def addresses_of(name: str) -> list[str]:
    """The IPv4 and IPv6 addresses of a name, each once.

    Raises:
        OSError: there are none.
    """
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def name_of(address: str) -> str:
    """The name of an address.

    Raises:
        OSError: it has none.
    """
    return socket.getnameinfo((address, 0), socket.NI_NAMEREQD)[0]


class Dns:
    """The nodes behind a name.

    Args:
        text: `NAME` or `NAME:PORT`.
        fleet: how they are reached, and how often they are looked for.
        resolve: addresses of a name; called in a thread.
        reverse: the name of an address; called in a thread.

    Raises:
        UsageError: the text is no name.
    """

    def __init__(
        self,
        text: str,
        fleet: Fleet,
        resolve: Resolve = addresses_of,
        reverse: Reverse = name_of,
    ) -> None:
        name, _, port = text.partition(":")
        if port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
            raise UsageError(f"dns:{clean(text, 80)}: say dns:NAME or dns:NAME:PORT")
        try:
            self._name = checked_host(name)
        except UsageError as error:
            raise UsageError(f"dns:{error}") from None
        self.text = f"dns:{clean(text, 80)}"
        self.period: float | None = fleet.refresh
        self._port = int(port) if port else None
        self._fleet = fleet
        self._resolve, self._reverse = resolve, reverse
        self._worker = Worker("trntop dns")
        self._naming = Worker("trntop names")
        self._names: dict[str, str] = {}
        """Address → what its node goes by, as long as it is listed."""

    async def find(self) -> list[Target]:
        """The nodes behind the name now.

        Raises:
            FindError: the resolver does not tell.
        """
        try:
            found = await self._worker.call(partial(self._resolve, self._name), DEADLINE)
        except StuckError:
            raise FindError(f"{self.text}: the resolver has not answered in time") from None
        except OSError as error:
            raise FindError(f"{self.text}: {clean(error.strerror or 'no such name')}") from None
        kept, refused = [], ""
        for address in sorted(found)[:MAX_ADDRESSES]:
            try:
                kept.append(checked_ip(address.partition("%")[0]))
            except UsageError as error:
                refused = str(error)
        if not kept:
            raise FindError(f"{self.text}: {refused or 'the name has no address'}")
        known = self._names
        told = await self._name_all([address for address in kept if address not in known])
        self._names = {one: known.get(one, told.get(one, "")) for one in kept}
        places = []
        for address, name in self._names.items():
            reached = host_address(address, self._fleet, self._port)
            places.append(Place(reached, {"address": address}, name or host_of(reached)))
        return targets_of(places)

    def close(self) -> None:
        """See `Finder`."""
        self._worker.close()
        self._naming.close()

    async def _name_all(self, addresses: Sequence[str]) -> Mapping[str, str]:
        """The names of new addresses, as far as the resolver tells them in time."""
        if not addresses:
            return {}
        found: dict[str, str] = {}

        def look(until: float) -> None:
            for address in addresses:
                if monotonic() > until:
                    return
                try:
                    found[address] = checked_host(self._reverse(address)).partition(".")[0]
                except (OSError, UsageError):
                    found[address] = ""

        with suppress(StuckError):  # then they go by their addresses
            await self._naming.call(partial(look, monotonic() + NAMING), NAMING)
        return dict(found)
