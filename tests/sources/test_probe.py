"""Results of latency probes."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trntop.catalog import Entity
from trntop.core.errors import DecodeError
from trntop.core.model import Reading, Sample
from trntop.pipeline.node import NodeState
from trntop.sources.probe import MAX_RESULTS, decode

RESULT = {
    "tool": "fi_pingpong", "peer": "trn-003", "card": "rdmap16s27", "peer_card": "rdmap32s27",
    "provider": "efa", "size_bytes": 64, "statistic": "mean", "seconds": 1.65e-05,
    "load": "idle", "lost": 0,
}  # fmt: skip
LINK = "rdmap16s27>trn-003"


def payload(**members: Any) -> bytes:
    return json.dumps({"tool": "x", "peer": "b", "seconds": 1e-5} | members).encode()


def latencies(sample: Sample) -> dict[Any, float]:
    column = sample.columns["link_latency_seconds"].tolist()
    return dict(zip(sample.keys[Entity.LINK], column, strict=True))


def test_a_result() -> None:
    sample = decode(json.dumps(RESULT).encode())
    assert latencies(sample) == {LINK: 1.65e-05}
    assert sample.columns["link_probe_size_bytes"].tolist() == [64]
    assert sample.facts["links"][LINK] == {
        "tool": "fi_pingpong", "provider": "efa", "peer_card": "rdmap32s27",
        "statistic": "mean", "size_bytes": "64", "load": "idle", "lost": "0",
    }  # fmt: skip
    assert (sample.part, sample.problems) == (LINK, ())


def test_what_is_required_suffices() -> None:
    sample = decode(payload())
    assert latencies(sample) == {"b": 1e-5}
    assert np.isnan(sample.columns["link_probe_size_bytes"]).all()
    assert sample.facts["links"] == {"b": {"tool": "x"}}


def test_of_several_results_of_a_link_the_steadiest_counts() -> None:
    results = [
        RESULT | {"statistic": "p99", "seconds": 5e-5},
        RESULT | {"statistic": "p50", "seconds": 1.5e-5},
        RESULT | {"statistic": "p50", "seconds": 4e-5, "size_bytes": 1 << 20},
        RESULT | {"statistic": "min", "error": "lost"},
        RESULT | {"peer": "trn-004", "seconds": 2e-5},
    ]
    sample = decode(json.dumps({"results": results}).encode())
    assert latencies(sample) == {LINK: 1.5e-5, "rdmap16s27>trn-004": 2e-5}
    assert sample.facts["links"][LINK]["statistic"] == "p50"
    assert sample.problems == (f"{LINK}: lost",)


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"seconds": None, "error": "timed\x1bout"}, "b: timed\ufffdout"),
        ({"error": "no route"}, "b: no route"),
        ({"seconds": 0}, "b: no usable `seconds`"),
        ({"seconds": -1e-5}, "b: no usable `seconds`"),
        ({"tool": None}, "b: no `tool`"),
        ({"statistic": "usual"}, "b: unknown statistic 'usual'; known are p50, mean,"),
    ],
)
def test_a_probe_that_failed_has_no_latency(members: dict[str, Any], problem: str) -> None:
    sample = decode(payload(**members))
    assert np.isnan(latencies(sample)["b"])
    assert sample.problems[0].startswith(problem)


@pytest.mark.parametrize("data", [b"[]", b"{}", b'{"results":[{"tool":"x"}]}', b'{"peer":""}'])
def test_no_peer_was_probed(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


def test_more_results_than_are_read() -> None:
    results = [{"tool": "x", "peer": f"p{index}", "seconds": 1e-5} for index in range(1100)]
    sample = decode(json.dumps({"results": results}).encode())
    assert len(sample.keys[Entity.LINK]) == MAX_RESULTS
    assert sample.problems == ("1100 results; only 1024 are read",)


def test_links_of_a_node_coexist_until_they_expire() -> None:
    state = NodeState("a")
    for time, peer in ((0.0, "b"), (30.0, "c"), (300.0, "b"), (600.0, "b")):
        state.feed(Reading("a", "probe", time, b""), decode(payload(peer=peer)))
    view = state.view(600.0)
    assert view.inventory.of(Entity.LINK) == ("b", "c")
    assert view.frame.columns["link_latency_seconds"].tolist() == [1e-5, 1e-5]
    assert view.frame.columns["link_probe_timestamp_seconds"].tolist() == [600, 30]
    assert state.view(1400.0).frame.columns["link_probe_timestamp_seconds"].tolist() == [600]


NUMBERS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)


@given(st.dictionaries(st.sampled_from([*RESULT, "results", "error"]), NUMBERS))
def test_it_decodes_or_refuses(members: dict[str, Any]) -> None:
    try:
        sample = decode(json.dumps({"results": [members]} | members).encode())
    except DecodeError:
        return
    for column in sample.columns.values():
        assert len(column) == len(sample.keys[Entity.LINK])
        assert (np.isnan(column) | (column >= 0)).all()
