"""neuron-ls: runs it now and then; on this machine, or where a runner says."""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from trntop.catalog import NEURON_LS
from trntop.core.errors import DecodeError
from trntop.core.model import Reading, State, Status
from trntop.core.text import clean
from trntop.session.collector import Examination, Sink
from trntop.sources import neuron_ls

from .child import Child, obituary
from .executable import NotRunnableError, locate
from .local_source import LocalSource

PERIOD = 60.0
RECHECK = 300.0
"""Seconds between looks for a program that cannot be run."""
DEADLINE = 10.0
"""Seconds that one run may take."""
GRACE = 0.2
"""Seconds a process gets to end by itself when nobody waits for it any more."""
MAX_BYTES = 4 << 20
"""Longest output taken."""
FORMS = (("-j", "-a"), ("--output-format", "json", "-a"), ("--output-format", "json"))
"""How JSON on all processes is asked for: up to Neuron SDK 2.33, and from 2.34 on."""
DRIVER_REMEDY = "install aws-neuronx-dkms and load the driver: modprobe neuron"
UPDATE = "update aws-neuronx-tools"

_REFUSED = re.compile(
    rb"unknown.{0,20} flag|unknown option|unrecognized|not defined", re.IGNORECASE
)
_MESSAGE = re.compile(r'\bmsg="([^"]*)"')
"""The message in a line of logfmt, as which neuron-ls complains."""


class FailedError(Exception):
    """neuron-ls gave nothing that can be used; the text says why."""


def too_long() -> FailedError:
    """It wrote more than is taken."""
    return FailedError(f"neuron-ls wrote more than {MAX_BYTES >> 20} MiB")


class _Output:
    """What a process writes, up to a limit."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.full: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes; past the limit they are dropped."""
        if len(self.data) + len(chunk) <= MAX_BYTES:
            self.data += chunk
        elif not self.full.done():
            self.full.set_result(None)


class Answer(NamedTuple):
    """What one run of neuron-ls gave."""

    code: int
    """What it exited with; negative for a signal."""
    output: bytes
    said: str
    """The last line of its complaints, cleaned."""


class Runner(Protocol):
    """Runs neuron-ls."""

    async def run(self, arguments: Sequence[str]) -> Answer:
        """One run.

        Raises:
            NotRunnableError: it is not installed.
            FailedError: it hangs, or writes without end.
            OSError: it cannot be executed.
        """
        ...


