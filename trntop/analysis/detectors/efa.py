"""EFA devices that are degraded, and EFA devices that are down.

Collectives run at the speed of the slowest device, so one faulty device slows down all of them; it
differs from its peers in retransmits, in its share of the traffic, or in errors. AWS documents no
thresholds for any of the counters.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from trntop.analysis.axis import Along, Axis, PartAxis, carried
from trntop.analysis.cards import TUNING as POLL
from trntop.analysis.cards import Cards
from trntop.analysis.counters import Counters
from trntop.analysis.detector import Signal, Verdict
from trntop.analysis.outliers import stands_out
from trntop.analysis.shares import Shares
from trntop.analysis.siblings import of_whole_nodes, whole
from trntop.analysis.sums import Sums
from trntop.analysis.tick import Tick
from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import NO_VALUE, Column, Evidence, Key, Severity
from trntop.core.settings import Analysis as Settings


@dataclass(frozen=True, slots=True)
class EfaTuning:
    """What makes an EFA device degraded or down; AWS documents no thresholds."""

    window: float = 20.0
    """Seconds over which packets and errors are counted."""
    min_retransmits: float = 20.0
    """Packets sent again in the window, without which the share of them means nothing."""
    errors_per_second: float = 0.5
    """Errors per second above which a device is degraded, if its peers have far fewer."""
    min_duration: float = 12.0
    """Seconds of retransmits or errors: bursts, as of a changed path, pass by themselves."""
    min_expected: float = 3.0
    """Packets that a card at the limit would have resent in a reading that tells."""
    min_errors: float = 8.0
    critical_retransmits: float = 0.01
    critical_loss: float = 0.3
    """Shares from which on a card costs the job: of its packets, of its traffic."""
    clear: float = 0.5
    """Below this share of their limits signs have passed."""
    down: float = 2.0
    """What stands for a card that is plainly down."""
    command_memory: float = 60.0
    """Seconds for which a command that never completed tells against a card."""
    min_used: float = 10.0
    """Seconds that a card must have carried traffic to be missed when it does not."""
    pause: float = 60.0
    """Seconds without traffic on the node after which another job may use other cards."""
    max_share: float = 1 / 3
    """Share of a node's cards that may fall silent together; more are not used any longer."""


TUNING = EfaTuning()

RESENT, SENT = "retrans_pkts", "tx_pkts"
ERROR_KINDS = {
    "retrans_timeout_events": "time-outs",
    "impaired_remote_conn_events": "impaired connections",
    "unresponsive_remote_events": "unresponsive peers",
    "rx_drops": "receive drops",
    "rdma_read_wr_err": "failed reads",
    "rdma_write_wr_err": "failed writes",
}
BY_PEERS = ("retrans_timeout_events", "unresponsive_remote_events")
"""Errors that every card has whose peer is gone."""


Mask = npt.NDArray[np.bool_]


