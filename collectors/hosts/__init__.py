"""Nodes under check: how each is inspected and probed.

agent         through its agent, which permits it
node          with its own tools: this machine, or over ssh
inspection    the state of a node, from one script (inspect.sh)
"""

import asyncio
import platform
from collections import Counter
from collections.abc import Sequence

from trntop.check.model import Host
from trntop.core.errors import UsageError
from trntop.core.settings import Settings
from trntop.core.source_spec import Origin, Source
from trntop.core.text import clean

from ..fleet.target import FindError, Target
from .agent import AgentHost, SharedClient

ACCEPTED = (
    "a check takes nodes such as trn-[001-016], http://HOST:PORT or ssh://HOST, @FILE, dns:, "
    "slurm:, ec2:, or local"
)


def hosts_of(sources: Sequence[Source], settings: Settings) -> list[Host]:
    """The nodes of sources, in their order. Call it outside an event loop.

    Raises:
        UsageError: a source has no nodes, or two of them have the same node.
        SettingsError: a setting to reach them is wrong.
    """
    from .node import LocalHost, SshHost

    hosts: list[Host] = []
    client: SharedClient | None = None
    for source in sources:
        if source.origin is Origin.LOCAL:
            hosts.append(LocalHost(settings, clean(platform.node()) or "localhost"))
            continue
        for target in _targets(source, settings):
            if target.address.startswith("ssh:"):
                hosts.append(SshHost(target, settings))
            else:
                client = client or SharedClient(settings.fleet)
                hosts.append(AgentHost(target, client))
    twice = [name for name, count in Counter(host.name for host in hosts).items() if count > 1]
    if twice:
        raise UsageError(f"{twice[0]} is named twice")
    return hosts


def _targets(source: Source, settings: Settings) -> Sequence[Target]:
    match source.origin:
        case Origin.AGENT | Origin.SSH:
            from ..fleet import agents

            return agents.targets(source.text, settings.fleet)
        case Origin.NODES_FILE | Origin.DNS | Origin.SLURM | Origin.EC2:
            from ..fleet import finders

            try:
                return asyncio.run(finders.finder(source, settings).find())
            except FindError as error:
                raise UsageError(str(error)) from error
        case _:
            raise UsageError(f"{clean(source.text, 80)}: {ACCEPTED}")
