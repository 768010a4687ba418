"""An aggregator of aggregators finds what one aggregator of all nodes finds, from less."""

import pytest

from tests.levels import Levels
from trntop.analysis.rule_inputs import rule_inputs
from trntop.collectors.simulator import parse, simulate, truth
from trntop.core.model import View
from trntop.core.settings import Settings
from trntop.pipeline.totals import totals_of
from trntop.session.monitor import Monitor, Player, play

START = 1.76e9
NODES, SENT = 8, 2


def last(text: str, player: Player[View]) -> View:
    """The view at the end of a simulation."""
    *_, view = play(simulate(parse(text), START), player)
    return view


def found(view: View) -> list[tuple[str, str | None, str | None, bool]]:
    return [
        (incident.kind, incident.node, incident.component, incident.open)
        for incident in view.incidents
    ]


@pytest.mark.parametrize("scenario", ["slow-node", "efa-degraded", "hang", "silent-node"])
def test_two_levels_find_what_one_finds(scenario: str) -> None:
    """Each of two lower aggregators has half of the job."""
    text = f"sim:{scenario}?nodes={NODES}&type=trn1.32xlarge&onset=90&duration=200&minutes=3"
    wanted = rule_inputs()
    direct = last(text, Monitor(Settings(), wanted=wanted))
    levels = last(text, Levels(2, SENT, wanted))
    assert found(levels) == found(direct)
    (fault,) = truth(parse(text), START)
    (incident,) = levels.incidents
    assert (incident.kind, incident.node) == (fault.kind, fault.node)
    assert incident.opened_at == pytest.approx(direct.incidents[0].opened_at, abs=5)
    # The faulty node is among the few that are sent; the totals are of all.
    assert incident.node in levels.cluster.nodes
    assert len(levels.cluster.nodes) == 2 * SENT
    assert levels.cluster.size == NODES


def test_the_totals_are_those_of_all_nodes() -> None:
    text = f"sim:healthy?nodes={NODES}&type=trn1.32xlarge&minutes=0.5"
    direct, levels = (
        totals_of(last(text, player).cluster) for player in (Monitor(Settings()), Levels(2, SENT))
    )
    assert (levels.nodes, levels.down, levels.simulated) == (
        direct.nodes,
        direct.down,
        direct.simulated,
    )
    assert levels.values == pytest.approx(direct.values)
    (job,) = direct.jobs
    assert levels.jobs == {job: pytest.approx(direct.jobs[job])}
