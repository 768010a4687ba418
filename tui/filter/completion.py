"""Completes the last word of a filter."""

import re
from collections.abc import Iterable, Sequence

from trntop.catalog import CATALOG

from . import fields

MIN_CATALOG_PREFIX = 3
"""Characters from which the long names of the catalog are offered too."""

_VALUE = re.compile(r"(\w+)\s*!?=\s*([\w-]*)$")
_NAME = re.compile(r"(?:^|[\s&|!])([\w]*)$")


def candidates(text: str) -> tuple[str, Sequence[str]]:
    """The last word of `text`, and its completions."""
    value = _VALUE.search(text)
    if value is not None:
        field = fields.TEXTS.get(value[1])
        choices = (field.choices or field.suggestions) if field else ()
        return value[2], _starting([choice.replace(" ", "-") for choice in choices], value[2])
    name = _NAME.search(text)
    if name is None:
        return "", ()
    typed = name[1]
    found = _starting(fields.NAMES, typed)
    if len(typed) >= MIN_CATALOG_PREFIX:
        found += _starting(CATALOG, typed)
    return typed, found


def complete(text: str) -> str | None:
    """`text` with its last word completed; None without a completion."""
    typed, found = candidates(text)
    return text + found[0][len(typed) :] if typed and found else None


def _starting(words: Iterable[str], typed: str) -> list[str]:
    start = typed.lower()
    return [word for word in words if word.startswith(start) and word != start]
