import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trntop.core.errors import DecodeError
from trntop.core.model import NeffProfile
from trntop.sources.profiles import MAX_PROFILES, PERIOD, decode

PROFILE = {
    "name": "train_step.neff", "uuid": "ab12", "hbm_read_bytes": 4e9, "hbm_write_bytes": 3e9,
    "seconds": 0.05482, "comm_seconds": 0.0147,
}  # fmt: skip


def payload(*profiles: Any, **members: Any) -> bytes:
    return json.dumps({"period": 60, "profiles": profiles} | members).encode()


def test_every_value() -> None:
    sample = decode(payload(PROFILE))
    assert sample.facts == {
        "profiles": (NeffProfile("train_step.neff", "ab12", 4e9, 3e9, 0.05482, 0.0147),)
    }
    assert (sample.period, sample.problems, sample.columns) == (60, (), {})


def test_no_profiles_are_news_too() -> None:
    sample = decode(b"{}")
    assert sample.facts == {"profiles": ()}
    assert sample.period == PERIOD


def test_times_may_be_missing_and_collectives_are_within_the_execution() -> None:
    bare = {key: PROFILE[key] for key in ("name", "hbm_read_bytes", "hbm_write_bytes")}
    first, second = decode(payload(bare, PROFILE | {"comm_seconds": 1.0})).facts["profiles"]
    assert (first.seconds, first.comm_seconds, first.uuid) == (None, None, "")
    assert (second.seconds, second.comm_seconds) == (0.05482, None)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": "", "uuid": ""}, "a profile with neither `name` nor `uuid`"),
        ({"hbm_read_bytes": -1}, "train_step.neff: no usable `hbm_read_bytes`"),
        ({"hbm_write_bytes": None}, "train_step.neff: no usable `hbm_write_bytes`"),
        ({"hbm_write_bytes": 1e300}, "train_step.neff: no usable `hbm_write_bytes`"),
    ],
)
def test_a_bad_profile_is_named_and_spares_the_rest(change: Any, problem: str) -> None:
    sample = decode(payload(PROFILE | change, PROFILE | {"name": "other.neff"}))
    assert [profile.name for profile in sample.facts["profiles"]] == ["other.neff"]
    assert sample.problems == (problem,)


def test_their_number_is_bounded() -> None:
    sample = decode(payload(*[PROFILE] * (MAX_PROFILES + 1)))
    assert len(sample.facts["profiles"]) == MAX_PROFILES
    assert "only 1,024 are read" in sample.problems[0]


def test_names_are_cleaned() -> None:
    (profile,) = decode(payload(PROFILE | {"name": "a\x1b[31m.neff"})).facts["profiles"]
    assert profile.name == "a\ufffd[31m.neff"


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b'"x"', b'{"profiles": ['])
def test_what_is_no_payload(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*PROFILE, "period", "profiles"]), inner, max_size=6)
    ),
    max_leaves=15,
)


@given(JSON)
def test_whatever_comes_values_are_possible_or_absent(tree: object) -> None:
    try:
        sample = decode(json.dumps(tree).encode())
    except DecodeError:
        return
    assert sample.period is not None
    assert 0 < sample.period < 1e7
    for profile in sample.facts["profiles"]:
        assert profile.name or profile.uuid
        assert 0 <= profile.hbm_read_bytes < 2**53
        assert 0 <= profile.hbm_write_bytes < 2**53
        assert profile.seconds is None or profile.seconds >= 0
