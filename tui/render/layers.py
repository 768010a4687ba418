"""The quantities that the map of EFA devices can show."""

from collections.abc import Callable
from dataclasses import dataclass

from trntop.core import units

from . import rails
from .context import percent
from .efa import PEERS, RETRANSMIT
from .fabric import Fabric
from .links import LATENCY
from .palette import DECADES, retransmit_level

UNEVEN = 0.5
"""Deviation from the peers that has the brightest color."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One way to color the devices."""

    title: str
    quantity: str
    values: Callable[[Fabric], rails.Table]
    """`[node, rail]`."""
    text: Callable[[float], str]
    """A value in at most four characters."""
    level: Callable[[float, Fabric], float]
    """From 0 to 1, of a value."""
    ends: Callable[[Fabric], tuple[str, str]]
    """Both ends of the scale."""


def _microseconds(seconds: float) -> str:
    number = 1e6 * seconds
    return f"{number:.1f}" if number < 99.95 else f"{number:.0f}" if number < 9999.5 else ">9ms"


def _decade_ends(fabric: Fabric) -> tuple[str, str]:
    limit = fabric.view_model.limits.retransmits
    return f"{100 * limit / 10 ** (DECADES - 1):.1g} %", f"{1000 * limit:.2g} %, by powers of ten"


def _latency_ends(fabric: Fabric) -> tuple[str, str]:
    median = fabric.links.median
    return units.seconds(median / 2), f"{units.seconds(2 * median)}, twice the median"


LAYERS = (
    Layer(
        "traffic vs peers", PEERS, lambda fabric: fabric.rails.table(PEERS),
        lambda value: f"{100 * value:.0f}" if value < 99.995 else ">999",
        lambda value, _fabric: abs(value - 1.0) / UNEVEN,
        lambda _fabric: ("even", "50 % off"),
    ),
    Layer(
        "retransmits, share of packets", RETRANSMIT, lambda fabric: fabric.rails.table(RETRANSMIT),
        lambda value: percent(value) if value else " ",
        lambda value, fabric: retransmit_level(value, fabric.view_model.limits.retransmits),
        _decade_ends,
    ),
    Layer(
        "latency, slowest link of the newest probes", LATENCY, lambda fabric: fabric.latency,
        _microseconds,
        lambda value, fabric: (value / fabric.links.median - 0.5) / 1.5, _latency_ends,
    ),
)  # fmt: skip