class EfaDegraded:
    """The worst of three signs per card, each as a multiple of its limit.

    Traffic is looked at in one tick, packets and errors in the next: no tick has both to do.
    """

    inputs = Cards.inputs.union(
        ("efa_retransmit_ratio", f"efa_{RESENT}_per_second"),
        (f"efa_{kind}_total" for kind in (RESENT, SENT, *ERROR_KINDS)),
        (f"efa_{kind}_per_second" for kind in ERROR_KINDS),
    )

    def __init__(self, settings: Settings, period: float) -> None:
        self._limit = settings.retransmits
        self._cards = Cards()
        """The newest look at the cards, which others take as well."""
        self._shares = Shares(settings.card_traffic)
        self._counters = Counters((RESENT, SENT, *ERROR_KINDS))
        self._sums = Sums(TUNING.window)
        self._resending = _Onset()
        self._onset = _Onset()
        self._ticked = self._counted = -np.inf
        """When the newest tick was, and the newest look at packets and errors."""
        self._axis = PartAxis(Axis(), ())
        """What that told is along it."""
        self._ratio: Column = np.zeros(0)
        """Share of packets sent again in the window, `[card]`."""
        self._resends: Column = np.zeros(0)
        self._error_rate: Column = np.zeros(0)
        self._fails: Column = np.zeros(0)
        """Errors as a multiple of their limit, as are the resends."""
        self._values: Column = np.zeros(0)
        self._since: Column = np.zeros(0)
        self._signal = Signal(Axis(), np.zeros(0), 1.0, TUNING.clear)

    def signal(self, tick: Tick) -> Signal:
        """Above 1 where a card is degraded; 0 where it is down, which is another rule's."""
        cards = self._cards = tick.shared(Cards)
        looked = cards.look(tick)
        if looked:
            self._shares.update(cards.middle, cards)
            self._follow(cards.axis)
        turn = self._is_turn(tick.time, looked=looked)
        # Cards that have come or gone since are for the next look at traffic.
        counted = turn and tick.parts(Entity.EFA) is cards.axis
        if counted:
            self._count(tick)
        if looked or counted:
            self._signal = self._judged(tick.time)
        return self._signal

    def _is_turn(self, time: float, *, looked: bool) -> bool:
        """Whether to look at packets and errors: in the tick after a look at traffic, or with it
        where ticks are as far apart as looks.
        """
        apart, self._ticked = time - self._ticked, time
        if apart > POLL.interval - POLL.tolerance:
            return looked
        return not looked and not self._cards.time <= self._counted <= time

    def _judged(self, time: float) -> Signal:
        """The worst of what is known of each card."""
        cards, axis = self._cards, self._cards.axis
        found = np.fmax(self._resends, self._fails)
        self._onset.step(time - 0.5 * POLL.interval, axis, found - TUNING.clear)
        lost = self._shares.value > 1.0
        self._since = np.fmin(
            np.where(found > 1.0, self._onset.since, NO_VALUE),
            np.where(lost, self._shares.since, NO_VALUE),
        )
        down = cards.lost | cards.inactive | cards.idle
        self._values = np.where(down, 0.0, np.fmax(found, self._shares.value))
        return Signal(axis, of_whole_nodes(axis, self._values, self._since), 1.0, TUNING.clear)

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        """Names the card, or the node if most of its cards are alike."""
        axis = self._cards.axis
        place = _place(axis, key)
        places = _alike(axis, self._values, place)
        node, card = axis.key(place)
        lately = self._lately(tick)
        signs = [
            sign
            for sign in (
                self._by_resends(lately, node, place, places),
                self._by_loss(node, places),
                self._by_errors(tick, node, places),
            )
            if sign is not None
        ]
        since = self._since[places]
        return Verdict(
            # Retransmits are the strongest sign; then lost traffic.
            says={
                "node": node,
                "card": _named(axis, places),
                "symptom": signs[0][0] if signs else "differs from its peers",
            },
            job=tick.job_of.get(node),
            node=node,
            component=None if len(places) > 1 else f"efa:{card}",
            severity=Severity.CRITICAL if self._costly(lately, places) else Severity.WARNING,
            evidence=tuple(evidence for _, evidence in signs),
            since=None if np.isnan(since).all() else float(np.nanmin(since)),
        )

    def reset(self) -> None:
        """Forgets all windows and what is usual."""
        self._cards.clear()
        self._shares.clear()
        self._onset.clear()
        self._resending.clear()
        self._counters = Counters((RESENT, SENT, *ERROR_KINDS))
        self._sums.clear()
        self._ticked = self._counted = -np.inf
        self._axis = PartAxis(Axis(), ())
        for name in _COUNTED:
            setattr(self, name, np.zeros(0))

    def _count(self, tick: Tick) -> None:
        """Packets and errors of the newest seconds."""
        cards, counters = self._cards, self._counters
        self._counted = tick.time
        counters.take(tick)
        axis, seconds = counters.axis, counters.elapsed
        errors = self._new_errors()
        known = ~np.isnan(errors)
        sent = counters.growth[SENT] * seconds
        new = np.stack((
            counters.growth[RESENT] * seconds, sent, errors * seconds,
            seconds * (errors > 0), seconds * known,
        ))  # fmt: skip
        again = new[0]
        allowed = self._limit * sent
        telling = np.where(allowed >= TUNING.min_expected, again - allowed, NO_VALUE)
        self._resending.step(tick.time - 0.5 * POLL.interval, axis, telling)
        np.copyto(new, 0.0, where=np.isnan(new))
        resent, sent, failed, failing, heard = self._sums.push(tick.time, axis, new)
        self._ratio = _over(resent, sent)
        self._error_rate = _over(failed, heard)
        sure = (resent >= TUNING.min_retransmits) & (self._resending.lasted >= TUNING.min_duration)
        self._resends = stands_out(self._ratio, self._limit, sure, cards.siblings)
        sure = (failed >= TUNING.min_errors) & (failing >= TUNING.min_duration)
        self._fails = stands_out(self._error_rate, TUNING.errors_per_second, sure, cards.siblings)

    def _follow(self, axis: PartAxis) -> None:
        """Lays what was counted last out along another axis."""
        if axis is not self._axis:
            for name in _COUNTED:
                setattr(self, name, carried(getattr(self, name), self._axis, axis))
            self._axis = axis

    def _new_errors(self) -> Column:
        """Errors per second of all kinds, `[card]`; NaN where no kind is known."""
        cards, growth = self._cards, self._counters.growth
        # When a card or a node is gone, all that talk to it complain: they are not the cause.
        gone = bool((cards.lost | cards.fallen).any() or cards.gone.any())
        kinds = [growth[kind] for kind in ERROR_KINDS if not (gone and kind in BY_PEERS)]
        total: Column = np.fmax.reduce(kinds) * 0.0  # NaN where all are
        for each in kinds:
            total += np.fmax(each, 0.0)
        return total

    def _lately(self, tick: Tick) -> Column:
        """Shares of the newest reading's packets that were sent again: a window lags behind."""
        ratio = tick.column("efa_retransmit_ratio")
        resent = tick.column("efa_retrans_pkts_per_second") * self._counters.pace
        return np.where(resent >= TUNING.min_retransmits, ratio, self._ratio)

    def _costly(self, lately: Column, places: npt.NDArray[np.int64]) -> bool:
        """Whether what the cards lack costs the job time."""
        resends = (self._resends[places] > 1.0) & (lately[places] >= TUNING.critical_retransmits)
        loss = (self._shares.value[places] > 1.0) & (
            self._shares.loss[places] >= TUNING.critical_loss
        )
        return bool((resends | loss).any())

    def _by_resends(
        self, lately: Column, node: str, place: int, places: npt.NDArray[np.int64]
    ) -> tuple[str, Evidence] | None:
        """What there is to say of resends: a phrase and its evidence."""
        if not (self._resends[places] > 1.0).any():
            return None
        many, ratio = len(places) > 1, float(np.nanmean(lately[places]))
        others = float(self._cards.siblings.median(lately)[place])
        peers = "" if many or others != others else f", peers {units.percent(others)}"
        limit = f"(limit {units.percent(self._limit)}{peers})"
        text = f"{units.percent(ratio)} retransmits {limit}"
        return text, Evidence(text, node, "efa_retransmit_ratio", ratio, self._limit)

    def _by_loss(self, node: str, places: npt.NDArray[np.int64]) -> tuple[str, Evidence] | None:
        if not (self._shares.value[places] > 1.0).any():
            return None
        loss = float(np.max(self._shares.loss[places]))
        carries = "carry" if len(places) > 1 else "carries"
        text = f"{carries} {100 * loss:.0f} % less traffic than {_its(places)} peers"
        return text, Evidence(text, node, "efa_tx_bytes_per_second")

    def _by_errors(
        self, tick: Tick, node: str, places: npt.NDArray[np.int64]
    ) -> tuple[str, Evidence] | None:
        if not (self._fails[places] > 1.0).any():
            return None
        rate = float(np.nanmean(self._error_rate[places]))
        shares = {
            what: float(np.nan_to_num(tick.column(f"efa_{kind}_per_second")[places]).sum())
            for kind, what in ERROR_KINDS.items()
        }
        most = max(shares, key=lambda what: shares[what])
        what = f" ({most})" if shares[most] > 0 else ""
        text = (
            f"{rate:.2g} errors/s{what} in {TUNING.window:g} s; limit {TUNING.errors_per_second:g}"
        )
        return (
            f"{rate:.2g} errors/s{what}, peers far fewer",
            Evidence(text, node, None, rate, TUNING.errors_per_second),
        )


