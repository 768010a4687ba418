"""The kinds of runs: how each is drawn from its seed, and what is wrong in it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from benchmarks.hardening.physics import Fault, Job, Pauses, run
from benchmarks.hardening.telemetry import FIRST_PID, HELD, World, efa_names
from trntop.core.model import Column

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Truth:
    """What is wrong. Times are seconds of the stream."""

    kinds: tuple[str, ...]
    """Kinds of incidents that are right."""
    onset: float
    end: float
    culprits: tuple[str, ...] = ()
    """Faulty nodes; an incident names the only one, or none of several."""
    component: str | None = None
    optional: bool = False
    """Whether no source shows which node is faulty."""


@dataclass(frozen=True, slots=True)
class Run:
    """One drawn run."""

    kind: str
    seed: int
    world: World
    truths: tuple[Truth, ...] = ()

    @property
    def node_hours(self) -> float:
        return len(self.world.names) * self.world.length / 3600.0


class Maker:
    """Draws the ordinary parts of a run."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind, self.seed = kind, seed
        self.rng = np.random.default_rng([seed, *kind.encode()])
        self.instance = "trn1.32xlarge" if self.chance(0.8) else "trn2.48xlarge"

    def between(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def count(self, low: int = 4, high: int = 16) -> int:
        return int(self.rng.integers(low, high + 1))

    def pick(self, *values: T) -> T:
        return values[int(self.rng.integers(len(values)))]

    def job(self, nodes: range, stages: int = 1, uneven: float = 0.15) -> Job:
        """A job with the usual noise, and checkpoints and hiccups now and then."""
        rng, size = self.rng, len(nodes)
        seconds = self.between(1.2, 5.0)
        stage = np.arange(size) * stages // size
        loads = 1.0 - uneven * rng.random(stages)
        loads[rng.integers(stages)] = 1.0
        return Job(
            nodes=tuple(nodes),
            compute=seconds * loads[stage] * (1.0 + 0.003 * rng.normal(0, 1, size)),
            stage=stage,
            first_step=self.count(500, 50_000),
            micro=self.pick(4, 8, 16, 32),
            comm=self.between(0.03, 0.09),
            hidden=self.between(0.02, 0.06),
            step_bytes=seconds * self.between(0.5e9, 2e9),
            noise=self.between(0.002, 0.006),
            bubble_busy=self.pick(0.995, 0.5),
            checkpoints=Pauses(
                self.pick(np.inf, self.between(100, 300), self.between(100, 300)),
                self.between(4, 20), self.pick("disk", "lustre"), self.chance(0.5),
            ),
            hiccups=self.between(0, 4),
            lossy=0.002 * self.chance(0.3),
            ranks=self.pick(1, 1, 1, 2, 4),
        )  # fmt: skip

    def single_job(
        self, nodes: range | None = None, stages: int = 1, uneven: float = 0.15,
        slower: float = 1.0, period: float = 0.0, **changes: Any,
    ) -> Run:  # fmt: skip
        """A run of one healthy job with some attributes of its own."""
        job = self.job(range(self.count()) if nodes is None else nodes, stages, uneven)
        job = replace(job, compute=job.compute * slower, **changes)
        return self.run([job], nodes=len(job.nodes), period=period)

    def run(
        self, jobs: list[Job], *, nodes: int, faults: tuple[Fault, ...] = (),
        truths: tuple[Truth, ...] = (), length: float = 0.0, period: float = 0.0,
        served: Mapping[int, Column] | None = None, probes: bool = False,
    ) -> Run:  # fmt: skip
        length = length or self.between(720, 1200)
        world = World(
            names=tuple(map(name, range(nodes))),
            kind=self.instance,
            length=length,
            period=period or self.pick(1.0, 1.0, 5.0),
            tracks=[run(job, faults, length, self.rng) for job in jobs],
            faults=faults,
            rng=self.rng,
            served=dict(served or {}),
            probes=probes,
        )
        return Run(self.kind, self.seed, world, truths)


def name(node: int) -> str:
    return f"trn-{node + 1:03}"


# --- healthy ---------------------------------------------------------------------------------


def _pipeline(m: Maker, *, declared: bool) -> Run:
    stages = m.pick(2, 4)
    nodes = range(stages * m.count(2, 4))
    return m.single_job(nodes, stages, uneven=0.25, declared=declared, micro=m.pick(16, 32))


def _inference(m: Maker) -> Run:
    """Independent servers: load that wanders, and minutes without a request."""
    n, length = m.count(), m.between(720, 1200)
    served, seconds = {}, int(length) + 10
    for node in range(n):
        walk = np.cumsum(m.rng.normal(0, 0.03, seconds)) + m.between(-1, 1)
        load = np.clip(0.5 + 0.3 * np.tanh(walk), 0.02, 0.95)
        for _ in range(m.count(0, 2)):
            begin = int(m.between(60, length - 60))
            load[begin : begin + int(m.between(20, 240))] = 0.0
        served[node] = load
    return m.run([], nodes=n, length=length, served=served)


def _unnamed(m: Maker) -> Run:
    """Several jobs on 32 nodes that report nothing."""
    inner = m.rng.choice(np.arange(4, 29), m.count(1, 3), replace=False)
    jobs = []
    for first, last in pairwise([0, *sorted(inner.tolist()), 32]):
        job = m.job(range(first, last))
        job.telemetry = "none"
        if m.chance(0.4):
            job.begin, job.startup = m.between(30, 300), m.between(20, 90)
        jobs.append(job)
    return m.run(jobs, nodes=32, length=m.between(600, 900))


def _elastic(m: Maker) -> Run:
    """A node is replaced: the job stops, and starts again with another node, from a checkpoint."""
    n, length = m.count(5, 12), m.between(800, 1200)
    gone, back = m.count(0, n - 1), m.count(5, 40)
    first = m.job(range(n))
    first.telemetry = m.pick("ranks", "ranks", "rank0", "none")
    first.end = m.between(250, 450)
    steps = int(first.end / (float(first.compute.max()) * 1.1))
    second = replace(
        first,
        nodes=tuple(node for node in range(n + 1) if node != gone),
        first_step=first.first_step + max(steps - back, 0),
        begin=first.end + m.between(20, 90),
        end=np.inf,
        startup=m.between(20, 60),
        loader=m.between(0, 20),
    )
    return m.run([first, second], nodes=n + 1, length=length)


ANY = ("ranks", "rank0", "none", "log")
HEALTHY: Mapping[str, Callable[[Maker], Run]] = {
    "plain": lambda m: m.single_job(),
    "pipeline-declared": lambda m: _pipeline(m, declared=True),
    "pipeline-undeclared": lambda m: _pipeline(m, declared=False),
    "accumulation": lambda m: m.single_job(
        slower=m.between(3, 8), micro=m.pick(64, 128), fusion=m.chance(0.2), telemetry=m.pick(*ANY)
    ),
    "evaluation": lambda m: m.single_job(
        evaluations=Pauses(m.between(120, 300), m.between(15, 70), reported=m.chance(0.4)),
        telemetry=m.pick(*ANY),
        period=m.pick(1.0, 5.0, 5.0),
    ),
    "experts": lambda m: m.single_job(
        wander=m.between(0.015, 0.04), telemetry=m.pick("ranks", "ranks", "none")
    ),
    "checkpoints": lambda m: m.single_job(
        checkpoints=Pauses(
            m.between(80, 240), m.between(8, 40), m.pick("disk", "lustre", "s3", "async"),
            m.chance(0.4), alone=m.chance(0.3), spin=m.chance(0.3),
        ),
        telemetry=m.pick(*ANY),
    ),
    "epochs": lambda m: m.single_job(
        epochs=Pauses(m.between(120, 300), m.between(8, 40)), telemetry=m.pick(*ANY)
    ),
    "rank0": lambda m: m.single_job(telemetry="rank0", wander=m.between(0, 0.01)),
    "log": lambda m: m.single_job(
        telemetry="log", log_every=m.pick(1, 1, 10), wander=m.between(0, 0.01)
    ),
    "no-telemetry": lambda m: m.single_job(telemetry="none", wander=m.between(0, 0.01)),
    "inference": _inference,
    "unnamed-jobs": _unnamed,
    "elastic": _elastic,
    "hiccups": lambda m: m.single_job(hiccups=m.between(10, 40), telemetry=m.pick("ranks", *ANY)),
    "loader-warm-up": lambda m: m.single_job(
        begin=m.between(0, 60), startup=m.between(20, 90), loader=m.between(30, 150),
        first_step=m.pick(1, 12_000), telemetry=m.pick("ranks", *ANY),
    ),
}  # fmt: skip

# --- faulty ----------------------------------------------------------------------------------


class Drawing:
    """A job of which one node has a fault for some minutes."""

    def __init__(self, m: Maker, stages: int = 1, **changes: Any) -> None:
        self.m = m
        self.nodes = stages * m.count(3, 5) if stages > 1 else m.count(5, 16)
        self.job = m.job(range(self.nodes), stages)
        self.job.telemetry = m.pick("ranks", "ranks", "ranks", "rank0", "none")
        for attribute, value in changes.items():
            setattr(self.job, attribute, value)
        self.onset = m.between(150, 300)
        self.end = self.onset + m.between(150, 240)
        # Elsewhere in a pipeline a slower node need not slow the job.
        heaviest = self.job.stage[int(self.job.compute.argmax())]
        self.stage = tuple(np.flatnonzero(self.job.stage == heaviest).tolist())
        self.node = m.pick(*self.stage)
        self.part = m.count(0, 7)

    def fault(self, what: str, depth: float = 0.0, way: str = "") -> Fault:
        return Fault(what, self.onset, self.end, (self.node,), depth, way, self.part)

    def everywhere(self, what: str, depth: float) -> Fault:
        return Fault(what, self.onset, self.end, (), depth)

    def run(
        self, *faults: Fault, kinds: tuple[str, ...], component: str | None = None,
        culprits: tuple[int, ...] | None = None, optional: bool = False, onset: float | None = None,
        end: float | None = None, **options: Any,
    ) -> Run:  # fmt: skip
        """The run, in which by default the node is faulty while its fault lasts."""
        truth = Truth(
            kinds,
            max(faults[0].begin, 0.0) if onset is None else onset,
            faults[0].end if end is None else end,
            tuple(map(name, (self.node,) if culprits is None else culprits)),
            component,
            optional,
        )
        length = self.end + 60.0
        return self.m.run(
            [self.job], nodes=self.nodes, faults=faults, truths=(truth,), length=length, **options
        )


def _slow(m: Maker, *, stages: bool = False, started: bool = False) -> Run:
    s = Drawing(m, m.pick(2, 4) if stages else 1, declared=m.chance(0.3))
    s.job.telemetry = "ranks" if stages or m.chance(0.7) else "none"
    fault = s.fault("slow", m.between(0.18 if started else 0.1 if stages else 0.08, 0.6))
    return s.run(replace(fault, begin=-1.0) if started else fault, kinds=("straggler",))


def _slow_device(m: Maker) -> Run:
    s = Drawing(m, telemetry="ranks", ranks=16)
    fault = s.fault("slow-device", m.between(0.08, 0.6))
    return s.run(fault, kinds=("straggler",), component=f"device:{s.part}")


def _throttled(m: Maker) -> Run:
    """Servers under full load; one device of one of them has a lower clock."""
    s = Drawing(m)
    served = {node: np.full(int(s.end) + 100, 0.99) for node in range(s.nodes)}
    fault, device = s.fault("throttled", 0.24), f"device:{s.part}"
    truth = Truth(("straggler",), s.onset, s.end, (name(s.node),), device)
    return m.run(
        [], nodes=s.nodes, faults=(fault,), truths=(truth,), length=s.end + 60.0, served=served
    )


def _efa(m: Maker, way: str) -> Run:
    s = Drawing(m)
    fault = s.fault("efa", 0.45 if way == "share" else m.between(0.12, 0.6), way)
    if way == "share":
        fault = replace(fault, begin=-1.0)
    return s.run(fault, kinds=("efa_degraded",), component=_degraded_device(s))


def _degraded_device(s: Drawing) -> str:
    return f"efa:{efa_names(s.m.instance)[s.part]}"


def _efa_down(m: Maker) -> Run:
    s = Drawing(m)
    fault = s.fault("efa-down", way=m.pick("gone", "state", "still"))
    return s.run(fault, kinds=("efa_down",), component=_degraded_device(s))


def _comm(m: Maker) -> Run:
    s = Drawing(m, telemetry=m.pick("ranks", "rank0"))
    fault = s.everywhere("slow-comm", m.between(0.4, 1.2) / s.job.comm - 1.0)
    return s.run(fault, kinds=("comm_bound",), culprits=())


def _comm_floor(m: Maker) -> Run:
    """Steps become so short that the wire is busy most of the time; nothing reports them."""
    m.instance = "trn1.32xlarge"
    s = Drawing(m, telemetry="none", hidden=0.02, comm=m.between(0.12, 0.18))
    # At line rate while a collective runs: eight devices of 100 Gb/s.
    s.job.step_bytes = 0.95 * 8 * 12.5e9 * s.job.comm * float(s.job.compute.max())
    fault = s.everywhere("lighter", m.between(0.75, 0.85))
    return s.run(fault, kinds=("comm_bound",), culprits=())


def _hang(m: Maker, way: str) -> Run:
    s = Drawing(m)
    if way == "lost":
        s.job.telemetry = "ranks"
    period = 5.0 if way == "unsynchronized" else 0.0
    return s.run(s.fault("hang", way=way), kinds=("hang",), optional=way != "host", period=period)


def _endless_save(m: Maker) -> Run:
    s = Drawing(m, checkpoints=Pauses(m.between(60, 100), m.between(5, 15), "s3"))
    fault = s.everywhere("endless-save", 0.0)
    return s.run(fault, kinds=("checkpoint_stall", "hang"), culprits=())


def _recompile(m: Maker) -> Run:
    """A run under way compiles again, for longer than the rule allows."""
    begin, seconds = m.between(200, 500), m.between(20, 90)
    run = m.single_job(recompile=(begin, seconds), telemetry=m.pick("ranks", "rank0"))
    return replace(run, truths=(Truth(("recompile",), begin, begin + seconds),))


def _loader_stall(m: Maker) -> Run:
    s = Drawing(m)
    fault = replace(s.fault("loader-stall"), end=s.onset + 50.0)
    return s.run(fault, kinds=("hang", "straggler"))


def _slower(m: Maker) -> Run:
    s = Drawing(m, telemetry="log")
    return s.run(s.everywhere("slow", 1 / 0.6 - 1), kinds=("slowdown",), culprits=())


def _slow_stage(m: Maker) -> Run:
    s = Drawing(m, m.pick(2, 4), telemetry="ranks", declared=True)
    fault = replace(s.fault("slow", m.between(0.15, 0.5)), nodes=s.stage)
    return s.run(fault, kinds=("straggler",), culprits=s.stage, optional=True)


def _ecc(m: Maker) -> Run:
    s = Drawing(m)
    fault = s.fault("ecc", way=m.pick("mem", "sram"))
    return s.run(fault, kinds=("ecc_uncorrected",), component=f"device:{s.part}")


def _device_lost(m: Maker) -> Run:
    s = Drawing(m)
    lost, hang = s.fault("device-lost"), s.fault("hang", way="host")
    return s.run(lost, hang, kinds=("device_lost",), component=f"device:{s.part}")


def _errors(m: Maker) -> Run:
    s = Drawing(m)
    runtime = f"runtime:{FIRST_PID + s.node}"
    return s.run(
        s.fault("errors", m.between(0.3, 3.0)), kinds=("execution_errors",), component=runtime
    )


def _filling(m: Maker) -> Run:
    s = Drawing(m)
    fault = s.fault("filling", m.between(0.97, 0.995))
    full = s.onset + (s.end - s.onset) * (0.95 - HELD) / (fault.depth - HELD)
    device = f"device:{s.part}"
    return s.run(fault, kinds=("memory_pressure",), component=device, onset=full, end=s.end + 60)


def _silent(m: Maker) -> Run:
    """The node is down, and its job hangs; or only its agent is."""
    s = Drawing(m)
    faults = [s.fault("silent"), s.fault("hang", way="host")]
    return s.run(*faults[: m.count(1, 2)], kinds=("node_silent",))


def _slow_link(m: Maker) -> Run:
    s = Drawing(m)
    fault = Fault("slow-link", 300.0, 600.0, (s.node,), m.between(1.0, 4.0))
    s.end, link = 600.0, f"link:{name((s.node + 1) % s.nodes)}"
    return s.run(fault, kinds=("latency_regression",), component=link, probes=True)


FAULTY: Mapping[str, Callable[[Maker], Run]] = {
    "slow-node": _slow,
    "slow-pipeline-node": lambda m: _slow(m, stages=True),
    "slow-from-start": lambda m: _slow(m, started=True),
    "slow-pipeline-start": lambda m: _slow(m, stages=True, started=True),
    "slow-device": _slow_device,
    "throttled-device": _throttled,
    "efa-degraded": lambda m: _efa(m, ""),
    "efa-intermittent": lambda m: _efa(m, "intermittent"),
    "efa-share-from-start": lambda m: _efa(m, "share"),
    "efa-down": _efa_down,
    "comm-bound": _comm,
    "comm-bound-floor": _comm_floor,
    "hang-spin": lambda m: _hang(m, "spin"),
    "hang-host": lambda m: _hang(m, "host"),
    "hang-killed": lambda m: _hang(m, "killed"),
    "hang-lost": lambda m: _hang(m, "lost"),
    "hang-unsynchronized": lambda m: _hang(m, "unsynchronized"),
    "endless-s3-save": _endless_save,
    "loader-stall": _loader_stall,
    "recompile": _recompile,
    "slower-than-past": _slower,
    "slow-stage": _slow_stage,
    "ecc": _ecc,
    "device-lost": _device_lost,
    "errors": _errors,
    "memory-filling": _filling,
    "silent": _silent,
    "slow-link": _slow_link,
}


def draw(kind: str, seed: int) -> Run:
    """The same run for the same kind and seed."""
    return (HEALTHY | FAULTY)[kind](Maker(kind, seed))
