from string import Formatter

import pytest

from trntop.analysis.rulebook import RULEBOOK
from trntop.analysis.sentence import LENGTH, SHORTEST, compose

NOON = 1_763_640_000.0
LONG = "ip-10-0-123-234-" + "very-long-name-of-a-machine-" + "us-west-2-compute-9"
"""63 characters, as the names of hosts may have."""
EITHER = [(rule.kind, text) for rule in RULEBOOK for text in (rule.summary, rule.many) if text]


def fields_of(template: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(template) if name]


def test_a_sentence_is_filled() -> None:
    text = compose(
        "{node} {efa_device}: down since {since}", {"node": "n1", "efa_device": "x"}, NOON
    )
    assert text == "n1 x: down since 12:00:00 UTC"


def test_what_is_missing_is_empty_and_what_is_not_reserved_is_left_out() -> None:
    assert compose("{job} stalled{step}", {"job": "a", "node": "b"}, NOON) == "a stalled"


def test_names_with_braces_and_percent_signs() -> None:
    assert compose("{node} is {how}", {"node": "{0}{x}", "how": "5 %"}, NOON) == "{0}{x} is 5 %"


def test_a_long_name_loses_its_middle() -> None:
    assert len(LONG) == 63
    fields = {"node": LONG, "what": "HBM of device 13 and 2 more", "how": "is 98 % used"}
    template = "{node}: {what} {how} since {since} (neuron-monitor)"
    text = compose(template, fields, NOON, [LONG])
    assert len(text) == LENGTH
    name = text.partition(":")[0]
    assert name.startswith("ip-10-0-")
    assert name.endswith("e-9")
    assert "…" in name
    for part in ("98 % used", "since 12:00:00 UTC", "(neuron-monitor)"):
        assert part in text


@pytest.mark.parametrize(("kind", "template"), EITHER)
def test_sentences_fit_with_long_names(kind: str, template: str) -> None:
    named = {"node", "job", "where"} & set(fields_of(template))
    fields = {name: LONG if name in named else "some words" for name in fields_of(template)}
    text = compose(template, fields, NOON, [LONG])
    assert len(text) <= LENGTH
    assert ("12:00:00 UTC" in text) == ("{since}" in template)
    if named:
        assert "ip-" in text


def test_clauses_go_before_names_are_cut_and_the_culprit_stays() -> None:
    template = next(rule.summary for rule in RULEBOOK if rule.kind == "comm_bound")
    fields = {
        "job": "pretrain-llama-70b-run-17",
        "what": "communication",
        "share": "rose from 17 to 31 % of step time",
        "exposed": ", 27 % exposed",
        "kind": ", 19 % reduce-scatter",
        "culprit": "; trn-001 waits least",
    }
    assert compose(template, fields, NOON, ["pretrain-llama-70b-run-17", "trn-001"]) == (
        "pretrain-llama-70b-run-17: communication rose from 17 to 31 % of step time, "
        "27 % exposed; trn-001 waits least"
    )


def test_nodes_of_one_domain_stay_apart() -> None:
    node = "ip-10-120-33-1.eu-west-1.compute.internal"
    template = next(rule.summary for rule in RULEBOOK if rule.kind == "straggler")
    fields = {"where": f"device 6 (rank 22) of {node}", "slower": "35 %",
            "wait": "; others wait 1.36 s per step", "basis": "steps"}  # fmt: skip
    text = compose(template, fields, NOON, [node])
    assert text.startswith("device 6 (rank 22) of ip-10-120-33-1 is 35 % slower")
    assert text.endswith("(steps)")


def test_an_address_has_no_domain() -> None:
    text = compose("{node} {what}", {"node": "10.0.12.7", "what": "w" * 99}, NOON, ["10.0.12.7"])
    assert text == f"10.0.12.7 {'w' * 99}"


@pytest.mark.parametrize("value", ["x" * 5000, "", "{", "\N{COMBINING ACUTE ACCENT}" * 300])
def test_absurd_fields(value: str) -> None:
    for kind, template in EITHER:
        text = compose(template, dict.fromkeys(fields_of(template), value), NOON)
        assert len(text) <= LENGTH, kind


@pytest.mark.parametrize("kind", ["node_silent", "efa_down", "straggler"])
def test_both_ends_of_a_name_are_kept_if_another_field_is_absurd(kind: str) -> None:
    rule = next(rule for rule in RULEBOOK if rule.kind == kind)
    fields = dict.fromkeys(fields_of(rule.summary), "y" * 300) | {"node": LONG, "where": LONG}
    text = compose(rule.summary, fields, NOON, [LONG])
    first = LONG[: SHORTEST // 2 - 1]
    assert first in text
    assert LONG[-2:] in text


def test_a_name_that_fits_is_whole() -> None:
    assert LONG in compose("{node}: no data since {since}", {"node": LONG}, NOON)


def test_no_more_is_cut_than_must_be() -> None:
    template = "{job}: {where}"
    text = compose(template, {"job": "j" * 40, "where": "w" * 100}, NOON, ["j" * 40, "w" * 100])
    assert len(text) == LENGTH
    assert "j" * 40 in text
