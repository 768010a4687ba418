"""A look at a node on which nothing is installed: one script, whose answer the readers of this
machine read.
"""

import asyncio
import contextlib
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, cast

from trntop.check.model import Inspection, UnreachableError
from trntop.core.errors import DecodeError
from trntop.core.settings import Collect
from trntop.core.text import clean
from trntop.sources import neuron_ls

from .. import inspection
from ..child import STDIN, Child, LastLine
from ..inspection import Part
from ..neuron_ls import FORMS, FailedError, without_arguments
from ..probes.prober import FOLDERS
from ..ssh import script
from ..ssh.dump import Dump

SECONDS = 20.0
"""How long a look may take."""
PROGRAM_SECONDS = 5
"""How long each program gets that it runs."""
MAX_BYTES = 16 << 20
"""Longest answer that is taken."""
GRACE = 0.5
"""Seconds between asking a shell to end and killing it."""
VARIABLES = "FI|RDMAV|NEURON_RT|OFI_NCCL|NCCL|CCOM"

Parts = Mapping[str, bytes]


async def look(
    node: str, argv: Sequence[str], environ: Mapping[str, str], settings: Collect
) -> tuple[Inspection | None, int, list[str]]:
    """Looks at a node.

    Args:
        node: its name.
        argv: runs a POSIX shell there, which reads a script from its standard input.
        environ: the environment of that.
        settings: where the node's files are.

    Returns:
        What was found, None where the script did not come to its end; what `argv` ended with; and
        what it said on standard error.

    Raises:
        UnreachableError: it takes too long, says too much, or cannot be run.
    """
    tag = f"@{secrets.token_hex(8)}"
    shell = await _run(argv, environ, _script(tag, settings))
    parts = _parts(bytes(shell.out), tag.encode())
    seen = _inspection(node, parts, settings) if "end" in parts else None
    return seen, shell.ended.result(), shell.errors.sentences


def _script(tag: str, settings: Collect) -> str:
    """The script, its parameters set."""
    folder = resources.files(__package__)
    asked = [
        f"command -v {argv[0]} >/dev/null && part said.{name} && "
        f"timeout {PROGRAM_SECONDS} {shlex.join(argv)} 2>/dev/null"
        for name, argv in inspection.COMMANDS.items()
    ]
    asked += [f"command -v {tool} >/dev/null && part tool.{tool}" for tool in inspection.TOOLS]
    lister = shlex.quote(settings.neuron_ls)
    listed = " ||\n".join(
        f"timeout {PROGRAM_SECONDS} {lister} {shlex.join(form)} 2>/dev/null" for form in FORMS
    )
    parameters = {"jobs": settings.job_mapping, "path": ":".join(FOLDERS), "variables": VARIABLES}
    return "".join(
        (
            # Its functions, and not the last line, which begins to wait for requests.
            script.text(tag, settings).rstrip().removesuffix("main"),
            *(f"{name}={shlex.quote(value)}\n" for name, value in parameters.items()),
            "programs() {\n" + "\n".join(asked) + "\n}\n",
            "list() {\ncommand -v " + lister + " >/dev/null || return 0\n" + listed + "\n}\n",
            folder.joinpath("look.sh").read_text(),
        )
    )


class _Said(LastLine):
    """The end of what it said on standard error."""

    @property
    def sentences(self) -> list[str]:
        return [clean(line, 300) for line in self._tail.decode(errors="replace").split("\n")]


class _Shell(Child):
    """A shell that is sent a script; its answer is kept up to a limit."""

    def __init__(self) -> None:
        super().__init__(self._keep)
        self.errors: _Said = _Said()
        self.out = bytearray()
        self.full: asyncio.Future[None] = self._loop.create_future()

    def _keep(self, chunk: bytes) -> None:
        if len(self.out) + len(chunk) <= MAX_BYTES:
            self.out += chunk
        elif not self.full.done():
            self.full.set_result(None)

    def send(self, text: str) -> None:
        """Sends the script, which ends there."""
        pipe = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(STDIN))
        pipe.write(text.encode())
        pipe.write_eof()


