"""neuron-ls, run at an interval."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from trntop.catalog import NEURON_LS
from trntop.core.errors import DecodeError
from trntop.core.model import Reading, State, Status
from trntop.core.text import clean
from trntop.session.collector import Examination, Sink
from trntop.sources import neuron_ls

from .child import Output, OutputError, exit_reason, output
from .executable import NotRunnableError, locate
from .local_source import LocalSource

PERIOD = 60.0
RETRY_INTERVAL = 300.0
"""Seconds between attempts to run a missing program."""
DEADLINE = 10.0
"""Seconds for one run."""
FORMS = (("-j", "-a"), ("--output-format", "json", "-a"), ("--output-format", "json"))
"""Arguments for JSON about all processes: up to Neuron SDK 2.33, and since 2.34."""
DRIVER_REMEDY = "install aws-neuronx-dkms and load the driver: modprobe neuron"
UPDATE = "update aws-neuronx-tools"

_REFUSED = re.compile(
    rb"unknown.{0,20} flag|unknown option|unrecognized|not defined", re.IGNORECASE
)
_MESSAGE = re.compile(r'\bmsg="([^"]*)"')
"""The message in an error line of neuron-ls (logfmt)."""


class FailedError(Exception):
    """neuron-ls has no usable output; the text is the reason."""


Run = Callable[[Sequence[str]], Awaitable[Output]]
"""Runs neuron-ls with arguments; raises NotRunnableError, FailedError or OSError."""


async def run_here(
    command: str | Sequence[str], deadline: float, arguments: Sequence[str]
) -> Output:
    """One run on this machine."""
    try:
        return await output([*locate(command), *arguments], deadline)
    except OutputError as error:
        raise FailedError(f"neuron-ls {error}") from None


class Lister:
    """Runs neuron-ls with the arguments that its version supports."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._forms: tuple[tuple[str, ...], ...] = FORMS

    async def ask(self) -> bytes:
        """The output of neuron-ls.

        Raises:
            NotRunnableError: it is not installed.
            FailedError: it has no usable output.
            OSError: it cannot be executed.
        """
        while self._forms:
            answer = _json(await self._run(self._forms[0]))
            if answer is not None:
                return answer
            self._forms = self._forms[1:]
        self._forms = FORMS  # another version may be installed by the next time
        raise FailedError(f"neuron-ls supports neither -j nor --output-format json; {UPDATE}")


def _json(answer: Output) -> bytes | None:
    """The JSON in an answer; None if neuron-ls does not support the arguments."""
    code, output, error = answer
    if code:
        if _REFUSED.search(output[:1024]) or _REFUSED.search(error.encode()):
            return None
        message = _MESSAGE.search(error)
        reason = message[1] if message else error
        raise FailedError(f"neuron-ls {exit_reason(code)}{f': {reason}' if reason else ''}")
    if not output.lstrip().startswith((b"[", b"{")):
        first = clean(output[:160].decode(errors="replace").strip().partition("\n")[0])
        raise FailedError(
            f"neuron-ls wrote no JSON: {first}" if first else "neuron-ls wrote nothing"
        )
    return without_arguments(output)


def without_arguments(output: bytes) -> bytes:
    """The output with each command cut to program and script.

    Arguments may contain secrets, and payloads are recorded.

    Raises:
        FailedError: it is not JSON.
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
        command: its name, path, or argument list.
        period: seconds between runs.
        deadline: seconds for one run.
        retry_interval: seconds between attempts to run a missing program.
        run: runs it; None is on this machine.
    """

    source = NEURON_LS

    def __init__(
        self,
        node: str,
        command: str | Sequence[str] = "neuron-ls",
        period: float = PERIOD,
        *,
        deadline: float = DEADLINE,
        retry_interval: float = RETRY_INTERVAL,
        run: Run | None = None,
    ) -> None:
        self.node = node
        self._lister = Lister(run or partial(run_here, command, deadline))
        self._period = period
        self._retry_interval = retry_interval
        self._counts = Counter(runs=0, failures=0)

    async def run(self, sink: Sink) -> None:
        """Runs neuron-ls at an interval until cancelled."""
        loop = asyncio.get_running_loop()
        self._report(sink, State.STARTING, "running neuron-ls")
        while True:
            started = loop.time()
            wait = await self._run_once(sink)
            await asyncio.sleep(started + wait - loop.time())

    async def _run_once(self, sink: Sink) -> float:
        """One run; seconds from its start to the next run."""
        try:
            payload = await self._lister.ask()
        except (NotRunnableError, OSError) as error:
            self._report(sink, State.DOWN, getattr(error, "strerror", None) or str(error))
            return self._retry_interval
        except FailedError as error:
            self._counts["runs"] += 1
            self._counts["failures"] += 1
            self._report(sink, State.DOWN, str(error))
            return self._period
        self._counts["runs"] += 1
        sink.reading(Reading(self.node, self.source, sink.now(), payload))
        self._report(sink, State.FRESH)
        return self._period

    def _report(self, sink: Sink, state: State, reason: str = "") -> None:
        sink.status(Status(self.node, self.source, state, reason, dict(self._counts)))


def examine(
    command: str | Sequence[str] = "neuron-ls", *, deadline: float = DEADLINE
) -> Examination:
    """Runs neuron-ls once; takes `deadline` + 0.5 s at most for each form of its arguments.

    Args:
        command: its name, path, or argument list.
        deadline: seconds for one run.
    """
    try:
        lister = Lister(partial(run_here, command, deadline))
        sample = neuron_ls.decode(asyncio.run(lister.ask()))
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
