"""Patterns say the same as `re`, in time that does not explode."""

import random
import re
import time

import pytest

from trntop.tui.filter.pattern import MAX_LENGTH, Pattern, PatternError

ATOMS = (
    "a", "B", ".", "[ab]", "[^a]", "[a-c1]", "[]a]", "[a-]", r"\d", r"\w", r"\s", r"\D", r"[\d-]",
    r"\.", "(a|b)", "(ab)*", "(a*b)?", "(a|)+", "a+", "b*", ".*", "1",
)  # fmt: skip


def test_like_re() -> None:
    chance = random.Random(1)
    for _ in range(3000):
        text = "".join(chance.choice(ATOMS) for _ in range(chance.randint(1, 5)))
        text = chance.choice(["", "", "^"]) + text + chance.choice(["", "", "$", "|a1"])
        name = "".join(chance.choice("abAc1.-_ ]") for _ in range(chance.randint(0, 8)))
        expected = bool(re.search(text, name, re.IGNORECASE))
        assert Pattern(text).found_in(name) is expected, (text, name)


@pytest.mark.parametrize("text", ["(a*)*b", "(a|a)*b", ".*.*.*.*.*b", "((a+)+)+b", "(.*)*[^a]b"])
def test_no_pattern_stands_still(text: str) -> None:
    pattern = Pattern(text)
    names = ["a" * 256 + str(index) for index in range(200)]
    begun = time.process_time()
    assert not any(map(pattern.found_in, names))
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("a(b", 1, "this ( is never closed"),
        ("ab)", 2, "closes nothing"),
        ("a[bc", 1, "this [ is never closed"),
        ("*a", 0, "nothing before * to repeat"),
        ("a|+", 2, "nothing before + to repeat"),
        ("a{2}", 1, "counts in { } are not known here"),
        ("(?i)a", 1, "groups have no options here"),
        (r"a\b", 1, r"\b means nothing here"),
        ("a\\", 1, "means nothing here"),
        ("(" * 300, MAX_LENGTH, "at most 100 characters"),
    ],
)
def test_mistakes_have_a_place(text: str, at: int, message: str) -> None:
    with pytest.raises(PatternError, match=re.escape(message)) as caught:
        Pattern(text)
    assert caught.value.at == at


def test_deep_patterns_are_read() -> None:
    deep = "(" * 49 + "a" + ")" * 49
    assert Pattern(deep).found_in("bab")