async def _run(argv: Sequence[str], environ: Mapping[str, str], text: str) -> _Shell:
    """Runs a shell with a script to its end.

    Raises:
        UnreachableError: it takes too long, says too much, or cannot be run.
    """
    pipe = asyncio.subprocess.PIPE
    try:
        _, shell = await asyncio.get_running_loop().subprocess_exec(
            _Shell,
            *argv,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
            env=environ,
        )
    except OSError as error:
        raise UnreachableError(f"{argv[0]}: {error.strerror}") from error
    either: list[asyncio.Future[Any]] = [shell.ended, shell.full]
    try:
        shell.send(text)
        await asyncio.wait(either, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended = shell.ended.done()
        await shell.end(GRACE)
    if shell.full.done():
        raise UnreachableError(f"it says more than {MAX_BYTES >> 20} MiB")
    if not ended:
        raise UnreachableError(f"no answer within {SECONDS:g} s")
    return shell


def _parts(out: bytes, tag: bytes) -> dict[str, bytes]:
    """The parts of an answer by name; greetings of a login shell stand before the first."""
    parts = {}
    for piece in out.split(b"\n" + tag + b" ")[1:]:
        name, _, body = piece.partition(b"\n")
        parts[name.decode(errors="replace")] = body
    return parts


def _inspection(node: str, parts: Parts, settings: Collect) -> Inspection:
    files = _dump(parts, "files")
    said = {
        name.removeprefix("said."): body.decode(errors="replace")
        for name, body in parts.items()
        if name.startswith("said.")
    }
    tools = [name.removeprefix("tool.") for name in parts if name.startswith("tool.")]
    own = (
        line.partition("=") for line in parts["environment"].decode(errors="replace").split("\n")
    )
    return inspection.assembled(
        node,
        _time(parts),
        (
            inspection.cards(_dump(parts, "cards")),
            inspection.devices(_dump(parts, "devices")),
            inspection.small_files(files),
            inspection.environment(files, {name: value for name, _, value in own if name}),
            inspection.versions(said, tools),
            _busy(parts, files, settings.job_mapping.strip("/")),
        ),
    )


def _dump(parts: Parts, name: str) -> Dump:
    dump = Dump()
    dump.take(parts[name])
    return dump


def _time(parts: Parts) -> float:
    """The node's clock; busybox knows no nanoseconds and leaves them as they were asked for."""
    seconds, _, rest = parts["time"].decode(errors="replace").strip().partition(".")
    try:
        return float(f"{seconds}.{rest if rest.isdigit() else 0}")
    except ValueError:
        return time.time()


def _busy(parts: Parts, files: Dump, jobs: str) -> Part:
    """Who works on the devices: by the scheduler's word, and by neuron-ls."""
    found: list[str] = []
    problems = []
    known = False
    with contextlib.suppress(OSError):
        for entry in files.entries(jobs):
            text = files.read(f"{jobs}/{entry.name}").decode(errors="replace")
            found += [f"job {clean(line.strip(), 64)}" for line in text.split("\n") if line.strip()]
        known = True
    if listed := parts["list"].strip():
        try:
            sample = neuron_ls.decode(without_arguments(listed))
            holders = {process.pid: process for process in sample.facts.get("processes", ())}
            found += [f"{one.command or 'a process'} (pid {pid})" for pid, one in holders.items()]
            known = True
        except (FailedError, DecodeError) as error:
            problems.append(f"processes on the Neuron devices: {clean(str(error))}")
    else:
        problems.append("processes on the Neuron devices: neuron-ls is missing or prints nothing")
    busy = list(dict.fromkeys(found))[: inspection.MAX_BUSY]
    return {"busy": busy if known else None, "problems": problems}
