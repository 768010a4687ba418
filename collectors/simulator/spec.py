"""What to simulate: `sim:SCENARIO?nodes=16&seed=7&type=trn2.48xlarge&minutes=10`.

SCENARIO is a name, or several joined by `+`. All parameters are optional:

    nodes=16          machines
    seed=7            of everything that is drawn
    type=…            instance type
    minutes=10        length of the stream; endless without it
    runtimes=1        Neuron processes on each node
    job=…             name of the first job

    onset=120         second at which the fault sets in
    duration=150      seconds that it lasts
    depth=0.2         how bad it is, as `effects.py` says for each; 0 is as usual
    ramp=30           seconds in which it grows to that depth
    way=host          in which it comes about, as `effects.py` lists for each
                      of joined scenarios: one value for all, or one for each, with commas

    noise=2           times the usual scatter
    jobs=2            jobs that share the nodes out among them
    stages=4          pipeline stages of each job, unevenly loaded
    told=1            the telemetry names the pipeline stage
    checkpoints=240   seconds between two checkpoints
    saving=3          seconds that a checkpoint takes
    evaluations=200   seconds between two evaluations; 0 is none
    warmup=60         seconds in which the job compiles and gets up to speed
    blips=3           short slownesses that are no incident, in ten minutes
    skew=30           most seconds by which the clocks of some nodes are off
    missing=0.02      share of the readings that get lost
    late=1            nodes that are heard later than the others
    resets=1          reloads of the EFA driver on some node: its counters begin again
    probes=1          latency between nodes is probed; always where it is what goes wrong
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import parse_qsl, quote

from trntop.core.errors import UsageError
from trntop.core.instances import INSTANCE_TYPES
from trntop.core.suggest import unknown

from .effects import TRAITS, Effect
from .scenarios import SCENARIOS, Phase, Scenario

SEED = 7
MAX_NODES = 2000
MAX_MINUTES = 24 * 60
MAX_SECONDS = 60.0 * MAX_MINUTES
MAX_SEED = 2**63 - 1
MAX_WORD = 128

_INTEGER = re.compile(r"\d{1,19}", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)

_BOUNDS: dict[str, tuple[float, float]] = {
    "onset": (0, MAX_SECONDS),
    "duration": (1, MAX_SECONDS),
    "ramp": (0, MAX_SECONDS),
    "noise": (0, 10),
    "checkpoints": (10, MAX_SECONDS),
    "saving": (0.1, 600),
    "evaluations": (0, MAX_SECONDS),
    "warmup": (0, 3600),
    "blips": (0, 100),
    "skew": (0, 3600),
    "missing": (0, 0.9),
}


@dataclass(frozen=True, slots=True)
class Simulation:
    """One simulated training run; the parameters are those of a specification.

    Raises:
        UsageError: a value is unknown or out of range, or does not fit the scenario.
    """

    scenario: str = "healthy"
    nodes: int = 16
    seed: int = SEED
    instance_type: str = "trn2.48xlarge"
    minutes: float | None = None
    """Length of the stream; None is endless."""
    runtimes: int = 1
    """Neuron processes on each node; the cores are shared out among them."""
    job: str = "pretrain-13b"
    onset: tuple[float, ...] = ()
    """As the four that follow: none, one for all phases, or one for each."""
    duration: tuple[float, ...] = ()
    depth: tuple[float, ...] = ()
    ramp: tuple[float, ...] = ()
    way: tuple[str, ...] = ()
    noise: float = 1.0
    jobs: int = 1
    stages: int = 1
    told: int = 0
    checkpoints: float = 240.0
    saving: float = 3.0
    evaluations: float = 0.0
    warmup: float = 0.0
    blips: float = 0.0
    skew: float = 0.0
    missing: float = 0.0
    late: int = 0
    resets: int = 0
    probes: int = 0

    def __post_init__(self) -> None:
        if self.instance_type not in INSTANCE_TYPES:
            raise UsageError(unknown("instance type", self.instance_type, INSTANCE_TYPES))
        row = INSTANCE_TYPES[self.instance_type]
        cores = row.devices * row.chip.cores // row.chip.default_lnc
        _check("nodes", self.nodes, 1, MAX_NODES)
        _check("seed", self.seed, 0, MAX_SEED)
        _check("runtimes", self.runtimes, 1, cores)
        _check("jobs", self.jobs, 1, self.nodes)
        _check("stages", self.stages, 1, max(self.nodes // self.jobs, 1))
        _check("late", self.late, 0, self.nodes - 1)
        _check("resets", self.resets, 0, 1000)
        for name in ("told", "probes"):
            _check(name, getattr(self, name), 0, 1)
        for name, (low, high) in _BOUNDS.items():
            value = getattr(self, name)
            for one in value if isinstance(value, tuple) else (value,):
                _check(name, one, low, high)
        if self.minutes is not None and not 0 < self.minutes <= MAX_MINUTES:
            raise UsageError(
                f"minutes={self.minutes:g} is out of range: more than 0, up to {MAX_MINUTES}"
            )
        if not 0 < len(self.job) <= MAX_WORD or not self.job.isprintable():
            raise UsageError(f"job={self.job!r} is no name of 1 to {MAX_WORD} printable characters")
        if self.play.needs_cards and not row.efa_cards:
            raise UsageError(
                f"scenario {self.scenario!r} needs EFA cards, and {self.instance_type} "
                "has none that are known"
            )

    @property
    def play(self) -> Scenario:
        """The scenario with the parameters in it."""
        names = self.scenario.split("+")
        for name in names:
            if name not in SCENARIOS:
                raise UsageError(unknown("scenario", name, SCENARIOS))
        parts = [SCENARIOS[name] for name in names]
        if len(parts) == 1 and len(parts[0].phases) != 1:
            for name in ("onset", "duration", "depth", "ramp", "way"):
                if getattr(self, name):
                    raise UsageError(f"scenario {self.scenario!r} takes no {name}")
            return parts[0]
        phases = []
        for place, (name, part) in enumerate(zip(names, parts, strict=True)):
            if len(part.phases) != 1:
                raise UsageError(f"scenario {name!r} cannot be joined to others")
            phases.append(self._phase(name, place, len(parts), part.phases[0]))
        return Scenario("; ".join(part.summary for part in parts), tuple(phases))

    def _phase(self, name: str, place: int, count: int, phase: Phase) -> Phase:
        """A phase with the parameters that are given for it."""
        given = {}
        for parameter in ("onset", "duration", "depth", "ramp", "way"):
            values = getattr(self, parameter)
            if len(values) > 1 and len(values) != count:
                raise UsageError(f"{len(values)} values of {parameter} for {count} scenarios")
            if values:
                given[parameter] = values[place if len(values) > 1 else 0]
        trait = TRAITS[phase.effect]
        depth, way = given.get("depth"), given.get("way", "")
        if depth:
            if trait.depth is None:
                raise UsageError(f"scenario {name!r} has no depth")
            if depth > trait.deepest:
                raise UsageError(
                    f"depth={depth:g} is out of range: up to {trait.deepest:g} ({trait.meaning})"
                )
        if way and way not in trait.ways:
            raise UsageError(unknown(f"way of {name}", way, [one for one in trait.ways if one]))
        begin = given.get("onset", phase.begin)
        end = begin + given.get("duration", phase.end - phase.begin)
        return replace(
            phase,
            begin=begin,
            end=end,
            depth=depth or None,
            way=way,
            ramp=given.get("ramp", phase.ramp),
        )

    @property
    def probed(self) -> bool:
        """Whether the latency between nodes is probed."""
        effects = {phase.effect for phase in self.play.phases}
        return bool(self.probes) or Effect.LATENCY_REGRESSION in effects

    @property
    def length(self) -> float:
        """Seconds of the stream."""
        return float("inf") if self.minutes is None else 60.0 * self.minutes

    def __str__(self) -> str:
        """The specification, without what is as usual."""
        usual = {field.name: field.default for field in fields(Simulation)}
        given = [
            f"{name}={_write(getattr(self, field))}"
            for name, (field, _) in _PARAMETERS.items()
            if getattr(self, field) != usual[field]
        ]
        return f"sim:{self.scenario}" + ("?" + "&".join(given) if given else "")


def _write(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_write, value))
    if isinstance(value, float):
        return f"{value:.12g}"
    return quote(str(value))


def _integer(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise UsageError(f"{name}={text} is no whole number")
    return int(text)


def _number(name: str, text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise UsageError(f"{name}={text} is no number")
    return float(text)


def _numbers(name: str, text: str) -> tuple[float, ...]:
    return tuple(_number(name, part) for part in text.split(","))


def _text(name: str, text: str) -> str:
    return text


def _words(name: str, text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


_PARAMETERS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "nodes": ("nodes", _integer),
    "seed": ("seed", _integer),
    "type": ("instance_type", _text),
    "minutes": ("minutes", _number),
    "runtimes": ("runtimes", _integer),
    "job": ("job", _text),
    "onset": ("onset", _numbers),
    "duration": ("duration", _numbers),
    "depth": ("depth", _numbers),
    "ramp": ("ramp", _numbers),
    "way": ("way", _words),
    "noise": ("noise", _number),
    "jobs": ("jobs", _integer),
    "stages": ("stages", _integer),
    "told": ("told", _integer),
    "checkpoints": ("checkpoints", _number),
    "saving": ("saving", _number),
    "evaluations": ("evaluations", _number),
    "warmup": ("warmup", _number),
    "blips": ("blips", _number),
    "skew": ("skew", _number),
    "missing": ("missing", _number),
    "late": ("late", _integer),
    "resets": ("resets", _integer),
    "probes": ("probes", _integer),
}
"""Name in a specification → field, and how its value is read."""


def parse(text: str) -> Simulation:
    """Reads `sim:SCENARIO?name=value&…`; the scenario and every parameter may be left out.

    Raises:
        UsageError: a word is unknown, a value malformed, out of range or unfit for the scenario.
    """
    scenario, _, query = text.removeprefix("sim:").partition("?")
    given: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _PARAMETERS:
            raise UsageError(unknown("parameter", name, _PARAMETERS))
        field, convert = _PARAMETERS[name]
        if field in given:
            raise UsageError(f"parameter {name!r} is given twice")
        given[field] = convert(name, value)
    if scenario:
        given["scenario"] = scenario
    return Simulation(**given)


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise UsageError(f"{name}={_write(value)} is out of range: {_write(low)} to {_write(high)}")
