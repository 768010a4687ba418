"""EFA devices that are degraded, and EFA devices that are down.

Collectives run at the speed of the slowest device, so one faulty device slows down all of them; it
differs from its peers in retransmits, in its share of the traffic, or in errors.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trntop.analysis.detector import Signal, Verdict
from trntop.analysis.efa_bursts import TUNING as BURSTS
from trntop.analysis.efa_bursts import Bursts
from trntop.analysis.efa_devices import RETRANSMITTED, SENT, EfaDevices, EfaPeers
from trntop.analysis.efa_shares import Shares
from trntop.catalog.efa import ERROR_KINDS
from trntop.core import units
from trntop.core.model import NO_VALUE, Column, Evidence, Severity
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.axis import Axis, Indices, PartAxis
from trntop.pipeline.statistics import (
    Mask,
    Members,
    Onset,
    Sums,
    group_mean,
    lower_median,
)
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class EfaTuning:
    """What makes an EFA device degraded or down.

    AWS documents no thresholds: tuned on the tuning seeds of `benchmarks.detection`.
    """

    window: float = 20.0
    """Seconds over which packets and errors are counted."""
    min_retransmits: float = 20.0
    """Retransmitted packets in the window below which their share means nothing."""
    errors_per_second: float = 0.5
    """Errors per second above which a device is degraded, if its peers have far fewer."""
    min_duration: float = 12.0
    """Seconds of retransmits or errors: shorter bursts, as of a changed path, pass."""
    min_expected: float = 3.0
    """Packets of a reading that a device at the limit would have retransmitted."""
    min_errors: float = 8.0
    critical_retransmits: float = 0.01
    critical_loss: float = 0.3
    """Shares of its packets and of its traffic above which a device costs the job time."""
    peer_factor: float = 8.0
    """Times the median of its peers, and of all devices, that a device must have."""
    alone_factor: float = 5.0
    """Times the limit that it must have without peers."""
    worst_factor: float = 4.0
    """Times that the worst device must be above those that it is the cause of."""
    min_followers: int = 3
    """Devices that have so much less than the worst one that it counts as their cause."""
    clear: float = 0.5
    """Share of its limit below which a sign has passed."""
    down: float = 2.0
    """Value of a device that is plainly down."""
    command_memory: float = 60.0
    """Seconds for which a command that never completed counts."""
    min_used: float = 10.0
    """Seconds of traffic before a device without traffic is silent."""
    pause: float = 60.0
    """Seconds without traffic on the node after which another job may use other devices."""
    max_share: float = 1 / 3
    """Share of a node's devices that may fall silent together; more are no longer used."""


TUNING = EfaTuning()
PEER_FACTOR = TUNING.peer_factor
UNSURE = 0.99
"""Largest value of a device whose excess may be chance."""
_NEWEST = ("efa_retransmit_ratio", f"efa_{RETRANSMITTED}_per_second")
"""Of the newest reading."""
BY_PEERS = ("retrans_timeout_events", "unresponsive_remote_events")
"""Errors of all devices whose peer is gone."""


class _EfaDetector:
    """A signal per device, renewed at each poll; above 1 where it is faulty."""

    inputs = EfaDevices.inputs

    def __init__(self) -> None:
        self._devices = EfaDevices()
        self._values: Column = np.zeros(0)
        self._signal = Signal(Axis(), self._values, 1.0, TUNING.clear)

    def signal(self, tick: Tick) -> Signal:
        devices = self._devices = tick.shared(EfaDevices)
        if devices.poll(tick):
            self._values, since = self._judge(tick)
            values = _by_node(devices.axis, self._values, since)
            self._signal = Signal(devices.axis, values, 1.0, TUNING.clear)
        return self._signal

    def _judge(self, tick: Tick) -> tuple[Column, Column]:
        """The value of each device, and since when it has been faulty."""
        raise NotImplementedError

    def _faulty(self, key: Hashable) -> tuple[int, Indices]:
        """The index of a device, and of all that it represents."""
        axis = self._devices.axis
        index = axis.find(key)
        assert index is not None
        owner, above = axis.owner[index], self._values > 1.0
        if not _is_whole(axis, above)[owner]:
            return index, np.array([index])
        return index, np.flatnonzero(above & (axis.owner == owner))

    def _verdict(
        self, tick: Tick, index: int, indices: Indices, symptom: str,
        evidence: tuple[Evidence, ...], since: float | None, severity: Severity | None = None,
    ) -> Verdict:  # fmt: skip
        node, device = self._devices.axis.key(index)
        component = None if len(indices) > 1 else f"efa:{device}"
        fields = {"efa_device": self._name(indices), "symptom": symptom}
        return Verdict.at(
            tick, node, fields, *evidence, component=component, severity=severity, since=since
        )

    def _name(self, indices: Indices) -> str:
        """`rdmap16s27`, or `14 of 16 EFA devices`."""
        axis = self._devices.axis
        if len(indices) == 1:
            return str(axis.key(int(indices[0]))[1])
        size = int(axis.sizes[axis.owner[indices[0]]])
        count = f"all {size}" if len(indices) == size else f"{len(indices)} of {size}"
        return f"{count} EFA devices"


