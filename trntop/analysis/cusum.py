"""Cumulative sums: how long and how far values have been on one side of what is usual."""

import numpy as np
import numpy.typing as npt

from trntop.analysis.axis import Along
from trntop.core.model import NO_VALUE, Column


class Cusum:
    """One-sided CUSUM of standardised values (E. S. Page, Continuous Inspection Schemes, 1954).

    The score grows by what a value exceeds the allowance and shrinks by what it falls short of
    it, never below 0. It finds a shift of the mean by twice the allowance soonest; a single odd
    value raises it by no more than that value.

    Args:
        allowance: what a value may exceed 0 by without raising the score, in the values' own
            unit: half of the shift to be found.
        ceiling: highest score, which bounds the time that a score takes to come down again.
    """

    def __init__(self, allowance: float, ceiling: float) -> None:
        self._allowance = allowance
        self._ceiling = ceiling
        self._axis: Along | None = None
        self.score: Column = np.zeros(0)
        """Of each member, `[n]`."""
        self.since: Column = np.zeros(0)
        """Time of the first value of those that the score grew by since it was 0: an estimate
        of the onset. NaN while it is 0, `[n]`.
        """

    def step(self, time: float, axis: Along, values: Column) -> Column:
        """Takes one value per member, `[n]`, and gives the scores, `[n]`.

        An absent value (NaN) leaves its member's score as it is. A new member begins at 0.
        """
        if axis is not self._axis:
            self._move(axis)
        score = np.clip(self.score + (values - self._allowance), 0.0, self._ceiling)
        score = np.where(np.isnan(values), self.score, score)
        begun = (score > 0) & (self.score == 0)
        self.since = np.where(begun, time, np.where(score > 0, self.since, NO_VALUE))
        self.score = score
        return score

    def reset(self, chosen: npt.NDArray[np.bool_] | None = None) -> None:
        """Sets the chosen members, `[n]`, back to 0; without a choice, forgets all."""
        if chosen is None:
            self._axis = None
            self.score, self.since = np.zeros(0), np.zeros(0)
        else:
            self.score = np.where(chosen, 0.0, self.score)
            self.since = np.where(chosen, NO_VALUE, self.since)

    def _move(self, axis: Along) -> None:
        score, since = np.zeros(len(axis)), np.full(len(axis), NO_VALUE)
        if self._axis is not None:
            old = axis.places_in(self._axis)
            known = old >= 0
            score[known], since[known] = self.score[old[known]], self.since[old[known]]
        self._axis, self.score, self.since = axis, score, since