_COUNTED = ("_ratio", "_resends", "_error_rate", "_fails")


class EfaDown:
    """Cards that are gone, say they are not up, take no commands, or carry nothing any more."""

    inputs = Cards.inputs | {"efa_no_completion_cmds_total"}

    def __init__(self, settings: Settings, period: float) -> None:
        self._limit = settings.card_silent
        self._cards = Cards()
        self._state = np.zeros((len(_STATE), 0))
        self._axis = self._cards.axis
        self._onset = _Onset()
        self._values: Column = np.zeros(0)
        self._signal = Signal(self._axis, self._values, 1.0, TUNING.clear)

    def signal(self, tick: Tick) -> Signal:
        """Above 1 where a card is down; what only falls silent comes there by and by."""
        cards = self._cards = tick.shared(Cards)
        if not cards.look(tick):
            return self._signal
        axis = cards.axis
        if axis is not self._axis:
            self._move(axis, self._axis)
            self._axis = axis
        self._note_commands(tick)
        self._note_silence(tick)
        state = self._state
        stuck = tick.time - state[_STUCK] <= TUNING.command_memory
        known = ~np.isnan(tick.column("node_efa_cards"))[axis.owner]
        plain = cards.lost | cards.inactive | stuck
        values = np.where(plain, TUNING.down, state[_SILENT] / self._limit)
        values = np.where(known, values, NO_VALUE)
        self._onset.step(cards.middle, axis, values)
        self._values = values
        values = of_whole_nodes(axis, values, self._onset.since)
        self._signal = Signal(axis, values, 1.0, TUNING.clear)
        return self._signal

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        """Names the card and how it shows, or the node if most of its cards are down."""
        cards, axis = self._cards, self._cards.axis
        place = _place(axis, key)
        places = _alike(axis, self._values, place)
        node, card = axis.key(place)
        many = len(places) > 1
        silent = float(self._state[_SILENT, place])
        state = tick.view(node).inventory.efa_links.get(str(card), {}).get("state", "")
        if cards.lost[place]:
            symptom = "not readable"
        elif cards.inactive[place]:
            symptom = f"port {state}"
        elif tick.time - self._state[_STUCK, place] <= TUNING.command_memory:
            symptom = "admin commands do not complete"
        else:
            symptom = "no traffic while its peers are busy"
        text = f"{symptom} for {units.span(silent)}" if silent >= self._limit else symptom
        return Verdict(
            says={"node": node, "card": _named(axis, places), "symptom": symptom},
            job=tick.job_of.get(node),
            node=node,
            component=None if many else f"efa:{card}",
            evidence=(Evidence(f"{_named(axis, places)}: {text}", node),),
            since=float(self._onset.since[place]),
        )

    def reset(self) -> None:
        """Forgets what each card carried."""
        self._cards.clear()
        self._onset.clear()
        self._axis, self._state = PartAxis(Axis(), ()), np.zeros((len(_STATE), 0))

    def _note_commands(self, tick: Tick) -> None:
        state = self._state
        total = tick.column("efa_no_completion_cmds_total")
        state[_STUCK][total > state[_COMMANDS]] = tick.time
        state[_STUCK][total < state[_COMMANDS]] = NO_VALUE  # the driver began anew
        state[_COMMANDS] = np.where(np.isnan(total), state[_COMMANDS], total)

    def _note_silence(self, tick: Tick) -> None:
        """Adds up the seconds in which a card that used to carry traffic carries none."""
        cards, state, now = self._cards, self._state, tick.time
        owner, nodes = cards.axis.owner, len(cards.axis.sizes)
        paused = cards.busy & (now - state[_BUSY] > TUNING.pause)
        state[_BUSY][cards.busy] = now
        used = (state[_USED] >= TUNING.min_used) & ~paused
        silent = cards.idle & used
        fallen = np.bincount(owner[silent], minlength=nodes)
        most = np.maximum(1.0, TUNING.max_share * np.bincount(owner[used], minlength=nodes))
        unused = paused | (silent & (fallen > most)[owner])
        carries = cards.busy & ~cards.idle
        state[_SILENT] += np.where(silent, cards.elapsed, 0.0)
        state[_SILENT][carries | unused] = 0.0
        state[_USED] += np.where(carries, cards.elapsed, 0.0)
        state[_USED][unused] = 0.0

    def _move(self, axis: PartAxis, before: PartAxis) -> None:
        old = axis.places_in(before)
        known = old >= 0
        state = np.repeat(_BLANK[:, None], len(axis), axis=1)
        state[:, known] = self._state[:, old[known]]
        self._state = state


