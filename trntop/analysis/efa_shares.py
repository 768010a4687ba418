"""Whether an EFA device carries less of its node's traffic than it used to, or than all others."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trntop.analysis.efa_devices import EfaDevices
from trntop.core.model import NO_VALUE, Column
from trntop.pipeline.axis import PartAxis
from trntop.pipeline.statistics import Cusum, Mask, Members, median, sampled


@dataclass(frozen=True, slots=True)
class ShareTuning:
    """When a smaller share of a node's EFA traffic is a loss."""

    allowance: float = 1.0
    cusum_limit: float = 4.5
    """Score of the cumulative sum that excludes chance."""
    cleared: float = 0.3
    """Share of that below which a loss is over."""
    clip: float = 4.0
    """Largest value that one reading counts for."""
    min_duration: float = 10.0
    """Seconds that a loss must last."""
    min_readings: int = 3
    """Readings in a row that must show a loss."""
    learning: float = 30.0
    """Seconds of traffic from which a device's usual share is learned."""
    learning_readings: int = 5
    reset_after: float = 300.0
    """Seconds without traffic after which another job may use the devices differently."""
    drift_half_life: float = 300.0
    """Seconds in which a slow change counts half as usual."""
    noise_readings: float = 60.0
    """Readings over which a device's noise is a mean."""
    min_noise: float = 0.005
    noise_factor: float = 1.75
    """Standard deviations that a loss must exceed, where they are more than half of it."""
    slow_weight: float = 0.19
    """Weight of the newest reading in the slow mean that shows drifting noise: independent
    readings leave a share of `slow_noise` of their deviation in it.
    """
    slow_noise: float = (slow_weight / (2.0 - slow_weight)) ** 0.5
    pool_interval: float = 10.0
    """Seconds between two updates of the devices' common noise."""
    pattern_share: float = 1 / 3
    """Share of a node's devices from which the job itself uses them differently."""
    pattern_devices: int = 4
    pattern_seconds: float = 10.0
    effect_weight: float = 0.5
    """Weight of the newest reading in the reported loss."""
    low: float = 0.72
    """Part of its peers' traffic below which a device that always had so little is degraded, if it
    is alone: devices of a job that uses all alike are within 2 %.
    """
    alike: float = 0.05
    alike_share: float = 0.75
    """Difference, as a logarithm, and share of the devices that must be so near to one another."""
    low_seconds: float = 60.0
    """Seconds of traffic that such a device is judged by."""
    min_devices: int = 4
    min_nodes: int = 3
    """Devices of the node, and nodes of the job with a device of this name, that are compared: a
    job may use its devices unevenly by design.
    """


TUNING = ShareTuning()


