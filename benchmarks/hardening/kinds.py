"""The kinds of runs: how each is drawn from its seed, and what is wrong in it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.hardening.physics import Fault, Job, Pauses, run
from benchmarks.hardening.telemetry import FIRST_PID, World, cards
from trntop.core.model import Column


@dataclass(frozen=True, slots=True)
class Truth:
    """What is wrong. Times are seconds of the stream."""

    kinds: tuple[str, ...]
    """Kinds of incidents that are right."""
    onset: float
    end: float
    culprits: tuple[str, ...] = ()
    """Nodes to blame; an incident names the only one, or none of several."""
    component: str | None = None
    optional: bool = False
    """Whether no source shows which node is to blame."""


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
        self.healthy = kind in HEALTHY
        self.instance = "trn1.32xlarge" if self.chance(0.8) else "trn2.48xlarge"

    def between(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def count(self, low: int = 4, high: int = 16) -> int:
        return int(self.rng.integers(low, high + 1))

    def job(
        self, nodes: range, *, name: str = "pretrain", stages: int = 1, uneven: float = 0.15,
    ) -> Job:  # fmt: skip
        """A job with the usual noise, checkpoints now and then, and telemetry of any kind."""
        rng, size = self.rng, len(nodes)
        seconds = self.between(1.2, 5.0)
        stage = np.arange(size) * stages // size
        loads = 1.0 - uneven * rng.random(stages)
        loads[rng.integers(stages)] = 1.0
        compute = seconds * (loads[stage] if stages > 1 else np.ones(size))
        compute = compute * (1.0 + 0.003 * rng.normal(0, 1, size))
        pauses = Pauses(
            self.between(100, 300), self.between(4, 20), str(rng.choice(("disk", "lustre"))),
            self.chance(0.5),
        )  # fmt: skip
        return Job(
            name=name, nodes=tuple(nodes), compute=compute, stage=stage,
            first_step=int(rng.integers(500, 50_000)), micro=int(rng.choice((4, 8, 16, 32))),
            comm=self.between(0.03, 0.09), hidden=self.between(0.02, 0.06),
            step_bytes=seconds * self.between(0.5e9, 2e9), noise=self.between(0.002, 0.006),
            bubble_busy=float(rng.choice((0.995, 0.5))) if stages > 1 else 0.995,
            checkpoints=pauses if self.chance(0.7) else Pauses(),
            hiccups=self.between(0, 4), lossy=0.002 * self.chance(0.3),
            ranks=int(rng.choice((1, 2, 4), p=(0.6, 0.2, 0.2))),
        )  # fmt: skip

    def run(
        self, jobs: list[Job], *, nodes: int, faults: tuple[Fault, ...] = (),
        truths: tuple[Truth, ...] = (), length: float = 0.0, period: float = 0.0,
        served: Mapping[int, Column] | None = None, probes: bool = False,
    ) -> Run:  # fmt: skip
        length = length or self.between(720, 1200 if self.healthy else 800)
        world = World(
            names=tuple(f"trn-{n + 1:03}" for n in range(nodes)),
            kind=self.instance, length=length, period=period or (5.0 if self.chance(0.3) else 1.0),
            tracks=[run(job, faults, length, self.rng) for job in jobs],
            faults=faults, rng=self.rng, served=dict(served or {}), probes=probes,
        )  # fmt: skip
        return Run(self.kind, self.seed, world, truths)


def name(node: int) -> str:
    return f"trn-{node + 1:03}"


# --- healthy ---------------------------------------------------------------------------------


def _plain(m: Maker) -> Run:
    n = m.count()
    return m.run([m.job(range(n))], nodes=n)


def _pipeline(m: Maker, *, declared: bool) -> Run:
    stages = int(m.rng.choice((2, 4)))
    n = stages * m.count(2, 4)
    job = m.job(range(n), stages=stages, uneven=0.25)
    job.declared, job.micro = declared, int(m.rng.choice((16, 32)))
    return m.run([job], nodes=n)


def _accumulation(m: Maker) -> Run:
    n = m.count()
    job = m.job(range(n))
    job.micro, job.compute = int(m.rng.choice((64, 128))), job.compute * m.between(3, 8)
    job.fusion = m.chance(0.2)
    job.telemetry = str(m.rng.choice(("ranks", "rank0", "none")))
    return m.run([job], nodes=n)


def _evaluation(m: Maker) -> Run:
    n = m.count()
    job = m.job(range(n))
    job.evaluations = Pauses(m.between(120, 300), m.between(15, 70), reported=m.chance(0.4))
    job.telemetry = str(m.rng.choice(("ranks", "rank0", "none", "log")))
    return m.run([job], nodes=n, period=5.0 if m.chance(0.6) else 1.0)


def _experts(m: Maker) -> Run:
    n = m.count()
    job = m.job(range(n))
    job.wander = m.between(0.015, 0.04)
    job.telemetry = str(m.rng.choice(("ranks", "ranks", "none")))
    return m.run([job], nodes=n)


def _checkpoints(m: Maker) -> Run:
    n = m.count()
    job = m.job(range(n))
    kind = str(m.rng.choice(("disk", "lustre", "s3", "async")))
    job.checkpoints = Pauses(
        m.between(80, 240), m.between(8, 40), kind, m.chance(0.4), m.chance(0.3), m.chance(0.3)
    )
    job.telemetry = str(m.rng.choice(("ranks", "rank0", "none", "log")))
    return m.run([job], nodes=n)


def _epochs(m: Maker) -> Run:
    n = m.count()
    job = m.job(range(n))
    job.epochs = Pauses(m.between(120, 300), m.between(8, 40))
    job.telemetry = str(m.rng.choice(("ranks", "rank0", "none", "log")))
    return m.run([job], nodes=n)


def _quiet(m: Maker, telemetry: str) -> Run:
    n = m.count()
    job = m.job(range(n))
    job.telemetry, job.log_every = telemetry, int(m.rng.choice((1, 1, 10)))
    job.wander = m.between(0, 0.01)
    return m.run([job], nodes=n)


def _inference(m: Maker) -> Run:
    """Independent servers: load that wanders, and minutes without a request."""
    n, length = m.count(), m.between(720, 1200)
    served = {}
    seconds = int(length) + 10
    for node in range(n):
        walk = np.cumsum(m.rng.normal(0, 0.03, seconds)) + m.between(-1, 1)
        load = np.clip(0.5 + 0.3 * np.tanh(walk), 0.02, 0.95)
        for _ in range(int(m.rng.integers(0, 3))):
            begin = int(m.between(60, length - 60))
            load[begin : begin + int(m.between(20, 240))] = 0.0
        served[node] = load
    return m.run([], nodes=n, length=length, served=served)


def _unnamed(m: Maker) -> Run:
    """Several jobs on 32 nodes that report nothing."""
    cuts = [0, *sorted(m.rng.choice(np.arange(4, 29), int(m.rng.integers(1, 4)), False)), 32]
    jobs = []
    for k, (a, b) in enumerate(pairwise(cuts)):
        job = m.job(range(int(a), int(b)), name=f"job-{k}")
        job.telemetry = "none"
        if m.chance(0.4):
            job.begin = m.between(30, 300)
            job.startup = m.between(20, 90)
        jobs.append(job)
    return m.run(jobs, nodes=32, length=m.between(600, 900))


def _elastic(m: Maker) -> Run:
    """A node is replaced: the job stops, and starts again with another node, from a checkpoint."""
    n = m.count(5, 12)
    first = m.job(range(n))
    first.telemetry = str(m.rng.choice(("ranks", "ranks", "rank0", "none")))
    length = m.between(800, 1200)
    first.end = m.between(250, 450)
    gone = int(m.rng.integers(n))
    second = m.job(range(n))
    for field in ("compute", "micro", "comm", "hidden", "step_bytes", "telemetry", "ranks"):
        setattr(second, field, getattr(first, field))
    second.nodes = tuple(node for node in range(n + 1) if node != gone)
    steps = int(first.end / (float(first.compute.max()) * 1.1))
    second.first_step = first.first_step + max(steps - int(m.rng.integers(5, 40)), 0)
    second.begin, second.startup = first.end + m.between(20, 90), m.between(20, 60)
    second.loader = m.between(0, 20)
    return m.run([first, second], nodes=n + 1, length=length)


def _hiccups(m: Maker) -> Run:
    n = m.count()
    job = m.job(range(n))
    job.hiccups = m.between(10, 40)
    job.telemetry = str(m.rng.choice(("ranks", "ranks", "rank0", "log", "none")))
    return m.run([job], nodes=n)


def _warm_up(m: Maker) -> Run:
    n = m.count()
    job = m.job(range(n))
    job.begin, job.startup = m.between(0, 60), m.between(20, 90)
    job.loader, job.first_step = m.between(30, 150), int(m.rng.choice((1, 12_000)))
    return m.run([job], nodes=n)


def _recompile(m: Maker) -> Run:
    n = m.count()
    job = m.job(range(n))
    job.recompile = (m.between(200, 500), m.between(20, 90))
    job.telemetry = str(m.rng.choice(("ranks", "rank0")))
    return m.run([job], nodes=n)


HEALTHY: Mapping[str, Callable[[Maker], Run]] = {
    "plain": _plain,
    "pipeline-declared": lambda m: _pipeline(m, declared=True),
    "pipeline-undeclared": lambda m: _pipeline(m, declared=False),
    "accumulation": _accumulation,
    "evaluation": _evaluation,
    "experts": _experts,
    "checkpoints": _checkpoints,
    "epochs": _epochs,
    "rank0": lambda m: _quiet(m, "rank0"),
    "log": lambda m: _quiet(m, "log"),
    "no-telemetry": lambda m: _quiet(m, "none"),
    "inference": _inference,
    "unnamed-jobs": _unnamed,
    "elastic": _elastic,
    "hiccups": _hiccups,
    "loader-warm-up": _warm_up,
    "recompile-reported": _recompile,
}

# --- faulty ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scene:
    """A job with one fault on one of its nodes."""

    m: Maker
    job: Job
    nodes: int
    node: int
    onset: float
    end: float

    def make(
        self, fault: Fault, *kinds: str, component: str | None = None, culprit: bool = True,
        optional: bool = False, end: float = 0.0, probes: bool = False, period: float = 0.0,
    ) -> Run:  # fmt: skip
        onset = max(fault.begin, 0.0)
        culprits = (name(self.node),) if culprit else ()
        truth = Truth(kinds, onset, end or fault.end, culprits, component, optional)
        return self.m.run(
            [self.job], nodes=self.nodes, faults=(fault,), truths=(truth,),
            length=self.end + 60.0, probes=probes, period=period,
        )  # fmt: skip

    def fault(self, what: str, depth: float = 0.0, way: str = "", part: int = 0) -> Fault:
        return Fault(what, self.onset, self.end, (self.node,), depth, way, part)


def _scene(m: Maker, stages: int = 1, least: int = 5) -> _Scene:
    n = stages * m.count(2, 4) if stages > 1 else m.count(least, 16)
    job = m.job(range(n), stages=stages)
    job.telemetry = str(m.rng.choice(("ranks", "ranks", "ranks", "rank0", "none")))
    onset = m.between(150, 300)
    heavy = np.flatnonzero(job.stage == job.stage[int(job.compute.argmax())])
    node = int(m.rng.choice(heavy))
    return _Scene(m, job, n, node, onset, onset + m.between(150, 240))


def _slow_node(m: Maker) -> Run:
    s = _scene(m)
    s.job.telemetry = "ranks" if m.chance(0.7) else "none"
    return s.make(s.fault("slow", m.between(0.09, 0.6)), "straggler")


def _slow_stage_node(m: Maker) -> Run:
    s = _scene(m, stages=int(m.rng.choice((2, 4))))
    s.job.telemetry, s.job.declared = "ranks", m.chance(0.3)
    return s.make(s.fault("slow", m.between(0.12, 0.6)), "straggler")


def _slow_from_start(m: Maker) -> Run:
    s = _scene(m)
    s.job.telemetry = "ranks" if m.chance(0.7) else "none"
    fault = Fault("slow", -1.0, s.end, (s.node,), m.between(0.18, 0.6))
    return s.make(fault, "straggler")


def _slow_device(m: Maker) -> Run:
    s = _scene(m)
    s.job.telemetry, s.job.ranks = "ranks", 16
    part = int(m.rng.integers(16))
    fault = s.fault("slow-device", m.between(0.09, 0.6), part=part)
    return s.make(fault, "straggler", component=f"device:{part}")


def _throttled(m: Maker) -> Run:
    """A service under full load; one device of it has a lower clock."""
    n, part, length = m.count(), int(m.rng.integers(16)), 700.0
    node, onset = int(m.rng.integers(n)), m.between(150, 300)
    served = {k: np.full(int(length) + 10, 0.99) for k in range(n)}
    fault = Fault("throttled", onset, onset + 240, (node,), 0.24, "", part)
    truth = Truth(("straggler",), onset, fault.end, (name(node),), f"device:{part}")
    return m.run([], nodes=n, faults=(fault,), truths=(truth,), length=length, served=served)


def _efa_degraded(m: Maker, way: str) -> Run:
    s = _scene(m)
    part = int(m.rng.integers(8))
    depth = 0.45 if way == "share" else m.between(0.12, 0.6)
    fault = s.fault("efa", depth, way, part)
    if way == "share":
        fault = Fault("efa", -1.0, s.end, (s.node,), depth, way, part)
    return s.make(fault, "efa_degraded", component=_card(m, part))


def _efa_down(m: Maker) -> Run:
    s = _scene(m)
    part = int(m.rng.integers(8))
    way = str(m.rng.choice(("gone", "state", "still")))
    return s.make(s.fault("efa-down", way=way, part=part), "efa_down",
                  component=_card(m, part))  # fmt: skip


def _card(m: Maker, part: int) -> str:
    return f"efa:{cards(m.instance)[part]}"


def _comm(m: Maker) -> Run:
    s = _scene(m)
    s.job.telemetry = str(m.rng.choice(("ranks", "rank0")))
    fault = Fault("slow-comm", s.onset, s.end, (), m.between(0.4, 1.2) / s.job.comm - 1.0)
    return s.make(fault, "comm_bound", culprit=False)


def _comm_floor(m: Maker) -> Run:
    """Steps become so short that the wire is busy most of the time; nothing reports them."""
    m.instance = "trn1.32xlarge"
    s = _scene(m)
    s.job.telemetry, s.job.hidden, s.job.comm = "none", 0.02, m.between(0.12, 0.18)
    # At line rate while a collective runs: eight devices of 100 Gb/s.
    s.job.step_bytes = 0.95 * 8 * 12.5e9 * s.job.comm * float(s.job.compute.max())
    fault = Fault("lighter", s.onset, s.end, (), m.between(0.75, 0.85))
    return s.make(fault, "comm_bound", culprit=False)


def _hang(m: Maker, way: str) -> Run:
    s = _scene(m)
    s.job.telemetry = "ranks" if way == "lost" else s.job.telemetry
    return s.make(
        s.fault("hang", way=way), "hang", optional=way != "host",
        period=5.0 if way == "unsynchronized" else 0.0,
    )  # fmt: skip


def _endless_save(m: Maker) -> Run:
    s = _scene(m)
    s.job.checkpoints = Pauses(m.between(60, 100), m.between(5, 15), "s3")
    return s.make(s.fault("endless-save"), "checkpoint_stall", "hang", culprit=False)


def _loader_stall(m: Maker) -> Run:
    s = _scene(m)
    fault = Fault("loader-stall", s.onset, s.onset + 50.0, (s.node,))
    return s.make(fault, "hang", "straggler")


def _slower(m: Maker) -> Run:
    s = _scene(m)
    s.job.telemetry = "log"
    fault = Fault("slow", s.onset, s.end, (), 1 / 0.6 - 1)
    return s.make(fault, "slowdown", culprit=False)


def _slow_stage(m: Maker) -> Run:
    s = _scene(m, stages=int(m.rng.choice((2, 4))))
    s.job.telemetry, s.job.declared = "ranks", True
    nodes = tuple(np.flatnonzero(s.job.stage == s.job.stage[s.node]).tolist())
    fault = Fault("slow", s.onset, s.end, nodes, m.between(0.15, 0.5))
    truth = Truth(("straggler",), s.onset, s.end, tuple(map(name, nodes)), optional=True)
    return m.run([s.job], nodes=s.nodes, faults=(fault,), truths=(truth,), length=s.end + 60)


def _ecc(m: Maker) -> Run:
    s, part = _scene(m), int(m.rng.integers(16))
    fault = s.fault("ecc", way=str(m.rng.choice(("mem", "sram"))), part=part)
    return s.make(fault, "ecc_uncorrected", component=f"device:{part}")


def _device_lost(m: Maker) -> Run:
    s, part = _scene(m), int(m.rng.integers(15))
    lost = s.fault("device-lost", part=part)
    hang = s.fault("hang", way="host")
    truth = Truth(("device_lost",), s.onset, s.end, (name(s.node),), f"device:{part}")
    return m.run([s.job], nodes=s.nodes, faults=(lost, hang), truths=(truth,), length=s.end + 60)


def _errors(m: Maker) -> Run:
    s = _scene(m)
    return s.make(s.fault("errors", m.between(0.3, 3.0)), "execution_errors",
                  component=f"runtime:{FIRST_PID + s.node}")  # fmt: skip


def _filling(m: Maker) -> Run:
    s, part = _scene(m), int(m.rng.integers(16))
    fault = s.fault("filling", m.between(0.97, 0.995), part=part)
    full = s.onset + (s.end - s.onset) * (0.95 - 0.7) / (fault.depth - 0.7)
    run = s.make(fault, "memory_pressure", component=f"device:{part}", end=s.end + 60.0)
    truth = run.truths[0]
    early = Truth(truth.kinds, full, truth.end, truth.culprits, truth.component)
    return Run(run.kind, run.seed, run.world, (early,))


def _silent(m: Maker) -> Run:
    s = _scene(m)
    silent = s.fault("silent")
    hang = s.fault("hang", way="host")
    truth = Truth(("node_silent",), s.onset, s.end, (name(s.node),))
    faults = (silent, hang) if m.chance(0.6) else (silent,)
    return m.run([s.job], nodes=s.nodes, faults=faults, truths=(truth,), length=s.end + 60)


def _slow_link(m: Maker) -> Run:
    s = _scene(m)
    fault = Fault("slow-link", 300.0, 600.0, (s.node,), m.between(1.0, 4.0))
    peer = name((s.node + 1) % s.nodes)
    truth = Truth(("latency_regression",), 300.0, 600.0, (name(s.node),), f"link:{peer}")
    return m.run(
        [s.job], nodes=s.nodes, faults=(fault,), truths=(truth,), length=660.0, probes=True
    )


FAULTY: Mapping[str, Callable[[Maker], Run]] = {
    "slow-node": _slow_node,
    "slow-pipeline-node": _slow_stage_node,
    "slow-from-start": _slow_from_start,
    "slow-device": _slow_device,
    "throttled-device": _throttled,
    "efa-degraded": lambda m: _efa_degraded(m, ""),
    "efa-intermittent": lambda m: _efa_degraded(m, "intermittent"),
    "efa-share-from-start": lambda m: _efa_degraded(m, "share"),
    "efa-down": _efa_down,
    "comm-bound": _comm,
    "comm-bound-floor": _comm_floor,
    **{
        f"hang-{way}": (lambda m, way=way: _hang(m, way))  # type: ignore[misc]
        for way in ("spin", "host", "killed", "lost", "unsynchronized")
    },
    "endless-s3-save": _endless_save,
    "loader-stall": _loader_stall,
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
