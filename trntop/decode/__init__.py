"""Payloads to samples: one pure function per source.

A decoder takes the payload's bytes and gives a Sample, or raises DecodeError when nothing in
it can be used. One bad field or group spares the rest: it becomes a problem of the sample.
"""

from collections.abc import Callable

from trntop.catalog import EFA_SOURCE, NEURON_MONITOR, STEPS
from trntop.decode import efa, neuron_monitor, steps
from trntop.model import Sample

DECODERS: dict[str, Callable[[bytes], Sample]] = {
    NEURON_MONITOR: neuron_monitor.decode,
    EFA_SOURCE: efa.decode,
    STEPS: steps.decode,
}
"""Decoders by source. Readings of other sources are kept in recordings and otherwise ignored."""
