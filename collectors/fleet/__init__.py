"""Remote nodes: node lists, and one collector per node."""

import pkgutil

from trntop.core.settings import Settings
from trntop.core.source_spec import Origin, Source
from trntop.session.collector import Collector

_MAKERS = {
    Origin.AGENT: "trntop.collectors.fleet.agents",
    Origin.SSH: "trntop.collectors.ssh",
    Origin.NODES_FILE: "trntop.collectors.fleet.finders",
    Origin.DNS: "trntop.collectors.fleet.finders",
    Origin.SLURM: "trntop.collectors.fleet.finders",
    Origin.EC2: "trntop.collectors.fleet.finders",
    Origin.CLOUDWATCH: "trntop.collectors.cloudwatch",
    Origin.PROMETHEUS: "trntop.collectors.prometheus",
}
"""Modules with `collectors(source, settings)`, imported only when they are used."""


def collectors_of(source: Source, settings: Settings) -> list[Collector]:
    """The collectors of one remote source.

    Raises:
        UsageError: the source is not valid.
        SettingsError: a file of the settings cannot be used.
    """
    made: list[Collector] = pkgutil.resolve_name(f"{_MAKERS[source.origin]}:collectors")(
        source, settings
    )
    return made
