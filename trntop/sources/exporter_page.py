"""Pages of metrics in the text format of Prometheus, as other exporters write them.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4: a series a
line, `name{label="value",…} number [timestamp]`. prometheus_client's parser needs 15 ms for the
1,700 series of a node; this one reads only the families that are asked for, and each set of labels
once.

Two scales of shares are in the field under one name: from 0 to 1, and from 0 to 100. A family
with a value above 1.5 is in percent; as an idle node shows no such value, whoever polls the page
remembers that in a comment, `# trntop percent NAME…`, above the page.
"""

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trntop.core.errors import DecodeError
from trntop.core.text import clean
from trntop.sources.columns import Layout, Range, Values

MAX_BYTES = 16 << 20
"""Longest page that is read."""
MAX_PROBLEMS = 16
PERCENT_ABOVE = 1.5
"""A share above this is in percent, whatever its name is."""
RATIO = Range(limit=1.05, cap=1.0)
"""A share from 0 to 1."""
NOTE = "# trntop percent "
MAX_INDEX = 4097

_INDICES = {str(index): index for index in range(MAX_INDEX)}

_LABEL = r'([A-Za-z_][A-Za-z0-9_]*+)="((?:[^"\\]++|\\.)*+)"(?:,|\Z)'
_ONE = re.compile(_LABEL, re.DOTALL)
_ALL = re.compile(f"(?:{_LABEL})*+", re.DOTALL)
_PERHAPS = re.compile(rb"_ratio(?:\{[^\n]*\})? +\+?(?:1\.[5-9]|[2-9]|\d\d)")
"""The form of a share in percent; a hundred times quicker than reading the page."""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Series(NamedTuple):
    """One line: its labels and its value, which may be NaN."""

    labels: dict[str, str]
    value: float


@dataclass(frozen=True)
class Page:
    """The families of a page that were asked for."""

    families: dict[str, list[Series]]
    percent: frozenset[str]
    """Families of shares that are in percent."""
    problems: tuple[str, ...]

    def of(self, name: str) -> list[Series]:
        """The series of a family; none if it is not there."""
        return self.families.get(name, [])

    def ratio(self, name: str) -> float:
        """What a share of a family is multiplied with to be from 0 to 1."""
        return 0.01 if name in self.percent else 1.0


def read(data: bytes, names: Collection[str]) -> Page:
    """The families of these names.

    Raises:
        DecodeError: the page is longer than `MAX_BYTES`.
    """
    if len(data) > MAX_BYTES:
        raise DecodeError(f"a page of more than {MAX_BYTES >> 20} MiB")
    families: dict[str, list[Series]] = {}
    percent: set[str] = set()
    problems: list[str] = []
    known: dict[str, dict[str, str] | None] = {"": {}}
    for line in data.decode(errors="replace").split("\n"):
        if line.startswith("#"):
            if line.startswith(NOTE):
                percent.update(line[len(NOTE) :].split())
            continue
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
    noted = frozenset(percent)
    for name, series in families.items():
        if name.endswith("_ratio") and name not in percent and _is_percent(series):
            percent.add(name)
            problems.append(f"{name} is in percent on this page, read as such")
    return Page(families, noted | percent, tuple(problems))


def percents(data: bytes, names: Collection[str]) -> frozenset[str]:
    """The families of shares, of these names, that are visibly in percent."""
    if not _PERHAPS.search(data):
        return frozenset()
    return read(data, [name for name in names if name.endswith("_ratio")]).percent


def _is_percent(series: list[Series]) -> bool:
    return any(PERCENT_ABOVE < one.value < math.inf for one in series)


def _labels(text: str) -> dict[str, str] | None:
    """The labels between the braces; None if that is not what is there."""
    if not _ALL.fullmatch(text):
        return None
    pairs = _ONE.findall(text)
    if "\\" in text:
        return {name: _ESCAPE.sub(_unescaped, value) for name, value in pairs}
    return dict(pairs)


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def _number(text: str) -> float | None:
    """The first number of the rest of a line, which a timestamp may follow."""
    words = text.split(None, 2)
    if not words or "_" in words[0]:  # Python reads 1_000, the format does not know it
        return None
    try:
        return float(words[0])
    except ValueError:
        return None


def index_of(labels: dict[str, str], label: str, limit: int) -> int | None:
    """The number in a label, if it is below `limit`, which is at most `MAX_INDEX`."""
    index = _INDICES.get(labels.get(label, ""), limit)
    return index if index < limit else None


def indexed(series: list[Series], label: str, limit: int) -> Iterator[tuple[int, Series]]:
    """The series that have an index below `limit` in a label, and which."""
    for one in series:
        index = _INDICES.get(one.labels.get(label, ""), limit)
        if index < limit:
            yield index, one


def within(values: Values, bounds: Range) -> Values:
    """Values, with NaN in place of those that are damaged."""
    return Layout((("value",), bounds)).within(np.asarray(values, np.float64)[:, None])[:, 0]
