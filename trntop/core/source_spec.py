"""The SOURCE argument: what a user may name, and what it means."""

import os
import re
import stat
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from trntop.core.errors import UsageError
from trntop.core.suggest import unknown
from trntop.core.text import clean


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
    PROMETHEUS = auto()
    """A server with Prometheus' API: `prometheus+http://HOST[?match=…]`."""


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
    "prometheus+http": Origin.PROMETHEUS,
    "prometheus+https": Origin.PROMETHEUS,
}
_HOSTS = re.compile(r"[^/\s]*[\[,][^/\s]*|[\w.-]+:\d{1,5}")
"""A list of hosts: brackets, commas or a port distinguish it from the name of a file."""
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)


def parse(text: str) -> Source:
    """One SOURCE argument.

    Raises:
        UsageError: it is neither a file nor a known form of a source.
    """
    if text == "local":
        return Source(Origin.LOCAL, text)
    if text == "-":
        # A redirected file is a recording like any other: nothing of it may be dropped.
        if stat.S_ISREG(os.fstat(0).st_mode):
            return Source(Origin.RECORDING, "/dev/stdin")
        return Source(Origin.STDIN, text)
    if "\0" in text:
        raise UsageError("SOURCE contains a NUL byte")
    scheme = _SCHEME.match(text)
    if scheme and (origin := _SCHEMES.get(scheme[1].lower())):
        return Source(origin, text)
    if text.startswith("@"):
        return Source(Origin.NODES_FILE, text)
    if _exists(text):
        return Source(Origin.RECORDING, text)
    if _HOSTS.fullmatch(text):
        return Source(Origin.AGENT, text)
    if scheme:
        raise UsageError(unknown("source type", scheme[1], _SCHEMES))
    if "/" in text or "." in text:
        raise UsageError(f"file {clean(text, 80)} does not exist")
    word = clean(text, 40)
    raise UsageError(
        f"{word} is not a file or a SOURCE (see trntop --help); for a node, use http://{word}"
    )


def _exists(path: str) -> bool:
    """Whether it is a file; a list of hosts may be longer than the name of a file."""
    try:
        return Path(path).exists()
    except OSError:
        return False


def parse_all(texts: list[str]) -> list[Source]:
    """All SOURCE arguments; none means this machine.

    Raises:
        UsageError: one is unknown, or they cannot be combined.
    """
    sources = [parse(text) for text in texts] or [Source(Origin.LOCAL, "local")]
    if len({source.stream for source in sources}) > 1:
        raise UsageError("live sources cannot be combined with recordings or simulations")
    names = [
        str(Path(source.text).resolve()) if source.origin is Origin.RECORDING else source.text
        for source in sources
    ]
    if len(set(names)) < len(names):
        raise UsageError("a SOURCE is given twice")
    this_machine = [source for source in sources if source.origin in (Origin.LOCAL, Origin.STDIN)]
    if len(this_machine) > 1:
        raise UsageError("local cannot be combined with -: both are this machine")
    if len(sources) > 1 and any(source.origin is Origin.PROMETHEUS for source in sources):
        raise UsageError("a prometheus+http SOURCE cannot be combined with others")
    return sources
