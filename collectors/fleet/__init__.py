"""Other machines: from what a user named to one collector for each node.

target    what a node is called and how it is reached
watch     lists of nodes that change: who joins gets a collector, who leaves loses it
finders   lists that change: files, DNS, Slurm, EC2
agents    nodes whose agents stream
pages     nodes of which only another exporter's page can be had
"""

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
"""Modules with `collectors(source, settings)`; each brings libraries that others do without."""


def collectors_of(source: Source, settings: Settings) -> list[Collector]:
    """The collectors of one source of other machines.

    Raises:
        UsageError: the source is not written as it should be.
        SettingsError: what is needed to reach it is wrong.
    """
    made: list[Collector] = pkgutil.resolve_name(f"{_MAKERS[source.origin]}:collectors")(
        source, settings
    )
    return made
