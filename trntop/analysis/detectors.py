"""The signals behind the rules: one value per subject and tick, and what to say of a subject.

A subject is a job's name or a node's name. A detector keeps its own window, returns NaN where
nothing is known, and describes a subject only when asked, when an incident opens or lasts.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trntop.analysis.blame import suspect
from trntop.analysis.windows import RollingMean
from trntop.catalog import EXECUTION_ERRORS, EXECUTION_STATUSES, Entity
from trntop.jobs import job_mean
from trntop.model import Cluster, Column, Evidence, NodeView, Severity, State
from trntop.settings import Analysis as Settings


@dataclass(frozen=True, slots=True)
class Signal:
    """One tick of a detector: `values[i]` belongs to `keys[i]`."""

    keys: tuple[str, ...]
    values: Column
    limit: float
    clear: float
    """At or below this the condition has passed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What there is to say of a subject now."""

    summary: str
    severity: Severity
    job: str | None = None
    node: str | None = None
    component: str | None = None
    evidence: tuple[Evidence, ...] = ()


class Detector(Protocol):
    """Turns clusters into signals and subjects into verdicts."""

    def signal(self, cluster: Cluster) -> Signal:
        """Takes one tick."""
        ...

    def verdict(self, key: Hashable, cluster: Cluster) -> Verdict:
        """Describes an open subject by what the newest ticks said."""
        ...

    def reset(self) -> None:
        """Forgets the past: the stream's clock was set back."""
        ...


