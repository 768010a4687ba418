"""Specification of a simulation: `sim:SCENARIO?nodes=16&seed=7&type=trn2.48xlarge&minutes=10`.

SCENARIO is a name, or several joined by `+`. All parameters are optional:

    nodes=16          machines
    seed=7            of all random values
    type=…            instance type
    minutes=10        length of the stream; endless without it
    runtimes=1        Neuron processes per node
    job=…             name of the first job

    onset=120         second at which the fault starts
    duration=150      seconds that it lasts
    depth=0.2         its severity, see `effects.py`; 0 is the default
    ramp=30           seconds in which it grows to that depth
    way=host          its variant, see `effects.py`
                      of joined scenarios: one value for all, or one for each, with commas

    noise=2           times the default noise
    jobs=2            jobs that share the nodes
    stages=4          pipeline stages of each job, with different loads
    report_stage=1    the telemetry has the pipeline stage
    checkpoints=240   seconds between two checkpoints
    saving=3          seconds that a checkpoint takes
    evaluations=200   seconds between two evaluations; 0 is none
    warmup=60         seconds of compilation and slow steps at the start
    blips=3           short slowdowns that are no incident, in ten minutes
    skew=30           largest clock offset of some nodes, seconds
    missing=0.02      share of the readings that get lost
    late=1            nodes that start later than the others
    resets=1          reloads of the EFA driver on some node: its counters restart
    probes=1          probe latency between nodes; always for demo and latency scenarios
"""

import dataclasses
import re
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote

import msgspec
from msgspec import Meta

from trntop.core.errors import UsageError
from trntop.core.instances import INSTANCE_TYPES
from trntop.core.suggest import unknown
from trntop.core.text import clean

from .effects import TRAITS, Effect
from .scenarios import SCENARIOS, Phase, Scenario

MAX_MINUTES = 24 * 60
MAX_SECONDS = 60.0 * MAX_MINUTES

