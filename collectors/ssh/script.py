"""The script that a node runs, with its parameters."""

import json
import math
import shlex
from importlib import resources

from trntop.core.settings import Collect

from ..neuron_config import configuration
from ..neuron_tree import CORE_ATTRIBUTES, DEVICE_ATTRIBUTES

TIMEOUT = 60
"""Seconds without a request after which the script ends on the node; at least four periods."""
SHELL = "exec sh -s"
"""The command for any login shell; the script follows on standard input."""


def text(tag: str, settings: Collect) -> str:
    """The script, for a POSIX shell's standard input.

    Args:
        tag: prefix of each line of its output.
        settings: the sources and periods.
    """
    names = sorted({name for _, name in (*DEVICE_ATTRIBUTES, *CORE_ATTRIBUTES)} | {"total"})
    parameters = {
        "tag": tag,
        "root": settings.root,
        "monitor": settings.neuron_monitor,
        "lister": settings.neuron_ls,
        "config": json.dumps(configuration(settings.period)),
        "texts": f"({'|'.join(names)})",
        "limit": str(math.ceil(max(TIMEOUT, 4 * settings.period))),
    }
    head = "".join(f"{name}={shlex.quote(value)}\n" for name, value in parameters.items())
    return head + resources.files(__package__).joinpath("node.sh").read_text()
