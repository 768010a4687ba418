"""How counts grow from tick to tick."""

import numpy as np

from trntop.analysis.axis import Axis, PartAxis, carried
from trntop.core.model import Column


def grown(before: Column, now: Column) -> Column:
    """By how much counts are larger than before; NaN where either is absent.

    What a count shows that went back is new: it was reset.
    """
    growth = now - before
    reset = now < before
    growth[reset] = now[reset]
    return growth


class Growth:
    """How much counts have grown since the tick before.

    The first sight of a count is no growth, and an absent one forgets nothing.
    """

    def __init__(self) -> None:
        self._axis: Axis | PartAxis | None = None
        self._before = np.empty(0)

    def push(self, axis: Axis | PartAxis, totals: Column) -> Column:
        """The growth of `totals`, `[member]` or `[count, member]`; NaN where they are absent."""
        if self._axis is None:
            self._before = np.full(totals.shape, np.nan)
        elif axis is not self._axis:
            self._before = carried(self._before, self._axis, axis)
        self._axis = axis
        present = ~np.isnan(totals)
        growth = grown(self._before, totals)
        growth[np.isnan(growth) & present] = 0.0
        np.copyto(self._before, totals, where=present)
        return growth

    def clear(self) -> None:
        """Forgets the counts."""
        self._axis = None
