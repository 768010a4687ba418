"""Writes plain values as YAML that people read: expressions as blocks, in the order given."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

Value = str | int | float | Mapping[str, "Value"] | Sequence["Value"]

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*")
_RESERVED = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""Words that YAML 1.1 reads as something else than text."""


def yaml_text(value: Mapping[str, Value]) -> str:
    """A document; its strings hold no control characters but newlines."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Value, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _entry(f"{indent}{_scalar(key)}:", one, indent)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for one in value:
            if isinstance(one, Mapping) and one:
                first, *rest = _lines(one, f"{indent}  ")
                yield f"{indent}- {first.lstrip()}"
                yield from rest
            else:
                yield from _entry(f"{indent}-", one, indent)


def _entry(head: str, value: Value, indent: str) -> Iterator[str]:
    """What follows `head`: on its line, or below it."""
    if isinstance(value, str):
        if "\n" in value or '"' in value:
            yield f"{head} |-"
            yield from (f"{indent}  {line}".rstrip() for line in value.split("\n"))
        else:
            yield f"{head} {_scalar(value)}"
    elif isinstance(value, int | float):
        yield f"{head} {json.dumps(value)}"
    elif value:
        yield head
        yield from _lines(value, f"{indent}  ")
    else:
        yield f"{head} {'{}' if isinstance(value, Mapping) else '[]'}"


def _scalar(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return json.dumps(text, ensure_ascii=False)
