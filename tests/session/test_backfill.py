"""A monitor that gets the backfill of its nodes equals one that was there from the start."""

import pytest

from tests.corpus import SCENARIOS, SMALL, START, played
from trntop.analysis.rule_inputs import rule_inputs
from trntop.collectors.fleet.backfill import readings
from trntop.collectors.simulator import parse, simulate
from trntop.core.model import Incident, Reading, View
from trntop.core.settings import Settings
from trntop.exporters.web.history import HistoryBuffer
from trntop.remote import backfill as blocks
from trntop.remote.wire import FrameReader
from trntop.session.monitor import Monitor, play, play_backfill

pytestmark = pytest.mark.xdist_group("corpus")

AHEAD = 8.0
"""Seconds that the clock of the nodes is ahead."""
FEW = ("healthy", "efa-degraded", "hang")
"""Of the ordinary tests; the others need a minute."""
NAMES = [
    pytest.param(name, marks=() if name in FEW else pytest.mark.slow)
    for name in sorted({*SCENARIOS, "healthy"})
]


def backfilled(
    history: HistoryBuffer, now: float, *, dense: bool = True, monitor: Monitor | None = None
) -> View:
    """The last view of a monitor that plays a backfill at `now`."""
    by_node: dict[str, list[blocks.Block]] = {}
    for chunk in history.blocks(None, blocks.SECONDS, dense=dense):
        for message in FrameReader().feed(chunk):
            block = blocks.decode(message)
            by_node.setdefault(block.node, []).append(block)
    backfills: list[list[Reading]] = [
        list(readings(node, found, AHEAD, now + 1.0)) for node, found in by_node.items()
    ]
    *_, view = play_backfill(backfills, monitor or Monitor(Settings()), now - AHEAD)
    return view


def facts(incidents: tuple[Incident, ...]) -> set[tuple[object, ...]]:
    return {(i.kind, i.severity, i.job, i.node, i.component, i.open) for i in incidents}


def key(incident: Incident) -> tuple[object, ...]:
    return next(iter(facts((incident,))))


def changed(incident: Incident) -> float:
    """When it was found, or when it was known to be over."""
    return max(incident.detected_at or incident.opened_at, (incident.closed_at or -30.0) + 30.0)


@pytest.mark.parametrize("name", NAMES)
def test_opened_late_it_has_the_incidents_of_the_past(name: str) -> None:
    direct = played(name)
    late = backfilled(direct.history, direct.last.time)
    assert facts(late.incidents) == facts(direct.last.incidents)
    for incident, same in zip(late.incidents, direct.last.incidents, strict=True):
        assert incident.opened_at + AHEAD == pytest.approx(same.opened_at, abs=5.0)


@pytest.mark.parametrize("name", NAMES)
def test_sparse_frames_show_the_same_within_five_seconds(name: str) -> None:
    direct = played(name)
    late = backfilled(direct.history, direct.last.time, dense=False)
    assert {i.kind for i in late.incidents} == {i.kind for i in direct.last.incidents}
    for incident, same in zip(late.incidents, direct.last.incidents, strict=True):
        assert incident.severity is same.severity
        assert incident.opened_at + AHEAD == pytest.approx(same.opened_at, abs=5.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_at_any_time_it_has_what_one_has_that_was_open_from_the_start(name: str) -> None:
    """What has just been found may wait for a frame each; what is over or lasts is the same."""
    simulation = parse(f"sim:{name}?{SCENARIOS[name]}&{SMALL}")
    history = HistoryBuffer(1.0, aggregator=True)
    compared = 0
    for view in play(simulate(simulation, START), Monitor(Settings(), wanted=rule_inputs())):
        history.append(view)
        if not view.incidents or round(view.time - START) % 20:
            continue
        late = backfilled(history, view.time)
        settled = {
            fact
            for fact, incident in zip(map(key, view.incidents), view.incidents, strict=True)
            if changed(incident) < view.time - 5.0
        }
        assert settled <= set(map(key, late.incidents)), view.time - START
        compared += len(settled)
        same = {key(incident): incident.opened_at for incident in view.incidents}
        for incident in late.incidents:
            if key(incident) in same:
                assert incident.opened_at + AHEAD == pytest.approx(same[key(incident)], abs=5.0)
    assert compared


def test_charts_have_the_past() -> None:
    direct, monitor = played("efa-degraded"), Monitor(Settings())
    backfilled(direct.history, direct.last.time, monitor=monitor)
    name, quantity = "trn-001", "node_efa_tx_bytes_per_second"
    times, values = monitor.history.node(quantity, name, 1000)
    then = {round(view.time): view.cluster.nodes[name].frame for view in direct.views}
    compared = 0
    for time, value in zip((times + AHEAD).round().tolist(), values.tolist(), strict=True):
        # The last seconds are of each tick.
        if time in then and time > direct.last.time - blocks.DENSE_SECONDS + 60:
            expected = then[time].columns[quantity]
            assert value == pytest.approx(float(expected[0]), rel=1e-6, nan_ok=True)
            compared += 1
    assert compared >= 4
