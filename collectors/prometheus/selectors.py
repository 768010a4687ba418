"""Selectors of series, in PromQL: with the user's matchers in each, and foreign text quoted."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

# Only what has a meaning in a regular expression: with anything else escaped, Prometheus no longer
# sees that it is a list of words, and compares each series with it.
_SPECIAL = re.compile(r"([.+*?()|\[\]{}^$\\])")


def quoted(text: str) -> str:
    """A text as a literal of PromQL."""
    inside = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{inside}"'


def one_of(label: str, values: Iterable[str]) -> str:
    """The matcher of a label that has one of these values.

    Raises:
        ValueError: there is none; in PromQL that would be all series without the label.
    """
    words = [_SPECIAL.sub(_escaped, value) for value in values]
    if not any(words):
        raise ValueError(f"no value of {label} is asked for")
    return f"{label}=~{quoted('|'.join(words))}"


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[1]}"


@dataclass(frozen=True, slots=True)
class Scope:
    """The series that the user chose.

    Args:
        match: label matchers, joined by commas; none for all.
    """

    match: str = ""

    def of(self, name: str, *matchers: str) -> str:
        """The selector of one metric."""
        inside = ",".join(filter(None, (self.match, *matchers)))
        return f"{name}{{{inside}}}" if inside else name

    def named(self, names: Iterable[str], *matchers: str) -> str:
        """The selector of several metrics at once."""
        return self.of("", one_of("__name__", sorted(names)), *matchers)

    def like(self, pattern: str, *matchers: str) -> str:
        """The selector of the metrics whose names match a regular expression."""
        return self.of("", f"__name__=~{quoted(pattern)}", *matchers)
