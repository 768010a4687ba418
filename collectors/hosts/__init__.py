"""Nodes under check: how each is looked at and probed.

agent     through its agent, which allows it
remote    with its own tools, over ssh, or as a step of a Slurm job
look      what is seen of such a node (look.sh)

This machine is `trntop.collectors.probes.local`.
"""

import asyncio
import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence

from trntop.check.model import Host
from trntop.core.errors import UsageError
from trntop.core.settings import Settings
from trntop.core.source_spec import Origin, Source
from trntop.core.text import clean
from trntop.remote import hostlist

from ..fleet.target import FindError, Target
from .agent import AgentHost, Line

CHECKED = (
    "a check takes nodes such as trn-[001-016], http://HOST:PORT or ssh://HOST, @FILE, dns:, "
    "slurm:, ec2:, or local"
)


def hosts_of(
    sources: Sequence[Source], settings: Settings, environ: Mapping[str, str] = os.environ
) -> list[Host]:
    """The nodes that sources name, each once, in their order. Call it where no event loop runs.

    Raises:
        UsageError: a source names no nodes, or two of them name one.
        SettingsError: what is needed to reach them is wrong.
    """
    hosts: list[Host] = []
    line: Line | None = None
    for source in sources:
        if source.origin is Origin.LOCAL:
            from ..probes.local import LocalHost

            hosts.append(LocalHost(settings, clean(platform.node()) or "localhost"))
        elif (nodes := _of_step(source, environ)) is not None:
            from .remote import through_srun

            job = environ["SLURM_JOB_ID"]
            hosts += [through_srun(node, job, settings) for node in nodes]
        else:
            for target in _targets(source, settings):
                if target.address.startswith("ssh:"):
                    from .remote import over_ssh

                    hosts.append(over_ssh(target, settings))
                else:
                    line = line or Line(settings.fleet)
                    hosts.append(AgentHost(target, line))
    twice = [name for name, count in Counter(host.name for host in hosts).items() if count > 1]
    if twice:
        raise UsageError(f"{twice[0]} is named twice")
    return hosts


def _of_step(source: Source, environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """The nodes of the Slurm job inside of which this runs, if the source is that job."""
    job = environ.get("SLURM_JOB_ID", "")
    if source.origin is not Origin.SLURM or source.text.partition(":")[2] != job:
        return None
    nodes = environ.get("SLURM_JOB_NODELIST", "")
    return hostlist.expand_all([nodes]) if nodes else None


def _targets(source: Source, settings: Settings) -> Sequence[Target]:
    """What a source names at this moment.

    Raises:
        UsageError: it names no nodes, or nobody can tell which.
    """
    match source.origin:
        case Origin.AGENT:
            from ..fleet import agents

            return agents.targets(source.text, settings.fleet)
        case Origin.SSH:
            from ..ssh import address

            return address.targets(source.text)
        case Origin.NODES_FILE | Origin.DNS | Origin.SLURM | Origin.EC2:
            from ..fleet import finders

            try:
                return asyncio.run(finders.finder(source, settings).find())
            except FindError as error:
                raise UsageError(str(error)) from error
        case _:
            raise UsageError(f"{clean(source.text, 80)}: {CHECKED}")
