"""What the screen reports on its Prometheus backend."""

import dataclasses

from tests.builders import make_view
from tests.tui.render.contexts import CONTEXT
from trntop.core.model import ClusterTotals
from trntop.core.settings import Analysis
from trntop.pipeline.history import History
from trntop.tui.render import prometheus
from trntop.tui.view_model import ViewModel


def of(whole: ClusterTotals) -> ViewModel:
    made = make_view(2)
    cluster = dataclasses.replace(made.cluster, whole=whole)
    return ViewModel(dataclasses.replace(made, cluster=cluster), History(10), Analysis())


def test_long_words_end_with_an_ellipsis() -> None:
    whole = ClusterTotals(nodes=2, problem="why " * 40, notes=("what " * 40, "more"))
    problem, note = (
        "".join(text for text, _ in parts) for _, parts in prometheus.groups(of(whole), CONTEXT)
    )
    assert problem.endswith("…")
    assert len(problem) == prometheus.LONGEST
    assert note.endswith("… +1")


def test_partial_sums_are_marked() -> None:
    assert prometheus.partial(of(ClusterTotals(nodes=2))) == ""
    assert prometheus.partial(of(ClusterTotals(nodes=900, chosen=True))) == "of the 2 nodes shown"
