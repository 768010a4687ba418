"""The fields of a filter: numbers, texts and flags of a node."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trntop.analysis.rulebook import KINDS
from trntop.catalog import CATALOG, METRIC_PREFIX, Entity
from trntop.core.model import Column, NodeView, Severity, Stage, State

from ..measures import MEASURES, parts
from ..view_model import ViewModel

Mask = npt.NDArray[np.bool_]
"""`[node]`, in the order of the cluster."""
Owners = npt.NDArray[np.int64] | None
"""Index of each value's node; None where each node has one value, in order."""

HEALTHY_STATES = (State.FRESH, State.ENDED)
UNITS: Mapping[str, tuple[str, float]] = {
    "%": ("ratio", 0.01),
    "Gb/s": ("bytes_per_second", 1e9 / 8),
    "GB/s": ("bytes_per_second", 1e9),
    "MB/s": ("bytes_per_second", 1e6),
    "TiB": ("bytes", 2.0**40),
    "GiB": ("bytes", 2.0**30),
    "MiB": ("bytes", 2.0**20),
    "us": ("seconds", 1e-6),
    "µs": ("seconds", 1e-6),
    "ms": ("seconds", 1e-3),
    "s": ("seconds", 1.0),
    "min": ("seconds", 60.0),
    "h": ("seconds", 3600.0),
}
"""Unit of a typed number → the catalog's unit, and the factor to convert into it."""


@dataclass(frozen=True, slots=True)
class Number:
    """A quantity of nodes or of their devices, cores, ranks."""

    unit: str
    """The catalog's unit of the values."""
    shown: str
    """The unit of a bare number; empty for the catalog's."""
    scale: float
    """Converts the shown unit into the catalog's."""
    values: Callable[[ViewModel], tuple[Column, Owners]]


@dataclass(frozen=True, slots=True)
class Text:
    """Texts of a node: its name, its state, its jobs."""

    values: Callable[[ViewModel], Iterable[Sequence[str]]]
    """The texts of each node, in order."""
    choices: tuple[str, ...] = ()
    """All possible texts; empty where any is possible."""
    suggestions: tuple[str, ...] = ()


Flag = Callable[[ViewModel], Mask]


def _mask(view_model: ViewModel, matches: Callable[[NodeView], bool]) -> Mask:
    nodes = view_model.cluster.nodes
    return np.fromiter(map(matches, nodes.values()), np.bool_, len(nodes))


def incident(view_model: ViewModel) -> Mask:
    """Nodes with an open incident."""
    by_node = view_model.by_node
    return _mask(view_model, lambda node: node.name in by_node)


def fault(view_model: ViewModel) -> Mask:
    """Nodes with an open incident, and those that are not fresh."""
    by_node = view_model.by_node
    return _mask(view_model, lambda node: node.name in by_node or node.state not in HEALTHY_STATES)


FLAGS: Mapping[str, Flag] = {"incident": incident, "fault": fault}


def _texts(
    read: Callable[[NodeView], Sequence[str]],
) -> Callable[[ViewModel], Iterable[Sequence[str]]]:
    return lambda view_model: map(read, view_model.cluster.nodes.values())


def _jobs(node: NodeView) -> Sequence[str]:
    """Jobs that report from the node, and jobs that the scheduler allocated it to."""
    named = [str(job) for job in node.inventory.of(Entity.JOB)]
    return named + [allocation.holder for allocation in node.inventory.allocations or ()]


def _incidents(view_model: ViewModel, attribute: str) -> Iterable[Sequence[str]]:
    by_node = view_model.by_node
    return (
        [str(value) for i in by_node.get(name, ()) if (value := getattr(i, attribute))]
        for name in view_model.cluster.names
    )


TEXTS: Mapping[str, Text] = {
    "node": Text(lambda view_model: ((name,) for name in view_model.cluster.names)),
    "state": Text(_texts(lambda node: (node.state.value,)), choices=tuple(State)),
    "job": Text(_texts(_jobs)),
    "phase": Text(
        _texts(lambda node: (node.frame.phase.stage.value,) if node.frame.phase else ()),
        choices=tuple(Stage),
    ),
    "kind": Text(lambda view_model: _incidents(view_model, "kind"), suggestions=KINDS),
    "severity": Text(
        lambda view_model: _incidents(view_model, "severity"), choices=tuple(Severity)
    ),
    "part": Text(lambda view_model: _incidents(view_model, "component")),
    "type": Text(_texts(lambda node: (node.inventory.instance_type,))),
}


def _age(view_model: ViewModel) -> tuple[Column, None]:
    frames = [node.frame for node in view_model.cluster.nodes.values()]
    ages = np.array([frame.time - frame.last_seen for frame in frames])
    return np.maximum(0.0, ages), None


def _counts(view_model: ViewModel) -> tuple[Column, None]:
    by_node = view_model.by_node
    found = [float(len(by_node.get(name, ()))) for name in view_model.cluster.names]
    return np.array(found), None


def _part_values(quantity: str) -> Callable[[ViewModel], tuple[Column, Owners]]:
    if CATALOG[quantity].entity is Entity.NODE:
        return lambda view_model: (view_model.cluster.column(quantity), None)
    return lambda view_model: parts(view_model.cluster, quantity)


NUMBERS: Mapping[str, Number] = {
    **{
        name: Number(
            CATALOG[measure.quantity].unit,
            measure.unit,
            measure.scale,
            lambda view_model, measure=measure: (measure.values(view_model.cluster), None),  # type: ignore[misc]
        )
        for name, measure in MEASURES.items()
    },
    "age": Number("seconds", "s", 1.0, _age),
    "incidents": Number("incidents", "", 1.0, _counts),
}

NAMES = (*TEXTS, *FLAGS, *NUMBERS)
"""The short names; every quantity of the catalog is a field too."""


def number(name: str) -> Number | None:
    """The number field of a short name, or of a quantity with or without the metric prefix."""
    if (short := NUMBERS.get(name)) is not None:
        return short
    quantity = CATALOG.get(name.removeprefix(METRIC_PREFIX))
    if quantity is None:
        return None
    return Number(quantity.unit, "", 1.0, _part_values(quantity.name))


def any_of_node(matches: Mask, owners: Owners, nodes: int) -> Mask:
    """The nodes with at least one matching value.

    Args:
        matches: `[value]`.
        owners: `[value]`, the index of its node.
        nodes: number of nodes.
    """
    if owners is None:
        return matches
    found: Mask = np.bincount(owners[matches], minlength=nodes).astype(np.bool_)
    return found
