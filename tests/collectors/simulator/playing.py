"""A simulation as a list of parsed payloads."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from trntop.collectors.simulator import Truth, parse, simulate, truth

START = 1_763_640_000.0


class Event(NamedTuple):
    second: float
    node: str
    source: str
    data: Any


def play(spec: str, source: str = "", begin: float = 0.0, end: float = 1e9) -> list[Event]:
    """Readings of `source` (of all without) from second `begin` up to `end`."""

    def events() -> Iterator[Event]:
        for reading in simulate(parse(spec), START):
            second = reading.time - START
            if second >= end:
                return
            if second >= begin and source in ("", reading.source):
                yield Event(second, reading.node, reading.source, json.loads(reading.data))

    return list(events())


def steps(events: list[Event]) -> list[Event]:
    """The records of finished steps among `events`."""
    return [event for event in events if event.source == "steps" and "step" in event.data]


def notes(events: list[Event]) -> list[Event]:
    """The announcements of a stage among `events`."""
    return [event for event in events if event.source == "steps" and "stage" in event.data]


def scripted(spec: str) -> tuple[Truth, ...]:
    """The truth about a simulation from START on."""
    return truth(parse(spec), START)
