"""Strings and embedded messages of the Protocol Buffers wire format.

A message is a sequence of fields: a varint of `number << 3 | type`, then a varint (type 0), 8 bytes
(1), a length and as many bytes (2), or 4 bytes (5). Only type 2 is returned.

Format: https://protobuf.dev/programming-guides/encoding/
"""

from collections.abc import Iterator

MAX_VARINT = 10
"""Bytes."""
_FIXED = {1: 8, 5: 4}
"""Wire type → length."""


class WireError(ValueError):
    """The message is not valid."""


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of each field of type 2, in order.

    Raises:
        WireError: the message is cut off or damaged.
    """
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind = key & 7
        if kind == 0:
            _, place = _varint(message, place)
            continue
        if kind == 2:
            size, place = _varint(message, place)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise WireError(f"wire type {kind}")
        end = place + size
        if end > len(message):
            raise WireError("cut off")
        if kind == 2:
            yield key >> 3, message[place:end]
        place = end


def all_of(message: bytes, number: int) -> list[bytes]:
    """The contents of the fields `number`.

    Raises:
        WireError: the message is cut off or damaged.
    """
    return [content for field_number, content in fields(message) if field_number == number]


def text_of(message: bytes, number: int) -> str:
    """The text of the last field `number`; empty without one.

    Raises:
        WireError: the message is cut off or damaged.
    """
    return (all_of(message, number) or [b""])[-1].decode(errors="replace")


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """A number, and the position after it."""
    value = 0
    for index, byte in enumerate(message[place : place + MAX_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, place + index + 1
    raise WireError("cut off")
