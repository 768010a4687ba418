"""Physical cores, which the Neuron driver's sysfs tree numbers per device.

Flat indices number the cores of all devices. Every device gets as many indices as the one with the
highest core number, so that a core that is switched off does not shift the others.
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
    """The `names` that are indices, each after its number, in order."""
    names = list(names)
    if names == _NAMES[: len(names)]:
        return _NAMED[: len(names)]
    return sorted((_INDICES[name], name) for name in names if name in _INDICES)


def number_cores(sample: Sample, cores: Sequence[tuple[int, int]]) -> None:
    """Sets the keys of `cores`, pairs of device and core, and the device of each in `sample`."""
    keys, devices = _numbered(tuple(cores))
    sample.keys[Entity.PHYSICAL_CORE] = keys
    sample.facts["physical_device"] = devices


@lru_cache(maxsize=64)
def _numbered(cores: tuple[tuple[int, int], ...]) -> tuple[tuple[int, ...], npt.NDArray[np.int64]]:
    """Flat indices and devices of cores; cached, because many nodes have the same cores."""
    per_device = 1 + max((core for _, core in cores), default=0)
    keys = tuple([device * per_device + core for device, core in cores])
    return keys, np.array([device for device, _ in cores], np.int64)
