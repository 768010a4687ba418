"""Nodes that need no agent: this machine, and nodes over ssh, with their own tools.

Over ssh each command is a connection, whose end ends the command: a probe that is cancelled, or a
trntop that is killed, leaves nothing running on the node.
"""

import os
import shlex
from collections.abc import Sequence

from msgspec import structs

from trntop.check.model import (
    Inspection,
    ProbeServer,
    ProbeSpec,
    RefusedError,
    UnreachableError,
)
from trntop.core.settings import Settings
from trntop.core.text import clean

from ..fleet.target import Target
from ..probes.prober import Prober
from ..probes.process import run
from ..probes.turns import Turns
from ..ssh import command, script
from ..ssh.address import parse
from . import inspection
from .inspection import IncompleteError, Shell

LONGEST = 330
"""Seconds after which a tool ends on a node whose connection was lost without notice."""
NAME_SECONDS = 5.0
"""For ssh to print its configuration, without a connection."""
MAX_SENTENCE = 300
"""Longest error of a node that is passed on."""

# The tool ends with the connection: a blank line per second cannot be written any more. The parsers
# ignore blank lines. Single quotes, backslashes and line breaks are avoided: the login shell may be
# another one.
_GUARD = (
    f'timeout -k 1 {LONGEST} "$@" & tool=$! ; '
    '(trap "" PIPE; while sleep 1 >/dev/null; do echo || kill $tool; done) 2>/dev/null & '
    "watch=$! ; wait $tool; code=$? ; kill $watch; exit $code"
)


class LocalHost(Prober):
    """This machine.

    Args:
        settings: where its files and programs are.
        name: of the node.
        turns: shared with all other probers on this machine.
        simulated: whether its files are simulated.
    """

    def __init__(
        self, settings: Settings, name: str, turns: Turns | None = None, *, simulated: bool = False
    ) -> None:
        super().__init__(name, turns=turns)
        self._settings = settings
        self._simulated = simulated

    async def inspect(self) -> Inspection:
        """Inspects this machine.

        Raises:
            UnreachableError: the shell cannot be run, or ends too early.
        """
        shell = Shell(["sh", "-s"], os.environ)
        try:
            return await inspection.inspect(
                self.name, shell, self._settings.collect, simulated=self._simulated
            )
        except IncompleteError as error:
            last = next((line for line in reversed(error.errors) if line.strip()), "")
            text = f"the inspection ended with code {error.ended.code}{last and f': {last}'}"
            raise UnreachableError(clean(text, MAX_SENTENCE)) from error


class SshHost(Prober):
    """One node over ssh.

    Args:
        target: its name and `ssh://` address.
        settings: in force.

    Raises:
        UsageError: the address is not valid.
        SettingsError: `fleet.ssh` is not a command.
    """

    def __init__(self, target: Target, settings: Settings) -> None:
        super().__init__(target.name, self._over_ssh, ())
        self._address = parse(target.address)
        self._settings = settings
        self._shell = Shell(self._command(script.SHELL), command.environment(os.environ))

    def _command(self, text: str) -> list[str]:
        return command.arguments(self._address, self._settings.fleet, text)

    def _over_ssh(self, argv: Sequence[str]) -> list[str]:
        """Runs a command on the node, and ends it when the connection ends."""
        words = " ".join(map(shlex.quote, argv))
        # Probes start in the environment of trntop itself.
        own = [f"{name}={self._shell.environ[name]}" for name in ("LC_ALL", "SSH_ASKPASS_REQUIRE")]
        return ["env", *own, *self._command(f"exec sh -c '{_GUARD}' sh {words}")]

    async def inspect(self) -> Inspection:
        """Inspects the node.

        Raises:
            RefusedError: it needs an action by the user, such as a key.
            UnreachableError: it does not respond.
        """
        try:
            return await inspection.inspect(self.name, self._shell, self._settings.collect)
        except IncompleteError as error:
            failure = command.diagnose(error.errors, error.ended.code or 0, self._address)
            kind = RefusedError if failure.permanent else UnreachableError
            raise kind(clean(failure.reason, MAX_SENTENCE)) from error

    async def serve(self, spec: ProbeSpec) -> ProbeServer:
        """Starts the server side of a probe, see `Prober.serve`."""
        address = await self._host_name()
        return structs.replace(await super().serve(spec), address=address)

    async def _host_name(self) -> str:
        """The `HostName` of an alias of the user's configuration, which other nodes can reach."""
        *ssh, _, host, _ = self._command("")
        try:
            ended = await run(["env", "LC_ALL=C", *ssh, "-G", host], NAME_SECONDS)
        except OSError:
            return ""
        lines = (line.split() for line in ended.out.splitlines())
        return next((words[1] for words in lines if words[:1] == ["hostname"] and words[1:]), "")
