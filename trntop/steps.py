"""Step telemetry: what a training loop tells trntop about its steps.

    from trntop import steps

    for batch in loader:
        with steps.step(tokens=TOKENS_OF_THE_WHOLE_JOB) as step:
            with steps.compute():
                loss = forward_and_backward(batch)
            with steps.collective():
                reduce_gradients()
            step.report(loss=loss.item())
    with steps.checkpoint():
        save()

It waits for nobody and raises nothing into the loop: what cannot be sent at once is dropped and
counted (`lost()`). Without anybody listening it costs next to nothing.

Environment: `TRNTOP_STEPS` says where records go: `unix:/path/of/a/socket`,
`file:/path/steps-{rank}.jsonl` or `off`; left out, to the agent on this machine. The job is
called by `TRNTOP_JOB` or `SLURM_JOB_NAME`; the rank is `RANK`, `OMPI_COMM_WORLD_RANK`,
`SLURM_PROCID` or `PMI_RANK`.

This file needs nothing but Python 3.9: it may be copied beside a training script.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import numbers
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType

__all__ = [
    "Step",
    "Steps",
    "checkpoint",
    "collective",
    "compute",
    "default",
    "lost",
    "sockets",
    "stage",
    "step",
]

MAX_NAME = 128
"""Characters kept of a name: a record is far shorter than 4 KiB."""
GUEST = "guest.sock"
"""Socket of a dashboard, beside the agent's: it listens only while no agent does."""
RETRY = 1.0
"""Least seconds between two looks for somebody who listens."""

_COMPUTE, _COLLECTIVE = 1, 2
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK")
_JOBS = ("TRNTOP_JOB", "SLURM_JOB_NAME")


