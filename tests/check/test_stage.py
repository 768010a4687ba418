"""Finished stages: what they spent in communication."""

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


def outcomes(*stages: Stage) -> list[Outcome]:
    return [one.outcome for one in findings(outlook_of(stages, Analysis()), Analysis())]


def test_each_stage_has_a_sentence_the_smallest_first() -> None:
    outlook = outlook_of([stage(16, 1.2, 0.3), stage(4, 0.5, None)], Analysis())
    assert [one.nodes for one in outlook.stages] == [4, 16]
    assert outlook.sentences == [
        "pretrain on 4 nodes (run4.jsonl): step 4.00 s, communication 500 ms, 12 % of the step,"
        " below the limit of 25 %",
        "pretrain on 16 nodes (run16.jsonl): step 4.00 s, communication 1.20 s, 30 % of the step,"
        " above the limit of 25 %; exposed 7.5 %",
    ]


def test_communication_above_its_limit_warns_and_exposed_fails() -> None:
    (finding,) = findings(outlook_of([stage(16, 1.2)], Analysis()), Analysis())
    assert finding.outcome is Outcome.WARN
    assert finding.text == "pretrain was at 30 % communication on 16 nodes, limit 25 % of a step"
    assert outcomes(stage(8, 1.6, 1.2)) == [Outcome.FAIL]
    assert outcomes(stage(8, 0.5)) == []


def test_a_stage_without_communication_times_is_inconclusive() -> None:
    outlook = outlook_of([stage(8, None)], Analysis())
    assert "communication not reported" in outlook.sentences[0]
    (finding,) = findings(outlook, Analysis())
    assert finding.outcome is Outcome.UNKNOWN
    assert "pretrain on 8 nodes report no communication time" in finding.text


def test_a_stage_of_a_stream() -> None:
    streams = opening.Streams([parse("sim:healthy?nodes=2&minutes=1")])
    found = stage_of("x", play(streams(), Monitor(Settings())))
    assert found.nodes == 2
    assert found.comm_share is not None and 0 < found.comm_share < 0.5
    assert found.exposed_share is not None and found.exposed_share < found.comm_share
    with pytest.raises(UsageError, match="x: no job reports steps"):
        stage_of("x", [])
