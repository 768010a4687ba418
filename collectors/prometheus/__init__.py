"""An engine as a source: a server that keeps what agents and exporters told it.

address       which server, and which of its series
client        questions over HTTP, bounded, and what can go wrong with them
sigv4         signed requests, for Amazon Managed Service for Prometheus
selectors     PromQL with foreign text in it
capabilities  what a server is and has
probe         finds that out
asking        questions that belong together
questions     what is asked, with trntop's own series
own           the refresh by them, and all of one node
foreign       the same with other people's series only
nodes         from series to inventories and frames
sums          what is true of the cluster as a whole
telling       hands it on, as an agent of each node would
collector     the pace, the failures, and the node that is looked at
"""

from trntop.core.settings import Settings
from trntop.core.source_spec import Source
from trntop.session.collector import Collector

from .address import parse
from .collector import PrometheusCollector


def collectors(source: Source, settings: Settings) -> list[Collector]:
    """The collector of an engine.

    Raises:
        UsageError: the source is not written as it should be.
        SettingsError: what is needed to reach it is wrong.
    """
    return [PrometheusCollector(parse(source.text), settings.fleet)]
