"""The JSON documents: `trntop snapshot --json` and `trntop analyze --json`.

Values have their catalog names. An unknown value is null if other parts have one, and its name is
missing if none has; there is no NaN.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from trntop.analysis.coverage import lack
from trntop.analysis.rulebook import NEXT_STEPS
from trntop.analysis.runbook import location
from trntop.catalog import Entity, Provenance, of_entity
from trntop.core.model import (
    ClusterTotals,
    Compilation,
    Coverage,
    Evidence,
    Frame,
    Incident,
    Inventory,
    NodeView,
    Phase,
    Process,
    Runtime,
    SourceState,
    View,
)

SCHEMA = 1
"""Increases when a name changes its meaning or is removed; new names do not count."""

_EXACT = 2.0**53
"""Up to here every integer is a float."""

Document = dict[str, Any]


def snapshot(view: View) -> Document:
    """One view: every node with its sources, values, parts, and all incidents.

    With a Prometheus backend, `nodes` may be the worst only; `cluster` is about all of them.
    """
    whole = view.cluster.whole
    return {
        "schema": SCHEMA,
        "time": _number(view.time),
        "simulated": view.cluster.simulated,
        "ended": view.ended,
        "cluster": None if whole is None else _whole(whole, view.time),
        "nodes": [_node(node) for node in view.cluster.nodes.values()],
        "incidents": [incident(found) for found in view.incidents],
        **_coverage(view.coverage, view.time),
        "problems": [] if view.cluster.has_values else view.cluster.problems,
    }


def analysis(
    nodes: int,
    duration_seconds: float,
    incidents: Iterable[Incident],
    *,
    coverage: Coverage = Coverage(),  # noqa: B008 — frozen
    now: float = 0.0,
    simulated: bool = False,
    problems: Sequence[str] = (),
) -> Document:
    """What the analysis found in a stream of `nodes` nodes and `duration_seconds`.

    Args:
        nodes: how many nodes.
        duration_seconds: of the stream.
        incidents: those to report.
        coverage: from when on the rules had enough data.
        now: the end of the stream.
        simulated: whether any values are.
        problems: why there was nothing to analyze; empty if there was.
    """
    return {
        "schema": SCHEMA,
        "simulated": simulated,
        "nodes": nodes,
        "duration_seconds": _number(duration_seconds),
        "incidents": [incident(found) for found in incidents],
        **_coverage(coverage, now),
        "problems": list(problems),
    }


def _coverage(coverage: Coverage, now: float) -> Document:
    """From when on incidents can have been found: by all rules, and by each of them."""
    since = coverage.since
    return {
        "judged_from": _number(since) if since is not None and since <= now else None,
        "rules": [
            {
                "kind": rule.kind,
                "judged_from": _number(rule.since) if rule.judges(now) else None,
                "needs": lack(rule, now),
            }
            for rule in coverage.rules
        ],
    }


def incident_report(
    incidents: Iterable[Incident],
    *,
    judge: str,
    nodes: int,
    now: float | None,
    since: float | None,
    judged_from: float | None,
    behind: float,
    simulated: bool,
    problems: Iterable[str],
) -> Document:
    """The incidents of the last day.

    Args:
        incidents: open ones first.
        judge: what evaluated the rules: `agent`, `aggregator` or `prometheus`.
        nodes: the number of nodes that it evaluates.
        now: the time; None before the first tick.
        since: the start of the watch; earlier incidents are those of earlier runs.
        judged_from: from when on its rules had enough data; None before that.
        behind: seconds by which it is behind; 0 if it is not.
        simulated: whether any values are.
        problems: why it has no live values; empty if it has.
    """
    return {
        "schema": SCHEMA,
        "judge": judge,
        "time": _number(now),
        "since": _number(since),
        "judged_from": _number(judged_from),
        "behind_seconds": _number(behind) if behind else None,
        "simulated": simulated,
        "nodes": nodes,
        "incidents": [incident(found) for found in incidents],
        "problems": list(problems),
    }


def inventory(
    view: View | None, version: str, period: float, streams: Mapping[str, int]
) -> Document:
    """The nodes of an agent, without values.

    Args:
        view: the newest view; None without one.
        version: of the agent.
        period: seconds between its ticks.
        streams: statistics of its clients, by name.
    """
    nodes = {} if view is None else view.cluster.nodes
    return {
        "schema": SCHEMA,
        "version": version,
        "time": None if view is None else _number(view.time),
        "period_seconds": _number(period),
        "streams": dict(streams),
        "nodes": [_existing(node) for node in nodes.values()],
    }


def _existing(node: NodeView) -> Document:
    """The parts and sources of a node."""
    inventory = node.inventory
    return {
        "node": node.name,
        "state": str(node.state),
        "simulated": node.frame.simulated,
        "instance_type": inventory.instance_type or None,
        "facts": dict(inventory.facts),
        "lnc": inventory.lnc,
        "sources": [_source(source, node.frame.time) for source in node.frame.sources],
        "parts": {str(entity): list(keys) for entity, keys in inventory.keys.items() if keys},
    }


def incident(incident: Incident) -> Document:
    """One incident; `closed_at` is null while it is open; `returns` counts its recurrences.

    `next_step` and `runbook`, a path in the project, are null for custom rules.
    """
    names = ("id", "kind", "severity", "job", "node", "component", "opened_at", "closed_at",
             "detected_at", "returns", "summary")  # fmt: skip
    return {
        **_members(incident, names),
        "next_step": NEXT_STEPS.get(incident.kind),
        "runbook": location(incident.kind),
        "evidence": [_evidence(piece) for piece in incident.evidence],
    }


def encode(document: Document, *, pretty: bool = False) -> bytes:
    """UTF-8 JSON, on one line unless `pretty`. NaN and infinities cannot come out."""
    # msgspec writes them as null, should one have slipped in.
    data = msgspec.json.encode(document)
    return msgspec.json.format(data, indent=2) if pretty else data


def _evidence(evidence: Evidence) -> Document:
    members = _members(evidence, ("text", "node", "quantity", "value", "limit"))
    return {name: value for name, value in members.items() if value is not None}


def _members(value: object, names: Iterable[str]) -> Document:
    """Attributes as JSON members."""
    found = {name: getattr(value, name) for name in names}
    return {
        name: _number(member) if isinstance(member, float) else member
        for name, member in found.items()
    }


def _whole(whole: ClusterTotals, now: float) -> Document:
    """The totals of a cluster and its jobs, and what is missing."""
    return {
        "nodes": whole.nodes,
        "worst_only": whole.chosen,
        "down": whole.down,
        "age_seconds": None if whole.newest is None else _number(max(0.0, now - whole.newest)),
        "old": whole.old,
        "judged": whole.judged,
        "values": _finite(whole.values),
        "jobs": [{"job": job, **_finite(values)} for job, values in whole.jobs.items()],
        "notes": list(whole.notes),
        "problem": whole.problem or None,
    }


def _finite(values: Mapping[str, float]) -> Document:
    return {
        name: number for name, value in values.items() if (number := _number(value)) is not None
    }


def _node(node: NodeView) -> Document:
    frame, inventory = node.frame, node.inventory
    tables = {entity: _table(frame, entity) for entity in Entity}
    return {
        "node": node.name,
        "state": str(node.state),
        "age_seconds": _number(node.age()),
        "simulated": frame.simulated,
        "instance_type": inventory.instance_type or None,
        "facts": dict(inventory.facts),
        "lnc": inventory.lnc,
        "phase": _phase(frame.phase),
        "compilation": _compilation(inventory.compilation),
        "sources": [_source(source, frame.time) for source in frame.sources],
        "provenance": {
            quantity.name: str(_provenance(node, quantity.name))
            for entity in Entity
            for quantity in of_entity(entity)
            if quantity.name in tables[entity]
        },
        "absent": dict(frame.reasons),
        "values": {name: values[0] for name, values in tables[Entity.NODE].items()},
        "devices": list(_linked(inventory, Entity.DEVICE, tables[Entity.DEVICE])),
        "cores": list(_cores(inventory, tables[Entity.CORE])),
        "physical_cores": list(_physical_cores(inventory, tables[Entity.PHYSICAL_CORE])),
        "efa": list(_linked(inventory, Entity.EFA, tables[Entity.EFA])),
        "runtimes": list(_runtimes(inventory, tables[Entity.RUNTIME])),
        "processes": [_process(process) for process in inventory.processes],
        "profiles": [profile.name or profile.uuid for profile in inventory.profiles],
        "allocations": _allocations(inventory),
        "jobs": list(_jobs(inventory, tables[Entity.JOB])),
        "links": list(_keyed(inventory, Entity.LINK, tables[Entity.LINK])),
        "ranks": list(_keyed(inventory, Entity.RANK, tables[Entity.RANK])),
    }


def _provenance(node: NodeView, name: str) -> Provenance:
    return Provenance.SIMULATED if node.frame.simulated else node.inventory.provenance(name)


def _phase(phase: Phase | None) -> Document | None:
    if phase is None:
        return None
    return {
        "phase": str(phase.stage),
        "since": _number(phase.since),
        "why": phase.why,
        "provenance": str(phase.provenance),
    }


def _compilation(compilation: Compilation | None) -> Document | None:
    if compilation is None:
        return None
    return {"since": _number(compilation.since), "processes": compilation.processes}


def _source(source: SourceState, now: float) -> Document:
    return {
        "source": source.name,
        "state": str(source.state),
        "reason": source.reason or None,
        "age_seconds": _number(source.age(now)),
        "period_seconds": _number(source.period),
        "counts": dict(source.counts),
    }


Table = Mapping[str, Sequence[int | float | None]]


def _table(frame: Frame, entity: Entity) -> Table:
    """Quantity → one value per key, for the quantities that have any."""
    return {
        quantity.name: [_number(value) for value in column.tolist()]
        for quantity in of_entity(entity)
        if (column := frame.columns.get(quantity.name)) is not None and np.isfinite(column).any()
    }


def _values(table: Table, index: int) -> Document:
    return {name: values[index] for name, values in table.items()}


def _cores(inventory: Inventory, table: Table) -> Iterator[Document]:
    devices = inventory.core_device.tolist()
    for index, core in enumerate(inventory.of(Entity.CORE)):
        device = devices[index] if index < len(devices) else None
        yield {"device": device, "core": core, **_values(table, index)}


def _physical_cores(inventory: Inventory, table: Table) -> Iterator[Document]:
    cores = [int(core) for core in inventory.of(Entity.PHYSICAL_CORE)]
    devices = inventory.physical_device.tolist()
    owned = list(zip(cores, devices, strict=False))
    # A flat index is device x places + core, and the highest core of a device fills its places.
    places = max((-(-(core + 1) // (device + 1)) for core, device in owned), default=1)
    for index, core in enumerate(cores):
        known = index < len(devices)
        yield {
            "device": devices[index] if known else None,
            "core": core % places if known else None,
            "physical_core": core,
            **_values(table, index),
        }


def _linked(inventory: Inventory, entity: Entity, table: Table) -> Iterator[Document]:
    """Devices or EFA devices: their location and values."""
    links: Mapping[Any, Mapping[str, str]] = (
        inventory.efa_links if entity is Entity.EFA else inventory.device_links
    )
    for index, key in enumerate(inventory.of(entity)):
        link = links.get(key)
        near = inventory.near_efa_devices(int(key)) if entity is Entity.DEVICE else ()
        yield {
            "device": key,
            **({"link": dict(link)} if link else {}),
            **({"near_efa": list(near)} if near else {}),
            **_values(table, index),
        }


def _jobs(inventory: Inventory, table: Table) -> Iterator[Document]:
    for index, job in enumerate(inventory.of(Entity.JOB)):
        yield {"job": job, **_stage(inventory, str(job)), **_values(table, index)}


def _keyed(inventory: Inventory, entity: Entity, table: Table) -> Iterator[Document]:
    for index, key in enumerate(inventory.of(entity)):
        yield {str(entity): key, **_values(table, index)}


def _stage(inventory: Inventory, job: str) -> Document:
    """The stage that the job's process reported last."""
    if job not in inventory.stages:
        return {}
    stage, since = inventory.stages[job]
    return {"stage": {"phase": str(stage), "since": _number(since)}}


