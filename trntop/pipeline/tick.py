"""One tick of all nodes as columns: what the detectors read."""

from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import attrgetter, is_, itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from trntop.catalog import CATALOG, Entity
from trntop.core.model import NO_VALUE, Cluster, Column, Frame, Inventory, NodeView
from trntop.pipeline.axis import Axis, PartAxis

if TYPE_CHECKING:
    from trntop.pipeline.runs import Runs

Shared = TypeVar("Shared")

_FRAME, _INVENTORY, _COLUMNS = map(attrgetter, ("frame", "inventory", "columns"))
_NAME, _TIME = map(attrgetter, ("name", "time"))


class Tick:
    """A cluster whose columns are laid side by side, each when it is first needed.

    Columns are read-only: one that no node has reported again is the same in the next tick.
    """

    def __init__(self, cluster: Cluster, nodes: Axis, views: list[NodeView], axes: "Axes") -> None:
        self.cluster = cluster
        self.time = cluster.time
        self.nodes = nodes
        """Names of the nodes."""
        self.views = views
        self.quiet: npt.NDArray[np.bool_] = np.zeros(len(nodes), bool)
        """Nodes whose job is in a phase that explains what is unusual: it compiles, saves,
        evaluates, warms up. `[node]`
        """
        self.job_of: Mapping[str, str] = {}
        """Node → the job that ran on it last, where it has one and no more."""
        self.runs: Runs
        """What the jobs are doing."""
        self.frames = list(map(_FRAME, views))
        self.number = axes.ticks
        """Counts the ticks of a stream."""
        self.version = axes.version
        """Changes with any inventory."""
        self._tables = list(map(_COLUMNS, self.frames))
        self._axes = axes
        self._columns: dict[str, Column] = {}

    def column(self, name: str) -> Column:
        """A quantity of all nodes, along `nodes` or along `parts` of its entity; NaN is absent."""
        values = self._columns.get(name)
        if values is None:
            pieces: list[Column | None]
            try:
                pieces = list(map(itemgetter(name), self._tables))
            except KeyError:
                pieces = [table.get(name) for table in self._tables]
            values = self._columns[name] = self._lay(name, pieces)
        return values

    def columns(self, names: Sequence[str]) -> list[Column]:
        """Several quantities."""
        return [self.column(name) for name in names]

    def parts(self, entity: Entity) -> PartAxis:
        """The parts of all nodes."""
        return self._axes.of(entity, self)

    def read_times(self, source: str) -> Column:
        """When a source of each node was last read, `[node]`; NaN where it never was."""
        index = self._axes.source_index.get(source, 0)
        try:  # the sources of nodes are mostly in the same order
            states = [frame.sources[index] for frame in self.frames]
        except IndexError:
            states = []
        if states and set(map(_NAME, states)) == {source}:
            times = list(map(_TIME, states))
        else:
            times = [self._read_time(frame, source) for frame in self.frames]
        return np.array(times, np.float64)  # None becomes NaN

    def view(self, node: str) -> NodeView:
        """One node."""
        return self.cluster.nodes[node]

    def shared(self, kind: type[Shared]) -> Shared:
        """The object of a kind that all detectors of a stream share."""
        known = self._axes.shared.get(kind)
        if known is None:
            known = self._axes.shared[kind] = kind()
        return cast(Shared, known)

    def _read_time(self, frame: Frame, source: str) -> float | None:
        for index, state in enumerate(frame.sources):
            if state.name == source:
                self._axes.source_index[source] = index
                return state.time
        return None

    def _lay(self, name: str, pieces: Sequence[Column | None]) -> Column:
        """The nodes' pieces of a column side by side."""
        entity = CATALOG[name].entity
        axis = self.nodes if entity is Entity.NODE else self.parts(entity)
        before = self._axes.laid.get(name)
        if before is not None and before.axis is axis and all(map(is_, pieces, before.pieces)):
            return before.column
        column = _joined(pieces, len(axis))
        if column is None:
            widths = axis.widths if isinstance(axis, PartAxis) else [1] * len(pieces)
            column = _padded(pieces, widths)
        column.setflags(write=False)
        self._axes.laid[name] = _Laid(axis, pieces, column)
        return column


class _Laid(NamedTuple):
    """A column as it was laid last."""

    axis: Axis | PartAxis
    pieces: Sequence[Column | None]
    column: Column


class Axes:
    """The axes of the newest tick; they stay the same objects while nothing joins or leaves."""

    def __init__(self) -> None:
        self.laid: dict[str, _Laid] = {}
        """Quantity → its newest column."""
        self.shared: dict[type, object] = {}
        """What detectors share, by its kind."""
        self.source_index: dict[str, int] = {}
        """Source → its place among those of most nodes."""
        self.ticks = 0
        """How many there have been."""
        self.version = 0
        """In how many of them any inventory has changed."""
        self._nodes = Axis()
        self._inventories: list[Inventory] = []
        self._parts: dict[Entity, PartAxis] = {}
        self._changed: dict[Entity, set[int]] = {}
        """Indices of the nodes whose inventory has changed since an entity's axis was requested."""

    def tick(self, cluster: Cluster) -> Tick:
        """Lays a cluster out."""
        views = list(cluster.nodes.values())
        before, self._inventories = self._inventories, list(map(_INVENTORY, views))
        if cluster.names != self._nodes.keys:
            self.version += 1
            self._nodes = Axis(cluster.names)
            self._parts.clear()
            self._changed.clear()
        elif not all(map(is_, before, self._inventories)):
            # Inventories are replaced when they change, which is rare; keys seldom are among it.
            self.version += 1
            pairs = enumerate(zip(before, self._inventories, strict=True))
            changed = [index for index, (old, new) in pairs if old is not new]
            for indices in self._changed.values():
                indices.update(changed)
        self.ticks += 1
        return Tick(cluster, self._nodes, views, self)

    def of(self, entity: Entity, tick: Tick) -> PartAxis:
        """The axis of an entity's parts."""
        known = self._parts.get(entity)
        if known is None:
            self._changed[entity] = set()
        else:
            changed, views = self._changed[entity], tick.views
            same = all(views[node].inventory.of(entity) == known.parts[node] for node in changed)
            changed.clear()
            if same:
                return known
        axis = PartAxis(self._nodes, [view.inventory.of(entity) for view in tick.views])
        self._parts[entity] = axis
        return axis


def _joined(pieces: Sequence[Column | None], size: int) -> Column | None:
    """All pieces side by side; None where one is absent or not as long as it should be."""
    try:
        # A third of the time of NumPy's own way; all columns are of float64.
        column: Column = np.frombuffer(b"".join(cast(Sequence[bytes], pieces)), np.float64)
    except TypeError:  # one is absent, or its values do not lie side by side
        return None
    return column if len(column) == size else None


def _padded(pieces: Sequence[Column | None], widths: Sequence[int]) -> Column:
    """The pieces, NaN where one is absent or is not as long as its node has parts."""
    if all(map(is_, pieces, repeat(None))):
        return np.full(sum(widths), NO_VALUE)
    nothing = {width: np.full(width, NO_VALUE) for width in set(widths)}
    return np.concatenate([
        nothing[width] if piece is None or len(piece) != width else piece
        for piece, width in zip(pieces, widths, strict=True)
    ])  # fmt: skip
