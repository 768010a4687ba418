"""Nodes whose agents are named: `http://trn-[001-016]:10042`, `trn-[001-016]`, `trn-001:10042`."""

import re

from trntop.core.errors import UsageError
from trntop.core.settings import Fleet, Settings
from trntop.core.source_spec import Source
from trntop.core.text import clean
from trntop.remote import hostlist
from trntop.session.collector import Collector

from . import connection
from .target import Target, is_address, named
from .watch import Listed, Watch

_URL = re.compile(r"(?:(https?)://)?([^/?#]*)(/[^?#\s]*)?", re.IGNORECASE)
_APART = re.compile(r"[\s,]+(?![^\[]*\])")
_HOSTS = re.compile(r"((?:[^\s,:\[\]]|\[[^\[\]]*\])+)(?::(\d{1,5}))?", re.ASCII)
_NUMBERS = re.compile(r"[\d.]+", re.ASCII)
_SECRET = re.compile(r"(?<=//)[^/]*@|^[^/]*@")


def collectors(source: Source, settings: Settings) -> list[Collector]:
    """The collector of an AGENT source.

    Raises:
        UsageError: the source is not written as it should be.
        SettingsError: what is needed to reach it is wrong.
    """
    connection.check(settings.fleet)
    return [Watch(Listed(clean(source.text), targets(source.text, settings.fleet)), settings)]


def targets(text: str, fleet: Fleet) -> list[Target]:
    """The nodes that a URL or a host list names.

    Raises:
        UsageError: it is not written as it should be, or brings a password along.
    """
    if "@" in text:
        raise UsageError(
            f"{clean(_SECRET.sub('…@', text), 80)}: no passwords in addresses, where everybody sees"
            " them; say fleet.user and fleet.password_file"
        )
    shown = clean(text, 80)
    match = _URL.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{shown}: no address such as http://trn-[001-016]:10042")
    scheme, path = (match[1] or "http").lower(), (match[3] or "").rstrip("/")
    addresses = []
    for pattern in _APART.split(match[2]):
        parts = _HOSTS.fullmatch(pattern)
        if parts is None:
            raise UsageError(f"{shown}: {clean(pattern, 40) or 'nothing'} is no host")
        port = int(parts[2] or fleet.port)
        if not 0 < port < 65536:
            raise UsageError(f"{shown}: {port} is no port")
        literal = ":" in parts[1] and is_address(parts[1].strip("[]"))
        hosts = (parts[1],) if literal else hostlist.expand_all([parts[1]])
        for host in hosts:
            if _NUMBERS.fullmatch(host) and not is_address(host):
                raise UsageError(f"{shown}: {host} is no address")
        addresses += [f"{scheme}://{host}:{port}{path}" for host in hosts]
    return named(addresses)
