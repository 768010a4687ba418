"""Decoding one report of 128 cores into a frame."""

import json

from benchmarks.figure import Figure, median_seconds
from benchmarks.payloads import report
from trntop.core.model import Reading
from trntop.pipeline.node import NodeState
from trntop.sources.neuron_monitor import decode


def run(*, quick: bool) -> list[Figure]:
    repeats = 200 if quick else 1000
    data = report()
    node = NodeState("n")
    clock = iter(range(10**9))

    def frame() -> None:
        now = float(next(clock))
        node.feed(Reading("n", "neuron-monitor", now, data), decode(data))
        node.view(now)

    loads = median_seconds(lambda: json.loads(data), repeats)
    decoded = median_seconds(lambda: decode(data), repeats)
    framed = median_seconds(frame, repeats)
    ratio = f"{decoded / loads:.2f} × json.loads ({loads * 1e6:.0f} µs)"
    return [
        Figure(f"decode a report of 128 cores ({len(data) >> 10} KiB)", decoded * 1e6, "µs", 200,
               ratio),
        Figure("decode it, merge it and make the node's frame", framed * 1e6, "µs", None,
               f"{framed / loads:.2f} × json.loads"),
    ]  # fmt: skip