def sockets(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Where an agent on this machine may listen, in the order in which it is looked for."""
    folders = ["/run/trntop", f"/tmp/trntop-{os.getuid()}"]
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        folders.insert(1, f"{runtime}/trntop")
    return [f"{folder}/steps.sock" for folder in folders]


class _Meter:
    """Adds up the time spent in each state: nothing open, compute, a collective, or both.

    That is all it takes to know the unions of the sections, however they nest and overlap.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open = [0, 0, 0]
        self._state = 0
        self._spent = [0.0, 0.0, 0.0, 0.0]
        self._since = clock()
        self.renew_lock()

    def renew_lock(self) -> None:
        """Another thread may hold the old one for ever: after a fork it does not exist."""
        # Reentrant, because a signal's handler may open sections too.
        self._lock = threading.RLock()

    def turn(self, kind: int, change: int) -> None:
        """Opens (+1) or closes (-1) a section."""
        with self._lock:
            self._advance()
            self._open[kind] += change
            if self._open[kind]:
                self._state |= kind
            else:
                self._state &= ~kind

    def read(self) -> tuple[float, list[float]]:
        """Now, and the seconds spent in each state until now."""
        with self._lock:
            self._advance()
            return self._since, self._spent.copy()

    def _advance(self) -> None:
        now = self._clock()
        self._spent[self._state] += now - self._since
        self._since = now


class _Section:
    """A kind of section as a context manager; it may be entered again while it is open."""

    __slots__ = ("_kind", "_turn")

    def __init__(self, meter: _Meter, kind: int) -> None:
        self._turn = meter.turn
        self._kind = kind

    def __enter__(self) -> None:
        self._turn(self._kind, 1)

    def __exit__(self, *_: object) -> None:
        self._turn(self._kind, -1)


class Step:
    """One step. It is reported when its block ends, unless an exception ends it."""

    __slots__ = ("_begin", "_steps", "_values", "number")

    def __init__(self, steps: Steps, number: int, tokens: object) -> None:
        self.number = number
        self._steps = steps
        self._values: dict[str, float] = {}
        if tokens is not None:
            self.report(tokens=tokens)

    def report(self, *, tokens: object = None, loss: object = None, mfu: object = None) -> None:
        """Adds what is known of the step; may be called several times.

        Numbers are taken, Python's and NumPy's. Anything else is left out, a tensor above all:
        to read one is to wait for the device, and when to do that is the loop's decision.

        Args:
            tokens: that the whole job consumed in this step.
            loss: of this step.
            mfu: model FLOPs utilization as a ratio, from 0 to 1.
        """
        for name, value in (("tokens", tokens), ("loss", loss), ("mfu", mfu)):
            if value is not None and (number := _number(value)) is not None:
                self._values[name] = number

    def __enter__(self) -> Step:
        self._begin = self._steps._meter.read()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._steps._finish(self.number, self._begin, self._values)


class _Stage:
    """A stage as a context manager: a note when it begins, another when it is over."""

    def __init__(self, steps: Steps, name: str) -> None:
        self._steps = steps
        self._name = name

    def __enter__(self) -> None:
        self._steps._stages.append((self._name, time.time()))
        self._steps._note()

    def __exit__(self, *_: object) -> None:
        self._steps._stages.pop()
        self._steps._note()


class Steps:
    """An emitter of step telemetry.

    The module's functions use one that the environment configures; make your own to set things
    in code, or where one process runs several ranks in threads.

    Args:
        target: `unix:PATH`, `file:PATH` (`{rank}` stands for the rank), `off`, or empty for the
            agent on this machine.
        job: name of the job; empty takes it from the environment.
        rank: of this process; None takes it from the environment.
        pipeline_stage: on which it works, so that it is compared with those of the same one; None
            takes it from `TRNTOP_PIPELINE_STAGE`, if that is set.
        clock: seconds that only move forward.

    Raises:
        ValueError: `target` is none of these.
    """

    def __init__(
        self,
        target: str = "",
        job: str = "",
        rank: int | None = None,
        pipeline_stage: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.job = (job or _job(os.environ))[:MAX_NAME]
        self.rank = _rank(os.environ) if rank is None else rank
        self.lost = 0
        """Records that could not be sent."""
        self._channel = _channel(target, self.rank)
        self._meter = _Meter(clock)
        self._compute = _Section(self._meter, _COMPUTE)
        self._collective = _Section(self._meter, _COLLECTIVE)
        self._stages: list[tuple[str, float]] = []
        self._next = 1
        self._head = f'{{"job":{json.dumps(self.job)},"rank":{self.rank}'
        stage = _pipeline_stage(os.environ) if pipeline_stage is None else int(pipeline_stage)
        if stage is not None:
            self._head += f',"pipeline_stage":{stage}'
        _emitters.add(self)

    def step(self, number: int | None = None, *, tokens: object = None) -> Step:
        """A step, to be used as a context manager.

        Args:
            number: of the step; left out, one more than the last one's.
            tokens: that the whole job consumes in this step.
        """
        given = None if number is None else _number(number)
        return Step(self, self._next if given is None else int(given), tokens)

    def compute(self) -> _Section:
        """A section in which this rank computes."""
        return self._compute

    def collective(self) -> _Section:
        """A section in which a collective runs."""
        return self._collective

    def checkpoint(self) -> _Stage:
        """The stage in which a checkpoint is written."""
        return self.stage("checkpointing")

    def stage(self, name: str) -> _Stage:
        """A stage of the run: `compiling`, `warming up`, `checkpointing`, `evaluating`, `idle`."""
        return _Stage(self, str(name)[:MAX_NAME])

    def close(self) -> None:
        """Closes the socket or file; the next record opens it again."""
        self._channel.close()

    def _finish(
        self, number: int, begin: tuple[float, list[float]], values: Mapping[str, float]
    ) -> None:
        started, before = begin
        ended, after = self._meter.read()
        compute, exposed, overlap = (after[state] - before[state] for state in (1, 2, 3))
        record = f'{self._head},"step":{number},"step_seconds":{ended - started:.9f}'
        # What was never marked is unknown, not zero; and without compute nobody can say what
        # part of the communication it covered.
        if compute + overlap:
            record += f',"compute_seconds":{compute + overlap:.9f}'
        if exposed + overlap:
            record += f',"comm_seconds":{exposed + overlap:.9f}'
            if compute + overlap:
                record += f',"overlap_seconds":{overlap:.9f},"exposed_comm_seconds":{exposed:.9f}'
        for name, value in values.items():
            record += f',"{name}":{value!r}'
        self._send(f'{record},"time":{time.time():.6f}}}')
        self._next = number + 1

    def _note(self) -> None:
        """Says which stage it is now."""
        now = time.time()
        name, since = self._stages[-1] if self._stages else ("training", now)
        self._send(
            f'{self._head},"stage":{json.dumps(name)},"since":{since:.6f},"time":{now:.6f}}}'
        )

    def _send(self, record: str) -> None:
        if not self._channel.send(record.encode()):
            self.lost += 1

    def _after_fork(self) -> None:
        self._meter.renew_lock()
        self._channel.close()


class _Channel:
    """Where records go. What fails is tried again, but not at once."""

    def __init__(self) -> None:
        self._retry = 0.0

    def send(self, data: bytes) -> bool:
        """Whether the record is on its way."""
        return True

    def close(self) -> None:
        """Closes what is open; the next record may open it again."""
        self._retry = 0.0

    def _may_open(self) -> bool:
        now = time.monotonic()
        if now < self._retry:
            return False
        self._retry = now + RETRY
        return True


class _Socket(_Channel):
    """The first of several Unix sockets on which an agent listens, else a dashboard's beside one.

    Messages on a connection keep their bounds as datagrams do, but each rank has a buffer of its
    own: the short common queue of a datagram socket overflows when all ranks end a step at once.
    """

    def __init__(self, paths: list[str]) -> None:
        super().__init__()
        self._paths = paths + [path[: path.rfind("/") + 1] + GUEST for path in paths]
        self._socket: socket.socket | None = None

    def send(self, data: bytes) -> bool:
        target = self._socket or self._open()
        if target is None:
            return False
        try:
            target.send(data, socket.MSG_NOSIGNAL)
        except BlockingIOError:  # the reader is behind
            return False
        except OSError:  # the reader is gone
            self._drop()
            return False
        return True

    def close(self) -> None:
        super().close()
        self._drop()

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self) -> socket.socket | None:
        if not self._may_open():
            return None
        for path in self._paths:
            target = None
            try:
                target = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                target.setblocking(False)
                target.connect(path)
            except (OSError, ValueError):  # nobody there; no path at all
                if target is not None:
                    target.close()
            else:
                self._socket = target
                return target
        return None

    def __del__(self) -> None:
        self._drop()


class _File(_Channel):
    """A file to which one line is appended per record, in one write."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._file: int | None = None
        self._torn = False
        """Whether the last line is incomplete: the disk was full."""

    def send(self, data: bytes) -> bool:
        file = self._open() if self._file is None else self._file
        if file is None:
            return False
        line = b"\n" * self._torn + data + b"\n"
        try:
            written = os.write(file, line)
        except OSError:
            self._drop()
            return False
        self._torn = written < len(line)
        return not self._torn

    def close(self) -> None:
        super().close()
        self._drop()

    def _drop(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # a full disk may be reported this late
                os.close(file)

    def _open(self) -> int | None:
        if self._may_open():
            # Not blocking: the path may be a pipe that nobody reads.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
            try:
                self._file = os.open(self._path, flags, 0o644)
            except (OSError, ValueError):
                return None
        return self._file

    def __del__(self) -> None:
        self._drop()


def _channel(target: str, rank: int) -> _Channel:
    scheme, _, path = target.partition(":")
    if not target:
        return _Socket(sockets())
    if scheme == "unix" and path:
        return _Socket([path])
    if scheme == "file" and path:
        return _File(path.replace("{rank}", str(rank)))
    if target == "off":
        return _Channel()
    raise ValueError(f"{target!r} is none of unix:PATH, file:PATH and off")


def _job(environ: Mapping[str, str]) -> str:
    return next((name for key in _JOBS if (name := environ.get(key, ""))), "job")


def _pipeline_stage(environ: Mapping[str, str]) -> int | None:
    """The stage that the environment names; what is no whole number counts as none."""
    text = environ.get("TRNTOP_PIPELINE_STAGE", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _rank(environ: Mapping[str, str]) -> int:
    return next((int(rank) for key in _RANKS if (rank := environ.get(key, "")).isdecimal()), 0)


def _number(value: object) -> float | None:
    """A finite number that is there already, else None."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if type(value) is int and abs(value) < 1 << 53:
        return value
    try:
        if not isinstance(value, numbers.Real):
            return None
        number = float(value)
    except Exception:  # whatever a foreign type raises, the loop goes on
        return None
    return number if math.isfinite(number) else None


_emitters: weakref.WeakSet[Steps] = weakref.WeakSet()
_default: Steps | None = None


def default() -> Steps:
    """The emitter of the module's functions, made on first use as the environment says."""
    global _default
    if _default is None:
        target = os.environ.get("TRNTOP_STEPS", "")
        try:
            _default = Steps(target)
        except ValueError as error:
            logging.getLogger(__name__).warning("TRNTOP_STEPS: %s; no step telemetry", error)
            _default = Steps("off")
    return _default


def step(number: int | None = None, *, tokens: object = None) -> Step:
    """A step: see `Steps.step`."""
    return default().step(number, tokens=tokens)


def compute() -> _Section:
    """A section in which this rank computes."""
    return default().compute()


def collective() -> _Section:
    """A section in which a collective runs."""
    return default().collective()


def checkpoint() -> _Stage:
    """The stage in which a checkpoint is written."""
    return default().checkpoint()


def stage(name: str) -> _Stage:
    """A stage of the run: see `Steps.stage`."""
    return default().stage(name)


def lost() -> int:
    """Records of the module's functions that could not be sent."""
    return default().lost


def _after_fork() -> None:
    """In the child: its rank may be another, and its socket must be."""
    global _default
    _default = None
    for emitter in list(_emitters):
        emitter._after_fork()


os.register_at_fork(after_in_child=_after_fork)
