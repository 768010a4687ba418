"""Entries of node lists: checked addresses, and the names of their nodes.

A list may come from another program: no user names and passwords (they would show in messages and
recordings), only http, https and ssh, and no link-local addresses, where clouds serve credentials.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from trntop.core.errors import UsageError
from trntop.core.settings import Fleet
from trntop.core.text import clean
from trntop.remote.hostlist import MAX_HOSTS, MAX_NAME, expand_all

from .target import Target, named, with_unique_names

MAX_LENGTH = 2048
"""Longest address."""
SECRETS = "use fleet.user and fleet.password_file"

_ADDRESS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?:(?P<user>[^@/?#]*)@)?"
    r"(?P<host>\[[^\]@/?#]*:[^\]@/?#]*\]|(?:\[[^\]:/?#]*\]|[^\[\]:/?#])+)"
    r"(?::(?P<port>\d{1,5}))?(?P<path>/[^?#]*)?",
)
_HOST_PORT = re.compile(r"(?P<host>(?:\[[^\]:]*\]|[^\[\]:/@])+)(?::(?P<port>\d{1,5}))?")
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?\.?", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*", re.ASCII)
_QUERY = re.compile(r"([?#]).+", re.DOTALL)
_MASKED = re.compile(r"(^|://)[^@/?#]*@")
_METADATA = (
    ipaddress.ip_network("169.254.0.0/16"),
    ipaddress.ip_network("fe80::/10"),
    # The same services of EC2 over IPv6: metadata, time, DNS, credentials of pods.
    ipaddress.ip_network("fd00:ec2::/32"),
)


def masked(text: str) -> str:
    """An address without its possible secrets."""
    return clean(_QUERY.sub(r"\1…", _MASKED.sub(r"\1…@", text)), 80)


def expand(text: str, fleet: Fleet) -> list[str]:
    """The addresses of one entry: a host list, with or without a port, or a URL with one in it.

    `trn-[001-016]`, `trn-001:9000`, `http://trn-[001-016]:8000/metrics`, `ssh://ada@trn-001`.

    Raises:
        UsageError: it is not valid, or not allowed.
    """
    if len(text) > MAX_LENGTH:
        raise UsageError(f"{masked(text)}: longer than {MAX_LENGTH} characters")
    if not text.isprintable() or " " in text or "\\" in text:
        raise UsageError(f"{masked(text)}: an address cannot contain blanks or control characters")
    if "://" not in text:
        match = _HOST_PORT.fullmatch(text)
        if match is None or text.lower().startswith(("javascript:", "data:", "file:")):
            raise UsageError(f"{masked(text)}: not a host list or an address")
        port = _port(match["port"], text)
        return [host_address(host, fleet, port) for host in _hosts(match["host"])]
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise UsageError(f"{masked(text)} is not an address such as http://HOST:PORT or ssh://HOST")
    scheme, user, path = match["scheme"].lower(), match["user"], match["path"] or ""
    if scheme not in ("http", "https", "ssh"):
        raise UsageError(f"{masked(text)}: only http, https and ssh are supported")
    if user is not None and (scheme != "ssh" or not _USER.fullmatch(user)):
        hint = "ssh uses your keys" if scheme == "ssh" else SECRETS
        raise UsageError(f"{masked(text)}: an address cannot contain a password; {hint}")
    if path and (not _PATH.fullmatch(path) or (scheme == "ssh" and path != "/")):
        raise UsageError(f"{masked(text)}: {clean(path, 40)} is not a valid path")
    port = _port(match["port"], text)
    port = port or (None if scheme == "ssh" else fleet.port)
    tail = f":{port}" if port else ""
    head = f"{scheme}://{f'{user}@' if user else ''}"
    return [f"{head}{host}{tail}{path.rstrip('/')}" for host in _hosts(match["host"])]


def host_address(host: str, fleet: Fleet, port: int | None = None) -> str:
    """The address of a host without one, by the setting `fleet.via`."""
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    if fleet.via == "ssh":
        return f"ssh://{host}{f':{port}' if port else ''}"
    return f"http://{host}:{port or fleet.port}"


def _port(text: str | None, whole: str) -> int | None:
    if text is None:
        return None
    if not 0 < int(text) < 65536:
        raise UsageError(f"{masked(whole)}: {text} is not a valid port")
    return int(text)


def _hosts(text: str) -> Sequence[str]:
    if ":" in text:
        return [f"[{checked_ip(text.strip('[]'))}]"]
    hosts = expand_all([text]) if "[" in text else [text]
    for host in hosts:
        checked_host(host)
    return hosts


def checked_host(host: str) -> str:
    """A host name, or an IPv4 address in the usual form.

    Raises:
        UsageError: it is not valid, or not allowed.
    """
    if len(host) > MAX_NAME or not _HOST.fullmatch(host):
        raise UsageError(f"{clean(host, 80)} is not a valid host name")
    # The resolver takes any name that ends in a number for an IPv4 address.
    if re.fullmatch(r"\d+|0[xX][0-9A-Fa-f]*", host.rstrip(".").rpartition(".")[2], re.ASCII):
        return checked_ip(host)
    return host


def checked_ip(text: str) -> str:
    """An IP address.

    Raises:
        UsageError: it is not valid, or not allowed.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise UsageError(f"{clean(text, 80)} is not a valid IP address") from None
    mapped = getattr(address, "ipv4_mapped", None) or address
    if any(mapped in network for network in _METADATA if network.version == mapped.version):
        raise UsageError(f"{clean(text, 80)}: link-local addresses are not allowed")
    if mapped.is_multicast or mapped.is_unspecified:
        raise UsageError(f"{clean(text, 80)}: not the address of a machine")
    return str(address)


def targets_of(listed: Iterable[Target]) -> list[Target]:
    """The nodes of a list, each address once, with names that are unique.

    Raises:
        UsageError: there are too many.
    """
    unique: dict[str, Target] = {}
    for target in listed:
        unique.setdefault(target.address, target)
        if len(unique) > MAX_HOSTS:
            raise UsageError(f"more than {MAX_HOSTS:,} nodes")
    by_host = named(unique)
    pairs = list(zip(unique.values(), by_host, strict=True))
    count = Counter(target.name or host.name for target, host in pairs)
    return with_unique_names(
        [
            target if count[target.name] == 1 else replace(target, name=host.name)
            for target, host in pairs
        ]
    )
