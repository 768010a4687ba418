"""The quantities that the map of EFA devices can show."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trntop.core import units

from . import rails
from .context import percent
from .efa import PEERS, RETRANSMIT, TX
from .fabric import Fabric
from .links import LATENCY
from .palette import DECADES, retransmit_level

TOPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Shares of the line rate that the brightest color may mean."""
HYSTERESIS = 4.0
"""Factor by which the scale must be too large before it shrinks."""
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
    level: Callable[[float, Fabric, float], float]
    """From 0 to 1, of a value and the top of the scale."""
    ends: Callable[[Fabric, float], tuple[str, str]]
    """Both ends of the scale."""


def top(values: rails.Table, before: float) -> float:
    """The top of the scale of traffic; it follows the values without oscillating."""
    largest = float(np.nanmax(values)) if values.size and not np.isnan(values).all() else 0.0
    needed = next((share for share in TOPS if largest <= share), TOPS[-1])
    return before if needed <= before <= HYSTERESIS * needed else needed


def _microseconds(seconds: float) -> str:
    number = 1e6 * seconds
    return f"{number:.1f}" if number < 99.95 else f"{number:.0f}" if number < 9999.5 else ">9ms"


def _decade_ends(fabric: Fabric, _top: float) -> tuple[str, str]:
    limit = fabric.view_model.limits.retransmits
    return f"{100 * limit / 10 ** (DECADES - 1):.1g} %", f"{1000 * limit:.2g} %, by powers of ten"


def _latency_ends(fabric: Fabric, _top: float) -> tuple[str, str]:
    median = fabric.links.median
    return units.seconds(median / 2), f"{units.seconds(2 * median)}, twice the median"


LAYERS = (
    Layer(
        "traffic vs peers", PEERS, lambda fabric: fabric.rails.table(PEERS),
        lambda value: f"{100 * value:.0f}" if value < 99.995 else ">999",
        lambda value, _fabric, _top: abs(value - 1.0) / UNEVEN,
        lambda _fabric, _top: ("even", "50 % off"),
    ),
    Layer(
        "transmitted, share of line rate", TX, lambda fabric: fabric.shares, percent,
        lambda value, _fabric, top: value / top,
        lambda _fabric, top: ("0", units.percent(top)),
    ),
    Layer(
        "retransmits, share of packets", RETRANSMIT, lambda fabric: fabric.rails.table(RETRANSMIT),
        lambda value: percent(value) if value else " ",
        lambda value, fabric, _top: retransmit_level(value, fabric.view_model.limits.retransmits),
        _decade_ends,
    ),
    Layer(
        "latency, slowest link of the newest probes", LATENCY, lambda fabric: fabric.latency,
        _microseconds,
        lambda value, fabric, _top: (value / fabric.links.median - 0.5) / 1.5, _latency_ends,
    ),
)  # fmt: skip
