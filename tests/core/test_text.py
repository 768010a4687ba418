import unicodedata

import hypothesis.strategies as st
import pytest
from hypothesis import given

from trntop.core.text import clean


@pytest.mark.parametrize(
    ("dirty", "cleaned"),
    [
        ("trn-003", "trn-003"),
        ("job [/red] x", "job [/red] x"),
        ("\x1b]0;owned\x07", "\ufffd]0;owned\ufffd"),
        ("a\x9b2Jb\x00", "a\ufffd2Jb\ufffd"),
        ("two\nlines\tand tabs", "two lines and tabs"),
        ("\ud800", "\ufffd"),
        ("e\u0301", "é"),
        ("日本", "日本"),
        ("x" * 300, "x" * 255 + "…"),
        ("a\u202eb", "a\ufffdb"),
    ],
)
def test_known_dirt(dirty: str, cleaned: str) -> None:
    assert clean(dirty) == cleaned


@given(st.text(), st.integers(1, 50))
def test_nothing_that_drives_a_terminal_remains(text: str, limit: int) -> None:
    cleaned = clean(text, limit)
    assert len(cleaned) <= limit
    assert all(unicodedata.category(char)[0] != "C" for char in cleaned)
    assert clean(cleaned, limit) == cleaned


def test_runs_of_combining_marks_are_cut() -> None:
    assert len(clean("x" + "\u0336" * 100)) == 5
