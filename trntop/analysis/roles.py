"""Ranks of one job that do the same work and may be compared.

The stages of a pipeline are uneven by design. Where telemetry reports the stage of a rank, that
counts; else ranks with similar steady times are assumed to do the same.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trntop.core.model import Column


@dataclass(frozen=True, slots=True)
class RoleTuning:
    """How far apart the step times of two roles are."""

    gap: float = 0.03
    """Share of the median time by which two roles lie apart, at least."""
    gap_noise: float = 5.0
    """The same in standard deviations of a single time."""
    main: float = 0.8
    """Share of ranks of one role, compared with which a lone slow one is a straggler."""
    lone: float = 0.15
    """Share by which such a one must be slower: less may be its design."""
    min_nodes: int = 5


TUNING = RoleTuning()


def roles(levels: Column, noise: float) -> npt.NDArray[np.int64]:
    """Groups of levels that lie close together, `[n]`, numbered upwards; NaN is in none (-1)."""
    result = np.full(len(levels), -1, np.int64)
    known = np.flatnonzero(~np.isnan(levels))
    order = known[np.argsort(levels[known], kind="stable")]
    apart = np.diff(levels[order]) > max(TUNING.gap, TUNING.gap_noise * noise)
    result[order] = np.concatenate(([0], np.cumsum(apart))) if len(order) else 0
    return result


def lone_slow(
    levels: Column, found: npt.NDArray[np.int64], nodes: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Ranks of a single node that are slower than nearly all others of one role, `[n]`.

    Args:
        levels: steady excess of each rank over the median of its job.
        found: its role.
        nodes: its node.
    """
    lone = np.zeros(len(levels), bool)
    known = found >= 0
    if not known.any() or len(np.unique(nodes[known])) < TUNING.min_nodes:
        return lone
    sizes = np.bincount(found[known])
    main = int(np.argmax(sizes))
    if sizes[main] < TUNING.main * sizes.sum():
        return lone
    usual = float(np.median(levels[found == main]))
    for role in range(main + 1, len(sizes)):
        mine = found == role
        if len(np.unique(nodes[mine])) == 1 and np.median(levels[mine]) - usual > TUNING.lone:
            lone |= mine
    return lone
