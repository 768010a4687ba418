"""Which nodes are shown: what a filter lets through, and only those with a fault."""

from collections.abc import Callable

import numpy as np

from .filter import Filter
from .filter.fields import Mask, fault
from .view_model import ViewModel


class Selection:
    """A choice of nodes; what it finds in a scene is worked out once.

    Args:
        filter: lets nodes through; None lets all.
        faults: whether nodes must have an open incident, or not be fresh.
    """

    def __init__(self, filter: Filter | None = None, *, faults: bool = False) -> None:  # noqa: A002
        self.filter = filter
        self.faults = faults
        self._found: tuple[ViewModel, Mask] | None = None
        self._names: tuple[ViewModel, frozenset[str]] | None = None

    @property
    def narrow(self) -> bool:
        """Whether it may leave any node out."""
        return self.filter is not None or self.faults

    def mask(self, view_model: ViewModel) -> Mask:
        """The chosen nodes, `[node]` in the cluster's order."""
        if self._found is None or self._found[0] is not view_model:
            self._found = view_model, self._mask(view_model)
        return self._found[1]

    def names(self, view_model: ViewModel) -> frozenset[str]:
        """The names of the chosen nodes."""
        if self._names is None or self._names[0] is not view_model:
            pairs = zip(view_model.cluster.names, self.mask(view_model).tolist(), strict=True)
            self._names = view_model, frozenset(name for name, chosen in pairs if chosen)
        return self._names[1]

    @property
    def nothing(self) -> str:
        """What is said where no node is chosen."""
        if self.filter is None:
            return "no node has an open incident, and all are fresh"
        return f"no node {'with a fault ' if self.faults else ''}matches the filter"

    def count(self, view_model: ViewModel) -> int:
        """How many nodes are chosen."""
        return int(np.count_nonzero(self.mask(view_model)))

    def _mask(self, view_model: ViewModel) -> Mask:
        found = np.ones(len(view_model.cluster.nodes), np.bool_)
        if self.filter is not None:
            found &= self.filter.mask(view_model)
        if self.faults:
            found &= fault(view_model)
        return found


ALL = Selection()


class SharedSelection:
    """The selected nodes and the focused node, shared by all screens."""

    def __init__(self) -> None:
        self.selection = ALL
        self.node: str | None = None
        """The node that the user last moved to or opened; lists begin at it."""
        self.keep: Callable[[], None] = lambda: None
        """Called when only faults are to be shown from now on, or all again."""

    def choose(self, selection: Selection) -> None:
        """Takes another choice."""
        faults, self.selection = self.selection.faults, selection
        if selection.faults is not faults:
            self.keep()
