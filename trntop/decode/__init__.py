"""Payloads to samples: one pure function per source.

A decoder takes the payload's bytes and gives a Sample, or raises DecodeError when nothing in
it can be used. One bad field or group spares the rest: it becomes a problem of the sample.
"""

from collections.abc import Callable

from trntop.catalog import (
    EFA_SOURCE,
    HOST,
    KERNEL_LOG,
    LOG,
    NEURON_LS,
    NEURON_MONITOR,
    NEURON_SYSFS,
    PROBE,
    PROFILES,
    STEPS,
    TENSOR_ENGINE,
)
from trntop.decode import (
    efa,
    host,
    kernel_log,
    log,
    neuron_ls,
    neuron_monitor,
    neuron_sysfs,
    probe,
    profiles,
    steps,
    tensor_engine,
)
from trntop.model import Sample

DECODERS: dict[str, Callable[[bytes], Sample]] = {
    NEURON_MONITOR: neuron_monitor.decode,
    NEURON_SYSFS: neuron_sysfs.decode,
    TENSOR_ENGINE: tensor_engine.decode,
    NEURON_LS: neuron_ls.decode,
    EFA_SOURCE: efa.decode,
    STEPS: steps.decode,
    LOG: log.decode,
    HOST: host.decode,
    KERNEL_LOG: kernel_log.decode,
    PROFILES: profiles.decode,
    PROBE: probe.decode,
}
"""Decoders by source. Readings of other sources are kept in recordings and otherwise ignored."""
