"""Every quantity trntop knows, declared once.

The decoders fill these columns, the node merges them by `combine`, the roll-ups and
derivations compute further ones, and the screen, the JSON, the metrics page and
docs/metrics.md read names, units and help from here. On `/metrics` a quantity is called
`trn_` + its name.

Units are base units (seconds, bytes, ratios from 0 to 1); the name ends in the unit. A
counter ends in `_total`. Absent values are NaN inside trntop and nothing at all outside.
"""

import re
from collections.abc import Iterable
from functools import cache

from trntop.catalog.cores import cores, physical_cores
from trntop.catalog.devices import devices
from trntop.catalog.efa import efa
from trntop.catalog.jobs import jobs, ranks
from trntop.catalog.links import links
from trntop.catalog.names import *  # noqa: F403
from trntop.catalog.nodes import host, nodes
from trntop.catalog.pages import Page as Page
from trntop.catalog.pages import page_of as page_of
from trntop.catalog.quantity import *  # noqa: F403
from trntop.catalog.quantity import Entity, Quantity
from trntop.catalog.runtimes import runtimes

CATALOG: dict[str, Quantity] = {
    quantity.name: quantity
    for family in (nodes, host, devices, cores, physical_cores, efa, runtimes, jobs, ranks, links)
    for quantity in family()
}
"""All quantities by name, in the order of the page: node first, then its parts."""


def add_quantities(quantities: Iterable[Quantity]) -> None:
    """Adds the quantities that a source declares itself.

    Raises:
        ValueError: a name is taken.
    """
    for quantity in quantities:
        if CATALOG.setdefault(quantity.name, quantity) is not quantity:
            raise ValueError(f"quantity {quantity.name} exists already")


def of_entity(entity: Entity) -> tuple[Quantity, ...]:
    """The quantities with one value per `entity`."""
    return tuple(quantity for quantity in CATALOG.values() if quantity.entity is entity)


@cache
def inputs(name: str) -> tuple[str, ...]:
    """The quantities that `name` is computed from, as its row names them."""
    quantity = CATALOG[name]
    words = re.findall(r"\w+", f"{quantity.rollup_of} {quantity.rate_of} {quantity.formula}")
    return tuple(word for word in words if word in CATALOG and word != name)


@cache
def all_inputs(name: str) -> tuple[str, ...]:
    """All its inputs, direct and indirect, nearest first."""
    found: dict[str, None] = {}
    waiting = list(inputs(name))
    for quantity in waiting:
        if quantity not in found:
            found[quantity] = None
            waiting += inputs(quantity)
    return tuple(found)


def sources_of(name: str) -> tuple[str, ...]:
    """The sources of a quantity and of all its inputs; fallbacks are last."""
    rows = [CATALOG[quantity] for quantity in (name, *all_inputs(name))]
    names = [row.source for row in rows] + [row.fallback for row in rows]
    return tuple(dict.fromkeys(filter(None, names)))
