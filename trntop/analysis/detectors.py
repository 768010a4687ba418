"""The signals behind the rules: one value per subject and tick, and what to say of a subject.

A subject is a job's name or a node's name. A detector keeps its own window, returns NaN where
nothing is known, and describes a subject only when asked, when an incident opens or lasts.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trntop import units
from trntop.analysis.blame import suspect
from trntop.analysis.windows import RollingMean
from trntop.catalog import (
    EXECUTION_ERRORS,
    FAILED_STATUSES,
    LOOP_PACED,
    UNCORRECTED_ECC,
    Entity,
)
from trntop.jobs import job_mean
from trntop.model import Cluster, Column, Evidence, NodeView, Severity, State
from trntop.settings import Analysis as Settings

TINY = 1e-9
"""A limit of 0 flags any communication at all."""


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

    def __init__(self, settings: Settings, period: float) -> None:
        self._settings = settings
        ticks = round(settings.window / period)
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
        excess = np.fmax(
            share / max(settings.comm_share, TINY),
            exposed / max(settings.exposed_comm_share, TINY),
        )
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
                f"comm share {units.percent(share)} of step time, "
                f"mean of {settings.window:g} s over {nodes} nodes; "
                f"limit {units.percent(settings.comm_share)}",
                quantity="job_comm_share_ratio", value=share, limit=settings.comm_share,
            )
        ]  # fmt: skip
        if exposed == exposed:
            evidence.append(
                Evidence(
                    f"exposed comm share {units.percent(exposed)}; "
                    f"limit {units.percent(settings.exposed_comm_share)}",
                    quantity="job_exposed_comm_share_ratio",
                    value=exposed,
                    limit=settings.exposed_comm_share,
                )
            )
        culprit = suspect(cluster, job)
        effect = f"comm is {100 * share:.0f} % of {job}'s step"
        return Verdict(
            summary=f"{culprit.phrase}; {effect}" if culprit else f"{effect}; no node stands out",
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

    def __init__(self, settings: Settings, period: float) -> None:
        self._limit = settings.node_silent
        self._jobs: dict[str, str] = {}
        """What ran on a node when it last spoke."""

    def signal(self, cluster: Cluster) -> Signal:
        """Nodes that never spoke, whose recording ended, or that only a training loop spoke for
        have no age: a loop has no beat to miss.
        """
        for job, nodes in cluster.jobs.items():
            self._jobs.update(dict.fromkeys(nodes, job))
        heard = (view.frame.heard for view in cluster.nodes.values())
        ages = cluster.time - np.fromiter(heard, np.float64, len(cluster.nodes))
        for place in np.flatnonzero(ages > self._limit):
            view = cluster.nodes[cluster.names[place]]
            if view.state is State.ENDED or _loop_paced(view):
                ages[place] = np.nan
            elif ages[place] <= view.patience:
                ages[place] = 0.0  # a slow source is not silent between its readings
        # A reading clears it at once: whoever speaks is not silent.
        return Signal(cluster.names, ages, self._limit, self._limit)

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


def _loop_paced(view: NodeView) -> bool:
    """Whether all that was ever heard of a node came at the pace of a training loop."""
    return all(one.name in LOOP_PACED for one in view.frame.sources if one.time is not None)


class MemoryPressure:
    """The fullest HBM of a node."""

    def __init__(self, settings: Settings, period: float) -> None:
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
                    f"device {device} uses {units.percent(ratio)} of its HBM; "
                    f"limit {units.percent(self._limit)}",
                    view.name, "device_memory_used_ratio", ratio, self._limit,
                ),
            ),
        )  # fmt: skip

    def reset(self) -> None:
        """Nothing is kept."""


class _Growth:
    """How much a count per node has grown since the tick before, `[node]`.

    The first sight of a count is no growth, an absent one forgets nothing, and what a count
    that went back shows is new: it was reset.
    """

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._before = np.empty(0)

    def step(self, names: tuple[str, ...], totals: Column) -> Column:
        if names != self._names:
            known = dict(zip(self._names, self._before.tolist(), strict=True))
            self._before = np.array([known.get(name, np.nan) for name in names])
            self._names = names
        before = np.where(np.isnan(self._before), totals, self._before)
        self._before = np.where(np.isnan(totals), self._before, totals)
        growth: Column = np.where(totals >= before, totals - before, totals)
        return growth

    def clear(self) -> None:
        self._names, self._before = (), np.empty(0)


_FAILED = tuple(f"node_executions_{status}_total" for status in FAILED_STATUSES)
_ERRORS = tuple(f"node_execution_errors_{error}_total" for error in EXECUTION_ERRORS)
_RUNTIME_FAILURES = (
    *(f"runtime_executions_{status}_per_second" for status in FAILED_STATUSES),
    *(f"runtime_errors_{error}_per_second" for error in EXECUTION_ERRORS),
)


class ExecutionErrors:
    """Executions that failed since the last tick, per node."""

    def __init__(self, settings: Settings, period: float) -> None:
        self._growth = _Growth()
        self._before = Cluster()
        self._now = Cluster()

    def signal(self, cluster: Cluster) -> Signal:
        """Growth of all failure and error counts of a node."""
        self._before, self._now = self._now, cluster
        totals = cluster.column("node_executions_failed_total")
        return Signal(cluster.names, self._growth.step(cluster.names, totals), 0.0, 0.0)

    def verdict(self, key: Hashable, cluster: Cluster) -> Verdict:
        """Names the runtime that fails most and the kinds of failure."""
        view = cluster.nodes[str(key)]
        rates = {
            name: view.frame.columns[name]
            for name in _RUNTIME_FAILURES
            if name in view.frame.columns and np.nansum(view.frame.columns[name]) > 0
        }
        before = self._before.nodes.get(view.name)
        totals = {
            name: value
            for name in (*_FAILED, *_ERRORS)
            if (value := view.frame.value(name)) is not None
            and value > ((before.frame.value(name) or 0.0) if before else 0.0)
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
        self._growth.clear()


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


class EccUncorrected:
    """Uncorrected memory errors that appeared since the monitor first looked, per node."""

    def __init__(self, settings: Settings, period: float) -> None:
        self._growth = _Growth()
        self._grown: Column = np.empty(0)
        self._before = Cluster()
        self._now = Cluster()

    def signal(self, cluster: Cluster) -> Signal:
        """Growth of the node's count; counts since boot do not matter."""
        self._before, self._now = self._now, cluster
        totals = cluster.column("node_ecc_uncorrected_events")
        self._grown = self._growth.step(cluster.names, totals)
        return Signal(cluster.names, self._grown, 0.0, 0.0)

    def verdict(self, key: Hashable, cluster: Cluster) -> Verdict:
        """Names the device whose count grew most since the tick before."""
        node = str(key)
        view, before = cluster.nodes[node], self._before.nodes.get(node)
        count = int(self._grown[cluster.names.index(node)])
        device = None
        if before is not None:
            grown = [
                view.frame.columns[event] - before.frame.columns[event]
                for event in UNCORRECTED_ECC[1]
                if event in view.frame.columns
                and event in before.frame.columns
                and len(view.frame.columns[event]) == len(before.frame.columns[event])
            ]
            if grown:
                most = int(np.argmax(np.nansum(grown, axis=0)))
                device = view.inventory.of(Entity.DEVICE)[most]
        where = f"device {device} on {node}" if device is not None else node
        errors = "error" if count == 1 else "errors"
        return Verdict(
            summary=f"{where} reported {count} uncorrected memory {errors}",
            severity=Severity.CRITICAL,
            job=_job_of(view),
            node=node,
            component=None if device is None else f"device:{device}",
            evidence=(
                Evidence(
                    f"{count} new uncorrected ECC {errors} since the reading before",
                    node, "node_ecc_uncorrected_events", float(count), 0.0,
                ),
            ),
        )  # fmt: skip

    def reset(self) -> None:
        """Forgets the counts."""
        self._growth.clear()


def _job_of(view: NodeView) -> str | None:
    """The node's job, when it has exactly one."""
    jobs = view.inventory.of(Entity.JOB)
    return str(jobs[0]) if len(jobs) == 1 else None
