"""The questions: how many, and that they are PromQL."""

import pytest

from trntop.collectors.engine import questions
from trntop.collectors.engine.client import Labels
from trntop.collectors.engine.nodes import Drafts
from trntop.collectors.engine.own import _with_cards
from trntop.collectors.engine.questions import MAX_QUERIES, Questions
from trntop.collectors.engine.selectors import Scope
from trntop.collectors.engine.sums import Sums, key_of

NAMES = frozenset(("trn_instance_info", "trn_incidents", "trntop_source_up"))
RECORDED = NAMES | {
    "cluster:trn_instance_info:count",
    "node:trn_job_compute_seconds:ratio_to_median",
}
SCOPES = ("", 'cluster="a",env!~"test|\\"x"')


def asked(names: frozenset[str], scope: str = "") -> list[dict[str, str]]:
    """The questions of each kind of refresh, and the others one by one."""
    made = Questions(Scope(scope), names, 15.0, ("trntop", "odd.job"))
    nodes = ['a"b', "trn-001"]
    return [
        made.whole(None),
        made.whole(nodes),
        {**made.cluster(), **{f"{key} of": text for key, text in made.some(nodes).items()}},
        made.node(nodes[0]),
        {**made.past(None), **made.past(nodes)},
        {"count": made.count(), "jobs": made.scrape_jobs(), "any": made.any_node()},
        {"samples": made.samples(nodes[0])},
    ]


@pytest.mark.parametrize("names", [NAMES, RECORDED])
def test_never_more_than_ten_in_a_refresh(names: frozenset[str]) -> None:
    assert [len(one) for one in asked(names)[:3]] == [MAX_QUERIES, MAX_QUERIES - 1, MAX_QUERIES]


@pytest.mark.parametrize("names", [NAMES, RECORDED])
@pytest.mark.parametrize("scope", SCOPES)
def test_all_are_promql(names: frozenset[str], scope: str) -> None:
    parser = pytest.importorskip("promql_parser")
    for kind in asked(names, scope):
        for text in kind.values():
            parser.parse(text)
            assert scope in text


def test_of_many_nodes_the_cards_of_those_that_resend_most() -> None:
    drafts = Drafts()
    for number in range(questions.MAX_CARDS + 1):
        labels = {"node": f"n-{number}", "__name__": "trn_node_efa_retransmit_max_ratio"}
        drafts.take([(labels, number / 1000)])
    found = _with_cards(drafts, "n-3")
    assert found is not None
    assert len(found) == questions.SOME_CARDS + 1
    assert found[0] == f"n-{questions.MAX_CARDS}"
    assert found[-1] == "n-3"
    assert _with_cards(Drafts(), None) is None


@pytest.mark.parametrize(
    ("labels", "key"),
    [
        ({"__name__": "cluster:trn_neuroncore_utilization:ratio"},
         "/node_neuroncore_utilization_mean_ratio"),
        ({"__name__": "cluster:trn_node_efa_tx_bytes_per_second:sum"},
         "/node_efa_tx_bytes_per_second"),
        ({"__name__": "training_job:trn_job_comm_share:ratio", "training_job": "run7"},
         "run7/job_comm_share_ratio"),
        ({"__name__": "trn_job_step_seconds", "training_job": "run7"}, "run7/job_step_seconds"),
        ({"__name__": "training_job:trn_job_info:count", "training_job": "run7"}, ""),
        ({"__name__": "node_load1"}, ""),
    ],
)  # fmt: skip
def test_the_history_knows_recorded_series_by_our_names(labels: Labels, key: str) -> None:
    assert key_of(labels) == key


def test_sums_of_two_clusters_are_weighed() -> None:
    total = Sums()
    total.take_recorded([
        ({"__name__": "cluster:trn_instance_info:count", "job": "a", "simulated": "false"}, 10),
        ({"__name__": "cluster:trn_instance_info:count", "job": "b", "simulated": "true"}, 30),
        ({"__name__": "cluster:trn_node_neuroncores:sum", "job": "a"}, 100),
        ({"__name__": "cluster:trn_node_neuroncores:sum", "job": "b"}, 300),
        ({"__name__": "cluster:trn_neuroncore_utilization:ratio", "job": "a"}, 0.2),
        ({"__name__": "cluster:trn_neuroncore_utilization:ratio", "job": "b"}, 0.6),
        ({"__name__": "cluster:trn_node_device_memory_used_max_ratio:max", "job": "a"}, 0.9),
        ({"__name__": "cluster:trn_node_device_memory_used_max_ratio:max", "job": "b"}, 0.7),
    ])  # fmt: skip
    assert (total.nodes, total.simulated) == (40, True)
    assert total.values["node_neuroncore_utilization_mean_ratio"] == pytest.approx(0.5)
    assert total.values["node_device_memory_used_max_ratio"] == 0.9
    assert total.values["node_neuroncores"] == 400


def test_without_rules_a_few_means_are_asked_live() -> None:
    total = Sums()
    mean = {"__name__": "trn_node_neuroncore_utilization_mean_ratio"}
    step = {"__name__": "trn_job_step_seconds", "training_job": "run7"}
    total.take_combined([(mean, 0.8), (step, 4.0)], [({"training_job": "run7"}, 31250)])
    assert total.values == {"node_neuroncore_utilization_mean_ratio": 0.8}
    assert total.jobs == {"run7": {"job_step_seconds": 4.0, "nodes": 31250}}
