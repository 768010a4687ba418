"""The SOURCE argument: what a user may name, and what it means."""

import os
import re
import stat
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from trntop.errors import UsageError
from trntop.text import clean


class Origin(Enum):
    """The kind of a source."""

    LOCAL = auto()
    """neuron-monitor on this machine."""
    STDIN = auto()
    """neuron-monitor's output on standard input."""
    RECORDING = auto()
    SIMULATION = auto()
    AGENT = auto()
    """Nodes whose agents, or other exporters, are asked over HTTP: `http://trn-[001-016]:10042`,
    or a host list alone.
    """
    SSH = auto()
    """Nodes on which nothing is installed: `ssh://trn-[001-016]`."""
    NODES_FILE = auto()
    """A file that lists such sources, watched: `@FILE`."""
    DNS = auto()
    """The addresses of a name, such as a headless service of Kubernetes: `dns:NAME[:PORT]`."""
    SLURM = auto()
    """The nodes of a job: `slurm:JOBID`."""
    EC2 = auto()
    """Instances by tag, type, id: `ec2:tag/Name=run7`."""
    CLOUDWATCH = auto()
    """Container Insights' metrics of a cluster: `cloudwatch:CLUSTER`."""
    ENGINE = auto()
    """A server that speaks Prometheus' API: `prometheus+http://HOST[?match=…]`."""


@dataclass(frozen=True, slots=True)
class Source:
    """One source as the user named it."""

    origin: Origin
    text: str

    @property
    def stream(self) -> bool:
        """Whether it brings its own time (a recording or a simulation)."""
        return self.origin in (Origin.RECORDING, Origin.SIMULATION)


_SCHEMES = {
    "sim": Origin.SIMULATION,
    "http": Origin.AGENT,
    "https": Origin.AGENT,
    "ssh": Origin.SSH,
    "dns": Origin.DNS,
    "slurm": Origin.SLURM,
    "ec2": Origin.EC2,
    "cloudwatch": Origin.CLOUDWATCH,
    "prometheus+http": Origin.ENGINE,
    "prometheus+https": Origin.ENGINE,
}
_HOSTS = re.compile(r"[^/\s]*[\[,][^/\s]*|[\w.-]+:\d{1,5}")
"""What is taken for a list of hosts: brackets, commas or a port tell it from a file's name."""
KNOWN = (
    "a source is local, - (standard input), a recording's file, sim:SCENARIO, nodes such as "
    "trn-[001-016], http://HOST:PORT or ssh://HOST, @FILE, dns:, slurm:, ec2:, cloudwatch: "
    "or prometheus+http://HOST"
)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)


def parse(text: str) -> Source:
    """One SOURCE argument.

    Raises:
        UsageError: it names nothing that exists.
    """
    if text == "local":
        return Source(Origin.LOCAL, text)
    if text == "-":
        # A redirected file is a recording like any other: nothing of it may be dropped.
        if stat.S_ISREG(os.fstat(0).st_mode):
            return Source(Origin.RECORDING, "/dev/stdin")
        return Source(Origin.STDIN, text)
    if "\0" in text:
        raise UsageError(f"a NUL byte in the source's name; {KNOWN}")
    scheme = _SCHEME.match(text)
    if scheme and (origin := _SCHEMES.get(scheme[1].lower())):
        return Source(origin, text)
    if text.startswith("@"):
        return Source(Origin.NODES_FILE, text)
    if Path(text).exists():
        return Source(Origin.RECORDING, text)
    if _HOSTS.fullmatch(text):
        return Source(Origin.AGENT, text)
    if scheme:
        raise UsageError(f"{clean(scheme[1])}: is no source trntop knows; {KNOWN}")
    raise UsageError(f"{clean(text)}: no such file; {KNOWN}")


def parse_all(texts: list[str]) -> list[Source]:
    """All SOURCE arguments; none means this machine.

    Raises:
        UsageError: one of them is unknown, or live sources are mixed with streams, whose times
            differ.
    """
    sources = [parse(text) for text in texts] or [Source(Origin.LOCAL, "local")]
    if len({source.stream for source in sources}) > 1:
        raise UsageError(
            "live sources and recordings keep different times: show one kind at a time"
        )
    names = [
        str(Path(source.text).resolve()) if source.origin is Origin.RECORDING else source.text
        for source in sources
    ]
    if len(set(names)) < len(names):
        raise UsageError("a source is named twice")
    here = [one for one in sources if one.origin in (Origin.LOCAL, Origin.STDIN)]
    if len(here) > 1:
        raise UsageError("local and - are both this machine: name one of them")
    if len(sources) > 1 and any(one.origin is Origin.ENGINE for one in sources):
        raise UsageError("a prometheus+http source stands alone: it speaks for the whole cluster")
    return sources
