"""Nodes on which nothing is installed, over the system's OpenSSH: one connection for each.

address    nodes as `ssh://` names them
command    how ssh is called, and what its complaints mean
script     what a node runs (node.sh)
answers    what it answers, cut out of what else is said
link       one connection: requests and answers
dump       the kernel's files of another machine, for the readers of this one
far        the sources of a node: the collectors of this machine, over a link
machine    the host beneath the run
node       the collector: connects, reads, connects again
"""

from trntop.core.settings import Settings
from trntop.core.source_spec import Source
from trntop.session.collector import Collector

from ..fleet.target import Target
from . import address
from .node import SshNode


def collectors(source: Source, settings: Settings) -> list[Collector]:
    """One collector for each node of an SSH source.

    Raises:
        UsageError: the source is not written as it should be.
        SettingsError: `fleet.ssh` is no command.
    """
    return [connect(target, settings) for target in address.targets(source.text)]


def connect(target: Target, settings: Settings) -> SshNode:
    """The collector of one node of a list.

    Raises:
        UsageError: its address is none of ssh.
        SettingsError: `fleet.ssh` is no command.
    """
    where, *more = address.parse(target.address)
    assert not more
    return SshNode(target.name, where, settings)