class LocalRunner:
    """Runs neuron-ls on this machine.

    Args:
        command: neuron-ls's name, path, or argument list.
        deadline: seconds that one run may take.
    """

    def __init__(
        self, command: str | Sequence[str] = "neuron-ls", deadline: float = DEADLINE
    ) -> None:
        self._command = command
        self._deadline = deadline

    async def run(self, arguments: Sequence[str]) -> Answer:
        """See `Runner`."""
        output = _Output()
        child = await Child.start([*locate(self._command), *arguments], output.feed)
        either: list[asyncio.Future[Any]] = [child.ended, output.full]
        try:
            await asyncio.wait(either, timeout=self._deadline, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = child.ended.done()
            await child.end(GRACE)
        if output.full.done():
            raise too_long()
        if not ended:
            raise FailedError(f"neuron-ls did not answer within {self._deadline:g} s")
        return Answer(child.ended.result(), bytes(output.data), child.errors.text())


class Lister:
    """Asks neuron-ls for its JSON, in the form that this version understands.

    Args:
        command: neuron-ls's name, path, or argument list.
        deadline: seconds that one run may take.
        runner: runs it, if not on this machine.
    """

    def __init__(
        self,
        command: str | Sequence[str] = "neuron-ls",
        deadline: float = DEADLINE,
        runner: Runner | None = None,
    ) -> None:
        self._runner = runner or LocalRunner(command, deadline)
        self._forms: tuple[tuple[str, ...], ...] = FORMS

    async def ask(self) -> bytes:
        """What neuron-ls writes, as it is.

        Raises:
            NotRunnableError: it is not installed.
            FailedError: it fails, hangs, or writes something else.
            OSError: it cannot be executed.
        """
        while self._forms:
            answer = _judge(await self._runner.run(self._forms[0]))
            if answer is not None:
                return answer
            self._forms = self._forms[1:]
        self._forms = FORMS  # another version may be installed by the next time
        raise FailedError(f"neuron-ls knows neither -j nor --output-format json; {UPDATE}")


def _judge(answer: Answer) -> bytes | None:
    """The JSON in an answer, None when neuron-ls does not know these arguments."""
    code, output, said = answer
    if code:
        if _REFUSED.search(output[:1024]) or _REFUSED.search(said.encode()):
            return None
        message = _MESSAGE.search(said)
        reason = message[1] if message else said
        raise FailedError(f"neuron-ls {obituary(code)}{f': {reason}' if reason else ''}")
    if not output.lstrip().startswith((b"[", b"{")):
        first = clean(output[:160].decode(errors="replace").strip().partition("\n")[0])
        raise FailedError(f"neuron-ls wrote no JSON: {first}" if first else "neuron-ls was silent")
    return without_arguments(output)


def without_arguments(output: bytes) -> bytes:
    """neuron-ls's output with each command cut to program and script.

    Arguments may hold secrets, and payloads are recorded.

    Raises:
        FailedError: it is no JSON.
    """
    try:
        tree = msgspec.json.decode(output.decode(errors="replace"))
        _cut_commands(tree)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FailedError(f"neuron-ls wrote no JSON: {error}") from None
    return msgspec.json.encode(tree)


def _cut_commands(tree: Any) -> None:
    for value in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(value, dict | list):
            _cut_commands(value)
    if isinstance(tree, dict) and isinstance(command := tree.get("command"), str):
        tree["command"] = neuron_ls.title(command)


class NeuronLs:
    """The collector that runs neuron-ls each `period` seconds.

    Args:
        node: name of the machine.
        command: neuron-ls's name, path, or argument list.
        period: seconds between runs.
        deadline: seconds that one run may take.
        recheck: seconds between looks for a program that cannot be run.
        runner: runs it, if not on this machine.
    """

    source = NEURON_LS

    def __init__(
        self,
        node: str,
        command: str | Sequence[str] = "neuron-ls",
        period: float = PERIOD,
        *,
        deadline: float = DEADLINE,
        recheck: float = RECHECK,
        runner: Runner | None = None,
    ) -> None:
        self.node = node
        self._lister = Lister(command, deadline, runner)
        self._period = period
        self._recheck = recheck
        self._counts = Counter(runs=0, failures=0)

    async def run(self, sink: Sink) -> None:
        """Runs neuron-ls until cancelled, then ends what still runs of it."""
        loop = asyncio.get_running_loop()
        self._say(sink, State.STARTING, "asking neuron-ls")
        while True:
            started = loop.time()
            wait = await self._turn(sink)
            await asyncio.sleep(started + wait - loop.time())

    async def _turn(self, sink: Sink) -> float:
        """One run; seconds from its start to the next."""
        try:
            payload = await self._lister.ask()
        except (NotRunnableError, OSError) as error:
            self._say(sink, State.DOWN, getattr(error, "strerror", None) or str(error))
            return self._recheck
        except FailedError as error:
            self._counts["runs"] += 1
            self._counts["failures"] += 1
            self._say(sink, State.DOWN, str(error))
            return self._period
        self._counts["runs"] += 1
        sink.reading(Reading(self.node, self.source, sink.now(), payload))
        self._say(sink, State.FRESH)
        return self._period

    def _say(self, sink: Sink, state: State, reason: str = "") -> None:
        sink.status(Status(self.node, self.source, state, reason, dict(self._counts)))


def examine(
    command: str | Sequence[str] = "neuron-ls", *, deadline: float = DEADLINE
) -> Examination:
    """Runs neuron-ls once; takes `deadline` + 0.5 s at most for each form of its arguments.

    Args:
        command: neuron-ls's name, path, or argument list.
        deadline: seconds that one run may take.
    """
    try:
        sample = neuron_ls.decode(asyncio.run(Lister(command, deadline).ask()))
    except NotRunnableError as error:
        return Examination(NEURON_LS, False, error.found, error.remedy)
    except (FailedError, DecodeError, OSError) as error:
        return Examination(NEURON_LS, False, str(error), DRIVER_REMEDY)
    if sample.unusable:
        return Examination(NEURON_LS, False, sample.unusable, DRIVER_REMEDY)
    devices, processes = sample.facts["device_links"], sample.facts["processes"]
    kind = sample.facts["facts"].get("instance_type", "unknown instance type")
    found = f"{kind}; Neuron devices: {len(devices)}; processes that hold them: {len(processes)}"
    return Examination(NEURON_LS, True, found)


LOCAL = LocalSource(
    lambda context: NeuronLs(context.node, context.settings.neuron_ls),
    lambda settings: examine(settings.neuron_ls),
)
