"""Node lists that change: files, DNS, Slurm, EC2."""

from pathlib import Path

from trntop.core.errors import UsageError
from trntop.core.settings import Settings
from trntop.core.source_spec import Origin, Source
from trntop.core.text import clean
from trntop.session.collector import Collector

from . import connection
from .dns import Dns
from .ec2 import Ec2
from .nodes_file import NodesFile
from .slurm import Slurm
from .target import Finder, FindError
from .watch import Watch


def collectors(source: Source, settings: Settings) -> list[Collector]:
    """The collector of a list.

    Raises:
        UsageError: the source is not valid, or the file cannot be read.
        SettingsError: a file of the settings cannot be used.
    """
    connection.check(settings.fleet)
    return [Watch(finder(source, settings), settings)]


def finder(source: Source, settings: Settings) -> Finder:
    """The list of a source.

    Raises:
        UsageError: the source is not valid, or the file cannot be read.
    """
    fleet = settings.fleet
    text = source.text.partition(":")[2]
    match source.origin:
        case Origin.NODES_FILE:
            nodes = NodesFile(Path(source.text[1:]), fleet)
            try:
                nodes.read()  # shows mistakes before anything is drawn
            except FindError as error:
                raise UsageError(str(error)) from None
            return nodes
        case Origin.DNS:
            return Dns(text, fleet)
        case Origin.SLURM:
            return Slurm(text, fleet)
        case Origin.EC2:
            return Ec2(text, fleet)
    raise UsageError(f"{clean(source.text)}: is not a node list")