class CommBound:
    """The share of step time in which collectives ran, per job: window mean over its nodes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        ticks = round(settings.window)
        self._share = RollingMean(ticks)
        self._exposed = RollingMean(ticks)
        self._latest: dict[str, tuple[float, float]] = {}

    def signal(self, cluster: Cluster) -> Signal:
        """The larger of both shares as multiples of their limits, so that 1 is the limit."""
        settings = self._settings
        jobs = tuple(sorted(cluster.jobs))
        share = self._push(self._share, cluster, jobs, "job_comm_share_ratio")
        exposed = self._push(self._exposed, cluster, jobs, "job_exposed_comm_share_ratio")
        self._latest = dict(
            zip(jobs, zip(share.tolist(), exposed.tolist(), strict=True), strict=True)
        )
        excess = np.fmax(share / settings.comm_share, exposed / settings.exposed_comm_share)
        return Signal(jobs, excess, 1.0, settings.clear_ratio)

    def _push(
        self, window: RollingMean, cluster: Cluster, jobs: tuple[str, ...], quantity: str
    ) -> Column:
        means = [job_mean(cluster, job, quantity) for job in jobs]
        return window.push(jobs, np.array(means, dtype=np.float64))

    def verdict(self, key: Hashable, cluster: Cluster) -> Verdict:
        """Names the job, and the node or card that holds it back if one stands out."""
        settings, job = self._settings, str(key)
        share, exposed = self._latest.get(job, (float("nan"), float("nan")))
        nodes = len(cluster.jobs.get(job, ()))
        critical = exposed > settings.exposed_comm_share
        evidence = [
            Evidence(
                f"comm share {share:.1%} of step time, mean of {settings.window:g} s over "
                f"{nodes} nodes; limit {settings.comm_share:.0%}",
                quantity="job_comm_share_ratio", value=share, limit=settings.comm_share,
            )
        ]  # fmt: skip
        if exposed == exposed:
            evidence.append(
                Evidence(
                    f"exposed comm share {exposed:.1%}; limit {settings.exposed_comm_share:.0%}",
                    quantity="job_exposed_comm_share_ratio",
                    value=exposed,
                    limit=settings.exposed_comm_share,
                )
            )
        culprit = suspect(cluster, job)
        cause = culprit.phrase if culprit else "no node stands out"
        return Verdict(
            summary=f"{job} spends {100 * share:.0f} % of step time in communication: {cause}",
            severity=Severity.CRITICAL if critical else Severity.WARNING,
            job=job,
            node=culprit.node if culprit else None,
            component=culprit.component if culprit else None,
            evidence=(*evidence, *(culprit.evidence if culprit else ())),
        )

    def reset(self) -> None:
        """Forgets both windows."""
        self._share.clear()
        self._exposed.clear()


class NodeSilent:
    """Seconds since any source of a node was heard."""

    def __init__(self, settings: Settings) -> None:
        self._limit = settings.node_silent
        self._jobs: dict[str, str] = {}
        """What ran on a node when it last spoke."""

    def signal(self, cluster: Cluster) -> Signal:
        """Nodes that never spoke or whose recording ended have no age."""
        for name, view in cluster.nodes.items():
            if job := _job_of(view):
                self._jobs[name] = job
        ages = [
            float("nan") if view.state is State.ENDED or (age := view.age()) is None else age
            for view in cluster.nodes.values()
        ]
        # A reading clears it at once: whoever speaks is not silent.
        return Signal(cluster.names, np.array(ages, dtype=np.float64), self._limit, self._limit)

    def verdict(self, key: Hashable, cluster: Cluster) -> Verdict:
        """Says for how long, and what the sources last said."""
        view = cluster.nodes[str(key)]
        age = view.age() or 0.0
        reasons = [
            f"{source.name}: {source.reason or source.state}" for source in view.frame.sources
        ]
        return Verdict(
            summary=f"{view.name} has been silent for {age:.0f} s",
            severity=Severity.CRITICAL,
            job=self._jobs.get(view.name),
            node=view.name,
            evidence=tuple(Evidence(reason, view.name) for reason in reasons),
        )

    def reset(self) -> None:
        """Forgets who ran what."""
        self._jobs.clear()


class MemoryPressure:
    """The fullest HBM of a node."""

    def __init__(self, settings: Settings) -> None:
        self._limit = settings.memory
        self._clear = settings.memory * max(settings.clear_ratio, 0.97)

    def signal(self, cluster: Cluster) -> Signal:
        """One value per node: many full devices of one node are one matter."""
        values = cluster.column("node_device_memory_used_max_ratio")
        return Signal(cluster.names, values, self._limit, self._clear)

    def verdict(self, key: Hashable, cluster: Cluster) -> Verdict:
        """Names the fullest device."""
        view = cluster.nodes[str(key)]
        ratios = view.frame.columns.get("device_memory_used_ratio")
        if ratios is None or np.isnan(ratios).all():
            return Verdict(f"HBM of {view.name} is nearly full", Severity.WARNING, node=view.name)
        place = int(np.nanargmax(ratios))
        device, ratio = view.inventory.of(Entity.DEVICE)[place], float(ratios[place])
        full = int((ratios > self._limit).sum())
        others = f" and {full - 1} more" if full > 1 else ""
        return Verdict(
            summary=f"HBM of device {device}{others} on {view.name} is {100 * ratio:.0f} % full",
            severity=Severity.WARNING,
            job=_job_of(view),
            node=view.name,
            component=f"device:{device}",
            evidence=(
                Evidence(
                    f"device {device} uses {ratio:.1%} of its HBM; limit {self._limit:.0%}",
                    view.name, "device_memory_used_ratio", ratio, self._limit,
                ),
            ),
        )  # fmt: skip

    def reset(self) -> None:
        """Nothing is kept."""


class _Increase:
    """How much a count per node has grown since the tick before; the first sight is no growth."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}

    def step(self, node: str, total: float) -> float:
        """The growth; NaN for an unknown total, which forgets nothing."""
        if total != total:
            return total
        before = self._before.get(node)
        self._before[node] = total
        # A count that went back was reset: what it shows now is new.
        return 0.0 if before is None else (total - before if total >= before else total)

    def clear(self) -> None:
        """Forgets all counts."""
        self._before.clear()


_FAILED = tuple(
    f"node_executions_{status}_total" for status in EXECUTION_STATUSES if status != "completed"
)
_ERRORS = tuple(f"node_execution_errors_{error}_total" for error in EXECUTION_ERRORS)
_RUNTIME_FAILURES = tuple(
    f"runtime_executions_{status}_per_second"
    for status in EXECUTION_STATUSES
    if status != "completed"
) + tuple(f"runtime_errors_{error}_per_second" for error in EXECUTION_ERRORS)


