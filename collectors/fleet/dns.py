"""Nodes of a DNS name, `dns:NAME[:PORT]`, such as a headless service of Kubernetes."""

import socket
from functools import partial

from trntop.core.errors import UsageError
from trntop.core.settings import Fleet
from trntop.core.text import clean

from ..worker import StuckError
from .addresses import checked_host, checked_ip, host_address, targets_of
from .target import Finder, FindError, Target

DEADLINE = 10.0
"""Seconds for a response of the resolver."""


class Dns(Finder):
    """The addresses of a name.

    Args:
        text: `NAME` or `NAME:PORT`.
        fleet: the settings.

    Raises:
        UsageError: the text is not valid.
    """

    def __init__(self, text: str, fleet: Fleet) -> None:
        name, _, port = text.partition(":")
        if port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
            raise UsageError(f"dns:{clean(text, 80)}: {clean(port, 40)} is not a valid port")
        try:
            self._name = checked_host(name)
        except UsageError as error:
            raise UsageError(f"dns:{error}") from None
        super().__init__(f"dns:{clean(text, 80)}", fleet.refresh)
        self._port = int(port) if port else None
        self._fleet = fleet

    async def find(self) -> list[Target]:
        """See `Finder`."""
        lookup = partial(socket.getaddrinfo, self._name, None, type=socket.SOCK_STREAM)
        try:
            found = await self._worker.call(lookup, DEADLINE)
        except StuckError:
            raise FindError(f"{self.text}: no response of the resolver in time") from None
        except OSError as error:
            raise FindError(f"{self.text}: {clean(error.strerror or 'no such name')}") from None
        places, refused = [], "the name has no address"
        for text in sorted({str(entry[4][0]) for entry in found}):
            try:
                address = checked_ip(text.partition("%")[0])
            except UsageError as error:
                refused = str(error)
            else:
                reached = host_address(address, self._fleet, self._port)
                places.append(Target(address, reached, {"address": address}))
        if not places:
            raise FindError(f"{self.text}: {refused}")
        return targets_of(places)
