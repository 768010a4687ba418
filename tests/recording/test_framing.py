import json
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trntop.recording.framing import Framer


def frames(framer: Framer, chunks: Iterable[bytes]) -> list[bytes]:
    found = [frame for chunk in chunks for frame in framer.feed(chunk)]
    return found + framer.close()


def cut(stream: bytes) -> tuple[list[bytes], Framer]:
    framer = Framer()
    return frames(framer, [stream]), framer


def assert_clean(framer: Framer) -> None:
    assert (framer.skipped, framer.oversize, framer.partial) == (0, 0, 0)


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
        (b'{"a":1}\r\n{"b":2}\r\n', [b'{"a":1}', b'{"b":2}']),
        (b'\xef\xbb\xbf{"a":1}\n\xef\xbb\xbf{"b":2}', [b'{"a":1}', b'{"b":2}']),
        (b'\n\n  \n{"a":1}\n\r\n', [b'{"a":1}']),
        (b'{\n "a": [\n  {"x": 1},\n  {"x": 2}\n ]\n}\n', None),
        (b'{"a":NaN}\n', [b'{"a":NaN}']),
        (b'{"a":"\xff\xfe"}\n', [b'{"a":"\xff\xfe"}']),
        (b"", []),
    ],
)
def test_objects_are_found_however_they_are_laid_out(
    stream: bytes, expected: list[bytes] | None
) -> None:
    found, framer = cut(stream)
    assert found == ([stream.strip()] if expected is None else expected)
    assert_clean(framer)


def test_a_last_object_without_newline_comes_at_the_close() -> None:
    framer = Framer()
    assert framer.feed(b'{"a":1}\n{"b":2}') == [b'{"a":1}']
    assert framer.close() == [b'{"b":2}']
    assert_clean(framer)


@pytest.mark.parametrize("end", [*range(1, 14), 15])
def test_an_unfinished_object_at_the_end_is_partial_not_lost(end: int) -> None:
    stream = b'{"a":{"b":"c"}}\n'
    found, framer = cut(b'{"ok":1}\n' + stream[:end])
    assert found[0] == b'{"ok":1}'
    if end == len(stream) - 1:
        assert found[1:] == [stream.strip()]
    else:
        assert found[1:] == []
        assert framer.partial == end


@pytest.mark.parametrize(
    ("junk", "pieces"),
    [
        (b"level=info msg=starting\n", 1),
        (b"}}}]\n", 1),
        (b"[1,2,3]\n", 1),
        (b"\x00\x01\xff\n\x00\n", 2),
        (b'{"never": [1, 2\n', 1),
        (b'{"cut": "in a str\n', 1),
    ],
)
def test_garbage_is_counted_and_the_next_good_object_found(junk: bytes, pieces: int) -> None:
    found, framer = cut(b'{"a":1}\n' + junk + b'{"b":{"c":2}}\n{"d":3}\n')
    assert found == [b'{"a":1}', b'{"b":{"c":2}}', b'{"d":3}']
    assert framer.skipped == pieces
    assert framer.partial == 0


def test_a_broken_pretty_object_does_not_swallow_what_follows() -> None:
    found, framer = cut(b'{\n "a": {\n  "b": 1\n{"c":1}\n{"e":3}\n')
    assert found == [b'{"c":1}', b'{"e":3}']
    assert framer.skipped == 1


def test_fault_09_a_line_of_five_megabytes_is_accepted() -> None:
    line = b'{"a":"' + b"x" * 5_000_000 + b'"}'
    framer = Framer()
    chunks = [line[i : i + 65_536] for i in range(0, len(line), 65_536)]
    assert frames(framer, [*chunks, b"\n"]) == [line]
    assert_clean(framer)


def test_fault_09_a_line_without_end_is_cut_and_memory_stays_flat() -> None:
    framer = Framer()
    chunk = b"x" * (1 << 20)
    framer.feed(b'{"a":1}\n{"endless":"')
    tracemalloc.start()
    try:
        for _ in range(100):
            assert framer.feed(chunk) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 << 20
    assert framer.feed(b'"}\n{"b":2}\n') == [b'{"b":2}']
    assert framer.oversize == 1
    assert framer.skipped == 0


def test_the_cap_holds_for_whole_lines_and_for_pretty_objects() -> None:
    framer = Framer(max_bytes=20)
    stream = b'{"long":"' + b"x" * 20 + b'"}\n{"a":1}\n{\n' + b' "k": 1,\n' * 5 + b'}\n{"b":2}\n'
    assert frames(framer, [stream]) == [b'{"a":1}', b'{"b":2}']
    assert framer.oversize == 2


def test_a_hundred_thousand_levels() -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    found, framer = cut(deep + b'\n{"b":1}\n')
    assert found == [deep, b'{"b":1}']
    assert_clean(framer)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
_OBJECTS = st.builds(
    lambda value, plain, indent: json.dumps(value, ensure_ascii=plain, indent=indent).encode(
        errors="replace"
    ),
    st.dictionaries(st.text(max_size=4), _VALUES, max_size=4),
    st.booleans(),
    st.sampled_from([None, None, 1, 2]),
)
_SEPARATORS = st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\n \r\n"])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.tuples(_OBJECTS, _SEPARATORS), max_size=6), st.data())
def test_fault_08_any_chunking_gives_the_same_objects(
    parts: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(text + separator for text, separator in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    bounds = zip([0, *cuts], [*cuts, len(stream)], strict=True)
    for chunks in (
        [stream[start:end] for start, end in bounds],
        [stream[i : i + 1] for i in range(len(stream))],
    ):
        framer = Framer()
        assert frames(framer, chunks) == [text for text, _ in parts]
        assert_clean(framer)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.binary(max_size=40) | st.sampled_from([b"\n", b'{"', b"}", b'"', b"{\n"])))
def test_after_any_bytes_the_next_object_is_found(chunks: list[bytes]) -> None:
    framer = Framer()
    frames(framer, chunks)
    assert frames(framer, [b'\n{"a":1}\n']) == [b'{"a":1}']


def test_single_bytes_cost_no_more_than_their_line() -> None:
    framer = Framer()
    framer.feed(b'{"a":"')
    tracemalloc.start()
    try:
        for _ in range(200_000):
            framer.feed(b"x")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    assert framer.feed(b'"}\n') == [b'{"a":"' + b"x" * 200_000 + b'"}']
