"""Which cards have far more of something than those they are compared with."""

import numpy as np

from trntop.analysis.siblings import Mask, Siblings, lower_median, whole
from trntop.core.model import NO_VALUE, Column

FACTOR = 8.0
"""Times its siblings' and the fleet's median that a card must have."""
ALONE = 5.0
"""Times the limit that it must have where there is nobody to compare with."""
WORST = 4.0
"""Times that the worst card must be above those of which it is taken for the cause."""
ALMOST = 0.99
MANY = 3
"""Cards that have so much less than the worst one that it is taken for their cause."""


def stands_out(values: Column, limit: float, sure: Mask, siblings: Siblings) -> Column:
    """How many times its limit each card has, `[card]`: above 1 it stands out.

    The limit of a card is `limit`, or more where its siblings, the fleet, or the cards that it
    talks to have more. Where most cards of a node are above it, the nodes are compared. A card
    of which too much may be chance, which is not `sure`, stays below 1.
    """
    over = (values > limit) & sure
    if not over.any():
        return np.minimum(values / limit, ALMOST)  # whatever the others have
    axis = siblings.axis
    others, rail = siblings.median(values), siblings.rails.median(values)
    alone = np.count_nonzero(~np.isnan(values)) < 2
    fleet = NO_VALUE if alone else lower_median(values)
    bar = np.fmax(limit, FACTOR * np.fmax(others, fleet))
    bar = np.fmax(bar, WORST * rail)
    bar = np.where(np.isnan(others), np.fmax(bar, ALONE * limit), bar)
    excess = values / bar
    sick = whole(axis, over)
    if sick.any():
        known = ~np.isnan(values)
        size = np.bincount(axis.owner[known], minlength=len(sick))
        total = np.bincount(axis.owner[known], values[known], minlength=len(sick))
        mean = np.where(size > 0, total / np.maximum(size, 1), NO_VALUE)
        if np.count_nonzero(size) < 2:
            node_bar = ALONE * limit
        else:
            node_bar = max(limit, FACTOR * lower_median(mean))
        excess = np.where(sick[axis.owner] & over, np.fmax(excess, values / node_bar), excess)
    excess = np.where(sure, excess, np.minimum(excess, ALMOST))
    return _without_followers(values, excess, siblings)


def _without_followers(values: Column, excess: Column, siblings: Siblings) -> Column:
    """Takes back those that have something only because they talk to the worst card."""
    above = np.flatnonzero(excess > 1.0)
    if len(above) < 2:
        return excess
    axis = siblings.axis
    worst = int(above[np.argmax(values[above])])
    weak = above[WORST * values[above] < values[worst]]
    if len(weak) < MANY:
        name = axis.key(worst)[1]
        weak = np.array([place for place in weak if axis.key(int(place))[1] == name], np.int64)
    result = excess.copy()
    result[weak] = 0.0
    return result
