"""What a filter can ask of a node: numbers, words, and whether something is wrong with it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trntop.catalog import CATALOG, METRIC_PREFIX, Entity
from trntop.model import Column, NodeView, Severity, Stage, State
from trntop.own_rule import KINDS

from ..measures import MEASURES, parts
from ..scene import Scene

Places = npt.NDArray[np.bool_]
"""For each node of the cluster, in order, whether something holds of it."""
Owners = npt.NDArray[np.int64] | None
"""The place of each value's node; None where each node has one value, in order."""

CALM = (State.FRESH, State.ENDED)
"""States in which a node speaks, or has said all."""
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
"""Unit behind a number → the catalog's unit, and how many of those it is."""


@dataclass(frozen=True, slots=True)
class Number:
    """A quantity of nodes or of their parts."""

    unit: str
    """The catalog's unit of the values."""
    shown: str
    """The unit that a bare number is taken in; empty for the catalog's."""
    size: float
    """Of the shown unit, in that of the catalog."""
    values: Callable[[Scene], tuple[Column, Owners]]
    """Of all nodes."""


@dataclass(frozen=True, slots=True)
class Words:
    """What a node is called, or calls its own."""

    values: Callable[[Scene], Iterable[Sequence[str]]]
    """For each node, in order, the words that stand for it."""
    known: tuple[str, ...] = ()
    """All words that there are; empty where anything may come."""
    usual: tuple[str, ...] = ()
    """Words that are likely."""


Flag = Callable[[Scene], Places]


def _places(scene: Scene, holds: Callable[[NodeView], bool]) -> Places:
    nodes = scene.cluster.nodes
    return np.fromiter(map(holds, nodes.values()), np.bool_, len(nodes))


def incident(scene: Scene) -> Places:
    """Nodes with an open incident."""
    by_node = scene.by_node
    return _places(scene, lambda node: node.name in by_node)


def fault(scene: Scene) -> Places:
    """Nodes with an open incident, and those that are not fresh."""
    by_node = scene.by_node
    return _places(scene, lambda node: node.name in by_node or node.state not in CALM)


FLAGS: Mapping[str, Flag] = {"incident": incident, "fault": fault}


def _words(of: Callable[[NodeView], Sequence[str]]) -> Callable[[Scene], Iterable[Sequence[str]]]:
    return lambda scene: map(of, scene.cluster.nodes.values())


def _jobs(node: NodeView) -> Sequence[str]:
    """Jobs by their own word, and whom a scheduler gave the node to."""
    named = [str(job) for job in node.inventory.of(Entity.JOB)]
    return named + [one.holder for one in node.inventory.allocations or ()]


def _incidents(scene: Scene, word: str) -> Iterable[Sequence[str]]:
    by_node = scene.by_node
    return (
        [str(value) for one in by_node.get(name, ()) if (value := getattr(one, word))]
        for name in scene.cluster.names
    )


WORDS: Mapping[str, Words] = {
    "node": Words(lambda scene: ((name,) for name in scene.cluster.names)),
    "state": Words(_words(lambda node: (node.state.value,)), known=tuple(State)),
    "job": Words(_words(_jobs)),
    "phase": Words(
        _words(lambda node: (node.frame.phase.stage.value,) if node.frame.phase else ()),
        known=tuple(Stage),
    ),
    "kind": Words(lambda scene: _incidents(scene, "kind"), usual=KINDS),
    "severity": Words(lambda scene: _incidents(scene, "severity"), known=tuple(Severity)),
    "part": Words(lambda scene: _incidents(scene, "component")),
    "type": Words(_words(lambda node: (node.inventory.instance_type,))),
}


def _age(scene: Scene) -> tuple[Column, None]:
    frames = [one.frame for one in scene.cluster.nodes.values()]
    ages = np.array([frame.time - frame.heard for frame in frames])
    return np.maximum(0.0, ages), None


def _counts(scene: Scene) -> tuple[Column, None]:
    by_node = scene.by_node
    found = [float(len(by_node.get(name, ()))) for name in scene.cluster.names]
    return np.array(found), None


def _of_parts(quantity: str) -> Callable[[Scene], tuple[Column, Owners]]:
    if CATALOG[quantity].entity is Entity.NODE:
        return lambda scene: (scene.cluster.column(quantity), None)
    return lambda scene: parts(scene.cluster, quantity)


NUMBERS: Mapping[str, Number] = {
    **{
        name: Number(
            CATALOG[one.quantity].unit,
            one.unit,
            one.size,
            lambda scene, one=one: (one.over(scene.cluster), None),  # type: ignore[misc]
        )
        for name, one in MEASURES.items()
    },
    "age": Number("seconds", "s", 1.0, _age),
    "incidents": Number("incidents", "", 1.0, _counts),
}

NAMES = (*WORDS, *FLAGS, *NUMBERS)
"""The short names; those of the catalog are known besides."""


def number(name: str) -> Number | None:
    """The number of this name; of the catalog's, with or without the prefix of the metrics page."""
    if (short := NUMBERS.get(name)) is not None:
        return short
    quantity = CATALOG.get(name.removeprefix(METRIC_PREFIX))
    if quantity is None:
        return None
    return Number(quantity.unit, "", 1.0, _of_parts(quantity.name))


def anywhere(found: Places, owner: Owners, count: int) -> Places:
    """What holds of parts, for the nodes that have one of which it does."""
    if owner is None:
        return found
    held: Places = np.bincount(owner[found], minlength=count).astype(np.bool_)
    return held
