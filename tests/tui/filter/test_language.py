"""What filters let through, and where they make no sense."""

import re
from functools import cache

import pytest

from tests.builders import make_node, view_of
from tests.tui.sample_run import VICTIM, node, view_model
from trntop.core.model import Allocation, State
from trntop.core.settings import Analysis
from trntop.pipeline.history import History
from trntop.tui.filter import Filter, FilterError
from trntop.tui.filter.language import MAX_LENGTH
from trntop.tui.view_model import ViewModel


@cache
def trouble() -> ViewModel:
    """Sixteen nodes; trn-007 has a bad EFA device, trn-011 is stale."""
    return view_model(trouble=True)


def found(text: str, shown: ViewModel | None = None) -> list[str]:
    shown = trouble() if shown is None else shown
    places = Filter(text).mask(shown)
    assert len(places) == len(shown.cluster.nodes)
    return [name for name, there in zip(shown.cluster.names, places, strict=True) if there]


def view_model_of(*nodes) -> ViewModel:  # type: ignore[no-untyped-def]
    return ViewModel(view_of(*nodes), History(10), Analysis())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("01", ["trn-001", "trn-010", "trn-011", "trn-012", "trn-013", "trn-014", "trn-015"]),
        ("TRN-007", [VICTIM]),
        ('"007"', [VICTIM]),
        ("node=trn-007", [VICTIM]),
        ("node~r?-007", [VICTIM]),
        ("node~0[01][71]", ["trn-001", VICTIM, "trn-011"]),
        ("node~00*7", [VICTIM]),
        ("node!~trn node~trn", []),
        ("state=stale", ["trn-011"]),
        ("state!=fresh", ["trn-011"]),
        ("incident", [VICTIM]),
        ("fault", [VICTIM, "trn-011"]),
        ("incidents>=1", [VICTIM]),
        ("kind=efa_degraded", [VICTIM]),
        ("severity=critical & !state=stale", [VICTIM]),
        ("part=efa:rdmap96s27", [VICTIM]),
        ("part~'efa:*96'", [VICTIM]),
        ("!phase=training", ["trn-011"]),
        ("retx>1", [VICTIM]),
        ("retx>1%", [VICTIM]),
        ("retx > 1 %", [VICTIM]),
        ("retx > 1 % | state=stale", [VICTIM, "trn-011"]),
        ("efa_tx<335 Gb/s", ["trn-006", "trn-012"]),
        ("efa_tx<41.5GB/s", ["trn-006", "trn-012"]),
        ("node_efa_retransmit_max_ratio>0.01", [VICTIM]),
        ("trn_node_efa_retransmit_max_ratio>0.01", [VICTIM]),
        ("efa_retransmit_ratio>1%", [VICTIM]),
        ("te=none", ["trn-011"]),
        ("efa_retransmit_ratio=none", ["trn-011"]),
        ("te!=none & 011", []),
        ("008 !incident | 007 !incident", ["trn-008"]),
        ("007 | 008 & incident", [VICTIM]),
        ("!util>0 !te>0", ["trn-011"]),
        ("!!007", [VICTIM]),
        ("age>1min", []),
    ],
)
def test_allowed_clients(text: str, names: list[str]) -> None:
    assert found(text) == names


def test_unknown_values_fulfil_no_comparison() -> None:
    for sign in ("<", ">=", "=", "!="):
        assert "trn-011" not in found(f"util{sign}1000")
    assert "trn-011" in found("!util<1000")


def test_jobs_are_those_that_report_and_those_of_the_scheduler() -> None:
    from dataclasses import replace

    given = make_node(1, jobs=())
    held = replace(given.inventory, allocations=(Allocation(job="4711", whole=True),))
    shown = view_model_of(node(0, jobs=("a", "b")), replace(given, inventory=held))
    assert found("job=a", shown) == found("job~A", shown) == ["trn-000"]
    assert found("job=4711", shown) == ["trn-001"]
    assert found("job!=a", shown) == ["trn-001"]
    assert found("type=trn2.48xlarge", shown) == ["trn-000", "trn-001"]


def test_words_of_states_may_be_written_with_hyphens() -> None:
    for text in ("phase=warming-up", "phase='warming up'", "phase=Warming_Up"):
        assert found(text) == []


def test_a_pattern_with_many_wildcards_ends() -> None:
    shown = view_model_of(make_node(0, name="a" * 200))
    assert found("node~" + "a*" * 60 + "b", shown) == []


def test_an_empty_fleet() -> None:
    for text in (
        "util<3",
        "efa_retransmit_ratio>0",
        "state=stale",
        "job=a",
        "fault",
        "x",
        "te=none",
    ):
        assert found(text, view_model_of()) == []


def test_what_is_remembered_of_words_follows_the_nodes() -> None:
    made = Filter("state=stale")
    before = view_model_of(node(0), node(1))
    after = view_model_of(node(0), node(1, state=State.STALE))
    assert [made.mask(view).tolist() for view in (before, after)] == [[False] * 2, [False, True]]


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("utl<3", 0, "unknown field utl; did you mean util?"),
        ("a & qqq=3", 4, "unknown field qqq; known: node, state"),
        ("efa_retransmit_rato<3", 0, "did you mean efa_retransmit_ratio?"),
        ("util", 4, "util needs a comparison, such as util>30"),
        ("state", 5, "state needs a comparison, such as state=starting"),
        ("node & a", 4, "node needs a comparison"),
        ("util<", 5, "a value is missing"),
        ("util<&3", 5, "a value is missing"),
        ("util<x", 5, "x is not a number"),
        ("util<1.2.3", 5, "1.2.3 is not a valid number"),
        ("util<9e999", 5, "9e999 is not a valid number"),
        ("util~3", 4, "util is a number: use < <= > >= = !="),
        ("node<3", 4, "node is text: use = != ~ !~"),
        ("util<30GiB", 7, "the unit is %, not GiB"),
        ("util<30 GiB", 8, "the unit is %, not GiB"),
        ("node_memory_used_bytes>3s", 24, "the unit is bytes, not s"),
        ("util<30q", 7, "unknown unit q; use one of %"),
        ("state=stal", 6, "state is one of starting, fresh"),
        ("", 0, "a name is missing"),
        ("a & ", 4, "a name is missing"),
        ("a | | b", 4, "expected a name before |"),
        ("(a | b) c", 0, "parentheses are not supported; separate groups with |"),
        ("a)", 1, "parentheses are not supported"),
        ("'abc", 0, "unclosed quote"),
        ("node~'abc", 5, "unclosed quote"),
        ("=3", 0, "expected a name before ="),
        ("x" * (MAX_LENGTH + 1), MAX_LENGTH, "at most 300 characters"),
    ],
)
def test_errors_have_a_position(text: str, at: int, message: str) -> None:
    with pytest.raises(FilterError, match=re.escape(message)) as caught:
        Filter(text)
    assert caught.value.at == at


def test_mistakes_repeat_nothing_that_a_terminal_obeys() -> None:
    with pytest.raises(FilterError) as caught:
        Filter("util<\x1b[31m")
    assert "\x1b" not in str(caught.value)
