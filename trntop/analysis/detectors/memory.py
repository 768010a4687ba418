"""Memory that is nearly full, or will be within minutes: HBM of devices, memory of hosts."""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from trntop.analysis.detector import Signal, Verdict
from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import Column, Evidence
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.axis import Axis, PartAxis
from trntop.pipeline.tick import Tick

HBM, HOST = "hbm", "host"
"""The kinds of memory of a node."""


@dataclass(frozen=True, slots=True)
class MemoryTuning:
    """When memory counts as nearly full, and its growth as a trend."""

    host_limit: float = 0.96
    """Used share of the host's memory."""
    clear: float = 0.97
    """Multiple of the limit below which the incident closes."""
    filling: float = 0.9
    """Used share of the HBM above which its growth is evaluated."""
    horizon: float = 300.0
    """The incident opens if growing memory is full within this many seconds."""
    window: float = 60.0
    """Seconds over which the growth is measured."""
    min_span: float = 30.0
    """Minimum seconds of growth; loading a model takes less."""
    min_r_squared: float = 0.9
    """Share of the variance that a straight line must explain."""
    as_full: float = 0.02
    """Difference from the fullest device up to which others count as equally full."""


TUNING = MemoryTuning()


Track = deque[tuple[float, float]]
"""Times and used shares of a node's fullest device."""


class MemoryPressure:
    """The fullest HBM and the host memory of each node, as shares of their limits.

    Several full devices of a node are one incident: a model uses about the same share of each.
    """

    inputs = frozenset(
        (
            "device_memory_total_bytes",
            "device_memory_used_ratio",
            "neuroncore_memory_used_bytes",
            "node_device_memory_used_max_ratio",
            "node_memory_available_bytes",
            "node_memory_total_bytes",
        )
    )

    def __init__(self, settings: Settings, period: float) -> None:
        self._limit = settings.memory
        self._nodes = Axis()
        self._axis = PartAxis(self._nodes, ())
        self._tracks: dict[str, Track] = {}
        """Nodes whose HBM is nearly full."""

    def signal(self, tick: Tick) -> Signal:
        """Two values per node; the value of growing memory depends on how soon it is full."""
        if tick.nodes is not self._nodes:
            self._nodes = tick.nodes
            self._axis = PartAxis(tick.nodes, [(HBM, HOST)] * len(tick.nodes))
        used = tick.column("node_device_memory_used_max_ratio")
        hbm = used / self._limit
        for index, left in self._full_within(tick, used).items():
            hbm[index] = max(hbm[index], TUNING.horizon / max(left, 1.0))
        available = tick.column("node_memory_available_bytes")
        total = tick.column("node_memory_total_bytes")
        with np.errstate(divide="ignore", invalid="ignore"):
            host = (1.0 - available / total) / TUNING.host_limit
        return Signal(self._axis, np.column_stack((hbm, host)).ravel(), 1.0, TUNING.clear)

    def _full_within(self, tick: Tick, used: Column) -> dict[int, float]:
        """Seconds until the HBM is full, of the nodes where it grows steadily."""
        before, self._tracks = self._tracks, {}
        found = {}
        # Growth while a run warms up or compiles is temporary.
        for index in np.flatnonzero((used > TUNING.filling) & ~tick.quiet).tolist():
            name = str(tick.nodes.keys[index])
            track = self._tracks[name] = before.get(name) or deque()
            track.append((tick.time, float(used[index])))
            while track[0][0] < tick.time - TUNING.window:
                track.popleft()
            left = _full_within(track)
            if left is not None:
                found[index] = left
        return found

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        """Names the device if one is fuller than the rest."""
        assert isinstance(key, tuple)
        return self._of_host(key[0], tick) if key[1] == HOST else self._of_hbm(key[0], tick)

    def _of_hbm(self, node: str, tick: Tick) -> Verdict:
        view = tick.view(node)
        devices = view.inventory.of(Entity.DEVICE)
        used = view.frame.columns.get("device_memory_used_ratio")
        if used is None:
            fields = {"what": "HBM", "how": "is nearly full", "basis": "last reading"}
            return Verdict.at(tick, node, fields)
        fullest = int(np.nanargmax(used))
        share, device = float(used[fullest]), devices[fullest]
        # Above the limit, or about as full as the fullest.
        full = int((used > min(self._limit, share - TUNING.as_full)).sum())
        left = _full_within(self._tracks.get(node, deque()))
        evidence = [
            Evidence(
                f"device {device} uses {units.percent(share)} of its HBM; "
                f"limit {units.percent(self._limit)}",
                node, "device_memory_used_ratio", share, self._limit,
            )
        ]  # fmt: skip
        how = f"is {units.percent(share)} used"
        if left is not None and left < TUNING.horizon:
            rate = (1.0 - share) / max(left, 1.0) * 60.0
            how += f", full in {units.span(left)}"
            evidence.append(Evidence(f"it grows by {units.percent(rate)} a minute", node))
        if total := view.frame.at("device_memory_total_bytes", fullest):
            evidence.append(Evidence(f"{units.bytes_iec((1.0 - share) * total)} free", node))
        others = f" and {full - 1} more" if full > 1 else ""
        monitored = "neuroncore_memory_used_bytes" in view.frame.columns
        basis = "neuron-monitor" if monitored else "driver's sysfs tree"
        fields = {"what": f"HBM of device {device}{others}", "how": how, "basis": basis}
        component = f"device:{device}" if full <= 1 else None
        return Verdict.at(tick, node, fields, *evidence, component=component)

    def _of_host(self, node: str, tick: Tick) -> Verdict:
        frame = tick.view(node).frame
        available = frame.value("node_memory_available_bytes") or 0.0
        share = available / (frame.value("node_memory_total_bytes") or 1.0)
        how = f"is nearly full, {units.bytes_iec(available)} available"
        text = (
            f"{units.percent(share)} of the host's memory is available; "
            f"limit {units.percent(1.0 - TUNING.host_limit)}"
        )
        evidence = Evidence(text, node, "node_memory_available_bytes", available)
        fields = {"what": "host memory", "how": how, "basis": "host"}
        return Verdict.at(tick, node, fields, evidence)

    def reset(self) -> None:
        self._tracks.clear()


def _full_within(track: Track) -> float | None:
    """Seconds until a share that grows steadily is 1; None if it does not grow steadily."""
    if not track or track[-1][0] - track[0][0] < TUNING.min_span:
        return None
    times, shares = np.array(track).T
    times = times - times.mean()
    slope = float(times @ shares / (times @ times))
    if slope <= 0:
        return None
    residuals = shares - shares.mean() - slope * times
    if residuals @ residuals > (1.0 - TUNING.min_r_squared) * shares.var() * len(shares):
        return None
    return max(0.0, 1.0 - float(shares[-1])) / slope