class EfaDegraded(_EfaDetector):
    """The worst of four signs per device, each as a multiple of its limit."""

    inputs = EfaDevices.inputs.union(_NEWEST)

    def __init__(self, settings: Settings, period: float) -> None:
        super().__init__()
        self._limit = settings.retransmits
        self._shares = Shares(settings.card_traffic)
        self._sums = Sums(TUNING.window)
        self._retransmitting = Onset()
        self._bursts = Bursts()
        self._onset = Onset()
        self._share: Column = np.zeros(0)
        """Retransmits as a share of the packets in the window."""
        self._retransmits: Column = np.zeros(0)
        self._errors: Column = np.zeros(0)
        """Retransmits and errors as multiples of their limits."""
        self._in_bursts: Column = np.zeros(0)
        """Mean retransmits of devices with lasting bursts, as a multiple of the limit; else 0."""
        self._error_rate: Column = np.zeros(0)
        self._since: Column = np.zeros(0)

    def reset(self) -> None:
        for part in (self._devices, self._shares, self._onset, self._retransmitting, self._sums):
            part.clear()
        self._bursts.clear()

    def _judge(self, tick: Tick) -> tuple[Column, Column]:
        devices = self._devices
        self._shares.update(devices.middle, devices)
        self._count(tick)
        found = np.fmax(self._retransmits, self._errors)
        self._onset.step(devices.middle, devices.axis, found - TUNING.clear)
        self._since = np.fmin.reduce((
            np.where(found > 1.0, self._onset.since, NO_VALUE),
            np.where(self._shares.value > 1.0, self._shares.since, NO_VALUE),
            np.where(self._in_bursts > 1.0, self._bursts.since, NO_VALUE),
        ))  # fmt: skip
        down = devices.lost | devices.inactive | devices.idle  # another rule's
        value = np.fmax(np.fmax(found, self._in_bursts), self._shares.value)
        return np.where(down, 0.0, value), self._since

    def _count(self, tick: Tick) -> None:
        """Packets and errors of the newest seconds."""
        devices, growth, seconds = self._devices, self._devices.growth, self._devices.elapsed
        errors = self._new_errors()
        new = np.stack((
            growth[RETRANSMITTED] * seconds, growth[SENT] * seconds, errors * seconds,
            seconds * (errors > 0), seconds * ~np.isnan(errors),
        ))  # fmt: skip
        again, sent = new[0], new[1]
        allowed = self._limit * sent
        telling = np.where(allowed >= TUNING.min_expected, again - allowed, NO_VALUE)
        self._retransmitting.step(devices.middle, devices.axis, telling)
        np.copyto(new, 0.0, where=np.isnan(new))
        kept = devices.decay(BURSTS.half_life)
        self._bursts.update(devices.middle, devices.axis, (again, sent), kept, telling)
        self._in_bursts = self._judge_bursts()
        again, sent, failed, failing, seen = self._sums.push(tick.time, devices.axis, new)
        share = self._share = _over(again, sent)
        self._error_rate = _over(failed, seen)
        sure = again >= TUNING.min_retransmits
        sure &= self._retransmitting.duration >= TUNING.min_duration
        self._retransmits = stands_out(share, self._limit, sure, devices.peers)
        sure = (failed >= TUNING.min_errors) & (failing >= TUNING.min_duration)
        self._errors = stands_out(self._error_rate, TUNING.errors_per_second, sure, devices.peers)

    def _newest(self, tick: Tick) -> Column:
        """Retransmits in the newest reading as a share of the packets: a window lags behind."""
        ratio, per_second = tick.columns(_NEWEST)
        packets = per_second * self._devices.interval
        return np.where(packets >= TUNING.min_retransmits, ratio, self._share)

    def _judge_bursts(self) -> Column:
        lasting = self._bursts.lasting
        if not lasting.any():
            return np.zeros(len(lasting))
        lasting &= self._bursts.retransmitted >= TUNING.min_retransmits
        value = stands_out(self._bursts.share, self._limit, lasting, self._devices.peers)
        return np.where(lasting, value, 0.0)

    def _new_errors(self) -> Column:
        """Errors per second of all kinds; NaN where no kind is known."""
        devices = self._devices
        # When a device or a node is gone, all its peers report errors: they are not the cause.
        gone = bool((devices.lost | devices.fallen).any() or devices.gone.any())
        kinds = [devices.growth[kind] for kind in ERROR_KINDS if not (gone and kind in BY_PEERS)]
        total: Column = np.fmax.reduce(kinds) * 0.0  # NaN where all are
        for kind in kinds:
            total += np.fmax(kind, 0.0)
        return total

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        """Names the device, or the node if most of its devices are degraded."""
        index, indices = self._faulty(key)
        node = self._devices.axis.key(index)[0]
        # Retransmits are the strongest sign; then lost traffic.
        newest = self._newest(tick)
        signs = [
            *self._by_retransmits(newest, node, index, indices),
            *self._by_bursts(tick.time, node, index, indices),
            *self._by_loss(node, indices),
            *self._by_errors(node, indices),
        ]
        retransmits = self._retransmits[indices] > 1.0
        retransmits &= newest[indices] >= TUNING.critical_retransmits
        bursts = self._in_bursts[indices] > 1.0
        bursts &= self._bursts.share[indices] >= TUNING.critical_retransmits
        loss = self._shares.value[indices] > 1.0
        loss &= self._shares.loss[indices] >= TUNING.critical_loss
        critical = bool((retransmits | bursts | loss).any())
        since = self._since[indices]
        return self._verdict(
            tick, index, indices, signs[0][0] if signs else "differs from its peers",
            tuple(evidence for _, evidence in signs),
            None if np.isnan(since).all() else float(np.nanmin(since)),
            Severity.CRITICAL if critical else Severity.WARNING,
        )  # fmt: skip

    def _by_retransmits(
        self, newest: Column, node: str, index: int, indices: Indices
    ) -> list[tuple[str, Evidence]]:
        """A phrase and its evidence, if this is a sign; so below."""
        if not (self._retransmits[indices] > 1.0).any():
            return []
        ratio = float(np.nanmean(newest[indices]))
        limits = self._limits(newest, index, indices)
        text = f"{units.percent(ratio)} retransmits {limits}"
        return [(text, Evidence(text, node, "efa_retransmit_ratio", ratio, self._limit))]

    def _by_bursts(
        self, now: float, node: str, index: int, indices: Indices
    ) -> list[tuple[str, Evidence]]:
        bad = indices[self._in_bursts[indices] > 1.0]
        if not len(bad):
            return []
        ratio = float(np.nanmean(self._bursts.share[bad]))
        seconds = now - float(np.nanmin(self._bursts.since[bad]))
        count = int(self._bursts.count[bad].max())
        limits = self._limits(self._bursts.share, index, indices)
        text = f"{units.percent(ratio)} retransmits on average over {units.span(seconds)}"
        text += f", in {count} bursts {limits}"
        return [(text, Evidence(text, node, "efa_retransmit_ratio", ratio, self._limit))]

    def _limits(self, shares: Column, index: int, indices: Indices) -> str:
        """The limit, and the median of its peers where one device is named."""
        others = float(self._devices.peers.median(shares)[index])
        known = len(indices) == 1 and others == others
        peers = f", peers {units.percent(others)}" if known else ""
        return f"(limit {units.percent(self._limit)}{peers})"

    def _by_loss(self, node: str, indices: Indices) -> list[tuple[str, Evidence]]:
        if not (self._shares.value[indices] > 1.0).any():
            return []
        loss = float(np.max(self._shares.loss[indices]))
        carry, its = ("carry", "their") if len(indices) > 1 else ("carries", "its")
        text = f"{carry} {100 * loss:.0f} % less traffic than {its} peers"
        return [(text, Evidence(text, node, "efa_tx_bytes_per_second"))]

    def _by_errors(self, node: str, indices: Indices) -> list[tuple[str, Evidence]]:
        if not (self._errors[indices] > 1.0).any():
            return []
        rate = float(np.nanmean(self._error_rate[indices]))
        growth = self._devices.growth
        counts = {
            what: float(np.nan_to_num(growth[kind][indices]).sum())
            for kind, what in ERROR_KINDS.items()
        }
        most = max(counts, key=lambda what: counts[what])
        text = f"{units.fixed(rate, 1)} errors/s" + (f" ({most})" if counts[most] > 0 else "")
        limit = TUNING.errors_per_second
        evidence = Evidence(
            f"{text} in {TUNING.window:g} s; limit {limit:g}", node, None, rate, limit
        )
        return [(f"{text}, peers far fewer", evidence)]


