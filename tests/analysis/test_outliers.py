"""Evidence besides that of the rule: what else sets the node of an incident apart."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.analysis.training import Job, Slow, analyzed
from trntop.core.model import Cluster

JOB = Job(nodes=6, slow=(Slow(2, 0.15, 60),))


def with_values(
    clusters: Iterable[Cluster], name: str, usual: float, **nodes: float
) -> Iterator[Cluster]:
    """The same clusters with one more quantity of all nodes."""
    for cluster in clusters:
        views = {}
        for node, view in cluster.nodes.items():
            values = np.array([nodes.get(node, usual)])
            columns = {**view.frame.columns, name: values}
            views[node] = replace(view, frame=replace(view.frame, columns=columns))
        yield Cluster(cluster.time, views)


def unlike(clusters: Iterable[Cluster]) -> list[str]:
    """What the straggler's evidence states of other quantities."""
    (incident,) = analyzed(clusters, ("straggler",))
    assert incident.node == "n2"
    return [evidence.text for evidence in incident.evidence if evidence.text.startswith("unlike")]


def test_a_quantity_in_which_only_the_culprit_differs() -> None:
    io_wait = with_values(JOB.clusters(130), "node_vcpu_io_wait_ratio", 0.01, n2=0.35)
    load = with_values(io_wait, "node_load1", 20.0, n2=21.0)
    assert unlike(load) == [
        "unlike its peers: share of vCPU time in mode io wait 35 %, median of 5 others 1.0 %"
    ]


@pytest.mark.parametrize(
    ("usual", "nodes"),
    [
        (0.01, {"n4": 0.35}),  # another node
        (0.01, {"n2": 0.03}),  # three times as much, but little
        (0.01, {"n2": 0.35, "n3": 0.3, "n4": 0.2}),  # several nodes
        (0.80, {"n2": 0.95}),  # a fifth more
        (float("nan"), {"n2": 0.35}),  # nothing to compare it with
    ],
)
def test_what_is_no_departure(usual: float, nodes: dict[str, float]) -> None:
    clusters = with_values(JOB.clusters(130), "node_vcpu_io_wait_ratio", usual, **nodes)
    assert unlike(clusters) == []
