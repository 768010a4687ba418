"""Physical cores, as the Neuron driver's sysfs tree numbers them: per device.

Flat indices count the cores of all devices; every device has as many places as the one with
the highest core, so that a core that is switched off moves no other.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from trntop.catalog import Entity
from trntop.core.model import Sample

MAX_INDICES = 64
"""Devices of a node, and cores of a device; there are at most sixteen and eight."""

_NAMES = [str(index) for index in range(MAX_INDICES)]
_INDICES = {name: index for index, name in enumerate(_NAMES)}
_NAMED = list(enumerate(_NAMES))


def indices(names: Iterable[str]) -> list[tuple[int, str]]:
    """Those of `names` that are indices, with their numbers, in order."""
    names = list(names)
    if names == _NAMES[: len(names)]:
        return _NAMED[: len(names)]
    return sorted((_INDICES[name], name) for name in names if name in _INDICES)


def number_cores(sample: Sample, places: Sequence[tuple[int, int]]) -> None:
    """Gives `sample` the keys of the cores at `places` (device, core), and the device of each."""
    keys, devices = _numbered(tuple(places))
    sample.keys[Entity.PHYSICAL_CORE] = keys
    sample.facts["physical_device"] = devices


@lru_cache(maxsize=64)
def _numbered(places: tuple[tuple[int, int], ...]) -> tuple[tuple[int, ...], npt.NDArray[np.int64]]:
    """Flat indices and devices of cores; the same for all nodes of a kind."""
    per_device = 1 + max((core for _, core in places), default=0)
    keys = tuple([device * per_device + core for device, core in places])
    return keys, np.array([device for device, _ in places], np.int64)
