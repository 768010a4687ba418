"""Nodes of an `ssh://` source: `ssh://[USER@]HOSTS[:PORT]`, separated by commas."""

import re
from dataclasses import dataclass

from trntop.core.errors import UsageError
from trntop.core.text import clean
from trntop.remote import hostlist

from ..fleet.target import Target, named

SCHEME = "ssh://"
FORM = "use ssh://[USER@]HOST[:PORT], such as ssh://ec2-user@trn-[001-016]"

_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_FIELDS = re.compile(
    r"(?:(?P<user>[^@/]*)@)?(?P<host>\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]+\]|[^@/:\s]+)(?::(?P<port>[^/]*))?"
)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._\\-]*", re.ASCII)


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
        return f"{SCHEME}{user}{host}{'' if self.port is None else f':{self.port}'}"


def parse(text: str) -> list[Address]:
    """The nodes of a source, in order, each once.

    Raises:
        UsageError: it is not valid, contains a password, or lists too many hosts.
    """
    rest = text[len(SCHEME) :] if text.lower().startswith(SCHEME) else ""
    found: dict[Address, None] = {}
    for part in _PART.findall(rest.strip().removesuffix("/")):
        found.update(dict.fromkeys(_addresses(part.strip())))
    if not found:
        raise UsageError(f"{clean(text, 80)}: no node is given; {FORM}")
    return list(found)


def targets(text: str) -> list[Target]:
    """The nodes of a source, each with the shortest unique name.

    Raises:
        UsageError: see `parse`.
    """
    return named(map(str, parse(text)))


def _addresses(part: str) -> list[Address]:
    fields = _FIELDS.fullmatch(part)
    user = (fields and fields["user"]) or ""
    if ":" in part.rpartition("@")[0]:
        raise UsageError(f"{SCHEME}…: addresses must not contain passwords; ssh uses your keys")
    if fields is None or (fields["user"] is not None and not _USER.fullmatch(user)):
        raise UsageError(f"{clean(part, 80)}: not an ssh address; {FORM}")
    port = fields["port"]
    if port is not None and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise UsageError(f"{clean(part, 80)}: {clean(port, 20)} is not a valid port")
    host = fields["host"]
    hosts = (host[1:-1],) if ":" in host else hostlist.expand_all([host])
    return [Address(name, user, None if port is None else int(port)) for name in hosts]
