import pytest
from hypothesis import given
from hypothesis import strategies as st

from trntop.collectors.protobuf import WireError, all_of, fields, text_of


def test_text_and_messages_are_handed_out_and_the_rest_is_stepped_over() -> None:
    varint, fixed64, fixed32 = b"\x08\x96\x01", b"\x11" + bytes(8), b"\x1d" + bytes(4)
    message = varint + b"\x22\x02hi" + fixed64 + b"\x22\x03you" + fixed32 + b"\x2a\x00"
    assert list(fields(message)) == [(4, b"hi"), (4, b"you"), (5, b"")]
    assert all_of(message, 4) == [b"hi", b"you"]
    assert (text_of(message, 4), text_of(message, 5), text_of(message, 9)) == ("you", "", "")


def test_numbers_of_two_bytes() -> None:
    assert list(fields(b"\x82\x01\xc8\x01" + 200 * b"x")) == [(16, 200 * b"x")]


def test_text_that_is_none() -> None:
    assert text_of(b"\x0a\x02\xff!", 1) == "\ufffd!"


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (b"\x0a\x05abc", "cut off"),
        (b"\x0a", "cut off"),
        (b"\x11\x00", "cut off"),
        (b"\x0b", "wire type 3"),
        (b"\x08" + b"\xff" * 11, "cut off"),
    ],
)
def test_damage(message: bytes, error: str) -> None:
    with pytest.raises(WireError, match=error):
        list(fields(message))


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(message: bytes) -> None:
    try:
        found = list(fields(message))
    except WireError:
        return
    assert sum(len(content) for _, content in found) <= len(message)
