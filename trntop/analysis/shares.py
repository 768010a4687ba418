"""Whether an EFA card carries less of its node's traffic than it used to."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trntop.analysis.axis import PartAxis
from trntop.analysis.cards import Cards
from trntop.analysis.cusum import Cusum
from trntop.core.model import NO_VALUE, Column


@dataclass(frozen=True, slots=True)
class ShareTuning:
    """When a smaller share of a node's EFA traffic is a loss."""

    allowance: float = 1.0
    cusum_limit: float = 4.5
    """Score of the cumulative sum from which on a loss is no chance."""
    cleared: float = 0.3
    """Share of that below which it is over."""
    clip: float = 4.0
    """Largest value that one reading counts for."""
    min_duration: float = 10.0
    """Seconds; what is over sooner is no loss."""
    min_readings: int = 3
    """Readings in a row that a loss shows in."""
    learning: float = 30.0
    """Seconds of traffic from which a card's usual part is learnt."""
    learning_readings: int = 5
    reset_after: float = 300.0
    """Seconds without traffic after which another job may use the cards otherwise."""
    drift_half_life: float = 300.0
    """Seconds in which a slow change counts half as usual."""
    noise_readings: float = 60.0
    """Readings over which a card's noise is a mean."""
    min_noise: float = 0.005
    noise_factor: float = 1.75
    """Standard deviations that a loss must be larger than, where they are more than half of it."""
    slow_weight: float = 0.19
    """Weight of the newest reading in the slow mean that tells noise which wanders from noise that
    does not: independent readings leave a share of SLOW_NOISE of their deviation in it.
    """
    slow_noise: float = (slow_weight / (2.0 - slow_weight)) ** 0.5
    pool_interval: float = 10.0
    """Seconds after which the cards' common noise is looked at again."""
    pattern_share: float = 1 / 3
    """Share of a node's cards from which on it is the job that uses them otherwise."""
    pattern_cards: int = 4
    pattern_seconds: float = 10.0
    effect_weight: float = 0.5
    """Weight of the newest reading in the loss that is told."""


TUNING = ShareTuning()

Mask = npt.NDArray[np.bool_]


