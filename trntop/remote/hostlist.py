"""Host lists as Slurm and ClusterShell write them: `trn-[001-016,020]`.

A list is names and patterns, separated by commas or blanks. A pattern has numbers and ranges in
one or more brackets (`rack[1-4]-node[01-16]`); leading zeros set the width of a number, and `/2`
after a range selects every second number, as in ClusterShell. Formats:
"Host lists" in Slurm's manual of scontrol (show hostnames) and ClusterShell's NodeSet.
"""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trntop.core.errors import UsageError
from trntop.core.text import clean

MAX_HOSTS = 100_000
"""Limit of hosts in one list: three times the largest cluster."""
MAX_BYTES = 4 << 20
"""Limit of the size of a list."""
MAX_NAME = 253
"""Longest host name (RFC 1035)."""

_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_PATTERN = re.compile(r"(?:[^\s,\[\]]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?:/(\d{1,9}))?)?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """One range in brackets, both ends included."""

    first: int
    last: int
    step: int
    width: int
    """Least digits of each number, filled with zeros."""

    def __len__(self) -> int:
        return (self.last - self.first) // self.step + 1

    def __iter__(self) -> Iterator[str]:
        for number in range(self.first, self.last + 1, self.step):
            yield f"{number:0{self.width}d}"


def expand_all(texts: Iterable[str]) -> tuple[str, ...]:
    """The hosts of several lists, each once, in the order of the texts.

    Raises:
        UsageError: one cannot be read, or all of them would be more than `MAX_HOSTS`.
    """
    hosts: dict[str, None] = {}
    left = MAX_HOSTS
    for text in texts:
        for pattern in _patterns(text):
            pieces = _pieces(pattern)
            # Counted before expansion: `[0-999999999]` is a typo.
            left -= math.prod(
                sum(map(len, piece)) for piece in pieces if not isinstance(piece, str)
            )
            if left < 0:
                raise UsageError(f"{clean(pattern, 80)} has more than {MAX_HOSTS:,} hosts")
            for name in _names(pieces):
                if len(name) > MAX_NAME or not _NAME.fullmatch(name):
                    raise UsageError(f"{clean(name, 80)} is not a valid host name")
                hosts[name] = None
    return tuple(hosts)


def _patterns(text: str) -> list[str]:
    """The parts between commas and blanks outside brackets."""
    if len(text) > MAX_BYTES:
        raise UsageError(f"the host list is larger than {MAX_BYTES >> 20} MiB")
    if set("[]").intersection(_BRACKETS.sub("", text)):
        raise UsageError(f"unbalanced bracket in {clean(text.strip(), 80)}")
    return _PATTERN.findall(text)


def _pieces(pattern: str) -> list[str | Sequence[_Numbers]]:
    """Plain text and the ranges of brackets, in turn."""
    pieces: list[str | Sequence[_Numbers]] = []
    for index, piece in enumerate(re.split(r"\[(.*?)\]", pattern)):
        if index % 2:
            pieces.append([_numbers(item, pattern) for item in piece.split(",")])
        elif piece:
            pieces.append(piece)
    return pieces


def _numbers(text: str, pattern: str) -> _Numbers:
    if not text.strip():
        raise UsageError(f"empty range in {clean(pattern, 80)}")
    shown = f"{clean(text.strip(), 40)} in {clean(pattern, 80)}"
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{shown} is not a number or a range such as 001-016")
    first, last, step = match[1], match[2] or match[1], int(match[3] or 1)
    if int(last) < int(first):
        raise UsageError(f"{shown} ends before it starts")
    if step < 1:
        raise UsageError(f"{shown} has step 0; use at least 1")
    if last.startswith("0") and len(last) > len(first):
        raise UsageError(f"{shown}: pad the first number with zeros too")
    return _Numbers(int(first), int(last), step, len(first) if first.startswith("0") else 0)


def _names(pieces: Sequence[str | Sequence[_Numbers]]) -> Iterator[str]:
    """Every combination; the last bracket counts fastest."""
    choices = [
        [piece] if isinstance(piece, str) else list(itertools.chain.from_iterable(piece))
        for piece in pieces
    ]
    return map("".join, itertools.product(*choices))
