"""Payloads to samples: one pure function per source.

A decoder takes the payload's bytes and gives a Sample, or raises DecodeError when nothing in
it can be used. One bad field or group spares the rest: it becomes a problem of the sample.
"""

from collections.abc import Callable, Collection, Mapping

from trntop.catalog import (
    CLOUDWATCH,
    EFA_EXPORTER,
    EFA_SOURCE,
    FLEET,
    HOST,
    JOB_MAPPING,
    KERNEL_LOG,
    LOG,
    NEURON_EXPORTER,
    NEURON_LS,
    NEURON_MONITOR,
    NEURON_SYSFS,
    OBSERVER,
    POD_RESOURCES,
    PROBE,
    PROFILES,
    SSH,
    STEPS,
    TENSOR_ENGINE,
)
from trntop.core.model import Sample
from trntop.sources import (
    allocations,
    cloudwatch,
    efa,
    efa_page,
    fleet,
    host,
    kernel_log,
    log,
    neuron_ls,
    neuron_monitor,
    neuron_page,
    neuron_sysfs,
    observer_page,
    probe,
    profiles,
    ssh,
    steps,
    tensor_engine,
)

Decoder = Callable[[bytes], Sample]

DECODERS: dict[str, Decoder] = {
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
    JOB_MAPPING: allocations.decode_jobs,
    POD_RESOURCES: allocations.decode_pods,
    PROBE: probe.decode,
    NEURON_EXPORTER: neuron_page.decode,
    EFA_EXPORTER: efa_page.decode,
    OBSERVER: observer_page.decode,
    CLOUDWATCH: cloudwatch.decode,
    FLEET: fleet.decode,
    SSH: ssh.decode,
}
"""Decoders by source. Readings of other sources are kept in recordings and otherwise ignored."""


def decoders(wanted: Collection[str] | None = None) -> Mapping[str, Decoder]:
    """Decoders by source: those that read everything, or do not stop at what is not wanted."""
    if wanted is None:
        return DECODERS
    return {
        **DECODERS,
        NEURON_MONITOR: neuron_monitor.decoder(wanted),
        EFA_SOURCE: efa.decoder(wanted),
    }
