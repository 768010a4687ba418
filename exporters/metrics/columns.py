"""The catalog's quantities as metrics.

Rendered by hand: all of a line but its number changes only with the node's inventory and is kept,
so that a page costs little more than formatting its numbers.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trntop.catalog import CATALOG, Entity, Page, Quantity, page_of
from trntop.core.model import Column, Inventory

from .exposition import Family, labels, shortest

_ORDER = (
    Entity.NODE,
    Entity.JOB,
    Entity.DEVICE,
    Entity.EFA,
    Entity.LINK,
    Entity.CORE,
    Entity.PHYSICAL_CORE,
)
"""The guard on series cuts from the end, so what there is most of comes last."""

_KEY_LABELS = {
    Entity.DEVICE: "neuron_device",
    Entity.EFA: "efa_device",
    # Not `job`: Prometheus puts its own label of that name on every series.
    Entity.JOB: "training_job",
}

_CORE_LABELS: Mapping[Entity, tuple[str, Callable[[Inventory], npt.NDArray[np.int64]]]] = {
    Entity.CORE: ("neuroncore", lambda inventory: inventory.core_device),
    Entity.PHYSICAL_CORE: ("physical_core", lambda inventory: inventory.physical_device),
}
"""The label of a core, and the device of each."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A quantity of the catalog as a metric."""

    quantity: Quantity
    family: Family


def _metrics(page: Page) -> tuple[Metric, ...]:
    quantities = [quantity for quantity in CATALOG.values() if page_of(quantity) is page]
    quantities.sort(key=lambda quantity: _ORDER.index(quantity.entity))
    return tuple(
        Metric(quantity, Family(quantity.metric, quantity.kind, quantity.help))
        for quantity in quantities
    )


METRICS: Mapping[Page, tuple[Metric, ...]] = {page: _metrics(page) for page in Page}
"""What each page holds of the catalog, in its order."""


class Templates:
    """The lines of one node's series but for their numbers, as long as its inventory stands."""

    def __init__(self, inventory: Inventory, *, simulated: bool) -> None:
        self._inventory = inventory
        self._node: list[tuple[str, object]] = [("node", inventory.node)]
        if simulated:
            self._node.append(("provenance", "simulated"))
        self._labels: dict[Entity, list[str]] = {}
        self._templates: dict[str, str] = {}

    def of(self, metric: Metric) -> str:
        """For the operator `%`: a line with one `%r` per key of the quantity's entity."""
        name = metric.family.name
        template = self._templates.get(name)
        if template is None:
            entity = metric.quantity.entity
            if entity not in self._labels:
                self._labels[entity] = [
                    labels([*pairs, *self._node]).replace("%", "%%") for pairs in self._own(entity)
                ]
            template = "".join(f"{name}{text} %r\n" for text in self._labels[entity])
            self._templates[name] = template
        return template

    def _own(self, entity: Entity) -> Iterable[list[tuple[str, object]]]:
        """The labels of each key besides its node's."""
        keys = self._inventory.of(entity)
        if entity is Entity.NODE:
            return [[]]
        if entity is Entity.LINK:
            return ([("efa_device", card), ("peer", peer)] for card, peer in map(_ends, keys))
        if entity in _CORE_LABELS:
            label, owner = _CORE_LABELS[entity]
            devices = _owners(owner(self._inventory), len(keys))
            return (
                [("neuron_device", device), (label, core)]
                for core, device in zip(keys, devices, strict=True)
            )
        return ([(_KEY_LABELS[entity], key)] for key in keys)


def lines(metric: Metric, nodes: Iterable[tuple[Column, Templates]]) -> tuple[str, int]:
    """The lines of one metric and how many they are; an absent value has none."""
    text: list[str] = []
    count = 0
    for column, templates in nodes:
        template = templates.of(metric)
        values = column.tolist()
        if not all(map(math.isfinite, values)):
            # Only a newline ends a line: a label may hold what else `splitlines` splits at.
            rows = zip(template.split("\n"), values, strict=False)
            present = [(row, value) for row, value in rows if math.isfinite(value)]
            template = "".join(f"{row}\n" for row, _ in present)
            values = [value for _, value in present]
        text.append(template % tuple(map(shortest, values)))
        count += len(values)
    return "".join(text), count


def _ends(key: object) -> tuple[str, str]:
    """Card and peer of a link; the card is empty where it is not known."""
    card, _, peer = str(key).rpartition(">")
    return card, peer


def _owners(devices: npt.NDArray[np.int64], cores: int) -> list[object]:
    """The device of each core; empty where the inventory does not tell."""
    known: list[object] = list(devices.tolist()[:cores])
    return known + [""] * (cores - len(known))
