"""Named nodes: `http://trn-[001-016]:10042`, `trn-[001-016]`, `ssh://ada@trn-[001-016]`."""

import re

from trntop.core.errors import UsageError
from trntop.core.settings import Fleet, Settings
from trntop.core.source_spec import Source
from trntop.core.text import clean
from trntop.session.collector import Collector

from . import connection
from .addresses import SECRETS, expand, masked
from .target import Target, named
from .watch import Listed, Watch

_URL = re.compile(r"(?:(https?|ssh)://)?([^/]*)(/.*)?", re.IGNORECASE | re.DOTALL)
_SEPARATOR = re.compile(r"[\s,]+(?![^\[]*\])")


def collectors(source: Source, settings: Settings) -> list[Collector]:
    """The collector of an AGENT source.

    Raises:
        UsageError: the source is not valid.
        SettingsError: a file of the settings cannot be used.
    """
    connection.check(settings.fleet)
    return [Watch(Listed(clean(source.text), targets(source.text, settings.fleet)), settings)]


def targets(text: str, fleet: Fleet) -> list[Target]:
    """The nodes of a URL or a host list; scheme and path apply to all hosts.

    Raises:
        UsageError: it is not valid, or contains a password.
    """
    match = _URL.fullmatch(text.strip())
    assert match is not None
    scheme, path = (match[1] or "http").lower(), match[3] or ""
    if "@" in text and scheme != "ssh":
        raise UsageError(f"{masked(text)}: an address cannot contain a password; {SECRETS}")
    addresses = []
    for pattern in _SEPARATOR.split(match[2]):
        addresses += expand(f"{scheme}://{pattern}{path}", fleet)
    return named(addresses)
