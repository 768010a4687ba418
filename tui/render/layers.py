"""What the colours of the map of EFA cards stand for."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trntop.core import units

from . import rails
from .context import bare
from .efa import RETRANSMIT, SIBLINGS, TX
from .fabric import Fabric
from .probed import LATENCY

TOPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Shares of the line rate that the brightest colour may stand for."""
CALMER = 4.0
"""Times that a scale must be too large before it is made smaller."""
DECADES = 3.0
"""Powers of ten on the scale of retransmits; the limit stands one below its end."""
UNEVEN = 0.5
"""Share by which a card must differ from its siblings for the brightest colour."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One way to colour the cards."""

    title: str
    quantity: str
    values: Callable[[Fabric], rails.Table]
    """One value a card, `[node, rail]`."""
    text: Callable[[float], str]
    """A value in at most four characters."""
    level: Callable[[float, Fabric, float], float]
    """From 0, calm, to 1, for a value, its tick, and the top of the scale."""
    ends: Callable[[Fabric, float], tuple[str, str]]
    """What the darkest and the brightest colour stand for."""


def top(values: rails.Table, before: float) -> float:
    """The top of the scale of traffic; it follows what is there without going to and fro."""
    largest = float(np.nanmax(values)) if values.size and not np.isnan(values).all() else 0.0
    needed = next((one for one in TOPS if largest <= one), TOPS[-1])
    return before if needed <= before <= CALMER * needed else needed


def _percent(value: float) -> str:
    return bare(units.percent(value))


def _resent(value: float) -> str:
    return _percent(value) if value else " "  # what should be 0 and is need not be read


def _whole_percent(value: float) -> str:
    return f"{100 * value:.0f}" if value < 99.995 else ">999"


def microseconds(seconds: float) -> str:
    """A latency in at most four characters."""
    number = 1e6 * seconds
    return f"{number:.1f}" if number < 99.95 else f"{number:.0f}" if number < 9999.5 else ">9ms"


def _by_decades(value: float, fabric: Fabric, _top: float) -> float:
    limit = fabric.view_model.limits.retransmits
    if value <= 0 or limit <= 0:
        return 0.0
    return 1.0 - 1.0 / DECADES + math.log10(value / limit) / DECADES


def _unevenness(value: float, _fabric: Fabric, _top: float) -> float:
    return abs(value - 1.0) / UNEVEN


def slowness(latency: float, typical: float) -> float:
    """From 0 for half the typical latency to 1 for twice it."""
    return (latency / typical - 0.5) / 1.5


def _retransmit_ends(fabric: Fabric, _top: float) -> tuple[str, str]:
    limit = fabric.view_model.limits.retransmits
    return f"{100 * limit / 10 ** (DECADES - 1):.1g} %", f"{1000 * limit:.2g} %, by powers of ten"


def _latency_ends(fabric: Fabric, _top: float) -> tuple[str, str]:
    typical = fabric.pairs.typical
    return units.seconds(typical / 2), f"{units.seconds(2 * typical)}, twice the median"


LAYERS = (
    Layer(
        "transmitted, share of line rate", TX, lambda fabric: fabric.shares, _percent,
        lambda value, _fabric, top: value / top,
        lambda _fabric, top: ("0", units.percent(top)),
    ),
    Layer(
        "retransmits, share of packets", RETRANSMIT, lambda fabric: fabric.rails.table(RETRANSMIT),
        _resent, _by_decades, _retransmit_ends,
    ),
    Layer(
        "traffic vs peers", SIBLINGS, lambda fabric: fabric.rails.table(SIBLINGS),
        _whole_percent, _unevenness, lambda _fabric, _top: ("even", "50 % off"),
    ),
    Layer(
        "latency, slowest link of the newest probes", LATENCY, lambda fabric: fabric.latency,
        microseconds,
        lambda value, fabric, _top: slowness(value, fabric.pairs.typical), _latency_ends,
    ),
)  # fmt: skip
