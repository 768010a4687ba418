"""Typed decoding that tolerates damaged payloads.

The fast path is one typed pass over the bytes. If it fails, the payload is repaired: invalid UTF-8
is replaced, numbers written as strings are accepted, and fields that are still invalid are removed,
at the path in the error message, and reported.
"""

import json
import math
import re
from typing import Any, TypeVar

import msgspec

from trntop.core.errors import DecodeError
from trntop.core.text import clean

T = TypeVar("T")

MAX_REMOVED = 64
"""Limit of invalid fields that are removed from a payload; with more it is rejected."""

_LONE_SURROGATE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_PATH = re.compile(r" - at `\$?(.*)`$")
_GOT = re.compile(r", got `(\w+)`")
_TYPES: dict[str, type] = {
    "object": dict, "array": list, "str": str, "int": int, "float": float, "bool": bool,
    "null": type(None),
}  # fmt: skip
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|(\[\.\.\.\])")


def decode(data: bytes, decoder: "msgspec.json.Decoder[T]") -> tuple[T, tuple[str, ...]]:
    """`data` as the decoder's type, and a message for each removed part.

    Raises:
        DecodeError: the payload is not JSON, or not an object of this kind.
    """
    try:
        return decoder.decode(data), ()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return _salvage(data, msgspec.json.Decoder(decoder.type, strict=False), error)


def _salvage(
    data: bytes, lenient: "msgspec.json.Decoder[T]", first: Exception
) -> tuple[T, tuple[str, ...]]:
    problems: list[str] = []
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        problems.append("invalid UTF-8")
    if "\\u" in text:
        text = _LONE_SURROGATE.sub(r"\\ufffd", text)
    try:
        # Python also accepts raw control characters, and NaN and Infinity, which become null.
        tree = json.loads(text, strict=False, parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(first)
        raise DecodeError(f"not JSON: {clean(reason)}") from None
    for _ in range(MAX_REMOVED):
        try:
            return lenient.decode(json.dumps(tree)), tuple(problems)
        except msgspec.ValidationError as error:
            message = str(error)
            path = _PATH.search(message)
            got = _GOT.search(message)
            kind = None if got is None else _TYPES.get(got[1])
            if path is None or not _remove(tree, path[1], kind):
                raise DecodeError(clean(message)) from None
            problems.append(clean(message.replace("`$.", "`")))
        except RecursionError:
            break
    raise DecodeError(f"more than {MAX_REMOVED} invalid fields; the first: {clean(problems[0])}")


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _remove(tree: Any, path: str, kind: type | None) -> bool:
    """Removes the field at `path`.

    Of a mapping, whose key `[...]` is not known, the members of the type `kind` are removed. All
    are if what is wrong lies deeper, or is the entry of a core or device: without it, that one
    would pass for idle.
    """
    steps = list(_STEP.finditer(path))
    depth = next((depth for depth, step in enumerate(steps) if step[3]), None)
    if depth is not None:
        if depth == len(steps) - 1 and kind is not None:
            members = _at(tree, steps[:depth])
            wrong = [name for name, value in members.items() if type(value) is kind]
            if wrong and not any(map(str.isdecimal, wrong)):
                for name in wrong:
                    del members[name]
                return True
        steps = steps[:depth]
    if not steps:
        return False
    tree, last = _at(tree, steps[:-1]), steps[-1]
    if last[1]:
        del tree[last[1]]
    else:
        del tree[int(last[2])]
    return True


def _at(tree: Any, steps: list[re.Match[str]]) -> Any:
    for step in steps:
        tree = tree[step[1]] if step[1] else tree[int(step[2])]
    return tree
