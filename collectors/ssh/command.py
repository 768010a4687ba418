"""The system's OpenSSH: its command line for a node, and its errors.

The user's configuration, keys, agent and known hosts apply. ssh never prompts, and host
keys are always checked. A shared connection of the user (ControlPath) is used. trntop does not
become the master of one, because sessions that share it would end with trntop.
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
"""Seconds between keep-alives, and how many may stay unanswered."""
FAILED = 255
"""Exit code of ssh itself; all others are the remote command's."""

_OPTIONS = (
    "BatchMode=yes",
    f"ServerAliveInterval={ALIVE_INTERVAL}",
    f"ServerAliveCountMax={ALIVE_COUNT}",
    "ControlMaster=no",
    "ClearAllForwardings=yes",
    "RemoteCommand=none",
    "LogLevel=INFO",
)
"""No prompts, no forwarding or command from the user's configuration, and readable errors."""


def arguments(address: Address, fleet: Fleet, command: str) -> list[str]:
    """The argument vector that runs `command` on a node.

    Args:
        address: the node.
        fleet: the settings with the ssh command and the connection timeout.
        command: the command for the user's login shell there. That may be any shell, so everything
            but plain words goes to the standard input of a POSIX shell instead.

    Raises:
        SettingsError: `fleet.ssh` is not a command.
    """
    try:
        ssh = shlex.split(fleet.ssh)
    except ValueError as error:
        raise SettingsError(f"fleet.ssh: {clean(fleet.ssh, 80)}: {error}") from None
    if not ssh:
        raise SettingsError("fleet.ssh: the command is empty")
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
    """The environment of ssh: the user's, with messages in English and without askpass.

    Start ssh in its own session as well: BatchMode does not apply to the ssh of a jump host, which
    would prompt on the terminal.
    """
    return {**environ, "LC_ALL": "C", "SSH_ASKPASS_REQUIRE": "never"}


class Failure(NamedTuple):
    """Why ssh ended."""

    reason: str
    permanent: bool = False
    """Whether it fails until the user acts."""
    seconds_up: float = 0.0
    """Seconds for which the node responded."""


_FAILURES = tuple(
    (re.compile(pattern, re.IGNORECASE), Failure(reason, *permanent))
    for pattern, reason, *permanent in (
        (
            r"REMOTE HOST IDENTIFICATION HAS CHANGED",
            "its host key has changed: if you replaced the machine, run ssh-keygen -R {host}",
            True,
        ),
        (
            r"Host key verification failed|host key is known for .* requested strict checking",
            "its host key is not known: connect once manually (ssh {host}), or add it to"
            " known_hosts",
            True,
        ),
        (r"Could not resolve hostname (?P<what>[^:]+)", "host name {what} does not resolve"),
        (r"(?P<what>\S+ port \d+): Connection refused", "connection refused by {what}"),
        (r"(Connection|Operation) timed out", "no response from its SSH port in time"),
        (r"No route to host|Network is unreachable", "no route to it"),
        (
            r"Permission denied \((?P<what>[^)]*)\)",
            "permission denied ({what}): it accepts none of your keys; ssh-add -l lists them",
            True,
        ),
        (r"(?P<what>Too many authentication failures)", "{what}: set IdentityFile", True),
        (r"open failed: (?P<what>.*)", "the jump host cannot reach it: {what}"),
        (
            r"kex_exchange_identification: .*(closed|reset)",
            "it closed the connection immediately: too many connections, or access denied",
        ),
        (r"Unable to negotiate .*: (?P<what>no matching .*?)(\. Their|$)", "{what}", True),
        (
            r"(?P<what>.*Bad configuration option.*)",
            "the ssh configuration is invalid: {what}",
            True,
        ),
        (r"Timeout, server .* not responding", "it stopped responding"),
        (r"(?P<what>.*\bsh: .*not found.*)", "it has no POSIX shell: {what}", True),
        (
            r"closed by remote host|Connection reset|Broken pipe|Connection (closed|to .* closed)",
            "the connection was closed",
        ),
    )
)
"""Errors of ssh, the causes before their consequences."""


def diagnose(lines: Iterable[str], code: int, address: Address) -> Failure:
    """Why ssh ended.

    Args:
        lines: its standard error, cleaned.
        code: its exit code; negative for a signal.
        address: the node.
    """
    errors = [line.strip() for line in lines if line.strip()]
    for pattern, failure in _FAILURES:
        for line in errors:
            if match := pattern.search(line):
                what = match.groupdict().get("what", "")
                reason = failure.reason.format(host=address.host, what=what)
                return Failure(reason, failure.permanent)
    last = f": {errors[-1]}" if errors else ""
    if code == FAILED:
        return Failure(f"ssh failed{last}")
    how = f"ended by signal {-code}" if code < 0 else f"exited with code {code}"
    return Failure(f"{'ssh' if code < 0 else 'the shell there'} {how}{last}")
