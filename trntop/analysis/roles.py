"""Ranks of one job that do the same work and may be compared.

The stages of a pipeline are uneven by design. Where telemetry reports the stage of a rank, that
counts; else ranks with similar steady times are assumed to do the same.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trntop.core.model import Column
from trntop.pipeline.statistics import median


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
    min_role_nodes: int = 3
    """Nodes of each other role, where several are usual: stages have the same number of nodes."""


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
) -> npt.NDArray[np.int64]:
    """The roles in which ranks of a single node are slow, `[n]`; -1 where they are not.

    Either nearly all other ranks have one role, or each other role has several nodes, and its
    own is probably the slowest of these.

    Args:
        levels: steady excess of each rank over the median of its job.
        found: its role.
        nodes: its node.
    """
    slow_in = np.full(len(levels), -1, np.int64)
    known = found >= 0
    if not known.any() or len(np.unique(nodes[known])) < TUNING.min_nodes:
        return slow_in
    sizes = np.bincount(found[known])
    usual = int(np.argmax(sizes))
    if sizes[usual] < TUNING.main * sizes.sum():
        usual = len(sizes) - 2
        several = [len(np.unique(nodes[found == role])) for role in range(usual + 1)]
        if min(several, default=0) < TUNING.min_role_nodes:
            return slow_in
    level = median(levels[found == usual])
    for role in range(usual + 1, len(sizes)):
        mine = found == role
        if len(np.unique(nodes[mine])) == 1 and median(levels[mine]) - level > TUNING.lone:
            slow_in[mine] = usual
    return slow_in