class Shares(Members):
    """Each device's traffic relative to its peers', against its own usual share of it.

    The logarithm of the ratio is judged: its usual value is the device's bias, learned while it is
    healthy; the rest is summed up (CUSUM), so that a small loss is found if it lasts. A usual value
    that is far below those of all others, on the node and on the other nodes, is a loss from the
    start.

    Args:
        limit: part of its usual share below which a device has lost traffic.
    """

    BLANK: ClassVar = dict.fromkeys(
        ("_bias", "_count", "_learned", "_noise", "_mean", "_drift", "_run", "_odd", "_loss",
         "_low"), 0.0,
    ) | dict.fromkeys(("_value", "_healthy", "_active", "_begun"), NO_VALUE)  # fmt: skip
    _value: Column
    """Above 1 where a device has lost traffic that it had; NaN before its share is known."""
    _bias: Column
    """Its usual logarithm."""
    _count: Column
    _learned: Column
    """Readings and seconds that the bias was learned from."""
    _noise: Column
    _mean: Column
    """The slow mean of the residuals."""
    _drift: Column
    """The noise of that."""
    _run: Column
    """Readings in a row that lack traffic."""
    _odd: Column
    """Seconds in which many devices were off."""
    _loss: Column
    """The newest loss, as a logarithm."""
    _low: Column
    """Above 1 where a device has had less than all others from the start, else 0."""
    _healthy: Column
    """When it last lacked no traffic."""
    _active: Column
    """When it last carried traffic."""
    _begun: Column
    """When its share began to be learned."""

    def __init__(self, limit: float) -> None:
        # Half of the loss to be found is allowed for, as is best for a cumulative sum.
        self._allowed = -0.5 * np.log(np.clip(limit, 0.01, 0.99))
        self._cusum = Cusum(TUNING.allowance, 2 * TUNING.cusum_limit)
        super().__init__()

    def clear(self) -> None:
        super().clear()
        self._cusum.clear()
        self._pooled = 0.0, 0.0
        """Medians of noise and drift over all devices."""
        self._pooled_at = -np.inf

    def follow(self, axis: PartAxis) -> bool:  # type: ignore[override]
        self._cusum.follow(axis)
        return super().follow(axis)

    @property
    def value(self) -> Column:
        """Above 1 where a device has lost traffic; NaN before its share is known."""
        return np.fmax(self._value, np.where(self._low > 1.0, self._low, NO_VALUE))

    @property
    def since(self) -> Column:
        """When the loss began."""
        return np.where(self._low > 1.0, self._begun, self._cusum.since)

    @property
    def loss(self) -> Column:
        """Part of its share that a device lacks: of its usual one, or of its peers'."""
        lost: Column = 1.0 - np.exp(np.where(self._low > 1.0, self._usual, -self._loss))
        return lost

    @property
    def _usual(self) -> Column:
        """The logarithm of its share, the higher one of its usual and its recent one."""
        return np.fmax(self._bias, self._bias - self._mean)

    def update(self, time: float, devices: EfaDevices) -> None:
        self.follow(devices.axis)
        if not self._pooled_at <= time < self._pooled_at + TUNING.pool_interval:
            self._pool(time)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(devices.traffic / devices.usual)
        active = devices.busy & ~devices.idle & np.isfinite(ratio)
        self._forget(active & (time - self._active > TUNING.reset_after))
        self._active[active] = time
        self._begun = np.where(active & np.isnan(self._begun), time, self._begun)
        lack = np.where(active, self._bias - ratio, NO_VALUE)
        known = (self._learned >= TUNING.learning) & (self._count >= TUNING.learning_readings)
        judged = active & known
        odd = devices.peers.count(judged & (np.abs(lack) > self._allowed))
        many = devices.peers.count(judged)
        pattern = judged & (odd >= TUNING.pattern_share * many) & (many >= TUNING.pattern_devices)
        self._odd = np.where(pattern, self._odd + devices.elapsed, self._odd)
        self._odd[judged & ~pattern] = 0.0
        judged &= ~pattern
        # A reading of a long interval counts more, but not in proportion to it.
        weight = np.sqrt(np.clip(devices.elapsed, 0.25, 9.0))
        standard = np.clip(lack / self._scale(weight), -TUNING.clip, TUNING.clip)
        values = TUNING.allowance + weight * (standard - TUNING.allowance)
        score = self._cusum.step(time, devices.axis, np.where(judged, values, NO_VALUE))
        self._judge(time, lack, judged & (standard > 0.5), judged, score)
        self._learn(lack, active & ~pattern & (score == 0), devices)
        self._forget(self._odd > TUNING.pattern_seconds)
        self._low = self._judge_usual(devices)

    def _judge_usual(self, devices: EfaDevices) -> Column:
        """Above 1 where a device alone has far less than all others."""
        usual, limit = self._usual, np.log(TUNING.low)
        known = (self._learned >= TUNING.low_seconds) & (self._count >= TUNING.learning_readings)
        low = known & (usual < limit * np.where(self._low > 1.0, 0.5, 1.0))
        if not low.any():
            return np.zeros(len(low))
        peers, axis = devices.peers, devices.axis
        many = peers.count(known)
        alike = peers.count(known & (np.abs(usual) <= TUNING.alike))
        jobs: dict[str | None, int] = {}
        of = [jobs.setdefault(devices.job_of.get(str(key)), len(jobs)) for key in axis.nodes.keys]
        rails = peers.rails.of * len(jobs) + np.array(of)[axis.owner]
        nodes, same = np.bincount(rails[known]), np.bincount(rails[known & (usual < 0.5 * limit)])
        low &= (many >= TUNING.min_devices) & (axis.sizes[axis.owner] >= TUNING.min_devices)
        low &= (alike >= TUNING.alike_share * many) & (peers.count(low) == 1)
        index = np.flatnonzero(low)
        alone = (nodes[rails[index]] >= TUNING.min_nodes) & (same[rails[index]] == 1)
        low[index] = alone
        return np.where(low, np.maximum(usual / limit, 1.0 + 1e-9), 0.0)

    def _scale(self, weight: Column) -> Column:
        """One unit of the cumulative sum, in logarithms."""
        pooled_noise, pooled = self._pooled
        noise = np.maximum(self._noise, pooled_noise)
        # A device's drift takes long to learn; until then it counts as that of the others.
        known = self._count / (self._count + TUNING.noise_readings)
        drift = np.maximum(pooled, pooled + known * (self._drift - pooled)) / TUNING.slow_noise
        noise = np.maximum(np.maximum(noise, drift), TUNING.min_noise)
        scale: Column = np.maximum(self._allowed, TUNING.noise_factor * np.sqrt(weight) * noise)
        return scale

    def _pool(self, time: float) -> None:
        known = sampled(np.flatnonzero(self._count >= TUNING.learning_readings))
        if len(known):
            self._pooled = median(self._noise[known]), median(self._drift[known])
            self._pooled_at = time

    def _judge(self, time: float, lack: Column, low: Mask, judged: Mask, score: Column) -> None:
        healthy = judged & ~low
        self._run = np.where(low, self._run + 1, np.where(healthy, 0.0, self._run))
        self._healthy = np.where(healthy | np.isnan(self._healthy), time, self._healthy)
        effect = self._loss + TUNING.effect_weight * (lack - self._loss)
        # The first reading of a loss includes, in part, the time before it.
        self._loss = np.where(judged, np.where(self._run <= 2, lack, effect), self._loss)
        found = self._value > 1.0
        lasts = self._run >= TUNING.min_readings
        lasts &= time - self._healthy >= TUNING.min_duration
        value = score / TUNING.cusum_limit
        value = np.where(lasts | (found & (value > TUNING.cleared)), value, np.minimum(value, 0.99))
        # Once found, a loss remains one until it is gone.
        value = np.where(found & (value > TUNING.cleared), np.maximum(value, 1.0 + 1e-9), value)
        self._value = np.where(judged, value, self._value)

    def _learn(self, lack: Column, healthy: Mask, devices: EfaDevices) -> None:
        self._count += healthy
        self._learned += np.where(healthy, devices.elapsed, 0.0)
        drift = 1.0 - devices.decay(TUNING.drift_half_life)
        weight = np.maximum(1.0 / np.maximum(self._count, 1.0), drift)
        self._bias = np.where(healthy, self._bias - weight * lack, self._bias)
        slow = self._mean + TUNING.slow_weight * (lack - self._mean)
        self._mean = np.where(healthy, slow, self._mean)
        # Until its usual share is roughly known, a residual means little, a mean of it less.
        self._noise = self._spread(self._noise, lack, healthy, 1)
        self._drift = self._spread(self._drift, slow, healthy, TUNING.learning_readings)

    def _spread(self, before: Column, values: Column, healthy: Mask, early: int) -> Column:
        weight = 1.0 / np.clip(self._count - early, 1.0, TUNING.noise_readings)
        # The mean distance of normal noise from 0 is 0.8 standard deviations.
        off = 1.25 * np.minimum(np.abs(values), TUNING.clip * self._allowed)
        return np.where(healthy & (self._count > early), before + weight * (off - before), before)

    def _forget(self, chosen: Mask) -> None:
        """Learns the share of the chosen devices from scratch."""
        if chosen.any():
            self.reset(chosen)
            self._cusum.reset(chosen)
