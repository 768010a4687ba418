"""What the training run on a node is busy with, from what its sources tell.

The process's own word counts first; where it says nothing, the compiler's processes, the steps'
pace, utilization and tensor engines tell. Every phase says what it was concluded from.
"""

from collections.abc import Mapping

from trntop.catalog import Entity, Provenance
from trntop.core import units
from trntop.core.model import Column, Inventory, Phase, Stage

Columns = Mapping[str, Column]

BUSY = 0.05
"""Mean utilization from which the cores count as busy."""
ENGINE_IDLE = 0.01
"""Tensor-engine busy share below which nothing is computed."""
HOLD = 10.0
"""Seconds for which cores count as busy after they were: a step may wait for its input."""
MAX_STAGE = 7200.0
"""Seconds after which a note is no longer believed: its process may have died in that stage."""
WRITING = 100e6
"""Bytes per second to disks or Lustre that look like a checkpoint while no core is busy."""
FIRST_STEPS = 5
"""The first steps of a run load programs and fill caches: it warms up."""
PATIENCE = 30.0
"""Least seconds without a step, or with busy cores and idle engines, before a run is stalled."""
STEPS_MISSED = 4.0
"""Steps' worth of silence after which a run is stalled."""
UNDER_WAY = (Stage.TRAINING, Stage.CHECKPOINTING, Stage.EVALUATING)
"""Stages of a run that goes on: one that saves or evaluates in between does not start anew."""


class PhaseTracker:
    """One node's phase over time."""

    def __init__(self) -> None:
        self._stage: Stage | None = None
        self._since: float | None = None
        self._run: float | None = None
        """Since when the run is under way."""
        self._first = True
        self._stepped: float | None = None
        """When the newest step was heard."""
        self._step: float = float("nan")
        self._step_seconds = 0.0
        self._begun = 0.0
        """When the newest step began, at the latest."""
        self._pace = 0.0
        """Seconds between the two newest words on steps: a log may tell of each 50th only."""
        self._pids: set[int] = set()
        """The processes that were there when a step was heard."""
        self._seen: float | None = None
        """When was looked last."""
        self._busy: tuple[float, float] | None = None
        """When cores were busy last, and how much."""
        self._spinning: float | None = None
        """Since when cores are busy and engines idle."""

    def update(self, now: float, columns: Columns, inventory: Inventory) -> Phase | None:
        """The phase at `now`; None when nothing tells."""
        self._note_steps(now, columns, inventory)
        found = self._stage_of(now, columns, inventory)
        if found is None:
            self._stage, self._first = None, False
            return None
        stage, since, why, provenance = found
        if stage is not self._stage:
            # At the first look it may have been so for long.
            began = None if self._first else now
            if self._stage not in UNDER_WAY:
                self._run = began
            self._since = self._run if stage is Stage.TRAINING else began
            self._stage = stage
        self._first = False
        return Phase(stage, since if since is not None else self._since, why, provenance)

    def _note_steps(self, now: float, columns: Columns, inventory: Inventory) -> None:
        steps = columns.get("job_step")
        newest = _largest(steps)
        if newest is not None and newest != self._step:
            self._pace = 0.0 if self._stepped is None else now - self._stepped
            self._step, self._stepped = newest, now
            self._step_seconds = _largest(columns.get("job_step_seconds")) or 0.0
            # Heard at a tick, it ended after the tick before: a note sent right behind it counts.
            self._begun = (now if self._seen is None else self._seen) - self._step_seconds
            self._pids = {runtime.pid for runtime in inventory.runtimes}
        self._seen = now
        utilization = _value(columns, "node_neuroncore_utilization_mean_ratio")
        engine = _value(columns, "node_tensor_engine_busy_mean_ratio")
        spins = (utilization or 0.0) > BUSY and engine is not None and engine < ENGINE_IDLE
        self._spinning = (self._spinning or now) if spins else None
        if utilization is None:
            self._busy = None
        elif utilization > BUSY:
            self._busy = now, utilization

    def _stage_of(
        self, now: float, columns: Columns, inventory: Inventory
    ) -> tuple[Stage, float | None, str, Provenance] | None:
        derived = Provenance.DERIVED
        utilization = _value(columns, "node_neuroncore_utilization_mean_ratio")
        busy = self._busy is not None and now - self._busy[0] <= HOLD
        monitored = "node_runtimes" in columns
        pids = {runtime.pid for runtime in inventory.runtimes} if monitored else set()
        for job, (stage, since) in inventory.stages.items():
            over = (monitored and not pids) or now - since > MAX_STAGE
            if stage is not Stage.TRAINING and since >= self._begun and not over:
                return stage, since, f"{job} says so", Provenance.REPORTED
        compilation = inventory.compilation
        if compilation is not None and not busy:
            return Stage.COMPILING, compilation.since, _compiling(columns, inventory), derived
        missed = None if self._stepped is None else now - self._stepped
        patience = max(PATIENCE, STEPS_MISSED * self._step_seconds, 2 * self._pace)
        if missed is not None and missed <= patience:
            if self._step <= FIRST_STEPS:
                return Stage.WARMING_UP, None, f"step {units.count(self._step)}", derived
            return Stage.TRAINING, None, f"step {units.count(self._step)}", derived
        writing = max(
            _value(columns, f"node_{where}_written_bytes_per_second") or 0.0
            for where in ("disk", "lustre")
        )
        if writing > WRITING and not busy and inventory.runtimes:
            why = f"{units.si(writing)}B/s written, no core busy"
            return Stage.CHECKPOINTING, None, why, derived
        if self._spinning is not None and now - self._spinning >= PATIENCE:
            why = f"cores {units.percent(utilization)} utilized, tensor engines idle"
            return Stage.STALLED, self._spinning, why, derived
        if missed is not None and self._stepped is not None and pids & self._pids:
            return Stage.STALLED, self._stepped, f"no step for {units.span(missed)}", derived
        if busy:
            assert self._busy is not None
            return Stage.TRAINING, None, f"cores {units.percent(self._busy[1])} utilized", derived
        if utilization is None:
            return None
        processes = len(inventory.of(Entity.RUNTIME))
        why = f"{processes} Neuron process{'es' * (processes != 1)}, no core busy"
        return Stage.IDLE, None, why, derived


def _compiling(columns: Columns, inventory: Inventory) -> str:
    compilation = inventory.compilation
    assert compilation is not None
    parts = [f"{compilation.processes} compiler{'s' * (compilation.processes != 1)}"]
    modules = _value(columns, "node_compile_cache_modules")
    if modules is not None:
        parts.append(f"{modules:.0f} modules in the cache")
    return ", ".join(parts)


def _value(columns: Columns, name: str) -> float | None:
    return _largest(columns.get(name))


def _largest(column: Column | None) -> float | None:
    known = [] if column is None else [value for value in column.tolist() if value == value]
    return max(known, default=None)
