"""Every source: one row and one pure decoder each.

A decoder takes the payload's bytes and gives a Sample, or raises DecodeError when nothing in
it is usable. One bad field or group does not affect the rest: it becomes a problem of the sample.
"""

from trntop.catalog import add_quantities
from trntop.sources import (
    cloudwatch,
    efa,
    efa_page,
    fleet,
    host,
    job_mapping,
    kernel_log,
    kubernetes_node,
    log,
    neuron_ls,
    neuron_monitor,
    neuron_page,
    neuron_sysfs,
    pod_resources,
    probe,
    profiles,
    ssh,
    steps,
    tensor_engine,
)
from trntop.sources.plugins import load
from trntop.sources.source import Decoder as Decoder
from trntop.sources.source import Role as Role
from trntop.sources.source import Source as Source

BUILT_IN: tuple[Source, ...] = (
    neuron_monitor.SOURCE,
    neuron_sysfs.SOURCE,
    tensor_engine.SOURCE,
    neuron_ls.SOURCE,
    efa.SOURCE,
    steps.SOURCE,
    log.SOURCE,
    host.SOURCE,
    kernel_log.SOURCE,
    profiles.SOURCE,
    job_mapping.SOURCE,
    pod_resources.SOURCE,
    kubernetes_node.SOURCE,
    probe.SOURCE,
    neuron_page.SOURCE,
    efa_page.SOURCE,
    cloudwatch.SOURCE,
    fleet.SOURCE,
    ssh.SOURCE,
)
"""The sources of this package, the preferred ones first."""
PLUGINS, PLUGIN_PROBLEMS = load({source.name for source in BUILT_IN})
"""Sources of other packages, and one line for each that cannot be used."""
SOURCES = BUILT_IN + PLUGINS
"""Every source. Where two give the same quantity, the earlier one wins."""


def _names(*roles: Role) -> tuple[str, ...]:
    return tuple(source.name for source in SOURCES if source.role in roles)


for source in SOURCES:
    add_quantities(source.quantities)

BY_NAME: dict[str, Source] = {source.name: source for source in SOURCES}
STALE_AFTER = {source.name: source.stale_after for source in SOURCES}
LOCAL_SOURCES = tuple(source.name for source in SOURCES if source.role.local)
DEVICE_SOURCES = _names(Role.DEVICE)
TRAINING_SOURCES = _names(Role.TRAINING)
SCHEDULERS = _names(Role.SCHEDULER)
PROBES = _names(Role.PROBE)
PAGES = _names(Role.PAGE)

DECODERS: dict[str, Decoder] = {source.name: source.decode for source in SOURCES}
"""Decoders by source. Readings of other sources are kept in recordings and otherwise ignored."""