Switch = Annotated[int, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
Depth = Annotated[float, Meta(ge=0)]
Word = Annotated[str, Meta(min_length=1, max_length=128)]
_OF_PHASES = ("onset", "duration", "depth", "ramp", "way")
"""Parameters with one value per scenario."""
_PLACE = re.compile(r"(.*) - at `\$\.(\w+)")


class Simulation(msgspec.Struct, frozen=True):
    """One simulated training run.

    Raises:
        UsageError: the parameters do not fit together.
    """

    scenario: str = "healthy"
    nodes: Annotated[int, Meta(ge=1, le=2000)] = 16
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 7
    instance_type: str = msgspec.field(default="trn2.48xlarge", name="type")
    minutes: Annotated[float, Meta(gt=0, le=MAX_MINUTES)] | None = None
    runtimes: Annotated[int, Meta(ge=1)] = 1
    job: Word = "pretrain-13b"
    onset: tuple[Seconds, ...] = ()
    duration: tuple[Annotated[float, Meta(ge=1, le=MAX_SECONDS)], ...] = ()
    depth: tuple[Depth, ...] = ()
    ramp: tuple[Seconds, ...] = ()
    way: tuple[str, ...] = ()
    noise: Annotated[float, Meta(ge=0, le=10)] = 1.0
    jobs: Annotated[int, Meta(ge=1)] = 1
    stages: Annotated[int, Meta(ge=1)] = 1
    report_stage: Switch = 0
    checkpoints: Annotated[float, Meta(ge=10, le=MAX_SECONDS)] = 240.0
    saving: Annotated[float, Meta(ge=0.1, le=600)] = 3.0
    evaluations: Seconds = 0.0
    warmup: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    blips: Annotated[float, Meta(ge=0, le=100)] = 0.0
    skew: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    missing: Annotated[float, Meta(ge=0, le=0.9)] = 0.0
    late: Annotated[int, Meta(ge=0)] = 0
    resets: Annotated[int, Meta(ge=0, le=1000)] = 0
    probes: Switch = 0

    def __post_init__(self) -> None:
        if self.instance_type not in INSTANCE_TYPES:
            raise UsageError(unknown("instance type", self.instance_type, INSTANCE_TYPES))
        row = INSTANCE_TYPES[self.instance_type]
        for name, most in (
            ("runtimes", row.devices * row.chip.cores // row.chip.default_lnc),
            ("jobs", self.nodes),
            ("stages", max(self.nodes // self.jobs, 1)),
            ("late", self.nodes - 1),
        ):
            if getattr(self, name) > most:
                raise UsageError(f"{name}={getattr(self, name)} is not valid: at most {most}")
        if not self.job.isprintable():
            raise UsageError(f"job={self.job!r} has characters that are not printable")
        if self.play.needs_efa and not row.efa_devices:
            raise UsageError(
                f"scenario {self.scenario!r} needs EFA devices, {self.instance_type} has none"
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
            for name in _OF_PHASES:
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
        for parameter in _OF_PHASES:
            values = getattr(self, parameter)
            if len(values) > 1 and len(values) != count:
                raise UsageError(f"{len(values)} values of {parameter} for {count} scenarios")
            if values:
                given[parameter] = values[place if len(values) > 1 else 0]
        trait = TRAITS[phase.effect]
        depth, variant = given.get("depth"), given.get("way", "")
        if depth:
            if trait.depth is None:
                raise UsageError(f"scenario {name!r} has no depth")
            if depth > trait.deepest:
                raise UsageError(
                    f"depth={depth:g} is out of range: up to {trait.deepest:g} ({trait.meaning})"
                )
        if variant and variant not in trait.variants:
            raise UsageError(unknown(f"way of {name}", variant, list(filter(None, trait.variants))))
        begin = given.get("onset", phase.begin)
        end = begin + given.get("duration", phase.end - phase.begin)
        return dataclasses.replace(
            phase,
            begin=begin,
            end=end,
            depth=depth or None,
            variant=variant,
            ramp=given.get("ramp", phase.ramp),
        )

    @property
    def probed(self) -> bool:
        """Whether the latency between nodes is probed."""
        effects = {phase.effect for phase in self.play.phases}
        return bool(self.probes) or self.play.probes or Effect.LATENCY_REGRESSION in effects

    @property
    def length(self) -> float:
        """Seconds of the stream."""
        return float("inf") if self.minutes is None else 60.0 * self.minutes

    def __str__(self) -> str:
        """The specification, without defaults."""
        given = [
            f"{field.encode_name}={_written(getattr(self, field.name))}"
            for field in msgspec.structs.fields(Simulation)[1:]
            if getattr(self, field.name) != field.default
        ]
        return f"sim:{self.scenario}" + ("?" + "&".join(given) if given else "")


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_written, value))
    return f"{value:.12g}" if isinstance(value, float) else quote(str(value))


PARAMETERS = tuple(field.encode_name for field in msgspec.structs.fields(Simulation)[1:])


def parse(text: str) -> Simulation:
    """The simulation of `sim:SCENARIO?name=value&…`.

    Raises:
        UsageError: a parameter is unknown or not valid.
    """
    scenario, _, query = text.removeprefix("sim:").partition("?")
    given: dict[str, Any] = {"scenario": scenario} if scenario else {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in PARAMETERS:
            raise UsageError(unknown("parameter", name, PARAMETERS))
        if name in given:
            raise UsageError(f"parameter {name!r} is given twice")
        given[name] = value.split(",") if name in _OF_PHASES else value
    try:
        return msgspec.convert(given, Simulation, strict=False)
    except msgspec.ValidationError as error:
        place = _PLACE.match(str(error))
        assert place is not None
        value = given[place[2]]
        shown = clean(",".join(value) if isinstance(value, list) else value)
        why = place[1].replace("`", "").lower()
        raise UsageError(f"{place[2]}={shown} is not valid: {why}") from None
