"""The faults of a simulation with their victims, and the expected incidents."""

from dataclasses import dataclass

import numpy as np

from .effects import NEED_EFA, TRAITS, Effect
from .fleet import Fleet
from .jobs import Job, jobs_of
from .memory import FULL_FROM, filled
from .scenarios import Phase, Scenario
from .spec import Simulation

FIRST_VICTIM = 1
"""Node 0, which writes the training log, is a victim only if it is alone."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A phase with its victim. Times are seconds since the start of the stream."""

    effect: Effect
    begin: float
    end: float
    depth: float
    ramp: float
    variant: str
    job: Job | None
    """The job of its node."""
    node: int
    device: int
    efa: int
    runtime: int
    peer: int
    """The other end of the link."""

    def depth_at(self, time: float) -> float:
        """The severity at `time`."""
        return self.depth * self.progress(time)

    def progress(self, time: float) -> float:
        """The share of its depth that it has reached."""
        if time >= self.begin + self.ramp:
            return 1.0
        return max((time - self.begin) / self.ramp, 0.0)


@dataclass(frozen=True, slots=True)
class Truth:
    """An incident that the analysis should find. Times are unix seconds."""

    kind: str
    node: str | None
    component: str | None
    job: str | None
    onset: float
    """Start of the cause; symptoms may follow a step or more later. Of filling memory: when it
    reaches the threshold.
    """
    end: float
    """End of the cause."""
    depth: float
    """Severity; 0 if the effect has none."""


class Script:
    """A scenario with its jobs and victims, drawn from the seed."""

    def __init__(self, simulation: Simulation, fleet: Fleet) -> None:
        self._simulation = simulation
        self._scenario: Scenario = simulation.play
        self._fleet = fleet
        self._drawn: dict[int, tuple[Fault, ...]] = {}
        seed = simulation.seed
        self.bystander: int | None = None
        """A node outside all jobs."""
        if any(phase.effect is Effect.IDLE_ALLOCATION for phase in self._scenario.phases):
            rng = np.random.default_rng([seed, 18])
            self.bystander = int(rng.integers(min(FIRST_VICTIM, fleet.nodes - 1), fleet.nodes))
        self.jobs = jobs_of(
            fleet, simulation.job, simulation.jobs, simulation.stages, seed, self.bystander
        )

    def at(self, effect: Effect, time: float, job: Job | None = None) -> Fault | None:
        """The fault with this effect at `time`; of a job, or of any."""
        return self.between(effect, time, time, job)

    def between(
        self, effect: Effect, begin: float, end: float, job: Job | None = None
    ) -> Fault | None:
        """The first fault with this effect at any time from `begin` to `end`."""
        for cycle in range(self._cycle(begin), self._cycle(end) + 1):
            for fault in self._faults(cycle):
                if (
                    fault.effect is effect
                    and fault.begin <= end
                    and begin < fault.end
                    and (job is None or fault.job is job)
                ):
                    return fault
        return None

    def truth(self, start: float, length: float) -> tuple[Truth, ...]:
        """The expected incidents of the first `length` seconds; of a cycle, the first."""
        truths = (self._truth(fault, start, length) for fault in self._faults(0))
        return tuple(truth for truth in truths if truth.onset < start + length)

    def _truth(self, fault: Fault, start: float, length: float) -> Truth:
        trait = TRAITS[fault.effect]
        begin = fault.begin
        if fault.effect is Effect.MEMORY_FILLING:
            begin += fault.ramp * filled(FULL_FROM, fault.depth)
        spared = fault.effect is Effect.SILENT_NODE and fault.variant == "agent"
        suffers = trait.slows and not spared and fault.job is not None
        return Truth(
            kind=trait.kind,
            node=self._fleet.names[fault.node] if trait.names == "node" else None,
            component=self._component(trait.component, fault),
            job=fault.job.name if suffers and fault.job is not None else None,
            onset=start + begin,
            end=start + min(fault.end, length),
            depth=fault.depth,
        )

    def _component(self, what: str, fault: Fault) -> str | None:
        match what:
            case "efa":
                return f"efa:{self._fleet.efa[fault.efa].name}"
            case "device":
                return f"device:{fault.device}"
            case "runtime":
                return f"runtime:{self._fleet.pids[fault.node][fault.runtime]}"
            case "link":
                return f"link:{self._fleet.names[fault.peer]}"
        return None

    def _cycle(self, time: float) -> int:
        return 0 if self._scenario.cycle is None else int(time // self._scenario.cycle)

    def _faults(self, cycle: int) -> tuple[Fault, ...]:
        if cycle not in self._drawn:
            if len(self._drawn) > 2:
                self._drawn.clear()
            self._drawn[cycle] = self._draw(cycle)
        return self._drawn[cycle]

    def _draw(self, cycle: int) -> tuple[Fault, ...]:
        shift = cycle * (self._scenario.cycle or 0.0)
        rng = np.random.default_rng([self._simulation.seed, 2, max(cycle, 0)])
        faults = []
        for phase in self._scenario.phases:
            draws = rng.random(4).tolist()
            alone = phase.effect is Effect.LATENCY_REGRESSION and self._fleet.nodes == 1
            if not alone and (self._fleet.efa or phase.effect not in NEED_EFA):
                faults.append(self._fault(phase, shift, draws))
        return tuple(faults)

    def _fault(self, phase: Phase, shift: float, draws: list[float]) -> Fault:
        fleet, trait = self._fleet, TRAITS[phase.effect]
        candidates = self._candidates(phase.effect)
        node = candidates[int(draws[0] * len(candidates))]
        others = fleet.peers(node)
        return Fault(
            effect=phase.effect,
            begin=phase.begin + shift,
            end=phase.end + shift,
            depth=(trait.depth or 0.0) if phase.depth is None else phase.depth,
            ramp=phase.ramp,
            variant=phase.variant or trait.variants[0],
            job=next((job for job in self.jobs if node in job.nodes), None),
            node=node,
            device=int(draws[1] * fleet.devices),
            efa=int(draws[2] * len(fleet.efa)),
            runtime=int(draws[3] * fleet.runtimes),
            peer=others[int(draws[1] * len(others))] if others else node,
        )

    def _candidates(self, effect: Effect) -> list[int]:
        if effect is Effect.IDLE_ALLOCATION and self.bystander is not None:
            return [self.bystander]
        nodes = [node for node in range(self._fleet.nodes) if node != self.bystander]
        if effect in (Effect.SLOW_NODE, Effect.SLOW_DEVICE):
            # In other stages of a pipeline a slower node may not slow the job.
            nodes = sorted(int(node) for job in self.jobs for node in job.heaviest)
        return [node for node in nodes if node >= FIRST_VICTIM] or nodes
