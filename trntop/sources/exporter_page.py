"""Pages of metrics in the text format of Prometheus, as other exporters write them.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4: one series per
line, `name{label="value",…} number [timestamp]`. prometheus_client's parser needs 15 ms for the
1,700 series of a node; this one parses only the requested families, and each set of
labels once.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trntop.core.errors import DecodeError
from trntop.core.text import clean
from trntop.sources.columns import INDICES, Layout, Range, Values

MAX_BYTES = 16 << 20
"""Maximum size of a page."""
MAX_PROBLEMS = 16

_LABEL = r'([A-Za-z_][A-Za-z0-9_]*+)="((?:[^"\\]++|\\.)*+)"(?:,|\Z)'
_LABEL_PAIR = re.compile(_LABEL, re.DOTALL)
_LABEL_SET = re.compile(f"(?:{_LABEL})*+", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Series(NamedTuple):
    """One line: its labels and its value, which may be NaN."""

    labels: dict[str, str]
    value: float


@dataclass(frozen=True)
class Page:
    """The requested families of a page."""

    families: dict[str, list[Series]]
    problems: tuple[str, ...]

    def of(self, name: str) -> list[Series]:
        """The series of a family; empty if the page does not have it."""
        return self.families.get(name, [])


def read(data: bytes, names: Collection[str]) -> Page:
    """The families with these names.

    Raises:
        DecodeError: the page is longer than `MAX_BYTES`.
    """
    if len(data) > MAX_BYTES:
        raise DecodeError(f"a page of more than {MAX_BYTES >> 20} MiB")
    families: dict[str, list[Series]] = {}
    problems: list[str] = []
    known: dict[str, dict[str, str] | None] = {"": {}}
    for line in data.decode(errors="replace").split("\n"):
        name, brace, rest = line.partition("{")
        text = ""
        if brace:
            if name not in names:
                continue
            text, _, rest = rest.rpartition("}")
        else:
            name, _, rest = line.partition(" ")
            if name not in names:
                continue
        if text not in known:
            known[text] = _labels(text)
        labels, value = known[text], _number(rest)
        if labels is None or value is None:
            if len(problems) < MAX_PROBLEMS:
                problems.append(f"cannot read: {clean(line, 80)}")
            continue
        families.setdefault(name, []).append(Series(labels, value))
    return Page(families, tuple(problems))


def _labels(text: str) -> dict[str, str] | None:
    """The labels between the braces; None if they are not valid."""
    if not _LABEL_SET.fullmatch(text):
        return None
    pairs = _LABEL_PAIR.findall(text)
    if "\\" in text:
        return {name: _ESCAPE.sub(_unescaped, value) for name, value in pairs}
    return dict(pairs)


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def _number(text: str) -> float | None:
    """The value at the end of a line; a timestamp may follow it."""
    words = text.split(None, 2)
    if not words or "_" in words[0]:  # float() accepts 1_000, the format does not
        return None
    try:
        return float(words[0])
    except ValueError:
        return None


def index_of(labels: dict[str, str], label: str, limit: int) -> int | None:
    """The number in a label, if it is below `limit`, which is at most `MAX_INDEX`."""
    index = INDICES.get(labels.get(label, ""), limit)
    return index if index < limit else None


def indexed(series: list[Series], label: str, limit: int) -> Iterator[tuple[int, Series]]:
    """The series with an index below `limit` in a label, each after its index."""
    for row in series:
        index = INDICES.get(row.labels.get(label, ""), limit)
        if index < limit:
            yield index, row


def within(values: Values, bounds: Range) -> Values:
    """Values, with NaN for those out of range."""
    return Layout((("value",), bounds)).within(np.asarray(values, np.float64)[:, None])[:, 0]
