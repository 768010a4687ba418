"""The questions: how many, and that they are PromQL."""

import pytest

from trntop.collectors.prometheus import queries
from trntop.collectors.prometheus.client import Labels
from trntop.collectors.prometheus.nodes import Drafts
from trntop.collectors.prometheus.queries import Queries, one_of
from trntop.collectors.prometheus.refresh import _worst_efa_nodes
from trntop.collectors.prometheus.totals import Totals, recorded_history
from trntop.exporters.rules.recording import recording_groups

NAMES = frozenset(("trn_instance_info", "trn_incidents", "trntop_source_up"))
RECORDED = frozenset(rule.record for group in recording_groups() for rule in group.rules)
RECORDED |= NAMES
SCOPES = ("", 'cluster="a",env!~"test|\\"x"')


def requests(names: frozenset[str], scope: str = "") -> list[dict[str, str]]:
    """The queries of each kind of refresh, and the others one by one."""
    made = Queries(scope, names, 15.0, ("trntop", "odd.job"))
    nodes = ['a"b', "trn-001"]
    large = {**made.totals(), **{f"{key} of": text for key, text in made.some_nodes(nodes).items()}}
    return [
        made.all_nodes(None),
        made.all_nodes(nodes),
        large,
        made.node(nodes[0]),
        {**made.total_history(), **made.node_history(nodes)},
        {"count": made.count(), "jobs": made.scrape_jobs(), "samples": made.samples(nodes[0])},
    ]


def test_never_more_than_ten_in_a_refresh() -> None:
    assert [len(queries) for queries in requests(RECORDED)[:3]] == [10, 9, 7]


def test_what_rules_record_no_refresh_computes() -> None:
    """The cost of a large cluster with the rules does not depend on its size."""
    made = Queries("", RECORDED & queries.NAMES, 15.0)
    assert made.recorded
    assert queries.WORST.keys() <= RECORDED
    for text in made.totals().values():
        assert "topk(" not in text
        assert "bottomk(" not in text


@pytest.mark.parametrize("names", [NAMES, RECORDED])
@pytest.mark.parametrize("scope", SCOPES)
def test_all_are_promql(names: frozenset[str], scope: str) -> None:
    parser = pytest.importorskip("promql_parser")
    for kind in requests(names, scope):
        for text in kind.values():
            parser.parse(text)
            assert scope in text


def test_of_no_node_nothing_is_asked() -> None:
    """A matcher of no value would be one of all series that have not the label."""
    made = Queries("", RECORDED, 15.0)
    assert made.some_nodes([]) == {}
    assert not made.all_nodes([]).keys() & {"tx", "retransmitted"}
    with pytest.raises(ValueError, match="no value of node"):
        one_of("node", [""])


def test_of_many_nodes_the_devices_of_the_top_retransmitters() -> None:
    drafts = Drafts()
    for number in range(queries.MAX_EFA_NODES + 1):
        labels = {"node": f"n-{number}", "__name__": "trn_node_efa_retransmit_max_ratio"}
        drafts.add([(labels, number / 1000)])
    found = _worst_efa_nodes(drafts, "n-3")
    assert found is not None
    assert len(found) == queries.SOME_EFA_NODES + 1
    assert found[0] == f"n-{queries.MAX_EFA_NODES}"
    assert found[-1] == "n-3"
    assert _worst_efa_nodes(Drafts(), None) is None


def test_the_history_knows_the_past_by_our_names() -> None:
    rows: list[tuple[Labels, float]] = [
        ({"__name__": "cluster:trn_node_efa_tx_bytes_per_second:sum", "job": "a"}, 3.0),
        ({"__name__": "cluster:trn_node_efa_tx_bytes_per_second:sum", "job": "b"}, 4.0),
        ({"__name__": "training_job:trn_job_comm_share:ratio", "training_job": "run7"}, 0.3),
        ({"__name__": "training_job:trn_job_info:count", "training_job": "run7"}, 16),
        ({"__name__": "node_load1"}, 1.0),
    ]
    assert dict(recorded_history(rows)) == {
        "/node_efa_tx_bytes_per_second": 7.0,
        "run7/job_comm_share_ratio": 0.3,
    }


def test_a_job_in_two_clusters_is_one_weighed_by_its_nodes() -> None:
    total = Totals()
    total.add_recorded([
        ({"__name__": f"training_job:trn_{name}", "training_job": "run7", "job": cluster}, value)
        for name, values in (
            ("job_info:count", (10, 30)),
            ("job_step_seconds:avg", (2.0, 4.0)),
            ("job_step:max", (118, 120)),
            ("job_comm_share:ratio", (0.1, 0.3)),
        )
        for cluster, value in zip("ab", values, strict=True)
    ])  # fmt: skip
    assert total.jobs == {
        "run7": {
            "nodes": 40,
            "job_step_seconds": 3.5,
            "job_step": 120,
            "job_comm_share_ratio": pytest.approx(0.25),
        }
    }


def test_sums_are_of_nodes_that_report() -> None:
    drafts = Drafts()
    for node, time in (("n-0", 1000.0), ("n-1", 700.0)):
        labels = {"node": node, "__name__": "trn_node_efa_tx_bytes_per_second"}
        drafts.add([(labels, 5.0)])
        drafts.add_instances([(labels, time)])
    total = Totals()
    total.add_nodes(iter(drafts.nodes.values()), 950.0)
    assert (total.nodes, total.values) == (2, {"node_efa_tx_bytes_per_second": 5.0})


def test_sums_of_two_clusters_are_weighed() -> None:
    total = Totals()
    total.add_recorded([
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