class _Usage(Members):
    """What is kept of each device to find those that are down."""

    BLANK: ClassVar = dict.fromkeys(("used", "silent"), 0.0) | dict.fromkeys(
        ("busy", "commands", "stuck"), NO_VALUE
    )
    used: Column
    silent: Column
    """Seconds for which it carried traffic, and for which it has carried none."""
    busy: Column
    """When its peers were last busy."""
    commands: Column
    """Admin commands that never completed."""
    stuck: Column
    """When their number last grew."""


class EfaDown(_EfaDetector):
    """Devices that are missing, not active, complete no commands, or carry no traffic."""

    inputs = EfaDevices.inputs | {"efa_no_completion_cmds_total"}

    def __init__(self, settings: Settings, period: float) -> None:
        super().__init__()
        self._limit = settings.card_silent
        self._usage = _Usage()
        self._onset = Onset()

    def reset(self) -> None:
        for part in (self._devices, self._usage, self._onset):
            part.clear()

    def _judge(self, tick: Tick) -> tuple[Column, Column]:
        devices, usage = self._devices, self._usage
        usage.follow(devices.axis)
        self._note_commands(tick)
        self._note_silence(tick.time)
        known = ~np.isnan(tick.column("node_efa_cards"))[devices.axis.owner]
        plain = devices.lost | devices.inactive | self._is_stuck(tick.time)
        values = np.where(plain, TUNING.down, usage.silent / self._limit)
        values = np.where(known, values, NO_VALUE)
        self._onset.step(devices.middle, devices.axis, values)
        return values, self._onset.since

    def _is_stuck(self, now: float) -> Mask:
        stuck: Mask = now - self._usage.stuck <= TUNING.command_memory
        return stuck

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        """Names the device and its symptom, or the node if most of its devices are down."""
        devices = self._devices
        index, indices = self._faulty(key)
        node, device = devices.axis.key(index)
        silent = float(self._usage.silent[index])
        if devices.lost[index]:
            symptom = "not readable"
        elif devices.inactive[index]:
            link = tick.view(node).inventory.efa_links.get(str(device), {})
            symptom = f"port is {link.get('state', '').rpartition(' ')[2]}"
        elif self._is_stuck(tick.time)[index]:
            symptom = "admin commands do not complete"
        else:
            symptom = "no traffic while its peers are busy"
        text = symptom
        if silent >= self._limit:
            text += f", for {units.span(silent)}"
        evidence = (Evidence(f"{self._name(indices)}: {text}", node),)
        since = float(self._onset.since[index])
        return self._verdict(tick, index, indices, symptom, evidence, since)

    def _note_commands(self, tick: Tick) -> None:
        usage = self._usage
        total = tick.column("efa_no_completion_cmds_total")
        usage.stuck[total > usage.commands] = tick.time
        usage.stuck[total < usage.commands] = NO_VALUE  # the driver was loaded again
        usage.commands = np.where(np.isnan(total), usage.commands, total)

    def _note_silence(self, now: float) -> None:
        """Adds up the seconds in which a device that used to carry traffic carries none."""
        devices, usage = self._devices, self._usage
        owner, nodes = devices.axis.owner, len(devices.axis.sizes)
        paused = devices.busy & (now - usage.busy > TUNING.pause)
        usage.busy[devices.busy] = now
        used = (usage.used >= TUNING.min_used) & ~paused
        silent = devices.idle & used
        fallen = np.bincount(owner[silent], minlength=nodes)
        most = np.maximum(1.0, TUNING.max_share * np.bincount(owner[used], minlength=nodes))
        unused = paused | (silent & (fallen > most)[owner])
        carries = devices.busy & ~devices.idle
        usage.silent += np.where(silent, devices.elapsed, 0.0)
        usage.silent[carries | unused] = 0.0
        usage.used += np.where(carries, devices.elapsed, 0.0)
        usage.used[unused] = 0.0


