"""The nodes that are shown: those that match a filter, and only those with a fault."""

from dataclasses import dataclass

import numpy as np

from .filter import Filter
from .filter.fields import Mask, fault
from .view_model import ViewModel


class Selection:
    """Selects nodes; the result for a view model is computed once.

    Args:
        filter: None for all nodes.
        faults: only nodes that have an open incident or are not fresh.
    """

    def __init__(self, filter: Filter | None = None, *, faults: bool = False) -> None:  # noqa: A002
        self.filter = filter
        self.faults = faults
        self._found: tuple[ViewModel, Mask] | None = None
        self._names: tuple[ViewModel, frozenset[str]] | None = None

    @property
    def narrow(self) -> bool:
        """Whether it may exclude nodes."""
        return self.filter is not None or self.faults

    def mask(self, view_model: ViewModel) -> Mask:
        """`[node]`, in the order of the cluster."""
        if self._found is None or self._found[0] is not view_model:
            self._found = view_model, self._mask(view_model)
        return self._found[1]

    def names(self, view_model: ViewModel) -> frozenset[str]:
        if self._names is None or self._names[0] is not view_model:
            pairs = zip(view_model.cluster.names, self.mask(view_model).tolist(), strict=True)
            self._names = view_model, frozenset(name for name, selected in pairs if selected)
        return self._names[1]

    @property
    def empty_text(self) -> str:
        """The message if no node is selected."""
        if self.filter is None:
            return "no node has an open incident, and all are fresh"
        return f"no node {'with a fault ' if self.faults else ''}matches the filter"

    def count(self, view_model: ViewModel) -> int:
        return int(np.count_nonzero(self.mask(view_model)))

    def _mask(self, view_model: ViewModel) -> Mask:
        found = np.ones(len(view_model.cluster.nodes), np.bool_)
        if self.filter is not None:
            found &= self.filter.mask(view_model)
        if self.faults:
            found &= fault(view_model)
        return found


ALL = Selection()


@dataclass
class SharedSelection:
    """The selection that all screens share."""

    selection: Selection = ALL
    node: str | None = None
    """The node that the user last moved to or opened; lists start at it."""
