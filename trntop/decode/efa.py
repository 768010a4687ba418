"""EFA counters: `{"driver": …, "devices": {card: {"pci", …, "port": {…}, "device": {…}}}}`.

Names and meaning: the EFA driver's port and device statistics (efa_verbs.c). All are
cumulative. A counter that a card does not show is absent, not 0: the SRD counters need driver
2.17.0. Before driver 1.14.0 the device counters stood among the port's; both places are read.
"""

import msgspec

from trntop.catalog import EFA_DEVICE_COUNTERS, EFA_PORT_COUNTERS, Entity
from trntop.decode import tolerant
from trntop.decode.columns import COUNTER, Layout, Range
from trntop.model import Sample
from trntop.text import clean

MAX_CARDS = 256
_NAMES = (*EFA_PORT_COUNTERS, *EFA_DEVICE_COUNTERS)
_COUNTERS = Layout((tuple(f"efa_{name}_total" for name in _NAMES), COUNTER))
_LINK = Layout((("efa_link_bytes_per_second",), Range(limit=1e5 * 1e9 / 8, scale=1e9 / 8)))
"""From Gb/s."""


class _Card(msgspec.Struct, gc=False):
    pci: str | None = None
    numa_node: int | str | None = None
    rate_gbps: float | None = None
    error: str | None = None
    port: dict[str, float | None] = {}
    device: dict[str, float | None] = {}


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
    notes += [
        f"{label}: {clean(card.error)}"
        for label, card in zip(labels, cards, strict=True)
        if card.error
    ]
    # The two sets of names are disjoint, so it does not matter in which place a counter stood.
    unread = (None,) * len(_NAMES)
    counters = [
        unread if card.error else tuple(map((card.port | card.device).get, _NAMES))
        for card in cards
    ]
    columns = _COUNTERS.columns(counters)
    columns |= _LINK.columns([(card.rate_gbps or None,) for card in cards])
    links = {
        label: {
            key: clean(str(value), 64)
            for key, value in (
                ("pci", card.pci),
                ("numa_node", card.numa_node),
                ("driver", report.driver),
            )
            if value is not None
        }
        for label, card in zip(labels, cards, strict=True)
    }
    return Sample(
        keys={Entity.EFA: tuple(labels)},
        columns=columns,
        facts={"efa_links": links},
        problems=tuple(notes),
    )