def stands_out(values: Column, limit: float, sure: Mask, peers: EfaPeers) -> Column:
    """How many times its limit each device has: above 1 it stands out.

    The limit of a device is `limit`, or more where its peers, all devices, or those that it talks
    to have more. Where most devices of a node are above it, nodes are compared. A device whose
    excess may be chance, which is not `sure`, stays below 1.
    """
    over = (values > limit) & sure
    if not over.any():
        return np.minimum(values / limit, UNSURE)
    axis, factor = peers.axis, TUNING.peer_factor
    others, rail = peers.median(values), peers.rails.median(values)
    alone = np.count_nonzero(~np.isnan(values)) < 2
    fleet = NO_VALUE if alone else lower_median(values)
    bar = np.fmax(limit, factor * np.fmax(others, fleet))
    bar = np.fmax(bar, TUNING.worst_factor * rail)
    bar = np.where(np.isnan(others), np.fmax(bar, TUNING.alone_factor * limit), bar)
    excess = values / bar
    sick = _is_whole(axis, over)
    if sick.any():
        mean = group_mean(values, axis.owner, len(sick))
        if np.count_nonzero(~np.isnan(mean)) < 2:
            node_bar = TUNING.alone_factor * limit
        else:
            node_bar = max(limit, factor * lower_median(mean))
        excess = np.where(sick[axis.owner] & over, np.fmax(excess, values / node_bar), excess)
    excess = np.where(sure, excess, np.minimum(excess, UNSURE))
    above = np.flatnonzero(excess > 1.0)
    if len(above) > 1:  # some may only talk to the worst one
        worst = int(above[np.argmax(values[above])])
        weak = above[TUNING.worst_factor * values[above] < values[worst]]
        if len(weak) < TUNING.min_followers:
            name = axis.key(worst)[1]
            weak = np.array([at for at in weak if axis.key(int(at))[1] == name], np.int64)
        excess[weak] = 0.0
    return excess


def _over(total: Column, whole: Column) -> Column:
    """Sums over sums; NaN over 0."""
    result = np.full(len(total), NO_VALUE)
    np.divide(np.maximum(total, 0.0), whole, out=result, where=whole > 0)
    return result


def _by_node(axis: PartAxis, values: Column, since: Column) -> Column:
    """Where most devices of a node are above 1, the first of them represents all."""
    for node in np.flatnonzero(_is_whole(axis, values > 1.0)).tolist():
        indices = np.arange(axis.starts[node], axis.starts[node + 1])
        above = indices[values[indices] > 1.0]
        first = above[np.argmin(np.where(np.isnan(since[above]), np.inf, since[above]))]
        values = values.copy()
        values[above[above != first]] = 0.0
    return values


def _is_whole(axis: PartAxis, chosen: Mask) -> Mask:
    """Nodes of whose devices most are chosen, and more than one."""
    count = np.bincount(axis.owner[chosen], minlength=len(axis.sizes))
    most: Mask = (count > 1) & (2 * count >= axis.sizes)
    return most
