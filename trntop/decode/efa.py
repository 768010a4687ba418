"""EFA counters: `{"driver": …, "devices": {card: {"pci", …, "port": {…}, "device": {…}}}}`.

Names and meaning: the EFA driver's port and device statistics (efa_verbs.c). All are
cumulative. A counter that a card does not show is absent, not 0: the SRD counters need driver
2.17.0. Before driver 1.14.0 the device counters stood among the port's; both places are read.
`rate_gbps` is what the port states; before 2.13.0 the driver stated 100 Gb/s for every card.
"""

from functools import lru_cache
from itertools import chain

import msgspec
import numpy as np

from trntop.catalog import EFA_DEVICE_COUNTERS, EFA_PORT_COUNTERS, Entity
from trntop.decode import tolerant
from trntop.decode.columns import COUNTER, Layout, Number, Range, Table, read_tables
from trntop.model import Column, Sample
from trntop.text import clean
from trntop.versions import numbers

MAX_CARDS = 256
STATES_RATE = (2, 13)
"""Since this driver the stated rate is the card's."""
_NAMES = (*EFA_PORT_COUNTERS, *EFA_DEVICE_COUNTERS)
_COUNTERS = Layout((tuple(f"efa_{name}_total" for name in _NAMES), COUNTER))
_UNREAD = (None,) * len(_NAMES)
MAX_GBPS = 1e5
MAX_FACT = 64
"""Characters kept of one fact about a card."""
_FACTS = ("pci", "numa_node", "driver", "state", "p2p")
Facts = tuple[str | int | None, ...]
_LINK = Layout(
    (("efa_stated_link_bytes_per_second",), Range(limit=MAX_GBPS * 1e9 / 8, scale=1e9 / 8))
)


class _Card(msgspec.Struct, gc=False):
    pci: str | None = None
    numa_node: int | str | None = None
    rate_gbps: float | None = None
    state: str | None = None
    p2p: str | None = None
    error: str | None = None
    errors: list[str] = []
    port: dict[str, float | None] = {}
    device: dict[str, float | None] = {}

    def facts(self, driver: str | None) -> Facts:
        """What it is, in the order of `_FACTS`."""
        said = (self.pci, self.numa_node, driver, self.state, self.p2p)
        # What is kept shall be short: `clean` looks at no more than four times what it keeps.
        return tuple([one[: 4 * MAX_FACT] if isinstance(one, str) else one for one in said])

    def stated(self) -> float | None:
        """The line rate in Gb/s, None where it is not known or absurd."""
        rate = self.rate_gbps
        return rate if rate is not None and 0 < rate <= MAX_GBPS else None


class _Cards(msgspec.Struct):
    driver: str | None = None
    devices: dict[str, _Card] = {}


_decoder = msgspec.json.Decoder(_Cards)


def decode(data: bytes) -> Sample:
    """One reading of all cards.

    Raises:
        DecodeError: the payload is no JSON object of this kind.
    """
    report, problems = tolerant.decode(data, _decoder)
    notes = list(problems)
    names = sorted(report.devices)
    if len(names) > MAX_CARDS:
        notes.append(f"{len(names)} EFA cards; only {MAX_CARDS} are read")
        names = names[:MAX_CARDS]
    cards = [report.devices[name] for name in names]
    labels = [clean(name, 64) for name in names]
    for label, card in zip(labels, cards, strict=True):
        notes += [f"{label}: {clean(error)}" for error in (card.error, *card.errors) if error]
    tables: list[Table] = [(_COUNTERS, list(chain.from_iterable(map(_counters, cards))))]
    if numbers(report.driver or "") >= STATES_RATE:
        tables.append((_LINK, [card.stated() for card in cards]))
    columns: dict[str, Column] = {}
    for (layout, _), values in zip(tables, read_tables(tables), strict=True):
        if len(values):
            columns |= layout.split(values)
    columns["node_efa_cards"] = np.array([float(sum(not card.error for card in cards))])
    return Sample(
        keys={Entity.EFA: tuple(labels)},
        columns=columns,
        facts={
            "efa_links": {
                label: _link(card.facts(report.driver))
                for label, card in zip(labels, cards, strict=True)
            }
        },
        problems=tuple(notes),
    )


def _counters(card: _Card) -> tuple[Number, ...]:
    """Its counters in the order of `_COUNTERS`."""
    if card.error:
        return _UNREAD
    # The two sets of names are disjoint, so it does not matter in which place a counter stood.
    return tuple(map((card.port | card.device).get, _NAMES))


@lru_cache(maxsize=1024)
def _link(facts: Facts) -> dict[str, str]:
    """What is known of a card besides its counters; cards of many readings share one mapping."""
    # The kernel says -1 where memory has no nodes.
    return {
        key: clean(str(value), MAX_FACT)
        for key, value in zip(_FACTS, facts, strict=True)
        if value is not None and value not in ("", -1, "-1")
    }
