"""Which nodes are shown: what a filter lets through, and only those with a fault."""

import numpy as np

from .filter import Filter
from .filter.fields import Places, fault
from .scene import Scene


class Selection:
    """A choice of nodes; what it finds in a scene is worked out once.

    Args:
        filter: lets nodes through; None lets all.
        faults: whether nodes must have an open incident, or not be fresh.
    """

    def __init__(self, filter: Filter | None = None, *, faults: bool = False) -> None:  # noqa: A002
        self.filter = filter
        self.faults = faults
        self._found: tuple[Scene, Places] | None = None

    @property
    def narrow(self) -> bool:
        """Whether it may leave any node out."""
        return self.filter is not None or self.faults

    def places(self, scene: Scene) -> Places:
        """The chosen nodes, as a mask over the cluster's, in order."""
        if self._found is None or self._found[0] is not scene:
            self._found = scene, self._places(scene)
        return self._found[1]

    def count(self, scene: Scene) -> int:
        """How many nodes are chosen."""
        return int(np.count_nonzero(self.places(scene)))

    def _places(self, scene: Scene) -> Places:
        found = np.ones(len(scene.cluster.nodes), np.bool_)
        if self.filter is not None:
            found &= self.filter.places(scene)
        if self.faults:
            found &= fault(scene)
        return found


ALL = Selection()
