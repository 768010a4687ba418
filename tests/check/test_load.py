"""Loads of both hosts, in words and out of them."""

import pytest

from trntop.check.load import both, describe, per_core


def test_words_of_both_sides() -> None:
    here, there = describe(0.26, 192), describe(96, 128)
    assert here == "load 0.3 of 192 cores"
    assert both(here, there) == "load 0.3 of 192 cores, 96.0 of 128 cores at the server"
    assert both("", there) == "load 96.0 of 128 cores at the server"
    assert both(here, "") == here


@pytest.mark.parametrize(
    ("words", "share"),
    [
        ("load 96.0 of 192 cores", 0.5),
        ("load 0.0 of 192 cores, 96.0 of 128 cores at the server", 0.75),
        ("idle", None),
        ("", None),
        ("load 3.0 of 0 cores", None),
    ],
)
def test_the_side_with_more_counts(words: str, share: float | None) -> None:
    assert per_core(words) == share
