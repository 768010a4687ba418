"""Members that differ from their peers by more than usual, and since when.

In a synchronous job every node slows down at once, so a node is compared with those that do the
same work. What sets it apart for ever (another rack, another clock) is its bias and is taken
away; what remains is judged by a cumulative sum, and by the size of the effect.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trntop.core.model import NO_VALUE, Column
from trntop.pipeline.axis import AxisLike, Indices
from trntop.pipeline.statistics import Cusum, Mask, Members, deviation, excess, median, sampled


@dataclass(frozen=True, slots=True)
class PeerTuning:
    """When a deviation from the peers is neither noise nor a hiccup."""

    learning: int = 5
    """Rounds before a member is judged."""
    allowance: float = 1.0
    cusum_limit: float = 12.0
    """Score of the cumulative sum, in standard deviations, that is no chance."""
    clip: float = 6.0
    """Standard deviations that one round may count for: three rounds are the least."""
    clip_slow: float = 8.0
    """The same where rounds take `slow_rounds` seconds or more: two rounds are the least."""
    slow_rounds: float = 7.0
    min_duration: float = 15.0
    """Seconds of an effect; what is over sooner was a hiccup."""
    large: float = 2.5
    min_large: float = 10.5
    """The same of an effect of so many times the limit, 18 % by default."""
    together: int = 3
    """Members that begin to deviate in one round have one cause, from so many on."""
    min_of_peak: float = 0.75
    """Share of its peak that the newest round must reach: a hiccup is fading by then."""
    ongoing: float = 0.5
    """Share of the limit that each round must reach for an effect to go on."""
    outlier: float = 3.0
    """Standard deviations beyond which a round teaches nothing more about the bias."""
    min_noise: float = 0.004
    """Standard deviation, as a share, below which no noise is believed to be."""
    median_error: float = 1.25 * learning**-0.5
    """Standard error of the median of the first rounds, in their standard deviations."""
    doubts: float = 2.0
    """Standard errors of the bias that an effect must exceed besides the limit: a node whose first
    rounds were odd by 9 % was called slow when it became like its peers.
    """
    bias_rounds: int = 60
    """Rounds over which the bias is a mean."""
    noise_rounds: int = 20
    slow_weight: float = 0.1
    """Weight of the newest round in the slow mean that shows wandering load: independent rounds
    leave a share of `slow_noise` of their deviation in it.
    """
    slow_noise: float = (slow_weight / (2.0 - slow_weight)) ** 0.5
    wander_factor: float = 11.0
    """Standard deviations of wandering load that an effect must exceed."""
    effect_weight: float = 0.35
    """Weight of the newest round in the mean effect."""
    remarkable: float = 0.25
    """Share of the limit from which the duration and the noise of an effect are looked at."""
    cleared: float = 0.5
    """Share of the limit below which an effect is over."""


TUNING = PeerTuning()
_REST = (1.0 - TUNING.slow_weight) ** np.arange(1.0, 400.0)
"""By rounds since a member was first judged: what is left in its slow mean of the 0 where it began.
"""
_BEGUN = np.sqrt(1.0 - _REST**2)
"""The deviation of that mean as a share of its last one, where rounds are independent; where load
wanders, 1 less `_REST`.
"""
_WANDER = TUNING.wander_factor * _BEGUN / (1.0 - _REST)


@dataclass(slots=True)
class _Spread:
    """Standard deviation of values around their median: a mean over some rounds."""

    spread: float = 0.0
    _rounds: int = 0

    def learn(self, values: Column) -> None:
        """Takes the values of some members."""
        if len(values) < 3:
            return
        spread = deviation(values)
        self._rounds = min(self._rounds + 1, TUNING.noise_rounds)
        self.spread += (spread - self.spread) / self._rounds


class Peers(Members):
    """Judges members by their deviation from their peers, round by round.

    Args:
        least: share by which a member must deviate.
    """

    BLANK: ClassVar = dict.fromkeys(
        (
            "bias",
            "count",
            "effect",
            "since",
            "value",
            "_doubt",
            "_slow",
            "_streak",
            "_peak",
        ),
        0.0,
    ) | {"_first": NO_VALUE}
    bias: Column
    """Its long-term deviation."""
    count: Column
    """Rounds it has taken part in."""
    effect: Column
    """Its deviation now without the bias: a mean of some rounds."""
    since: Column
    """When it began to deviate, round after round; 0 while it does not."""
    value: Column
    """Above 1 where it stands out."""
    _first: Column
    """The deviations in its first rounds, `[round, n]`."""
    _doubt: Column
    """Standard error of the bias: large after noisy first rounds, until it has learned more."""
    _slow: Column
    """A slow mean of its residuals."""
    _streak: Column
    """Rounds since it began; below 0 the rounds in a row without an effect."""
    _peak: Column
    """The largest residual since it began."""

    def __init__(self, least: float) -> None:
        self._least = least
        self._cusum = Cusum(TUNING.allowance, 3 * TUNING.cusum_limit)
        super().__init__()

    def clear(self) -> None:
        self.restart()
        self._noise: dict[str, _Spread] = defaultdict(_Spread)
        """Of a residual, by population."""
        self._wander: dict[str, _Spread] = defaultdict(_Spread)
        """Of the slow mean of residuals."""

    def restart(self) -> None:
        """All members start over; what was learned of their noise stays."""
        super().clear()
        self._first = np.empty((TUNING.learning, 0))
        self._cusum.clear()

    def deviation(self, values: Column, groups: Indices) -> Column:
        """By which share each value is above the median of its group without biases, `[n]`."""
        return excess(values, groups, self.bias)

    def noise(self, population: str = "") -> float:
        """Standard deviation of a round without its bias, as a share."""
        return max(self._noise[population].spread, TUNING.min_noise)

    def wander(self, population: str = "") -> float:
        """Standard deviation of a mean over some rounds: what load that shifts from one member to
        another leaves in it.
        """
        return self._wander[population].spread

    @property
    def slower(self) -> Column:
        """Above 1 where a member stands out and is slower than its peers, too, not only than it was
        itself: load that moves makes light work usual.
        """
        as_such = self.effect + self.bias > TUNING.ongoing * self._least
        return np.where(as_such, self.value, np.fmin(self.value, 1.0))

    @property
    def lasts(self) -> Mask:
        """Members that the newest round found to deviate, however briefly."""
        return self._streak > 0

    def interrupt(self, members: Mask) -> None:
        """Starts the effects of some members over."""
        for state in (self.effect, self.since, self.value, self._streak, self._peak):
            state[members] = 0.0
        self._cusum.reset(members)

    def round(
        self, time: float, axis: AxisLike, off: Column, interval: float, population: str = ""
    ) -> None:
        """Takes one round.

        Args:
            time: of the stream.
            axis: the members.
            off: by which share each is off its peers; NaN takes no part, `[n]`.
            interval: seconds from round to round.
            population: whose noise is learned: jobs differ in it.
        """
        self.follow(axis)
        known = ~np.isnan(off)
        residual = off - self.bias
        judged = known & (self.count >= TUNING.learning)
        # A member's first deviation is its bias, not noise.
        usable = judged if np.count_nonzero(judged) >= 3 else known & (self.count > 0)
        telling = sampled(np.flatnonzero(usable & ~self._together()))
        self._noise[population].learn(residual[telling])
        change = residual - self._slow
        np.add(self._slow, TUNING.slow_weight * change, out=self._slow, where=judged)
        rounds = np.clip(self.count - TUNING.learning, 0, len(_REST) - 1).astype(np.int64)
        taught = telling[judged[telling]]
        self._wander[population].learn(self._slow[taught] / _BEGUN[rounds[taught]])
        clip = TUNING.clip if interval < TUNING.slow_rounds else TUNING.clip_slow
        scale = max(self.noise(population), self.wander(population) / TUNING.slow_noise)
        standard = np.clip(residual / scale, -clip, clip)
        score = self._cusum.step(time, axis, np.where(judged, standard, np.nan))
        # The first rounds of an effect count equally: their mean is not that of the time before.
        wander = self.wander(population) * _WANDER
        least: Column = TUNING.doubts * self._doubt + np.fmax(self._least, wander)[rounds]
        off_now = judged & (residual > TUNING.ongoing * least)
        longer, calmer = np.fmax(self._streak, 0.0) + 1.0, np.fmin(self._streak, 0.0) - 1.0
        np.copyto(self._streak, np.where(off_now, longer, calmer), where=judged)
        effect = self.effect + TUNING.effect_weight * (residual - self.effect)
        fresh = np.flatnonzero((self._streak > 0) & ~(self.value > 1.0))
        weight = np.fmax(TUNING.effect_weight, 1.0 / self._streak[fresh])
        effect[fresh] = self.effect[fresh] + weight * (residual[fresh] - self.effect[fresh])
        np.copyto(self.effect, effect, where=judged)
        enough = 3 if interval < TUNING.slow_rounds else 2
        self._judge(time, judged, off_now, residual, score, least, enough, interval)
        calm = known & (score < TUNING.cusum_limit / 3) & ~(self.value > 1.0)
        learning = np.flatnonzero(known & (self.count < TUNING.learning))
        self.count = self.count + known
        weight = 1.0 / np.clip(self.count, 1.0, TUNING.bias_rounds)
        odd = TUNING.outlier * self.noise(population)
        np.add(self.bias, weight * np.clip(residual, -odd, odd), out=self.bias, where=calm)
        np.multiply(self._doubt, 1.0 - weight, out=self._doubt, where=calm)
        if len(learning):  # the median: a hiccup, or a round that began late, is no bias
            self._first[self.count[learning].astype(int) - 1, learning] = off[learning]
            first = self._first[:, learning]
            counts = np.count_nonzero(first == first, axis=0)
            middle = np.array([(counts - 1) // 2, counts // 2])
            ordered = np.sort(first, axis=0)  # NaN last
            self.bias[learning] = np.take_along_axis(ordered, middle, axis=0).mean(axis=0)
            own = np.nanstd(first, axis=0)
            self._doubt[learning] = np.fmax(own, median(own)) * TUNING.median_error

    def _together(self) -> Mask:
        """Members that began to deviate in one round: one cause, which is not noise."""
        together = np.zeros(len(self.since), bool)
        deviating = self.since > 0
        if np.count_nonzero(deviating) >= TUNING.together:
            times, counts = np.unique(self.since[deviating], return_counts=True)
            for since in times[counts >= TUNING.together]:
                together |= self.since == since
        return together

    def _judge(
        self,
        time: float,
        judged: Mask,
        off: Mask,
        residual: Column,
        score: Column,
        least: Column,
        enough: int,
        interval: float,
    ) -> None:
        """Members stand out until `enough` rounds without an effect."""
        np.copyto(self.since, time, where=off & (self.since == 0))
        self.since[judged & ~off] = 0.0
        lasting = np.flatnonzero(self.since > 0)
        peak = np.fmax(self._peak[lasting], np.nan_to_num(residual[lasting]))
        self._peak = np.zeros(len(residual))
        self._peak[lasting] = peak
        found = self.value > 1.0
        size = self.effect / least
        value = size.copy()  # smaller effects are not worth a closer look
        chosen = np.flatnonzero(size > TUNING.remarkable)
        grows = residual[chosen] >= TUNING.min_of_peak * self._peak[chosen]
        sure = np.where(grows, score[chosen] / TUNING.cusum_limit, 1.0)
        # Its first round, too, was slow from its begin to its end.
        lasted = np.where(self.since[chosen] > 0, time - self.since[chosen] + interval, 0.0)
        large = size[chosen] >= TUNING.large
        long = lasted >= np.where(large, TUNING.min_large, TUNING.min_duration)
        value[chosen] = np.minimum(np.minimum(sure, size[chosen]), np.where(long, np.inf, 1.0))
        if found.any():  # a member stays so until its effect is gone
            over = found & ((size < TUNING.cleared) | (self._streak <= -enough))
            value = np.where(found, np.fmax(size, 1.0 + 1e-9), value)
            value[over] = 0.0
            self._cusum.reset(over)
            self.effect[over] = 0.0
        np.copyto(self.value, value, where=judged)
