"""Host lists as Slurm and ClusterShell write them: `trn-[001-016,020]`.

A list is names and patterns, parted by commas or blanks. A pattern holds numbers and ranges in
brackets, several brackets if need be (`rack[1-4]-node[01-16]`); zeros before a number stand for
its width, and `/2` behind a range takes every second number, as ClusterShell has it. Formats:
"Host lists" in Slurm's manual of scontrol (show hostnames) and ClusterShell's NodeSet.
"""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trntop.errors import UsageError
from trntop.text import clean

MAX_HOSTS = 100_000
"""Most hosts of one list: three times the largest cluster, and far from what eats the memory."""
MAX_BYTES = 4 << 20
"""Longest text that is taken for a list."""
MAX_NAME = 253
"""Longest name of a host (RFC 1035)."""

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
            # Counted before it is done: `[0-999999999]` is a slip of the finger.
            left -= math.prod(
                sum(map(len, piece)) for piece in pieces if not isinstance(piece, str)
            )
            if left < 0:
                raise UsageError(f"{clean(pattern, 80)}: more than {MAX_HOSTS:,} hosts")
            for name in _names(pieces):
                if len(name) > MAX_NAME or not _NAME.fullmatch(name):
                    raise UsageError(f"{clean(name, 80)}: no name of a host")
                hosts[name] = None
    return tuple(hosts)


def _patterns(text: str) -> list[str]:
    """The parts between commas and blanks outside brackets."""
    if len(text) > MAX_BYTES:
        raise UsageError(f"a host list has at most {MAX_BYTES >> 20} MiB")
    if set("[]").intersection(_BRACKETS.sub("", text)):
        raise UsageError(f"{clean(text.strip(), 80)}: a bracket without its other half")
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
    shown = f"{clean(text.strip(), 40)} in {clean(pattern, 80)}"
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{shown}: no number and no range such as 001-016")
    first, last, step = match[1], match[2] or match[1], int(match[3] or 1)
    if int(last) < int(first):
        raise UsageError(f"{shown}: ends before it begins")
    if step < 1:
        raise UsageError(f"{shown}: a step is at least 1")
    if last.startswith("0") and len(last) > len(first):
        raise UsageError(f"{shown}: write the zeros before its first number too")
    return _Numbers(int(first), int(last), step, len(first) if first.startswith("0") else 0)


def _names(pieces: Sequence[str | Sequence[_Numbers]]) -> Iterator[str]:
    """Every combination; the last bracket counts fastest."""
    choices = [
        [piece] if isinstance(piece, str) else list(itertools.chain.from_iterable(piece))
        for piece in pieces
    ]
    return map("".join, itertools.product(*choices))
