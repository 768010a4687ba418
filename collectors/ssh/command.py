"""The system's OpenSSH: how it is called for a node, and what its complaints mean.

The user's configuration, keys, agent and known hosts count as they are. Nothing here can ask a
question, and no check of a host's key is ever loosened. A connection that the user shares
(ControlPath) is used where there is one; trntop does not become the master of one, because what
others run over it would end with trntop.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trntop.core.errors import SettingsError
from trntop.core.settings import Fleet
from trntop.core.text import clean

from .address import Address

ALIVE_INTERVAL = 5
ALIVE_COUNT = 3
"""Seconds between questions to a server that is silent, and how many may stay unanswered."""
FAILED = 255
"""What ssh itself exits with; anything else is the remote command's."""

_OPTIONS = (
    "BatchMode=yes",
    f"ServerAliveInterval={ALIVE_INTERVAL}",
    f"ServerAliveCountMax={ALIVE_COUNT}",
    "ControlMaster=no",
    "ClearAllForwardings=yes",
    "RemoteCommand=none",
    "LogLevel=INFO",
)
"""No question; no forwarding and no command of the user's configuration that stands in the way;
and complaints that can be read.
"""


def arguments(address: Address, fleet: Fleet, command: str) -> list[str]:
    """The argument vector that runs `command` on a node.

    Args:
        address: the node.
        fleet: settings: ssh's own command, and how long a connection may take.
        command: what the user's login shell there is given; it may be any shell, so what is more
            than words of plain letters goes to a POSIX shell's standard input instead.

    Raises:
        SettingsError: `fleet.ssh` is no command.
    """
    try:
        ssh = shlex.split(fleet.ssh)
    except ValueError as error:
        raise SettingsError(f"fleet.ssh: {clean(fleet.ssh, 80)}: {error}") from None
    if not ssh:
        raise SettingsError("fleet.ssh: names no program")
    options = (*_OPTIONS, f"ConnectTimeout={max(1, round(fleet.connect))}")
    return [
        *ssh,
        *("-T", "-a", "-x"),  # no terminal, agent or display for the node
        *(word for option in options for word in ("-o", option)),
        *(("-l", address.user) if address.user else ()),
        *(("-p", str(address.port)) if address.port is not None else ()),
        *("--", address.host, command),
    ]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of ssh: the user's, with messages in English and no window that asks.

    Start it in a session of its own as well: a jump host's ssh, which knows nothing of
    BatchMode, would ask on the terminal.
    """
    return {**environ, "LC_ALL": "C", "SSH_ASKPASS_REQUIRE": "never"}


class _Meaning(NamedTuple):
    pattern: re.Pattern[str]
    words: str
    lasting: bool = False
    """Whether a person has to act before it can work."""


_MEANINGS = tuple(
    _Meaning(re.compile(pattern, re.IGNORECASE), words, *lasting)
    for pattern, words, *lasting in (
        (
            r"REMOTE HOST IDENTIFICATION HAS CHANGED",
            "its host key has changed: another machine answers, or it was set up anew; if that is"
            " right, ssh-keygen -R {host}",
            True,
        ),
        (r"host key .*revoked", "its host key is revoked", True),
        (
            r"Host key verification failed|host key is known for .* requested strict checking",
            "its host key is not known: connect once by hand (ssh {host}), or add it to"
            " known_hosts",
            True,
        ),
        (r"Could not resolve hostname (?P<what>[^:]+)", "the name {what} is not known"),
        (
            r"connect to host (?P<what>\S+ port \d+): Connection refused",
            "connection refused by {what}",
        ),
        (
            r"timed out during banner exchange|banner exchange.*timed out",
            "its port is open, but nobody speaks SSH there in time",
        ),
        (r"Connection timed out|Operation timed out", "no answer from its SSH port in time"),
        (r"No route to host|Network is unreachable", "no route to it"),
        (
            r"Permission denied \((?P<what>[^)]*)\)",
            "permission denied ({what}): none of your keys is accepted there; look at ssh-add -l",
            True,
        ),
        (
            r"Too many authentication failures",
            "too many keys were tried: name the right one with IdentityFile and IdentitiesOnly",
            True,
        ),
        (
            r"banner exchange: .*invalid format|invalid format.*banner",
            "what listens there is no SSH server",
        ),
        (
            r"open failed: (?P<what>.*)|stdio forwarding failed",
            "the jump host cannot reach it, or may not: {what}",
        ),
        (
            r"kex_exchange_identification: .*(closed|reset)",
            "closed the connection before it began: too many at once (MaxStartups), or not let in",
        ),
        (r"Unable to negotiate .*: (?P<what>no matching .*?)(\. Their|$)", "{what}", True),
        (
            r"Bad configuration option|bad configuration options|Can't open user config file",
            "the configuration of ssh is wrong: {0}",
            True,
        ),
        (r"Timeout, server .* not responding", "it stopped answering"),
        (r"\bsh: .*(not found|No such file)|\bsh: not found", "it has no POSIX shell: {0}", True),
        (r"account .*not available|nologin", "this account may not log in there: {0}", True),
        (
            r"closed by remote host|Connection reset|Broken pipe|Connection closed by|"
            r"Connection to .* closed",
            "the connection was closed",
        ),
    )
)
"""What ssh says, the causes before their consequences."""


class Failure(NamedTuple):
    """Why ssh ended."""

    reason: str
    lasting: bool
    """Whether a person has to act before it can work."""


def why(lines: Iterable[str], code: int, address: Address) -> Failure:
    """Why ssh ended, in words.

    Args:
        lines: what it said on standard error, cleaned.
        code: what it exited with; negative for a signal.
        address: the node.
    """
    said = [line.strip() for line in lines if line.strip()]
    for meaning in _MEANINGS:
        for line in said:
            if match := meaning.pattern.search(line):
                what = match.groupdict().get("what", "")
                words = meaning.words.format(line, host=address.host, what=what)
                return Failure(words, meaning.lasting)
    last = f": {said[-1]}" if said else ""
    if code < 0:
        return Failure(f"ssh was ended by signal {-code}{last}", lasting=False)
    if code == FAILED:
        return Failure(f"ssh failed{last}", lasting=False)
    return Failure(f"the shell there exited with code {code}{last}", lasting=False)