class ExecutionErrors:
    """Executions that failed since the last tick, per node."""

    def __init__(self, settings: Settings) -> None:
        self._increase = _Increase()

    def signal(self, cluster: Cluster) -> Signal:
        """Growth of all failure and error counts of a node."""
        grown = []
        for name, view in cluster.nodes.items():
            counts = [view.frame.value(quantity) for quantity in (*_FAILED, *_ERRORS)]
            known = [count for count in counts if count is not None]
            growth = self._increase.step(name, sum(known) if known else float("nan"))
            grown.append(growth)
        return Signal(cluster.names, np.array(grown, dtype=np.float64), 0.0, 0.0)

    def verdict(self, key: Hashable, cluster: Cluster) -> Verdict:
        """Names the runtime that fails most and the kinds of failure."""
        view = cluster.nodes[str(key)]
        rates = {
            name: view.frame.columns[name]
            for name in _RUNTIME_FAILURES
            if name in view.frame.columns and np.nansum(view.frame.columns[name]) > 0
        }
        totals = {
            name: value
            for name in (*_FAILED, *_ERRORS)
            if (value := view.frame.value(name)) is not None and value > 0
        }
        kinds = ", ".join(_failure(name) for name in totals) or "failed executions"
        component = None
        if rates:
            worst = int(np.nanargmax(sum(np.nan_to_num(rate) for rate in rates.values())))
            component = f"runtime:{view.inventory.of(Entity.RUNTIME)[worst]}"
        return Verdict(
            summary=f"executions fail on {view.name}: {kinds}",
            severity=Severity.CRITICAL,
            job=_job_of(view),
            node=view.name,
            component=component,
            evidence=tuple(
                Evidence(f"{_failure(name)}: {value:.0f} so far", view.name, name, value, 0.0)
                for name, value in totals.items()
            ),
        )

    def reset(self) -> None:
        """Forgets the counts."""
        self._increase.clear()


def _failure(name: str) -> str:
    """`node_execution_errors_hardware_total` to `hardware errors`."""
    if name.startswith("node_execution_errors_"):
        kind = name.removeprefix("node_execution_errors_").removesuffix("_total")
        return f"{kind} errors"
    status = name.removeprefix("node_executions_").removesuffix("_total")
    return {
        "completed_with_err": "completed with errors",
        "completed_with_num_err": "completed with numerical errors",
    }.get(status, status.replace("_", " "))


_UNCORRECTED = ("device_mem_ecc_uncorrected_events", "device_sram_ecc_uncorrected_events")


class EccUncorrected:
    """Uncorrected memory errors that appeared since the monitor first looked, per node."""

    def __init__(self, settings: Settings) -> None:
        self._before: dict[str, Column] = {}
        self._grown: dict[str, Column] = {}

    def signal(self, cluster: Cluster) -> Signal:
        """Growth of the devices' counts; counts since boot do not matter."""
        values = []
        for name, view in cluster.nodes.items():
            counts = [
                view.frame.columns[event] for event in _UNCORRECTED if event in view.frame.columns
            ]
            if not counts:
                values.append(float("nan"))
                continue
            total = np.nansum(np.vstack(counts), axis=0)
            before = self._before.get(name)
            self._before[name] = total
            if before is None or len(before) != len(total):
                values.append(0.0)
                continue
            grown = np.where(total >= before, total - before, total)
            if grown.any():
                self._grown[name] = grown
            values.append(float(grown.sum()))
        return Signal(cluster.names, np.array(values, dtype=np.float64), 0.0, 0.0)

    def verdict(self, key: Hashable, cluster: Cluster) -> Verdict:
        """Names the device."""
        node = str(key)
        view, grown = cluster.nodes[node], self._grown.get(node)
        device = None
        if grown is not None and len(grown) == len(view.inventory.of(Entity.DEVICE)):
            device = view.inventory.of(Entity.DEVICE)[int(np.argmax(grown))]
        where = f"device {device} on {node}" if device is not None else node
        count = int(grown.sum()) if grown is not None else 1
        errors = "error" if count == 1 else "errors"
        return Verdict(
            summary=f"{where} reported {count} uncorrected memory {errors}",
            severity=Severity.CRITICAL,
            job=_job_of(view),
            node=node,
            component=None if device is None else f"device:{device}",
            evidence=(
                Evidence(
                    f"{count} new uncorrected ECC {errors} since the reading before", node,
                    _UNCORRECTED[0], float(count), 0.0,
                ),
            ),
        )  # fmt: skip

    def reset(self) -> None:
        """Forgets the counts."""
        self._before.clear()


def _job_of(view: NodeView) -> str | None:
    """The node's job, when it has exactly one."""
    jobs = view.inventory.of(Entity.JOB)
    return str(jobs[0]) if len(jobs) == 1 else None