_STATE = _USED, _SILENT, _BUSY, _COMMANDS, _STUCK = range(5)
"""Rows of what is kept of each card: seconds for which it carried traffic and for which it has
carried none, when its siblings were last busy, admin commands that never completed, and when
their number last grew.
"""
_BLANK = np.array([0.0, 0.0, NO_VALUE, NO_VALUE, NO_VALUE])


class _Onset:
    """Since when values have been above 0, member by member; NaN where they are not."""

    def __init__(self) -> None:
        self._axis: Along | None = None
        self.since: Column = np.zeros(0)
        self.lasted: Column = np.zeros(0)
        """Seconds from then to the newest value that was above 0."""

    def step(self, time: float, axis: Along, values: Column) -> None:
        if axis is not self._axis:
            since, lasted = np.full(len(axis), NO_VALUE), np.zeros(len(axis))
            if self._axis is not None:
                old = axis.places_in(self._axis)
                since[old >= 0] = self.since[old[old >= 0]]
                lasted[old >= 0] = self.lasted[old[old >= 0]]
            self._axis, self.since, self.lasted = axis, since, lasted
        begun = np.where(np.isnan(self.since), time, self.since)
        holds, unknown = values > 0, np.isnan(values)
        self.since = np.where(holds, begun, np.where(unknown, self.since, NO_VALUE))
        self.lasted = np.where(holds, time - begun, np.where(unknown, self.lasted, 0.0))

    def clear(self) -> None:
        self._axis, self.since, self.lasted = None, np.zeros(0), np.zeros(0)


