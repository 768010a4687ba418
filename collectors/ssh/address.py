"""The target of one ssh connection."""

import re
from dataclasses import dataclass

_FIELDS = re.compile(r"ssh://(?:(?P<user>[^@]*)@)?\[?(?P<host>[^\[\]@]+?)\]?(?::(?P<port>\d+))?")


@dataclass(frozen=True, slots=True)
class Address:
    """The target of ssh; missing parts come from the user's configuration."""

    host: str
    """A name, an alias of the configuration, or an IP address without brackets."""
    user: str = ""
    port: int | None = None

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"ssh://{user}{host}{'' if self.port is None else f':{self.port}'}"


def parse(text: str) -> Address:
    """The parts of a target's address, which is valid (`fleet.addresses`)."""
    fields = _FIELDS.fullmatch(text)
    assert fields is not None
    port = fields["port"]
    return Address(fields["host"], fields["user"] or "", None if port is None else int(port))
