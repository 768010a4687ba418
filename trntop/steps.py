"""Step telemetry: how a training loop reports its steps to trntop.

    from trntop import steps

    for batch in loader:
        with steps.step(tokens=TOKENS_OF_THE_WHOLE_JOB) as step:
            with steps.compute():
                loss = forward_and_backward(batch)
            with steps.collective("all_reduce", bytes=GRADIENT_BYTES, ranks=WORLD_SIZE):
                reduce_gradients()
            step.report(loss=loss.item())
    with steps.checkpoint():
        save()

It never blocks and never raises into the loop: a record that cannot be sent at once is dropped and
counted (`lost()`). Without an agent it costs next to nothing.

Environment: `TRNTOP_STEPS` is the destination of records: `unix:/path/of/a/socket`,
`file:/path/steps-{rank}.jsonl` or `off`; by default, the agent on this machine. The job is
`TRNTOP_JOB` or `SLURM_JOB_NAME`; the rank is `RANK`, `OMPI_COMM_WORLD_RANK`, `SLURM_PROCID` or
`PMI_RANK`.

This file needs only Python 3.9: it may be copied into a training script's directory.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import math
import numbers
import os
import socket
import struct
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

__all__ = [
    "KINDS",
    "REDUCTIONS",
    "Step",
    "Steps",
    "bus_factor",
    "checkpoint",
    "collective",
    "compute",
    "default",
    "kind_of",
    "lost",
    "sockets",
    "stage",
    "step",
]

KINDS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send_recv")
"""Kinds of collectives; `send_recv` is also a permutation."""
REDUCTIONS = ("all_reduce", "reduce_scatter")
"""Those that the all-reduce share of a step counts."""
MAX_NAME = 128
"""Characters of a name: a record is far shorter than 4 KiB."""
OBSERVER = "observer.sock"
"""Socket of a dashboard in the agent's directory: it exists only without an agent."""
RETRY = 1.0
"""Minimum seconds between two attempts to connect."""

MAX_EVENTS = 1000
"""Beginnings and ends of sections that are kept until the step ends."""

_log = logging.getLogger(__name__)
_WARNED: set[str] = set()
_UNITS = {kind: 1 << 32 * place for place, kind in enumerate(("compute", "collective", *KINDS))}
"""A state has 32 bits for the open sections of each kind; a `collective` is one without a kind."""
_MASKS = {kind: unit * 0xFFFFFFFF for kind, unit in _UNITS.items()}
_COMPUTE = _MASKS["compute"]
_UNNAMED = _COMPUTE | _MASKS["collective"]
_REDUCTION = sum(_MASKS[kind] for kind in REDUCTIONS)
_WORDS = tuple((kind.replace("_", ""), kind) for kind in KINDS) + tuple(
    (word, "send_recv") for word in ("send", "recv", "permute")
)
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK")
_JOBS = ("TRNTOP_JOB", "SLURM_JOB_NAME")


