"""Simulations drawn from a seed: faults, machines and noise, for the detection benchmark.

Each kind of incident is as likely as any other, and as no incident. `str` of a drawn simulation is
its specification, so that it can be played again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trntop.collectors.simulator import Simulation

TYPES = {"trn1.32xlarge": 0.75, "trn1n.32xlarge": 0.05, "trn2.48xlarge": 0.2}
NODES = (4, 16)
MINUTES = (6.0, 10.0)
MORE_MINUTES = (8.0, 10.0)
"""Where what happens takes long."""
ONSET = (110.0, 180.0)
"""Seconds; a baseline must have been seen by then."""
RAMP = (5.0, 40.0)
TWO = 0.4
"""How often two things go wrong, one after the other, where there is time for both."""
APART = (40.0, 80.0)
"""Seconds between the two."""
TO_THE_END = 0.15
"""How often what goes wrong does so until the end."""


@dataclass(frozen=True, slots=True)
class _Draw:
    """How one scenario is drawn: each way with the depths that are drawn for it."""

    scenario: str
    seconds: tuple[float, float]
    depths: Mapping[str, tuple[float, float] | None]
    ramps: float = 0.0
    """How often it comes slowly."""
    alone: bool = False
    """Whether it takes too long to be followed by another."""
    onset: tuple[float, float] = ONSET


_DEGREES = {"": (0.1, 0.6)}
_NONE = {"": None}

DRAWS: Mapping[str, tuple[_Draw, ...]] = {
    "healthy": (),
    "comm_bound": (_Draw("comm-bound", (70, 160), {"": (0.9, 2.0)}, ramps=0.4),),
    "straggler": (
        _Draw("slow-node", (70, 160), _DEGREES, ramps=0.4),
        _Draw("slow-device", (70, 160), _DEGREES, ramps=0.4),
    ),
    "hang": (_Draw("hang", (60, 150), {"spin": None, "host": None}),),
    "efa_degraded": (
        _Draw(
            "efa-degraded", (70, 160),
            {"both": (0.1, 0.7), "retransmits": (0.1, 0.7), "throughput": (0.2, 0.7)}, ramps=0.4,
        ),
    ),
    "efa_down": (_Draw("efa-down", (60, 150), {"gone": None, "state": None, "still": None}),),
    "latency_regression": (
        # Probes come once a minute: three make a baseline.
        _Draw("latency-regression", (190, 280), {"": (1.0, 4.0)}, alone=True, onset=(185, 215)),
    ),
    "node_silent": (_Draw("silent-node", (45, 120), {"down": None, "agent": None}),),
    "device_lost": (_Draw("device-lost", (60, 120), _NONE),),
    "ecc_uncorrected": (_Draw("ecc", (2, 2), {"mem": None, "sram": None}),),
    "execution_errors": (_Draw("execution-errors", (20, 100), {"": (0.3, 3.0)}),),
    "memory_pressure": (_Draw("memory-filling", (90, 160), {"": (0.965, 0.995)}, ramps=1.0),),
    "idle_allocation": (_Draw("idle-allocation", (200, 280), _NONE, alone=True),),
    "version_skew": (
        _Draw("version-skew", (0, 0), {"efa": None, "neuron": None, "runtime": None}, alone=True),
    ),
    "recompile": (_Draw("recompile", (30, 90), _NONE),),
    "checkpoint_stall": (_Draw("checkpoint-stall", (120, 200), _NONE),),
}  # fmt: skip
"""Kind of incident → the scenarios that have it."""
_SOMETHING = {kind: draws for kind, draws in DRAWS.items() if draws}


def random_run(seed: int) -> Simulation:
    """The same simulation for the same seed."""
    rng = np.random.default_rng([seed, 25])
    kind = str(rng.choice(list(DRAWS)))
    fields = _cluster(rng, kind)
    fields |= _noise(rng, fields["nodes"])
    within = MORE_MINUTES if any(draw.alone for draw in DRAWS[kind]) else MINUTES
    fields["minutes"] = round(float(rng.uniform(*within)), 2)
    fields |= _faults(rng, kind, 60.0 * fields["minutes"], fields.get("warmup", 0.0))
    return Simulation(seed=seed, **fields)


def _cluster(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    """The machines, their jobs and what is usual there."""
    count = int(rng.integers(NODES[0], NODES[1] + 1))
    jobs = min(1 + int(rng.choice(3, p=(0.75, 0.2, 0.05))), max(count // 4, 1))
    each = (count - (kind == "idle_allocation")) // jobs
    stages = int(rng.choice((1, 2, 4), p=(0.7, 0.2, 0.1)))
    while stages > max(each // 3, 1):
        stages //= 2
    # All processes of an idle node would be idle equally.
    runtimes = 1 if kind == "idle_allocation" else int(rng.choice((1, 2, 4), p=(0.75, 0.15, 0.1)))
    # How long is usual must have been seen before a checkpoint can take too long.
    often = (60.0, 100.0) if kind == "checkpoint_stall" else (80.0, 300.0)
    return {
        "nodes": count,
        "instance_type": str(rng.choice(list(TYPES), p=list(TYPES.values()))),
        "runtimes": runtimes,
        "jobs": jobs,
        "stages": stages,
        "report_stage": int(stages > 1 and rng.random() < 0.5),
        "checkpoints": _between(rng, often),
        "saving": _between(rng, (3.0, 20.0)),
    }


def _noise(rng: np.random.Generator, nodes: int) -> dict[str, Any]:
    """What is no incident, each of it now and then."""
    now_and_then: dict[str, tuple[float, tuple[float, float]]] = {
        "noise": (0.7, (0.5, 2.0)),
        "evaluations": (0.25, (100.0, 200.0)),
        "warmup": (0.2, (20.0, 60.0)),
        "blips": (0.4, (1.0, 5.0)),
        "skew": (0.2, (5.0, 120.0)),
        "missing": (0.25, (0.002, 0.05)),
    }
    fields: dict[str, Any] = {}
    for name, (share, bounds) in now_and_then.items():
        happens, value = rng.random() < share, _between(rng, bounds)
        if happens:
            fields[name] = value
    fields["late"] = int(rng.integers(1, min(3, nodes))) if rng.random() < 0.2 and nodes > 1 else 0
    fields["resets"] = int(rng.random() < 0.2)
    fields["probes"] = int(rng.random() < 0.25)
    return fields


def _faults(rng: np.random.Generator, kind: str, length: float, warmup: float) -> dict[str, Any]:
    """What goes wrong, when, and how badly."""
    if not DRAWS[kind]:
        return {"scenario": "healthy"}
    draws = [_draw(rng, kind)]
    others = [name for name, (*_, draw) in _SOMETHING.items() if name != kind and not draw.alone]
    second = str(rng.choice(others))
    if rng.random() < TWO and not draws[0].alone and length > 480:
        draws.append(_draw(rng, second))
    to_the_end = rng.random() < TO_THE_END
    if draws[0].scenario == "version-skew":
        # It is there from the beginning, and so must be whoever has it.
        way = str(rng.choice(list(draws[0].depths)))
        return {"scenario": "version-skew", "way": (way,), "late": 0}
    onset = max(_between(rng, draws[0].onset), round(3.0 * warmup + 20.0, 2))
    columns: dict[str, list[Any]] = {name: [] for name in ("onset", "duration", "ramp", "way")}
    depths = []
    for draw in draws:
        seconds = _between(rng, draw.seconds)
        if draw.scenario != "ecc":
            seconds = min(seconds, max(length - 20.0 - onset, 1.0))
            if to_the_end and draw is draws[-1] and len(draws) == 1:
                seconds = max(length - onset, 1.0)
            seconds = round(seconds, 2)
        way = str(rng.choice(list(draw.depths)))
        depth = draw.depths[way]
        slow = rng.random() < draw.ramps
        ramp = min(_between(rng, RAMP), round(seconds / 3.0, 2)) if slow else 0.0
        for name, value in (("onset", onset), ("duration", seconds), ("ramp", ramp), ("way", way)):
            columns[name].append(value)
        depths.append(0.0 if depth is None else _between(rng, depth))
        onset = round(onset + seconds + _between(rng, APART), 2)
    fields: dict[str, Any] = {"scenario": "+".join(draw.scenario for draw in draws)}
    columns["depth"] = depths
    return fields | {name: tuple(column) for name, column in columns.items() if any(column)}


def _draw(rng: np.random.Generator, kind: str) -> _Draw:
    draws = DRAWS[kind]
    return draws[int(rng.integers(len(draws)))]


def _between(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    """A number as short as a person would write it."""
    return float(f"{rng.uniform(*bounds):.4g}")
