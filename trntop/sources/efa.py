"""EFA counters: `{"driver": …, "devices": {card: {"pci", …, "port": {…}, "device": {…}}}}`.

Names and meaning: the EFA driver's port and device statistics (efa_verbs.c). All are
cumulative. A counter that a card does not show is absent, not 0: the SRD counters need driver
2.17.0. Before driver 1.14.0 the device counters stood among the port's; both places are read.
`rate_gbps` is what the port states; before 2.13.0 the driver stated 100 Gb/s for every card.
"""

from collections.abc import Callable, Collection
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np

from trntop.catalog import EFA_DEVICE_COUNTERS, EFA_PORT_COUNTERS, EFA_SOURCE, Entity
from trntop.core.model import Column, Sample
from trntop.core.text import clean
from trntop.core.versions import numbers
from trntop.sources import tolerant
from trntop.sources.columns import COUNTER, Layout, Number, Range, Table, read_tables
from trntop.sources.source import Role, Source

MAX_CARDS = 256
STATES_RATE = (2, 13)
"""Since this driver the stated rate is the card's."""
MAX_GBPS = 1e5
MAX_FACT = 64
"""Characters kept of one fact about a card."""
Fact = Annotated[str, msgspec.Meta(max_length=4 * MAX_FACT)]
_FACTS = ("pci", "numa_node", "state", "p2p")
_FACTS_OF = attrgetter(*_FACTS)
_STATED = "efa_stated_link_bytes_per_second"
_LINK = Layout(((_STATED,), Range(limit=MAX_GBPS * 1e9 / 8, scale=1e9 / 8)))


class _Card(msgspec.Struct, gc=False):
    """What a reading tells of a card beside its counters."""

    pci: Fact | None = None
    numa_node: int | Fact | None = None
    rate_gbps: float | None = None
    state: Fact | None = None
    p2p: Fact | None = None
    error: str | None = None
    errors: list[str] = []

    def stated(self) -> float | None:
        """The line rate in Gb/s, None where it is not known or absurd."""
        rate = self.rate_gbps
        return rate if rate is not None and 0 < rate <= MAX_GBPS else None


def decoder(wanted: Collection[str] | None = None) -> Callable[[bytes], Sample]:
    """What decodes readings of all cards: all quantities, or those that are wanted."""
    return _Decoder(wanted).decode


class _Decoder:
    """Decodes the counters of some names; the others are skipped, not read."""

    def __init__(self, wanted: Collection[str] | None) -> None:
        port, device = (
            [name for name in names if wanted is None or f"efa_{name}_total" in wanted]
            for names in (EFA_PORT_COUNTERS, EFA_DEVICE_COUNTERS)
        )
        names = (*port, *device)
        self._layout = Layout((tuple(f"efa_{name}_total" for name in names), COUNTER))
        self._unread = (None,) * len(names)
        self._ports = len(port)
        self._links = wanted is None or _STATED in wanted
        self._json = msgspec.json.Decoder(_report(names, device))

    def decode(self, data: bytes) -> Sample:
        """One reading of all cards.

        Raises:
            DecodeError: the payload is no JSON object of this kind.
        """
        report, problems = tolerant.decode(data, self._json)
        notes = list(problems)
        names = sorted(report.devices)
        if len(names) > MAX_CARDS:
            notes.append(f"{len(names)} EFA cards; only {MAX_CARDS} are read")
            names = names[:MAX_CARDS]
        cards = [report.devices[name] for name in names]
        labels = [clean(name, 64) for name in names]
        for label, card in zip(labels, cards, strict=True):
            if card.error or card.errors:
                said = (card.error, *card.errors)
                notes += [f"{label}: {clean(error)}" for error in said if error]
        tables: list[Table] = []
        if self._unread:
            counters = list(chain.from_iterable(map(self._counters, cards)))
            tables.append((self._layout, counters))
        if self._links and numbers(report.driver or "") >= STATES_RATE:
            tables.append((_LINK, [card.stated() for card in cards]))
        columns: dict[str, Column] = {}
        for (layout, _), values in zip(tables, read_tables(tables), strict=True):
            if len(values):
                columns |= layout.split(values)
        columns["node_efa_cards"] = np.array([float(sum(not card.error for card in cards))])
        return Sample(
            keys={Entity.EFA: tuple(labels)},
            columns=columns,
            facts={"efa_links": _links(tuple(labels), report.driver, tuple(map(_FACTS_OF, cards)))},
            problems=tuple(notes),
        )

    def _counters(self, card: Any) -> tuple[Number, ...]:
        """Its counters in the order of the layout."""
        if card.error:
            return self._unread
        port: tuple[Number, ...] = msgspec.structs.astuple(card.port)
        device: tuple[Number, ...] = msgspec.structs.astuple(card.device)
        first = port[: self._ports]
        if None not in device:
            return first + device
        pairs = zip(device, port[self._ports :], strict=True)
        return first + tuple([there if here is None else here for here, there in pairs])


def _report(port: Collection[str], device: Collection[str]) -> Any:
    """The type of a reading whose cards have these counters; all may stand among the port's."""

    def counters(name: str, fields: Collection[str]) -> Any:
        return msgspec.defstruct(name, [(one, Number, None) for one in fields], gc=False)

    of_port, of_device = counters("_Port", port), counters("_Device", device)
    card = msgspec.defstruct(
        "_CountedCard",
        [
            ("port", of_port, msgspec.field(default_factory=of_port)),
            ("device", of_device, msgspec.field(default_factory=of_device)),
        ],
        bases=(_Card,),
        gc=False,
    )
    return msgspec.defstruct(
        "_Cards",
        [("driver", Fact | None, None), ("devices", dict[str, card], {})],  # type: ignore[valid-type]
    )


decode = decoder()


@lru_cache(maxsize=64)
def _links(
    labels: tuple[str, ...], driver: str | None, facts: tuple[tuple[int | str | None, ...], ...]
) -> dict[str, dict[str, str]]:
    """What is known of each card besides its counters; many readings share one mapping."""
    names = (*_FACTS, "driver")
    # The kernel says -1 where memory has no nodes.
    return {
        label: {
            key: clean(str(value), MAX_FACT)
            for key, value in zip(names, (*said, driver), strict=True)
            if value is not None and value not in ("", -1, "-1")
        }
        for label, said in zip(labels, facts, strict=True)
    }


SOURCE = Source(
    name=EFA_SOURCE,
    decode=decode,
    partial_decoder=decoder,
    role=Role.DEVICE,
    gives="traffic, retransmits, drops and errors of each EFA device",
    origin="`/sys/class/infiniband/*/ports/1/hw_counters` and "
    "`/sys/class/infiniband/*/hw_counters`",
    needs="the EFA driver; retransmits from 2.17.0 and Nitro v4, the true line rate from 2.13.0",
    without="no EFA columns, and no floor for an estimated communication share",
)