def _process(process: Process) -> Document:
    return {
        "pid": process.pid,
        "command": process.command or None,
        "devices": list(process.devices),
        "runtime_version": process.runtime_version or None,
    }


def _allocations(inventory: Inventory) -> list[Document] | None:
    """Allocations of the node; null without a scheduler, empty without allocations."""
    if inventory.allocations is None:
        return None
    return [
        {
            "job": allocation.job or None,
            "namespace": allocation.namespace or None,
            "pod": allocation.pod or None,
            "container": allocation.container or None,
            "resource_claim": allocation.claim or None,
            "devices": list(inventory.held_devices(allocation)),
            "cores": list(allocation.cores),
            "whole_node": allocation.whole,
        }
        for allocation in inventory.allocations
    ]


def _runtimes(inventory: Inventory, table: Table) -> Iterator[Document]:
    known = {runtime.pid: runtime for runtime in inventory.runtimes}
    pids = [int(pid) for pid in inventory.of(Entity.RUNTIME)]
    for index, pid in enumerate(pids):
        yield {**_runtime(known.get(pid, Runtime(pid, ""))), **_values(table, index)}
    # A runtime that could not be read has no columns, but an error.
    for pid in sorted(known.keys() - set(pids)):
        yield _runtime(known[pid])


def _runtime(runtime: Runtime) -> Document:
    return {
        "pid": runtime.pid,
        "tag": runtime.tag or None,
        "error": runtime.error or None,
        "models": [neff.name for neff in runtime.neffs],
        "cores": list(runtime.cores),
    }


def _number(value: float | None) -> int | float | None:
    """Integral values as integers; a value that is not finite is unknown."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if value == int(value) and abs(value) <= _EXACT else value
