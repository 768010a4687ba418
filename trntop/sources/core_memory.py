"""The HBM that one runtime of a neuron-monitor report uses, core by core.

It is a quarter of a report and the same in most: each text is read once and remembered.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import msgspec
import numpy as np
import numpy.typing as npt

from trntop.catalog import MEMORY_CATEGORIES
from trntop.core.errors import DecodeError
from trntop.core.model import Column
from trntop.sources import tolerant
from trntop.sources.columns import SIZE, Layout, Values
from trntop.sources.neuron_report import Breakdown

LAYOUT = Layout((tuple(f"neuroncore_memory_{name}_bytes" for name in MEMORY_CATEGORIES), SIZE))
TOTAL = "neuroncore_memory_used_bytes"
LONGEST = 256 << 10
"""Bytes of a text up to which it is remembered."""
REMEMBERED = 64
"""Texts: one for each runtime of the nodes that a process follows; each takes some 20 KiB."""

_decoder = msgspec.json.Decoder(Breakdown)
_NOTHING = np.empty((0, len(LAYOUT.names)))


@dataclass(frozen=True)
class Usage:
    """What one runtime uses. Arrays are shared and read-only."""

    cores: tuple[str, ...]
    """The cores that it names, as the report spells them."""
    values: Values
    """Bytes by core and category, `[core, category]`; NaN is absent."""
    problems: tuple[str, ...]
    damaged: bool = False
    """Nothing in it could be read: what it uses is unknown, not none."""

    @cached_property
    def holds(self) -> list[bool]:
        """Whether it uses anything on each core, `[core]`."""
        held: list[bool] = np.logical_or.reduce(self.values > 0, axis=1).tolist()
        return held

    @cached_property
    def columns(self) -> dict[str, Column]:
        """`columns` of its values."""
        return columns(self.values)


def read(text: bytes) -> Usage | None:
    """A runtime's `usage_breakdown`; None where there is none, or nothing in it can be read."""
    return (_read if len(text) <= LONGEST else _read.__wrapped__)(text)


@lru_cache(maxsize=REMEMBERED)
def _read(text: bytes) -> Usage | None:
    if text in (b"", b"null"):
        return None
    try:
        breakdown, problems = tolerant.decode(text, _decoder)
    except DecodeError as error:
        return Usage((), _NOTHING, (f"usage_breakdown: {error}",), damaged=True)
    usage = breakdown.neuroncore_memory_usage or {}
    if problems and breakdown.neuroncore_memory_usage is msgspec.UNSET:
        return Usage((), _NOTHING, problems, damaged=True)
    values = LAYOUT.read([msgspec.structs.astuple(core) for core in usage.values()])
    values.setflags(write=False)
    return Usage(tuple(usage), values, problems)


def columns(values: Values, unread: npt.NDArray[np.bool_] | None = None) -> dict[str, Column]:
    """A node's values, `[core, category]`, as columns, and their totals.

    A category that an SDK does not know adds nothing.

    Args:
        values: bytes; NaN is absent.
        unread: cores of which not all is known; they have no total.
    """
    found = LAYOUT.split(values)
    absent = np.isnan(values)
    total = np.add.reduce(np.where(absent, 0.0, values), axis=1)
    total[np.logical_and.reduce(absent, axis=1)] = np.nan
    if unread is not None:
        total[unread] = np.nan
    found[TOTAL] = total
    for column in found.values():
        column.setflags(write=False)
    return found
