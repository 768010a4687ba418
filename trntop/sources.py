"""The SOURCE argument: what a user may name, and what it means."""

import os
import re
import stat
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from trntop.errors import UsageError
from trntop.text import clean


class Origin(Enum):
    """The kind of a source."""

    LOCAL = auto()
    """neuron-monitor on this machine."""
    STDIN = auto()
    """neuron-monitor's output on standard input."""
    RECORDING = auto()
    SIMULATION = auto()


@dataclass(frozen=True, slots=True)
class Source:
    """One source as the user named it."""

    origin: Origin
    text: str

    @property
    def stream(self) -> bool:
        """Whether it brings its own time (a recording or a simulation)."""
        return self.origin in (Origin.RECORDING, Origin.SIMULATION)


KNOWN = "a source is local, - (standard input), a recording's file, or sim:SCENARIO"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)


def parse(text: str) -> Source:
    """One SOURCE argument.

    Raises:
        UsageError: it names nothing that exists.
    """
    if text == "local":
        return Source(Origin.LOCAL, text)
    if text == "-":
        # A redirected file is a recording like any other: nothing of it may be dropped.
        if stat.S_ISREG(os.fstat(0).st_mode):
            return Source(Origin.RECORDING, "/dev/stdin")
        return Source(Origin.STDIN, text)
    if text.startswith("sim:"):
        return Source(Origin.SIMULATION, text)
    if "\0" in text:
        raise UsageError(f"a NUL byte in the source's name; {KNOWN}")
    if Path(text).exists():
        return Source(Origin.RECORDING, text)
    if scheme := _SCHEME.match(text):
        raise UsageError(f"{clean(scheme[1])}: is no source trntop knows; {KNOWN}")
    raise UsageError(f"{clean(text)}: no such file; {KNOWN}")


def parse_all(texts: list[str]) -> list[Source]:
    """All SOURCE arguments; none means this machine.

    Raises:
        UsageError: one of them is unknown, or live sources are mixed with streams, whose times
            differ.
    """
    sources = [parse(text) for text in texts] or [Source(Origin.LOCAL, "local")]
    if len({source.stream for source in sources}) > 1:
        raise UsageError(
            "live sources and recordings keep different times: show one kind at a time"
        )
    names = [
        str(Path(source.text).resolve()) if source.origin is Origin.RECORDING else source.text
        for source in sources
    ]
    if len(set(names)) < len(names):
        raise UsageError("a source is named twice")
    if not sources[0].stream and len(sources) > 1:
        raise UsageError("local and - are both this machine: name one of them")
    return sources
