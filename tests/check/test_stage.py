"""Finished stages: what they spent in communication, and what the next doubling would."""

import pytest

from trntop.check.model import Outcome
from trntop.check.stage import Stage, findings, outlook_of, stage_of
from trntop.cli import opening
from trntop.core.errors import UsageError
from trntop.core.settings import Analysis, Settings
from trntop.core.source_spec import parse
from trntop.session.monitor import Monitor, play


def stage(nodes: int, comm: float | None, exposed: float | None = 0.1) -> Stage:
    return Stage(
        name=f"run{nodes}.jsonl",
        job="pretrain",
        nodes=nodes,
        step_seconds=4.0,
        comm_seconds=comm,
        exposed_comm_seconds=exposed,
    )


def test_two_stages_grow_by_the_same_with_each_doubling() -> None:
    outlook = outlook_of([stage(16, 0.9, 0.3), stage(4, 0.5, 0.1)], Analysis())
    assert [one.nodes for one in outlook.stages] == [4, 16, 32]
    forecast = outlook.stages[-1]
    assert forecast.forecast
    assert forecast.comm_seconds == pytest.approx(0.9 + 0.2)
    assert forecast.exposed_comm_seconds == pytest.approx(0.3 + 0.1)
    assert forecast.step_seconds == pytest.approx(4.1)
    assert outlook.sentences[-1] == (
        "pretrain on 32 nodes, forecast by the growth of the last doubling: step 4.10 s,"
        " communication 1.10 s, 27 % of the step, above the limit of 25 %; exposed 9.8 %"
    )
    (finding,) = findings(outlook, Analysis())
    assert finding.outcome is Outcome.WARN
    assert finding.text == (
        "pretrain would be at 27 % communication on 32 nodes, limit 25 % of a step"
    )


def test_one_stage_gives_a_lower_bound_by_the_volume_of_a_ring() -> None:
    outlook = outlook_of([stage(2, 0.6)], Analysis())
    forecast = outlook.stages[-1]
    assert forecast.comm_seconds == pytest.approx(0.6 * (3 / 4) / (1 / 2))
    assert forecast.exposed_comm_seconds == pytest.approx(0.1 + 0.3)
    assert "forecast at least" in outlook.sentences[-1]


def test_what_got_faster_is_not_forecast_to_vanish() -> None:
    outlook = outlook_of([stage(4, 0.9), stage(8, 0.8)], Analysis())
    assert outlook.stages[-1].comm_seconds == pytest.approx(0.8)


def test_what_is_not_known_does_not_pass() -> None:
    (finding,) = findings(outlook_of([stage(8, None)], Analysis()), Analysis())
    assert finding.outcome is Outcome.UNKNOWN
    assert "pretrain on 8 nodes report no communication time" in finding.text


def test_two_stages_of_one_size_are_named() -> None:
    with pytest.raises(UsageError, match="two stages ran on 8 nodes"):
        outlook_of([stage(4, 0.5), stage(8, 0.6), stage(8, 0.7)], Analysis())


def test_exposed_communication_above_its_limit_fails() -> None:
    outlook = outlook_of([stage(8, 1.6, 1.2)], Analysis())
    outcomes = [one.outcome for one in findings(outlook, Analysis())]
    assert outcomes == [Outcome.FAIL, Outcome.WARN]


def test_no_forecast_and_why() -> None:
    assert outlook_of([stage(1, 0.5)], Analysis()).sentences[-1] == (
        "no forecast: one node has no communication"
    )
    outlook = outlook_of([stage(4, None, None)], Analysis())
    assert "communication not reported" in outlook.sentences[0]
    assert outlook.sentences[-1].startswith(
        "no forecast: the recordings have no communication times"
    )
    assert [one.outcome for one in findings(outlook, Analysis())] == [Outcome.UNKNOWN]


def test_stages_of_one_size_say_nothing_about_growth() -> None:
    with pytest.raises(UsageError, match="two stages ran on 4 nodes"):
        outlook_of([stage(4, 0.5), stage(4, 0.6)], Analysis())


def test_a_stage_of_a_stream() -> None:
    streams = opening.Streams([parse("sim:healthy?nodes=2&minutes=1")])
    found = stage_of("x", play(streams(), Monitor(Settings())))
    assert found.nodes == 2
    assert found.comm_share is not None and 0 < found.comm_share < 0.5
    assert found.exposed_share is not None and found.exposed_share < found.comm_share
    with pytest.raises(UsageError, match="x: no job reports steps"):
        stage_of("x", [])
