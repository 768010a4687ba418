"""What may come next in a filter that is being typed."""

import re
from collections.abc import Iterable, Sequence

from trntop.catalog import CATALOG

from . import fields

ENOUGH = 3
"""Characters after which the catalog's long names are offered too."""

_VALUE = re.compile(r"(\w+)\s*!?=\s*([\w-]*)$")
_NAME = re.compile(r"(?:^|[\s&|(!])([\w]*)$")


def candidates(text: str) -> tuple[str, Sequence[str]]:
    """The word at the end of `text`, and what it may become."""
    value = _VALUE.search(text)
    if value is not None:
        words = fields.WORDS.get(value[1])
        known = [word.replace(" ", "-") for word in (words.known or words.usual)] if words else ()
        return value[2], _beginning(known, value[2])
    name = _NAME.search(text)
    if name is None:
        return "", ()
    typed = name[1]
    found = _beginning(fields.NAMES, typed)
    if len(typed) >= ENOUGH:
        found += _beginning(CATALOG, typed)
    return typed, found


def complete(text: str) -> str | None:
    """`text` with its last word completed; None where nothing fits, or it has not begun."""
    typed, found = candidates(text)
    return text + found[0][len(typed) :] if typed and found else None


def _beginning(words: Iterable[str], typed: str) -> list[str]:
    start = typed.lower()
    return [word for word in words if word.startswith(start) and word != start]
