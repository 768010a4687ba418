"""The names that other exporters publish, so that boards made for them keep working.

Each callable turns the nodes of a tick into families under another exporter's names, with its
labels, kinds and scales: `--compat neuron-monitor,amazonefa`. Off by default: on a target that
runs the other exporter too, every series would be there twice. What trntop does not keep is
absent; `docs/exporter.md` lists what that is.
"""

from collections.abc import Iterable, Mapping

from trntop.core.errors import UsageError
from trntop.core.text import clean

from ..pages import Compat
from . import amazonefa, neuron_monitor

COMPAT: Mapping[str, Compat] = {
    "neuron-monitor": neuron_monitor.families,
    "amazonefa": amazonefa.families,
}
"""The other exporters by name."""


def compat_of(names: Iterable[str]) -> tuple[Compat, ...]:
    """The callables of these exporters, in the order of `COMPAT`.

    Raises:
        UsageError: no such exporter is known.
    """
    wanted = set(names)
    for name in sorted(wanted):
        if name not in COMPAT:
            known = ", ".join(COMPAT)
            raise UsageError(f"--compat {clean(name)}: not an exporter; known are {known}")
    return tuple(families for name, families in COMPAT.items() if name in wanted)
