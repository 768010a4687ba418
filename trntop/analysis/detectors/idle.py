"""Processes that hold NeuronCores and do nothing with them."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trntop.analysis.detector import Signal, Verdict
from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import Column, Evidence, Key, NodeView, Runtime, Stage
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.axis import Axis, PartAxis, realigned
from trntop.pipeline.phase import Run
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class IdleTuning:
    """What idle means, and what explains it."""

    max_utilization: float = 0.01
    """Utilization below which a core does nothing."""
    listed: int = 4
    """Processes listed as evidence."""
    cpu_busy: float = 0.6
    """Share of the host's CPU time from which it may well compile in a container."""
    io_busy: float = 100e6
    """Bytes per second from or to disks, Lustre or NFS at which a run loads or saves something."""
    same_pause: float = 10.0
    """Seconds before its job's pause from which a process's idling belongs to it."""
    serving_factor: float = 15.0
    """Times the limit for which a process that has worked alone may idle: it serves requests."""


TUNING = IdleTuning()
_MOVED = tuple(
    f"node_{where}_{way}_bytes_per_second"
    for where in ("disk", "lustre", "nfs")
    for way in ("read", "written")
)
_EXPLAINS = (Stage.COMPILING, Stage.WARMING_UP, Stage.CHECKPOINTING, Stage.EVALUATING)


class IdleAllocation:
    """Seconds for which a process has held memory of cores and executed nothing, per node.

    The longest counts; all idle processes of a node are one matter. Those of a process that has
    worked alone, without other nodes, count less.
    """

    inputs = frozenset(
        (
            "job_step",
            "neuroncore_utilization_ratio",
            "node_compilers",
            "node_cpu_busy_ratio",
            "node_neuroncore_utilization_max_ratio",
            "node_neuroncore_utilization_min_ratio",
            "runtime_device_memory_used_bytes",
            "runtime_executions_completed_per_second",
            *_MOVED,
        )
    )

    def __init__(self, settings: Settings, period: float) -> None:
        self._limit = settings.idle
        self._axis = PartAxis(Axis(), ())
        self._since: Column = np.empty(0)
        """When each process fell idle, NaN while it works, `[process]`."""
        self._alone: Column = np.empty(0)
        """1 for a process that has worked without other nodes, `[process]`."""
        self._nodes = Axis()

    def signal(self, tick: Tick) -> Signal:
        """NaN for a node whose utilization is unknown."""
        axis = tick.parts(Entity.RUNTIME)
        if axis is not self._axis:
            self._since = realigned(self._since, self._axis, axis)
            self._alone = np.nan_to_num(realigned(self._alone, self._axis, axis))
            self._axis = axis
        self._nodes = tick.nodes
        known = ~np.isnan(tick.column("node_neuroncore_utilization_max_ratio"))
        idle = self._idle(tick, axis)
        self._since = np.where(
            idle,
            np.fmin(self._since, tick.time),
            np.where(known[axis.owner], np.nan, self._since),
        )
        works = tick.column("runtime_executions_completed_per_second") > 0
        self._alone[works] = ~tick.runs.nodes.cooperates[axis.owner[works]]
        values = np.where(known, 0.0, np.nan)
        np.fmax.at(values, axis.owner[idle], self._lasted(tick.time)[idle])
        return Signal(tick.nodes, values, self._limit, 0.0)

    def _lasted(self, now: float) -> Column:
        """Seconds for which each process has idled, as they count, `[process]`."""
        lasted: Column = (now - self._since) / np.where(self._alone > 0, TUNING.serving_factor, 1.0)
        return lasted

    def _idle(self, tick: Tick, axis: PartAxis) -> npt.NDArray[np.bool_]:
        """Which processes hold cores that do nothing now, and nothing explains it."""
        owner = axis.owner
        asleep = tick.column("node_neuroncore_utilization_max_ratio") < TUNING.max_utilization
        partly = (
            tick.column("node_neuroncore_utilization_min_ratio") < TUNING.max_utilization
        ) & ~asleep
        holds = tick.column("runtime_device_memory_used_bytes") > 0
        executed = tick.column("runtime_executions_completed_per_second")
        idle = holds & ~(executed > 0) & asleep[owner]
        # While others work, a process must itself report that it does not.
        for index in np.flatnonzero(holds & (executed == 0) & partly[owner]).tolist():
            view, pid = tick.views[owner[index]], axis.key(index)[1]
            idle[index] = _cores_idle(view, _runtime(view, pid))
        for node in sorted(set(owner[idle].tolist())):
            view, own = tick.views[node], slice(axis.starts[node], axis.starts[node + 1])
            since = np.fmin.reduce(self._since[own], initial=tick.time)
            run = tick.runs.run_of(view.name)
            if _at_work(view, alone=bool(asleep[node])) or _explained(run, since, tick.time):
                idle[own] = False
        return idle

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        """Names the process if it is one of several."""
        node = str(key)
        view, index = tick.view(node), self._nodes.index_of[key]
        own = slice(self._axis.starts[index], self._axis.starts[index + 1])
        since = dict(zip(self._axis.parts[index], self._since[own].tolist(), strict=True))
        lasted = self._lasted(tick.time)[own].tolist()
        idle = [pid for pid, time in zip(since, lasted, strict=True) if time > self._limit]
        held = {pid: _held(view, pid) for pid in idle}
        cores = {
            core
            for runtime in view.inventory.runtimes
            for core in runtime.cores
            if runtime.pid in held
        }
        what = f"{units.bytes_iec(sum(held.values()))} of HBM"
        what += f" and {len(cores)} core{'s' * (len(cores) != 1)}" if cores else ""
        who = (
            f"process {idle[0]} holds"
            if len(idle) == 1
            else f"{len(idle)} of {len(since)} processes hold"
        )
        # Only a job that it reports or has stopped with: an idle process is often left over.
        jobs, began = view.inventory.of(Entity.JOB), min(since[pid] for pid in idle)
        run = tick.runs.run_of(node)
        if run is not None and run.paused and began > tick.time - run.paused - TUNING.same_pause:
            jobs = (run.job or "",) * (run.job is not None)
        commands = {process.pid: f" ({process.command})" for process in view.inventory.processes}
        return Verdict(
            fields={"node": node, "who": f"{who} {what}"},
            job=str(jobs[0]) if len(jobs) == 1 else None,
            node=node,
            component=f"runtime:{idle[0]}" if len(idle) == 1 else None,
            evidence=tuple(
                Evidence(
                    f"process {pid}{commands.get(int(pid), '')}: {units.bytes_iec(held[pid])}, "
                    f"nothing executed for {units.span(tick.time - since[pid])}",
                    node, "runtime_device_memory_used_bytes", held[pid],
                )
                for pid in idle[:TUNING.listed]
            ),
            since=began,
        )  # fmt: skip

    def reset(self) -> None:
        """Drops since when processes idle."""
        self._since[:] = np.nan
        self._alone[:] = 0.0


