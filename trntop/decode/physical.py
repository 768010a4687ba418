"""Physical cores, as the Neuron driver's sysfs tree numbers them: per device.

Flat indices count the cores of all devices; every device has as many places as the one with
the highest core, so that a core that is switched off moves no other.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from trntop.catalog import Entity
from trntop.model import Sample

MAX_INDICES = 64
"""Devices of a node, and cores of a device; there are at most sixteen and eight."""

_INDICES = {str(index): index for index in range(MAX_INDICES)}


def indices(names: Iterable[str]) -> list[tuple[int, str]]:
    """Those of `names` that are indices, with the number they say, in order."""
    return sorted((_INDICES[name], name) for name in names if name in _INDICES)


def number_cores(sample: Sample, places: Sequence[tuple[int, int]]) -> None:
    """Gives `sample` the keys of the cores at `places` (device, core), and the device of each."""
    per_device = 1 + max((core for _, core in places), default=0)
    sample.keys[Entity.PHYSICAL_CORE] = tuple(
        [device * per_device + core for device, core in places]
    )
    sample.facts["physical_device"] = np.array([device for device, _ in places], np.int64)