def _over(total: Column, whole: Column) -> Column:
    """Sums over sums; NaN where there is nothing to share."""
    result = np.full(len(total), NO_VALUE)
    np.divide(np.maximum(total, 0.0), whole, out=result, where=whole > 0)
    return result


def _place(axis: PartAxis, key: Hashable) -> int:
    """The place of a card, given by its node and its name."""
    node, card = cast(tuple[str, Key], key)
    owner = axis.nodes.place[node]
    return int(axis.starts[owner]) + axis.parts[owner].index(card)


def _alike(axis: PartAxis, values: Column, place: int) -> npt.NDArray[np.int64]:
    """The places of all cards that the one at `place` stands for."""
    owner, above = axis.owner[place], values > 1.0
    if not whole(axis, above)[owner]:
        return np.array([place])
    return np.flatnonzero(above & (axis.owner == owner))


def _its(places: npt.NDArray[np.int64]) -> str:
    return "their" if len(places) > 1 else "its"


def _named(axis: PartAxis, places: npt.NDArray[np.int64]) -> str:
    """`rdmap16s27`, or `14 of 16 EFA devices`."""
    if len(places) == 1:
        return str(axis.key(int(places[0]))[1])
    size = int(axis.sizes[axis.owner[places[0]]])
    count = f"all {size}" if len(places) == size else f"{len(places)} of {size}"
    return f"{count} EFA devices"
