"""Nodes without trntop, over the system's OpenSSH: one connection for each.

address     the target of a connection
command     the command line of ssh, and its errors
script      the script on the node (node.sh)
answers     its answers, separated from all other text
connection  requests and answers over one ssh process
dump        the kernel's files of another machine, for the readers of this one
sources     the sources of a node: the collectors of this machine, over a connection
host        the source `host` from a dump
node        the collector: connects, reads, reconnects
"""

from trntop.core.settings import Settings
from trntop.core.source_spec import Source
from trntop.session.collector import Collector

from ..fleet import agents
from ..fleet.target import Target
from . import address
from .node import SshNode


def collectors(source: Source, settings: Settings) -> list[Collector]:
    """One collector for each node of an SSH source.

    Raises:
        UsageError: the source is not valid.
        SettingsError: `fleet.ssh` is not a command.
    """
    return [connect(target, settings) for target in agents.targets(source.text, settings.fleet)]


def connect(target: Target, settings: Settings) -> SshNode:
    """The collector of one node of a list.

    Raises:
        SettingsError: `fleet.ssh` is not a command.
    """
    return SshNode(target.name, address.parse(target.address), settings)
