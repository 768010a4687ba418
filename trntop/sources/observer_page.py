"""What is public of Neuron Observer's page of metrics.

Documentation (a beta, whose names may change): tools/neuron-observer/metrics-fault-reference of
the AWS Neuron documentation, 2.33. Metrics are called `neuron.{scope}.{name}` and, where they are
summed up over the parts of a node, `neuron.{scope}.{name}.{strategy}`; on a page of Prometheus
points are underscores, and a unit or `_total` may follow. Read here are utilization (avg, max) and
uncorrected memory errors (sum) of the node, and the counters of EFA, whose names are the driver's.
Which label holds the card is not documented: the first of `CARD_LABELS` that is there.
"""

import re

import numpy as np

from trntop.catalog import EFA_DEVICE_COUNTERS, EFA_PORT_COUNTERS, OBSERVER, Entity
from trntop.core.errors import DecodeError
from trntop.core.model import Sample
from trntop.core.text import clean
from trntop.sources.columns import COUNTER, SIZE
from trntop.sources.exporter_page import PERCENT_ABOVE, RATIO, Page, read, within
from trntop.sources.source import Role, Source

PREFIX = "neuron_"
CARD_LABELS = ("efa_device", "device", "device_name", "interface", "efa")
MAX_CARDS = 256
PERIOD = 5.0

_NODE = {
    "node_neuroncore_utilization_mean_ratio": ("utilization", "avg"),
    "node_neuroncore_utilization_max_ratio": ("utilization", "max"),
    "node_ecc_uncorrected_events": ("mem_ecc_uncorrected", "sum"),
}
"""Quantity → name and strategy."""
_SCOPES = ("core", "device")
"""Where it is looked for, best first."""
_ENDINGS = ("", "_total", "_ratio", "_percent", "_bytes")
_EFA = {
    f"neuron_efa_{name}{ending}": name
    for name in EFA_PORT_COUNTERS | EFA_DEVICE_COUNTERS
    for ending in ("", "_total")
}
_SPELLINGS = {
    quantity: tuple(
        f"neuron_{scope}_{name}_{strategy}{ending}" for scope in _SCOPES for ending in _ENDINGS
    )
    for quantity, (name, strategy) in _NODE.items()
}
_FAMILIES = frozenset((*_EFA, *(name for names in _SPELLINGS.values() for name in names)))
MARK = re.compile(rb"^neuron_(?:core|device|efa|system|vcpu)_\w+(?:_sum|_avg|_max)\b|^neuron_efa_",
                  re.MULTILINE)  # fmt: skip
"""What tells its page."""


def decode(data: bytes) -> Sample:
    """One page.

    Raises:
        DecodeError: nothing of Neuron Observer that is known is on it.
    """
    page = read(data, _FAMILIES)
    sample = Sample(period=PERIOD, problems=page.problems)
    for quantity, names in _SPELLINGS.items():
        name = next((one for one in names if page.of(one)), None)
        if name is None:
            continue
        value = page.of(name)[0].value
        if quantity.endswith("_ratio"):
            if name.endswith("_percent") or value > PERCENT_ABOVE:
                value /= 100
            column = within(np.array([value]), RATIO)
        else:
            column = within(np.array([value]), SIZE)
        if np.isfinite(column[0]):
            sample.columns[quantity] = column
    _cards(page, sample)
    if not sample.columns:
        raise DecodeError("no known metric of Neuron Observer")
    return sample


def _cards(page: Page, sample: Sample) -> None:
    series = [(name, one) for family, name in _EFA.items() for one in page.of(family)]
    cards: dict[str, int] = {}
    found = []
    for name, one in series:
        card = next((one.labels[label] for label in CARD_LABELS if label in one.labels), "")
        if card and (card in cards or len(cards) < MAX_CARDS):
            found.append((name, cards.setdefault(card, len(cards)), one.value))
    if not found:
        return
    sample.keys[Entity.EFA] = tuple(clean(card, 64) for card in cards)
    columns: dict[str, list[float]] = {}
    for name, place, value in found:
        columns.setdefault(name, [np.nan] * len(cards))[place] = value
    for name, values in columns.items():
        sample.columns[f"efa_{name}_total"] = within(np.array(values), COUNTER)


SOURCE = Source(
    name=OBSERVER,
    decode=decode,
    role=Role.PAGE,
    gives="the public metrics of Neuron Observer: utilization of the node, uncorrected memory "
    "errors, EFA counters",
    origin="its page of metrics, polled each 5 s; a beta, whose names may change",
    needs="Neuron Observer (Trn2, Trn3 on EKS) on a node without an agent of trntop",
    without="these values, unless another source reports them",
)