def _held(view: NodeView, pid: Key) -> float:
    """Bytes of HBM that a process holds."""
    held = view.frame.columns.get("runtime_device_memory_used_bytes")
    pids = view.inventory.of(Entity.RUNTIME)
    return float(held[pids.index(pid)]) if held is not None and pid in pids else np.nan


def _runtime(view: NodeView, pid: Hashable) -> Runtime | None:
    return next((runtime for runtime in view.inventory.runtimes if runtime.pid == pid), None)


def _cores_idle(view: NodeView, runtime: Runtime | None) -> bool:
    """Whether the cores on which a process holds memory are known to do nothing."""
    utilization = view.frame.columns.get("neuroncore_utilization_ratio")
    if utilization is None or runtime is None or not runtime.cores:
        return False
    own = [core for core in runtime.cores if core < len(utilization)]
    return bool((utilization[own] < TUNING.max_utilization).all())


def _explained(run: Run | None, since: float, now: float) -> bool:
    """Whether its job explains that a process has idled since then; not if it did before."""
    if run is None or run.stage not in _EXPLAINS:
        return False
    return run.moved is None or since > now - run.paused - TUNING.same_pause


def _at_work(view: NodeView, *, alone: bool) -> bool:
    """Whether something explains that cores do nothing; `alone`: no core of the node works."""
    frame, inventory = view.frame, view.inventory
    if inventory.compilation is not None or (frame.value("node_compilers") or 0) > 0:
        return True
    steps = frame.columns.get("job_step")
    if alone and steps is not None and not np.isnan(steps).all():
        return True
    moved = (frame.value(name) or 0.0 for name in _MOVED)
    return (
        max(moved) > TUNING.io_busy or (frame.value("node_cpu_busy_ratio") or 0.0) > TUNING.cpu_busy
    )