def sockets(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The sockets of an agent on this machine, in the order in which they are tried."""
    folders = ["/run/trntop"]  # not in /tmp: any user could have been there first
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        folders.append(f"{runtime}/trntop")
    return [f"{folder}/steps.sock" for folder in folders]


@functools.lru_cache(256)
def kind_of(name: str) -> str | None:
    """The kind of a collective by a framework's name: `AllReduce`, `_allgather_base`; or None."""
    text = name.lower().replace("_", "").replace("-", "")
    return next((kind for word, kind in _WORDS if word in text), None)


def bus_factor(kind: str, ranks: float) -> float:
    """Bus bandwidth ÷ algorithm bandwidth among so many ranks; NaN without their number.

    As nccl-tests defines it (doc/PERFORMANCE.md), for a size of the whole array.
    """
    if kind == "send_recv":
        return 1.0
    if not ranks >= 1:
        return math.nan
    return (2 if kind == "all_reduce" else 1) * (ranks - 1) / ranks


class _Meter:
    """Adds up the time of a step in each state: how many sections of each kind are open.

    These are the unions of the sections, however they nest and overlap. A section appends to
    `events`, which needs no lock; they are added up when a step begins and ends.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.events: list[tuple[int, float]] = []
        """Changes of the state and their times."""
        self.calls: list[_Collective] = []
        """Finished collectives."""
        self._state = 0
        self._since = clock()
        self._spent: defaultdict[int, float] = defaultdict(float)
        self._counts: defaultdict[_Collective, int] = defaultdict(int)
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replaces a lock that another thread held when the process forked."""
        # Reentrant, because the handler of a signal may open sections too.
        self._lock = threading.RLock()

    def add_up(
        self, *, restart: bool
    ) -> tuple[float, Mapping[int, float], Mapping[_Collective, int]]:
        """Now, and since the last restart the seconds in each state and the finished calls."""
        with self._lock:
            self.events.append((0, self.clock()))
            events = self.events.copy()  # another thread may append at any time
            del self.events[: len(events)]
            state, since, spent, counts = self._state, self._since, self._spent, self._counts
            for change, now in events:
                if now > since:  # else another thread was interrupted before it appended
                    spent[state] += now - since
                    since = now
                state += change
            self._state, self._since = state, since
            while self.calls:
                counts[self.calls.pop()] += 1
            if restart:
                self._spent, self._counts = defaultdict(float), defaultdict(int)
            return since, spent, counts


class _Section:
    """A kind of section as a context manager; it may be entered again while it is open."""

    __slots__ = ("_append", "_clock", "_meter", "_unit")

    def __init__(self, meter: _Meter, unit: int) -> None:
        self._meter = meter
        self._append = meter.events.append
        self._clock = meter.clock
        self._unit = unit

    def __enter__(self) -> None:
        self._append((self._unit, self._clock()))

    def __exit__(self, *_: object) -> None:
        self._append((-self._unit, self._clock()))
        if len(self._meter.events) > MAX_EVENTS:
            self._meter.add_up(restart=False)


class _Collective(_Section):
    """A collective of a known kind; NaN where its bytes, or those on the bus, are unknown."""

    __slots__ = ("bus_bytes", "bytes", "kind")

    def __init__(self, meter: _Meter, kind: str, size: float, ranks: float) -> None:
        super().__init__(meter, _UNITS[kind])
        self.kind = kind
        self.bytes = size
        self.bus_bytes = size * bus_factor(kind, ranks)

    def __exit__(self, *_: object) -> None:
        self._meter.calls.append(self)
        super().__exit__()


class Step:
    """One step. It is reported when its block ends without an exception."""

    __slots__ = ("_begin", "_steps", "_values", "number")

    def __init__(self, steps: Steps, number: int, tokens: object) -> None:
        self.number = number
        self._steps = steps
        self._values: dict[str, float] = {}
        if tokens is not None:
            self.report(tokens=tokens)

    def report(self, *, tokens: object = None, loss: object = None, mfu: object = None) -> None:
        """Adds values of the step; may be called several times.

        Only numbers of Python and NumPy are reported. Reading a tensor would wait for the device,
        which is the loop's decision.

        Args:
            tokens: consumed by the whole job in this step.
            loss: of this step.
            mfu: model FLOPs utilization as a ratio, from 0 to 1.
        """
        for name, value in (("tokens", tokens), ("loss", loss), ("mfu", mfu)):
            if value is not None and (number := _number(value)) is not None:
                self._values[name] = number

    def __enter__(self) -> Step:
        self._begin = self._steps._meter.add_up(restart=True)[0]
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._steps._finish(self.number, self._begin, self._values)


class _Off(Step):
    """A step of an emitter that is switched off."""

    __slots__ = ()

    def __init__(self, steps: Steps, number: int, tokens: object) -> None:
        self.number = number
        self._steps = steps

    def report(self, *, tokens: object = None, loss: object = None, mfu: object = None) -> None:
        pass

    def __enter__(self) -> Step:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._steps._next = self.number + 1


class Steps:
    """An emitter of step telemetry.

    The module's functions use one that the environment configures; make one to configure it in
    code, or if one process runs several ranks in threads.

    Args:
        target: `unix:PATH`, `file:PATH` (`{rank}` is replaced by the rank), `off`, or empty for
            the agent on this machine.
        job: name of the job; empty uses the environment.
        rank: of this process; None uses the environment.
        pipeline_stage: ranks of the same stage are compared with each other; None uses
            `TRNTOP_PIPELINE_STAGE`.
        clock: monotonic seconds.

    Raises:
        ValueError: `target` is not valid.
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
        self._off = target == "off"
        nothing = contextlib.nullcontext()
        self._compute = nothing if self._off else _Section(self._meter, _UNITS["compute"])
        self._collective = nothing if self._off else _Section(self._meter, _UNITS["collective"])
        self._collective_of = functools.lru_cache(256)(
            functools.partial(_Collective, self._meter)
        )  # a loop repeats its collectives
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
            number: of the step; by default, the last one's plus one.
            tokens: consumed by the whole job in this step.
        """
        given = None if number is None else _number(number)
        kind = _Off if self._off else Step
        return kind(self, self._next if given is None else int(given), tokens)

    def compute(self) -> contextlib.AbstractContextManager[None]:
        """A section in which this rank computes."""
        return self._compute

    def collective(
        self,
        kind: str | None = None,
        *,
        bytes: object = None,  # noqa: A002
        ranks: object = None,
    ) -> contextlib.AbstractContextManager[None]:
        """A section in which a collective runs.

        Args:
            kind: one of `KINDS`, or a framework's name for it; a collective of another kind only
                counts as communication.
            bytes: its size as nccl-tests counts it: of the whole array, so of a reduce-scatter the
                input and of an all-gather the output.
            ranks: that take part in it; without them its bus bandwidth is unknown.
        """
        if self._off or not isinstance(kind, str) or (known := kind_of(kind)) is None:
            return self._collective
        size, group = _number(bytes), _number(ranks)
        return self._collective_of(
            known, math.nan if size is None else size, math.nan if group is None else group
        )

    def checkpoint(self) -> contextlib.AbstractContextManager[None]:
        """The stage in which a checkpoint is written."""
        return self.stage("checkpointing")

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A stage of the run: `compiling`, `warming up`, `checkpointing`, `evaluating`, `idle`."""
        self._stages.append((str(name)[:MAX_NAME], time.time()))
        self._send_stage()
        try:
            yield
        finally:
            self._stages.pop()
            self._send_stage()

    def close(self) -> None:
        """Closes the socket or file; the next record opens it again."""
        self._channel.close()

    def _finish(self, number: int, begin: float, values: Mapping[str, float]) -> None:
        ended, spent, calls = self._meter.add_up(restart=True)
        compute = exposed = overlap = 0.0
        states = 0
        for state, seconds in spent.items():
            states |= state
            if state > _COMPUTE:
                if state & _COMPUTE:
                    overlap += seconds
                else:
                    exposed += seconds
            elif state:
                compute += seconds
        record = f'{self._head},"step":{number},"step_seconds":{ended - begin:.9f}'
        # A section that was never marked is unknown, not zero; without compute the covered part of
        # the communication is unknown too.
        if compute + overlap:
            record += f',"compute_seconds":{compute + overlap:.9f}'
        if exposed + overlap:
            record += f',"comm_seconds":{exposed + overlap:.9f}'
            if compute + overlap:
                record += f',"overlap_seconds":{overlap:.9f},"exposed_comm_seconds":{exposed:.9f}'
        if states > _UNNAMED:
            record += _by_kind(states, spent, calls)
        for name, value in values.items():
            record += f',"{name}":{value!r}'
        self._send(f'{record},"time":{time.time():.6f}}}')
        self._next = number + 1

    def _send_stage(self) -> None:
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
    """The destination of records, opened on first use; this one drops them."""

    def __init__(self) -> None:
        self._retry = 0.0

    def send(self, data: bytes) -> bool:
        """Whether the record was sent."""
        return True

    def close(self) -> None:
        """Closes what is open; the next record opens it again."""
        self._retry = 0.0
        self._drop()

    def _drop(self) -> None:
        pass

    def _may_open(self) -> bool:
        now = time.monotonic()
        if now < self._retry:
            return False
        self._retry = now + RETRY
        return True

    def __del__(self) -> None:
        self._drop()


class _Socket(_Channel):
    """The first of several Unix sockets with a listening agent, else a dashboard's.

    Messages on a connection keep their bounds as datagrams do, but each rank has its own buffer:
    the short common queue of a datagram socket overflows when all ranks end a step at once.
    """

    def __init__(self, paths: list[str]) -> None:
        super().__init__()
        self._paths = paths + [path[: path.rfind("/") + 1] + OBSERVER for path in paths]
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
                if _is_foreign(target, path):
                    raise PermissionError
            except (OSError, ValueError):  # without a listener; not a valid path; not an agent's
                if target is not None:
                    target.close()
            else:
                self._socket = target
                return target
        return None


def _is_foreign(target: socket.socket, path: str) -> bool:
    """Whether a user without rights here listens: neither root, nor this user, nor the only one who
    can put a socket there.
    """
    if not hasattr(socket, "SO_PEERCRED"):  # not Linux
        return False
    credentials = target.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    peer = struct.unpack("3i", credentials)[1]
    if peer in (0, os.getuid()):
        return False
    folder = os.stat(path[: path.rfind("/") + 1] or ".")  # noqa: PTH116 (pathlib is not imported here)
    foreign = peer != folder.st_uid or bool(folder.st_mode & 0o022)
    if foreign and path not in _WARNED:
        _WARNED.add(path)
        _log.warning("%s: another user (%d) listens there: it gets no records", path, peer)
    return foreign


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

    def _drop(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # a full disk may be reported this late
                os.close(file)

    def _open(self) -> int | None:
        if self._may_open():
            # Not blocking: the path may be a pipe without a reader.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
            with contextlib.suppress(OSError, ValueError):
                self._file = os.open(self._path, flags, 0o644)
        return self._file


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
    raise ValueError(f"{target!r} is not valid; use unix:PATH, file:PATH or off")


def _job(environ: Mapping[str, str]) -> str:
    return next((name for key in _JOBS if (name := environ.get(key, ""))), "job")


def _pipeline_stage(environ: Mapping[str, str]) -> int | None:
    text = environ.get("TRNTOP_PIPELINE_STAGE", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _rank(environ: Mapping[str, str]) -> int:
    return next((int(rank) for key in _RANKS if (rank := environ.get(key, "")).isdecimal()), 0)


def _number(value: object) -> float | None:
    """A finite number, else None."""
    if type(value) is int and abs(value) < 1 << 53:
        return value
    if value is None:
        return None
    try:
        # A number of an abstract class takes long to recognize.
        number = float(value) if isinstance(value, (float, numbers.Real)) else math.nan
    except Exception:  # whatever a foreign type raises, the loop continues
        return None
    return number if math.isfinite(number) else None


def _by_kind(states: int, spent: Mapping[int, float], calls: Mapping[_Collective, int]) -> str:
    """The members of a record about kinds of collectives."""
    totals: dict[str, tuple[int, float, float]] = {}
    for call, times in calls.items():
        count, size, bus_size = totals.get(call.kind, (0, 0, 0))
        totals[call.kind] = (
            count + times, size + times * call.bytes, bus_size + times * call.bus_bytes
        )  # fmt: skip
    kinds = []
    for kind in KINDS:
        mask = _MASKS[kind]
        if states & mask:
            seconds = sum([spent[state] for state in spent if state & mask])
            count, size, bus_size = totals.get(kind, (0, math.nan, math.nan))
            text = f'"{kind}":{{"count":{count},"seconds":{seconds:.9f}'
            if size == size:
                text += f',"bytes":{size!r}'
            if bus_size == bus_size:
                text += f',"bus_bytes":{bus_size!r}'
            kinds.append(f"{text}}}")
    reduction = sum([spent[state] for state in spent if state & _REDUCTION])
    return f',"reduction_seconds":{reduction:.9f},"collectives":{{{",".join(kinds)}}}'


_emitters: weakref.WeakSet[Steps] = weakref.WeakSet()
_default: Steps | None = None


def default() -> Steps:
    """The emitter of the module's functions, made on first use from the environment."""
    global _default
    if _default is None:
        target = os.environ.get("TRNTOP_STEPS", "")
        try:
            _default = Steps(target)
        except ValueError as error:
            _log.warning("TRNTOP_STEPS: %s; no step telemetry", error)
            _default = Steps("off")
    return _default


def step(number: int | None = None, *, tokens: object = None) -> Step:
    """A step: see `Steps.step`."""
    return default().step(number, tokens=tokens)


def compute() -> contextlib.AbstractContextManager[None]:
    """A section in which this rank computes."""
    return default().compute()


def collective(
    kind: str | None = None,
    *,
    bytes: object = None,  # noqa: A002
    ranks: object = None,
) -> contextlib.AbstractContextManager[None]:
    """A section in which a collective runs: see `Steps.collective`."""
    return default().collective(kind, bytes=bytes, ranks=ranks)


def checkpoint() -> contextlib.AbstractContextManager[None]:
    """The stage in which a checkpoint is written."""
    return default().checkpoint()


def stage(name: str) -> contextlib.AbstractContextManager[None]:
    """A stage of the run: see `Steps.stage`."""
    return default().stage(name)


def lost() -> int:
    """Records of the module's functions that could not be sent."""
    return default().lost


def _after_fork() -> None:
    """In the child: its rank may differ, and its connection must."""
    global _default
    _default = None
    for emitter in list(_emitters):
        emitter._after_fork()


os.register_at_fork(after_in_child=_after_fork)
