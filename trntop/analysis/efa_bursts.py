"""Retransmits that come and go: what an EFA device retransmits on average, whatever its rhythm."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trntop.core.model import NO_VALUE, Column
from trntop.pipeline.axis import PartAxis
from trntop.pipeline.statistics import Mask, Members


@dataclass(frozen=True, slots=True)
class BurstTuning:
    """When bursts of retransmits are one fault."""

    half_life: float = 300.0
    """Seconds after which packets count half: those of about the last 10 minutes matter."""
    min_bursts: int = 3
    min_duration: float = 45.0
    """Seconds from the begin of the first burst to the newest bad reading."""
    clean: float = 90.0
    """Seconds without a bad reading after which the bursts are over: more than the pause of a
    device that is bad for 10 s of each minute.
    """


TUNING = BurstTuning()


class Bursts(Members):
    """Packets of each device: since its first burst, or of the last minutes where it has none.

    A mean by half-life needs two numbers per device; a window of 10 minutes at the interval of the
    polls would need 200 rows of them.
    """

    BLANK: ClassVar = dict.fromkeys(
        ("retransmitted", "_sent", "count", "_bad"), 0.0
    ) | dict.fromkeys(("since", "_newest"), NO_VALUE)
    retransmitted: Column
    _sent: Column
    count: Column
    """Bursts so far."""
    since: Column
    """When the first of them began; NaN without any."""
    _newest: Column
    """When the newest bad reading was."""
    _bad: Column
    """Whether the newest telling reading was bad."""

    def update(
        self, time: float, axis: PartAxis, packets: tuple[Column, Column], kept: Column,
        excess: Column,
    ) -> None:  # fmt: skip
        """Adds one reading.

        Args:
            time: of the stream.
            axis: the devices.
            packets: retransmitted and sent, 0 where absent.
            kept: what is left of the packets before, by `half_life`; changed in place.
            excess: above 0 where the reading is bad; NaN where it has too few packets.
        """
        self.follow(axis)
        bad = excess > 0.0
        over = time - self._newest > TUNING.clean
        if over.any():
            self.count[over], self.since[over], self._newest[over] = 0.0, NO_VALUE, NO_VALUE
        if bad.any():
            first = bad & np.isnan(self.since)
            self.since[first] = time
            kept[first] = 0.0
            self.count += bad & (self._bad == 0.0)
            self._newest[bad] = time
        self._bad = np.where(np.isnan(excess), self._bad, bad)
        self.retransmitted = kept * self.retransmitted + packets[0]
        self._sent = kept * self._sent + packets[1]

    @property
    def share(self) -> Column:
        """Share of the packets that were retransmitted."""
        share = np.full(len(self._sent), NO_VALUE)
        np.divide(self.retransmitted, self._sent, out=share, where=self._sent > 0)
        return share

    @property
    def lasting(self) -> Mask:
        """Devices whose bursts are enough, and long enough, for a fault."""
        lasting: Mask = self.count >= TUNING.min_bursts
        lasting &= self._newest - self.since >= TUNING.min_duration
        return lasting
