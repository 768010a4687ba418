"""The catalog's quantities as metrics.

All of a line but its number changes only with the node's inventory and is cached
(docs/decisions/0012-metrics-page.md).
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
"""The limit on series drops families from the end, so the largest ones come last."""

_KEY_LABELS = {
    Entity.DEVICE: "neuron_device",
    Entity.EFA: "efa_device",
    # Not `job`: Prometheus adds its own label of that name to every series.
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
"""The metrics of each page, in its order."""


class Templates:
    """The lines of a node's series without their numbers; valid for one inventory."""

    def __init__(self, inventory: Inventory, *, simulated: bool) -> None:
        self._inventory = inventory
        self._node: list[tuple[str, object]] = [("node", inventory.node)]
        if simulated:
            self._node.append(("provenance", "simulated"))
        self._simulated = simulated
        self._labels: dict[tuple[Entity, bool], list[str]] = {}
        self._templates: dict[str, str] = {}

    def of(self, metric: Metric) -> str:
        """For the operator `%`: a line with `%r` per key of the quantity's entity."""
        name = metric.family.name
        template = self._templates.get(name)
        if template is None:
            quantity = metric.quantity
            entity, provenance = quantity.entity, self._inventory.provenance(quantity.name)
            differs = provenance is not quantity.provenance and not self._simulated
            key = entity, differs
            if key not in self._labels:
                node = [*self._node, ("provenance", provenance)] if differs else self._node
                self._labels[key] = [
                    labels([*pairs, *node]).replace("%", "%%") for pairs in self._own(entity)
                ]
            template = "".join(f"{name}{text} %r\n" for text in self._labels[key])
            self._templates[name] = template
        return template

    def _own(self, entity: Entity) -> Iterable[list[tuple[str, object]]]:
        """The labels of each key, without those of the node."""
        keys = self._inventory.of(entity)
        if entity is Entity.NODE:
            return [[]]
        if entity is Entity.LINK:
            return ([("efa_device", device), ("peer", peer)] for device, peer in map(_ends, keys))
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
            # Only a newline ends a line; `splitlines` splits at other characters of labels too.
            rows = zip(template.split("\n"), values, strict=False)
            present = [(row, value) for row, value in rows if math.isfinite(value)]
            template = "".join(f"{row}\n" for row, _ in present)
            values = [value for _, value in present]
        text.append(template % tuple(map(shortest, values)))
        count += len(values)
    return "".join(text), count


def _ends(key: object) -> tuple[str, str]:
    """EFA device and peer of a link; the device is empty if unknown."""
    device, _, peer = str(key).rpartition(">")
    return device, peer


def _owners(devices: npt.NDArray[np.int64], cores: int) -> list[object]:
    """The device of each core; empty if unknown."""
    known: list[object] = list(devices.tolist()[:cores])
    return known + [""] * (cores - len(known))
