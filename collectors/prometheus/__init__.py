"""A Prometheus backend as a source: a server that scrapes the agents.

address    its URL and parameters
client     HTTP requests, their limits and errors
queries    PromQL
refresh    the queries of a refresh and of one node
nodes      inventories and frames from series
totals     totals of the cluster
publisher  readings for the session
collector  the loop
"""

from trntop.core.settings import Settings
from trntop.core.source_spec import Source
from trntop.session.collector import Collector

from .address import parse
from .collector import PrometheusCollector


def collectors(source: Source, settings: Settings) -> list[Collector]:
    """The collector of a Prometheus backend.

    Raises:
        UsageError: the source is not valid.
        SettingsError: a file of the settings cannot be used.
    """
    return [PrometheusCollector(parse(source.text), settings.fleet)]
