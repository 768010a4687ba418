"""Rolling means over columns whose members come and go."""

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from trntop.model import Column

RECOMPUTE_EVERY = 256
"""Ticks after which the running sums are made anew, against drift."""


class RollingMean:
    """Mean of the newest `length` values of each key.

    Sums run incrementally in float64, `[length, key]` behind them; absent (NaN) and infinite
    values are left out by a mask, so they poison nothing. A key with no value in the window has
    no mean.
    """

    def __init__(self, length: int) -> None:
        self._length = max(1, length)
        self._keys: tuple[Hashable, ...] = ()
        self._values = np.zeros((self._length, 0))
        self._valid = np.zeros((self._length, 0), bool)
        self._sum = np.zeros(0)
        self._count = np.zeros(0, np.int64)
        self._ticks = 0

    def push(self, keys: tuple[Hashable, ...], values: Column) -> Column:
        """Adds one tick, `[key]`, and gives the means, `[key]`.

        A key that left and returns starts anew.
        """
        if keys is not self._keys and keys != self._keys:
            self._rekey(keys)
        slot = self._ticks % self._length
        valid = np.isfinite(values)
        clean = np.where(valid, values, 0.0)
        self._sum += clean - self._values[slot]
        self._count += valid.astype(np.int64) - self._valid[slot]
        self._values[slot] = clean
        self._valid[slot] = valid
        self._ticks += 1
        if self._ticks % RECOMPUTE_EVERY == 0:
            self._sum = self._values.sum(axis=0)
        mean: Column = np.where(self._count > 0, self._sum / np.maximum(self._count, 1), np.nan)
        return mean

    def clear(self) -> None:
        """Forgets everything: what follows belongs to another time."""
        self._rekey(())

    def _rekey(self, keys: tuple[Hashable, ...]) -> None:
        place = {key: index for index, key in enumerate(self._keys)}
        old = np.array([place.get(key, -1) for key in keys], dtype=np.int64)
        known = old >= 0

        def moved(table: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
            shape = (*table.shape[:-1], len(keys))
            result = np.zeros(shape, table.dtype)
            result[..., known] = table[..., old[known]]
            return result

        self._values = moved(self._values).astype(np.float64)
        self._valid = moved(self._valid).astype(bool)
        self._sum = moved(self._sum).astype(np.float64)
        self._count = moved(self._count).astype(np.int64)
        self._keys = keys