class Shares:
    """Each card's traffic relative to its siblings', against its own usual part of it.

    Judged is the logarithm of the ratio: its usual value is the card's bias, learnt while it is
    well; what remains is summed up (CUSUM), so that a small loss is found if it lasts.

    Args:
        card_traffic: share of its usual part below which a card has lost traffic.
    """

    def __init__(self, card_traffic: float) -> None:
        # Half of the loss to be found is allowed for, as is best for a cumulative sum.
        self._allowed = -0.5 * np.log(np.clip(card_traffic, 0.01, 0.99))
        self._cusum = Cusum(TUNING.allowance, 2 * TUNING.cusum_limit)
        self._axis: PartAxis | None = None
        self._state = np.zeros((len(_STATE), 0))
        self._pooled = 0.0, 0.0
        """Medians over all cards: of the noise, and of the wandering."""
        self._pooled_at = -np.inf
        self.value: Column = np.zeros(0)
        """Above 1 where a card has lost traffic, `[card]`; NaN before its part is known."""

    @property
    def since(self) -> Column:
        """When the loss began, `[card]`."""
        return self._cusum.since

    @property
    def loss(self) -> Column:
        """Share of its usual part that a card has lost lately, `[card]`."""
        lost: Column = 1.0 - np.exp(-self._state[_LOSS])
        return lost

    def update(self, time: float, cards: Cards) -> None:
        """Takes one tick."""
        self._follow(cards.axis)
        state = self._state
        if not self._pooled_at <= time < self._pooled_at + TUNING.pool_interval:
            self._pool(time)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(cards.traffic / cards.usual)
        active = cards.busy & ~cards.idle & np.isfinite(ratio)
        self._forget(active & (time - state[_ACTIVE] > TUNING.reset_after))
        state[_ACTIVE][active] = time
        lack = np.where(active, state[_BIAS] - ratio, NO_VALUE)
        learnt = (state[_LEARNT] >= TUNING.learning) & (state[_COUNT] >= TUNING.learning_readings)
        judged = active & learnt
        odd = cards.siblings.count(judged & (np.abs(lack) > self._allowed))
        many = cards.siblings.count(judged)
        odd_ones = judged & (odd >= TUNING.pattern_share * many) & (many >= TUNING.pattern_cards)
        state[_ODD] = np.where(odd_ones, state[_ODD] + cards.elapsed, state[_ODD])
        state[_ODD][judged & ~odd_ones] = 0.0
        judged &= ~odd_ones
        # Of readings far apart each tells more, but not by as much as they are apart.
        weight = np.sqrt(np.clip(cards.elapsed, 0.25, 9.0))
        standard = np.clip(lack / self._scale(weight), -TUNING.clip, TUNING.clip)
        values = TUNING.allowance + weight * (standard - TUNING.allowance)
        score = self._cusum.step(time, cards.axis, np.where(judged, values, NO_VALUE))
        self._judge(time, lack, judged & (standard > 0.5), judged, score)
        self._learn(lack, active & ~odd_ones & (score == 0), cards.elapsed)
        self._forget(state[_ODD] > TUNING.pattern_seconds)

    def clear(self) -> None:
        """Forgets everything."""
        self._axis = None
        self._state, self.value = np.zeros((len(_STATE), 0)), np.zeros(0)
        self._pooled, self._pooled_at = (0.0, 0.0), -np.inf
        self._cusum.reset()

    def _scale(self, weight: Column) -> Column:
        """What one unit of the cumulative sum stands for, in logarithms, `[card]`."""
        state = self._state
        usual_noise, usual = self._pooled
        noise = np.maximum(state[_NOISE], usual_noise)
        # How a card wanders takes long to learn; until then it is taken to be as the others.
        known = state[_COUNT] / (state[_COUNT] + TUNING.noise_readings)
        wander = np.maximum(usual, usual + known * (state[_WANDER] - usual)) / TUNING.slow_noise
        noise = np.maximum(np.maximum(noise, wander), TUNING.min_noise)
        scale: Column = np.maximum(self._allowed, TUNING.noise_factor * np.sqrt(weight) * noise)
        return scale

    def _pool(self, time: float) -> None:
        """What noise the cards have in common."""
        learnt = self._state[_COUNT] >= TUNING.learning_readings
        if learnt.any():
            noise, wander = np.median(self._state[[_NOISE, _WANDER]][:, learnt], axis=1).tolist()
            self._pooled, self._pooled_at = (noise, wander), time

    def _judge(self, time: float, lack: Column, low: Mask, judged: Mask, score: Column) -> None:
        state = self._state
        well = judged & ~low
        state[_RUN] = np.where(low, state[_RUN] + 1, np.where(well, 0.0, state[_RUN]))
        state[_WELL] = np.where(well | np.isnan(state[_WELL]), time, state[_WELL])
        effect = state[_LOSS] + TUNING.effect_weight * (lack - state[_LOSS])
        # The first reading of a loss is one of the time before, too, in part.
        state[_LOSS] = np.where(judged, np.where(state[_RUN] <= 2, lack, effect), state[_LOSS])
        found = self.value > 1.0
        lasts = (state[_RUN] >= TUNING.min_readings) & (time - state[_WELL] >= TUNING.min_duration)
        value = score / TUNING.cusum_limit
        value = np.where(lasts | (found & (value > TUNING.cleared)), value, np.minimum(value, 0.99))
        # Once found, a loss stays one until it is gone.
        value = np.where(found & (value > TUNING.cleared), np.maximum(value, 1.0 + 1e-9), value)
        self.value = np.where(judged, value, self.value)

    def _learn(self, lack: Column, well: Mask, elapsed: Column) -> None:
        state = self._state
        state[_COUNT] += well
        state[_LEARNT] += np.where(well, elapsed, 0.0)
        drift = 1.0 - 0.5 ** (elapsed / TUNING.drift_half_life)
        weight = np.maximum(1.0 / np.maximum(state[_COUNT], 1.0), drift)
        state[_BIAS] = np.where(well, state[_BIAS] - weight * lack, state[_BIAS])
        slow = state[_MEAN] + TUNING.slow_weight * (lack - state[_MEAN])
        state[_MEAN] = np.where(well, slow, state[_MEAN])
        # Until its usual part is about known, what remains says little, a mean of it less.
        for row, values, early in ((_NOISE, lack, 1), (_WANDER, slow, TUNING.learning_readings)):
            weight = 1.0 / np.clip(state[_COUNT] - early, 1.0, TUNING.noise_readings)
            # The mean distance of normal noise from 0 is 0.8 standard deviations.
            off = 1.25 * np.minimum(np.abs(values), TUNING.clip * self._allowed)
            noise = state[row] + weight * (off - state[row])
            state[row] = np.where(well & (state[_COUNT] > early), noise, state[row])

    def _forget(self, chosen: Mask) -> None:
        """Learns the chosen cards' part anew."""
        if chosen.any():
            self._state[:, chosen] = _BLANK[:, None]
            self.value[chosen] = NO_VALUE
            self._cusum.reset(chosen)

    def _follow(self, axis: PartAxis) -> None:
        if axis is self._axis:
            return
        state, value = np.repeat(_BLANK[:, None], len(axis), axis=1), np.full(len(axis), NO_VALUE)
        if self._axis is not None:
            old = axis.places_in(self._axis)
            known = old >= 0
            state[:, known], value[known] = self._state[:, old[known]], self.value[old[known]]
        self._axis, self._state, self.value = axis, state, value
        self._cusum.step(0.0, axis, np.full(len(axis), NO_VALUE))


_STATE = (
    _BIAS, _COUNT, _LEARNT, _NOISE, _MEAN, _WANDER, _RUN, _WELL, _ACTIVE, _ODD, _LOSS,
) = range(11)  # fmt: skip
"""Rows of what is kept of each card: its usual logarithm, the readings and the seconds it was
learnt from, the noise, the slow mean of what remains, the noise of that, readings in a row that
lack traffic, when it last lacked none, when it last carried traffic, seconds in which many cards
were off, and the newest loss, as a logarithm.
"""
_BLANK = np.array([0.0] * 7 + [NO_VALUE] * 2 + [0.0] * 2)
