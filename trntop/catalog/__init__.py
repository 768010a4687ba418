"""Every quantity trntop knows, declared once.

The decoders fill these columns, the node merges them by `combine`, the roll-ups and
derivations compute further ones, and the screen, the JSON, the metrics page and
docs/metrics.md read names, units and help from here. On `/metrics` a quantity is called
`trn_` + its name.

Units are base units (seconds, bytes, ratios from 0 to 1); a unit stands in the name. A
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
from trntop.catalog.names import (
    AGENT,
    CLOUDWATCH,
    CORE_FAILURES,
    CORE_STATUS_ALIASES,
    CORE_STATUSES,
    CPU_MODES,
    DEVICE_SOURCES,
    ECC_EVENTS,
    EFA_DEVICE_COUNTERS,
    EFA_EXPORTER,
    EFA_PORT_COUNTERS,
    EFA_RATES,
    EFA_SOURCE,
    EXECUTION_ERRORS,
    EXECUTION_STATUSES,
    FAILED_STATUSES,
    FLEET,
    HOST,
    JOB_MAPPING,
    KERNEL_LOG,
    LATENCY_PERCENTILES,
    LOG,
    MEMORY_CATEGORIES,
    NEURON_EXPORTER,
    NEURON_LS,
    NEURON_MONITOR,
    NEURON_SYSFS,
    OBSERVER,
    POD_RESOURCES,
    PROBE,
    PROFILES,
    PROMETHEUS,
    SSH,
    STEPS,
    SYSFS_ECC,
    SYSFS_MEMORY_CATEGORIES,
    TENSOR_ENGINE,
    UNCORRECTED_ECC,
)
from trntop.catalog.nodes import host, nodes
from trntop.catalog.pages import SUMMARY, Page, page_of
from trntop.catalog.quantity import (
    METRIC_PREFIX,
    Combine,
    Entity,
    Kind,
    Provenance,
    Quantity,
)
from trntop.catalog.runtimes import runtimes

__all__ = [
    "AGENT",
    "CATALOG",
    "CLOUDWATCH",
    "CORE_FAILURES",
    "CORE_STATUSES",
    "CORE_STATUS_ALIASES",
    "CPU_MODES",
    "DEVICE_SOURCES",
    "ECC_EVENTS",
    "EFA_DEVICE_COUNTERS",
    "EFA_EXPORTER",
    "EFA_PORT_COUNTERS",
    "EFA_RATES",
    "EFA_SOURCE",
    "EXECUTION_ERRORS",
    "EXECUTION_STATUSES",
    "FAILED_STATUSES",
    "FLEET",
    "HOST",
    "JOB_MAPPING",
    "KERNEL_LOG",
    "LATENCY_PERCENTILES",
    "LOG",
    "MEMORY_CATEGORIES",
    "METRIC_PREFIX",
    "NEURON_EXPORTER",
    "NEURON_LS",
    "NEURON_MONITOR",
    "NEURON_SYSFS",
    "OBSERVER",
    "POD_RESOURCES",
    "PROBE",
    "PROFILES",
    "PROMETHEUS",
    "SSH",
    "STEPS",
    "SUMMARY",
    "SYSFS_ECC",
    "SYSFS_MEMORY_CATEGORIES",
    "TENSOR_ENGINE",
    "UNCORRECTED_ECC",
    "Combine",
    "Entity",
    "Kind",
    "Page",
    "Provenance",
    "Quantity",
    "add_quantities",
    "computed_from",
    "describe",
    "inputs",
    "of_entity",
    "page_of",
]

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


def describe() -> str:
    """The catalog as Markdown: `docs/metrics.md`."""
    lines = [
        "# Quantities and metrics",
        "",
        "Made by `python -m trntop.sources metrics > docs/metrics.md`; do not edit.",
        "",
        f"Names are those of the JSON; on the page of metrics they begin with `{METRIC_PREFIX}`.",
        "Those marked with – under *page* are on the screen and in the JSON only. Provenance: see",
        "[architecture](architecture.md#provenance); every value of a simulation is `simulated`.",
    ]
    for entity in Entity:
        lines += [
            "",
            f"## Per {entity}",
            "",
            "| name | unit | meaning | provenance | from | kind | page |",
            "|---|---|---|---|---|---|---|",
        ]
        for quantity in of_entity(entity):
            sources = " else ".join(filter(None, (quantity.source, quantity.fallback)))
            origin = sources or computed_from(quantity)
            page = page_of(quantity)
            unit = quantity.unit.replace("_per_second", "/s").replace("per_second", "1/s")
            lines.append(
                f"| `{quantity.name}` | {unit} | {quantity.help} | {quantity.provenance} "
                f"| {origin} | {quantity.kind if page else '–'} | {page.path if page else '–'} |"
            )
    return "\n".join(lines)


def computed_from(quantity: Quantity) -> str:
    """The inputs of a quantity without a source, for people."""
    if quantity.rate_of:
        return f"change of `{quantity.rate_of}`"
    return quantity.formula or f"{quantity.combine} of `{quantity.rollup_of}`"
