"""A node under check on which nothing of trntop is installed: its own tools, run from here.

They are run through a command of this machine, ssh or srun, whose end ends them: a probe that is
given up, or a trntop that is killed, leaves nothing running on the node.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import structs

from trntop.check.model import (
    Inspection,
    ProbeError,
    ProbeSpec,
    RefusedError,
    Served,
    UnreachableError,
)
from trntop.core.settings import Settings
from trntop.core.text import clean

from ..fleet.target import Target
from ..probes.prober import Prober
from ..probes.process import run
from ..ssh import command, script
from ..ssh.address import Address, parse
from .look import look

LONGEST = 330
"""Seconds after which a tool ends on a node whose connection went without a word."""
NAME_SECONDS = 5.0
"""For ssh to say where it goes, which asks nobody."""
MAX_SENTENCE = 300
"""Longest sentence of a node that is passed on."""

# What ends the tool when the connection is gone is the blank line a second that cannot be written
# any more; what is printed has blank lines then, which no parser here minds. Single quotes,
# backslashes and line breaks are left out: the login shell may be another one.
_GUARD = (
    f'timeout -k 1 {LONGEST} "$@" & tool=$! ; '
    '(trap "" PIPE; while sleep 1 >/dev/null; do echo || kill $tool; done) 2>/dev/null & '
    "watch=$! ; wait $tool; code=$? ; kill $watch; exit $code"
)


class Way(Protocol):
    """How commands get to a node."""

    def wrapped(self, argv: Sequence[str]) -> list[str]:
        """What runs a command there, and ends it when it is ended itself."""
        ...

    @property
    def shell(self) -> list[str]:
        """What runs a POSIX shell there that reads a script from its standard input."""
        ...

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment for both."""
        ...

    def why(self, said: Sequence[str], code: int) -> ProbeError:
        """Why it ended without an answer."""
        ...

    async def address(self) -> str:
        """What other nodes reach this one by; empty for its name."""
        ...


class Ssh:
    """Over ssh.

    Args:
        address: the node.
        settings: how ssh is called.
    """

    def __init__(self, address: Address, settings: Settings) -> None:
        self._address = address
        self._fleet = settings.fleet
        self.shell = command.arguments(address, settings.fleet, script.SHELL)
        self.environ = command.environment(os.environ)

    def wrapped(self, argv: Sequence[str]) -> list[str]:
        """See `Way`."""
        words = " ".join(map(shlex.quote, argv))
        order = f"exec sh -c '{_GUARD}' sh {words}"
        # Probes are started in the environment of trntop itself.
        own = [f"{name}={self.environ[name]}" for name in ("LC_ALL", "SSH_ASKPASS_REQUIRE")]
        return ["env", *own, *command.arguments(self._address, self._fleet, order)]

    def why(self, said: Sequence[str], code: int) -> ProbeError:
        """See `Way`; what waiting does not mend, such as a key, is a refusal."""
        failure = command.why(said, code, self._address)
        kind = RefusedError if failure.lasting else UnreachableError
        return kind(clean(failure.reason, MAX_SENTENCE))

    async def address(self) -> str:
        """The host behind an alias of the user's configuration."""
        *ssh, _, host, _ = command.arguments(self._address, self._fleet, "")
        try:
            ended = await run(["env", "LC_ALL=C", *ssh, "-G", host], NAME_SECONDS)
        except OSError:
            return ""
        told = (line.split() for line in ended.out.splitlines())
        return next((words[1] for words in told if words[:1] == ["hostname"] and words[1:]), "")


class Srun:
    """As a step of the Slurm job in which trntop runs, beside the job's own steps.

    Args:
        node: as Slurm calls it.
        job: the job's id.
    """

    def __init__(self, node: str, job: str) -> None:
        self._step = [
            *("srun", f"--jobid={job}", f"--nodelist={node}", "--nodes=1", "--ntasks=1"),
            *("--overlap", "--quiet", "--unbuffered"),
        ]
        self.shell = [*self._step, "sh", "-s"]
        self.environ = os.environ

    def wrapped(self, argv: Sequence[str]) -> list[str]:
        """See `Way`; Slurm ends the step when srun ends."""
        return [*self._step, "--input=none", "timeout", "-k", "1", str(LONGEST), *argv]

    def why(self, said: Sequence[str], code: int) -> ProbeError:
        """See `Way`."""
        last = next((line for line in reversed(said) if line.strip()), "")
        text = f"srun ended with code {code}{last and f': {last}'}"
        return UnreachableError(clean(text, MAX_SENTENCE))

    async def address(self) -> str:
        """Slurm's own name of a node is one that others know."""
        return ""


class RemoteHost(Prober):
    """One node, reached by a command of this machine.

    Args:
        name: what the node is called.
        way: how commands get there.
        settings: in force.
        facts: what is known of the node from elsewhere.
    """

    def __init__(
        self, name: str, way: Way, settings: Settings, facts: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(name, way.wrapped, ())
        self._way = way
        self._settings = settings
        self._facts = facts or {}

    async def inspect(self) -> Inspection:
        """Looks at the node.

        Raises:
            RefusedError: it lets nobody in who comes like this.
            UnreachableError: it does not answer, or not what it should.
        """
        way = self._way
        seen, code, said = await look(self.name, way.shell, way.environ, self._settings.collect)
        if seen is None:
            raise way.why(said, code)
        return structs.replace(seen, facts={**self._facts, **seen.facts})

    async def serve(self, spec: ProbeSpec, asker: str = "") -> Served:
        """Starts the server side of a probe, see `Prober.serve`."""
        address = await self._way.address()
        return structs.replace(await super().serve(spec, asker), address=address)


def over_ssh(target: Target, settings: Settings) -> RemoteHost:
    """The node of an `ssh://` address.

    Raises:
        UsageError: it is none.
        SettingsError: `fleet.ssh` is no command.
    """
    (address,) = parse(target.address)
    return RemoteHost(target.name, Ssh(address, settings), settings, target.facts)


def through_srun(node: str, job: str, settings: Settings) -> RemoteHost:
    """A node of the Slurm job in which trntop runs."""
    return RemoteHost(node, Srun(node, job), settings)
