"""JSON texts with slots.

A payload has hundreds of numbers and a fixed frame around them. The frame is written once, as
the Python value it is, with a `slot` for each number; filling it is a single formatting
operation, some ten times faster than `json.dumps`.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

_MARK = "\x00"
_SLOT = re.compile(r'"\\u0000%(%[^"]*)"')
_INSET = "\x01"


def slot(form: str = "%d") -> str:
    """A place for a number, in printf style, or for a finished piece of JSON (`%s`)."""
    return _MARK + form


def inset(form: str = "%s") -> str:
    """A place within a JSON string, for text that needs no escaping."""
    return _INSET + form


class Template:
    """A JSON value whose slots are filled in the order in which they stand."""

    def __init__(self, tree: Any) -> None:
        text = dumps(tree).replace("%", "%%")
        self._text = _SLOT.sub(r"\1", text).replace("\\u0001%", "")

    def fill(self, values: Iterable[Any]) -> str:
        """The text with `values` in its slots."""
        return self._text % tuple(values)


def dumps(tree: Any) -> str:
    """`tree` as neuron-monitor writes JSON, without blanks."""
    return json.dumps(tree, separators=(",", ":"))
