"""What to simulate: `sim:SCENARIO?nodes=16&seed=7&type=trn2.48xlarge&minutes=10`."""

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from trntop.errors import UsageError
from trntop.instances import INSTANCE_TYPES

from .scenarios import SCENARIOS

MAX_NODES = 2000
MAX_MINUTES = 24 * 60
MAX_SEED = 2**63 - 1
MAX_WORD = 128

_INTEGER = re.compile(r"\d{1,19}", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Simulation:
    """One simulated training run.

    Raises:
        UsageError: a value is unknown or out of range.
    """

    scenario: str = "healthy"
    nodes: int = 16
    seed: int = 7
    instance_type: str = "trn2.48xlarge"
    minutes: float | None = None
    """Length of the stream; None is endless."""
    runtimes: int = 1
    """Neuron processes on each node; the cores are shared out among them."""
    job: str = "pretrain-13b"

    def __post_init__(self) -> None:
        if self.scenario not in SCENARIOS:
            raise _unknown("scenario", self.scenario, SCENARIOS)
        if self.instance_type not in INSTANCE_TYPES:
            raise _unknown("instance type", self.instance_type, INSTANCE_TYPES)
        row = INSTANCE_TYPES[self.instance_type]
        cores = row.devices * row.chip.cores // row.chip.default_lnc
        _check("nodes", self.nodes, 1, MAX_NODES)
        _check("seed", self.seed, 0, MAX_SEED)
        _check("runtimes", self.runtimes, 1, cores)
        if self.minutes is not None and not 0 < self.minutes <= MAX_MINUTES:
            raise UsageError(
                f"minutes={self.minutes:g} is out of range: more than 0, up to {MAX_MINUTES}"
            )
        if not 0 < len(self.job) <= MAX_WORD or not self.job.isprintable():
            raise UsageError(f"job={self.job!r} is no name of 1 to {MAX_WORD} printable characters")
        if SCENARIOS[self.scenario].needs_cards and not row.efa_cards:
            raise UsageError(
                f"scenario {self.scenario!r} needs EFA cards, and {self.instance_type} "
                "has none that are known"
            )


def _integer(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise UsageError(f"{name}={text} is no whole number")
    return int(text)


def _number(name: str, text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise UsageError(f"{name}={text} is no number")
    return float(text)


def _text(name: str, text: str) -> str:
    return text


_PARAMETERS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "nodes": ("nodes", _integer),
    "seed": ("seed", _integer),
    "type": ("instance_type", _text),
    "minutes": ("minutes", _number),
    "runtimes": ("runtimes", _integer),
    "job": ("job", _text),
}
"""Name in a specification → field, and how its value is read."""


def parse(text: str) -> Simulation:
    """Reads `sim:SCENARIO?name=value&…`; the scenario and every parameter may be left out.

    Raises:
        UsageError: a word is unknown, a value malformed or out of range.
    """
    scenario, _, query = text.removeprefix("sim:").partition("?")
    fields: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _PARAMETERS:
            raise _unknown("parameter", name, _PARAMETERS)
        field, convert = _PARAMETERS[name]
        if field in fields:
            raise UsageError(f"parameter {name!r} is given twice")
        fields[field] = convert(name, value)
    if scenario:
        fields["scenario"] = scenario
    return Simulation(**fields)


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise UsageError(f"{name}={value} is out of range: {low} to {high}")


def _unknown(what: str, word: str, known: Iterable[str]) -> UsageError:
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.0)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UsageError(f"unknown {what} {word[:MAX_WORD]!r}; {hint}known: {', '.join(names)}")
