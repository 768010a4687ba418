"""Records of steps and notes of stages."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reports import step_reading
from trntop.catalog import CATALOG, Entity
from trntop.core.errors import DecodeError
from trntop.core.model import Stage
from trntop.sources.steps import decode


def record(**members: Any) -> bytes:
    return json.dumps({"job": "j", "rank": 2, "step_seconds": 2.0} | members).encode()


def values(data: bytes) -> dict[str, float]:
    return {name: column.item() for name, column in decode(data).columns.items()}


def test_a_record() -> None:
    sample = decode(step_reading(0, job="pre\x1btrain", rank=3, step=7, seconds=4.0).data)
    assert sample.keys[Entity.JOB] == ("pre\ufffdtrain",)
    assert sample.part == "pre\ufffdtrain/3"
    assert sample.period == 4.0
    assert sample.columns["job_step"].tolist() == [7]
    assert sample.columns["job_tokens_per_second"].tolist() == [250]


def test_parts_that_contradict_the_step_are_absent() -> None:
    sample = decode(b'{"job":"j","step_seconds":2,"comm_seconds":5,"compute_seconds":2.05}')
    assert "job_comm_seconds" not in sample.columns
    assert sample.columns["job_compute_seconds"].tolist() == [2.0]
    assert "job_exposed_comm_seconds" not in sample.columns


@pytest.mark.parametrize(
    ("members", "exposed"),
    [
        ({"comm_seconds": 1.5, "overlap_seconds": 1.0}, 0.5),
        ({"comm_seconds": 1.5, "overlap_seconds": 1.55}, 0.0),
        ({"comm_seconds": 1.5, "overlap_seconds": 1.0, "exposed_comm_seconds": 0.25}, 0.25),
        ({"comm_seconds": 1.5, "overlap_seconds": 1.9}, None),
        ({"comm_seconds": 1.5, "overlap_seconds": -1}, None),
        ({"comm_seconds": 1.5}, None),
        ({"overlap_seconds": 1.0}, None),
        ({"comm_seconds": 3, "overlap_seconds": 1.0}, None),
    ],
)
def test_what_is_exposed(members: dict[str, float], exposed: float | None) -> None:
    assert values(record(**members)).get("job_exposed_comm_seconds") == exposed


def test_loss_and_utilization() -> None:
    reported = values(record(loss=-2.5, mfu=0.38))
    assert (reported["job_loss"], reported["job_mfu_ratio"]) == (-2.5, 0.38)


@pytest.mark.parametrize(
    "members",
    [
        {"loss": math.nan, "mfu": math.inf},
        {"mfu": 38.0, "tokens": -1, "step": -1},
        {"mfu": -0.1, "tokens": "x", "loss": [], "step": None},
    ],
)
def test_nonsense_is_absent(members: dict[str, Any]) -> None:
    minimum = {"job_ranks": 1, "job_step_seconds": 2, "rank_step_seconds": 2}
    assert values(record(**members)) == minimum


def test_a_rank_reports_the_quantities_of_its_job() -> None:
    sample = decode(record(compute_seconds=1.5, comm_seconds=0.7, pipeline_stage=2))
    assert sample.keys[Entity.RANK] == ("j/2",)
    reported = {name: column.item() for name, column in sample.columns.items()}
    assert reported["rank_compute_seconds"] == reported["job_compute_seconds"] == 1.5
    assert reported["rank_comm_seconds"] == reported["job_comm_seconds"] == 0.7
    assert reported["rank_pipeline_stage"] == 2


@pytest.mark.parametrize("seconds", ["0", "-1", "1e9", '"x"', "null"])
def test_no_usable_duration(seconds: str) -> None:
    with pytest.raises(DecodeError):
        decode(f'{{"job":"j","step_seconds":{seconds}}}'.encode())


def test_a_note() -> None:
    note = b'{"job":"a\\u0007","rank":3,"stage":"checkpointing","since":1763650000.5,"time":1}'
    sample = decode(note)
    assert sample.facts == {"stages": {"a\ufffd": (Stage.CHECKPOINTING, 1763650000.5)}}
    assert sample.part == "a\ufffd/3/stage"
    assert (sample.keys, sample.columns, sample.period) == ({}, {}, None)


@pytest.mark.parametrize("stage", Stage)
def test_all_stages(stage: Stage) -> None:
    assert decode(record(stage=stage, since=5)).facts["stages"]["j"] == (stage, 5)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"stage": "sleeping\x1b", "since": 1}, "unknown stage 'sleeping\ufffd'; known are comp"),
        ({"stage": "evaluating"}, "no usable `since`"),
        ({"stage": "evaluating", "since": -1}, "no usable `since`"),
        ({"stage": "evaluating", "since": math.inf}, "no usable `since`"),
    ],
)
def test_no_usable_note(members: dict[str, Any], reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode(record(**members))


NUMBERS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
MEMBERS = ["job", "rank", "step", "step_seconds", "compute_seconds", "comm_seconds",
           "overlap_seconds", "exposed_comm_seconds", "tokens", "loss", "mfu", "pipeline_stage",
           "stage", "since", "time"]  # fmt: skip


@given(st.dictionaries(st.sampled_from(MEMBERS), NUMBERS), st.floats(0.001, 1e5))
def test_it_decodes_or_refuses(members: dict[str, Any], seconds: float) -> None:
    try:
        sample = decode(json.dumps({"step_seconds": seconds} | members).encode())
    except DecodeError:
        return
    for name, column in sample.columns.items():
        assert CATALOG[name].entity in (Entity.JOB, Entity.RANK)
        assert math.isfinite(column.item())
        assert name == "job_loss" or column.item() >= 0


def test_collectives_by_kind() -> None:
    sample = decode(
        record(
            reduction_seconds=1.0,
            collectives={
                "all_reduce": {"count": 3, "seconds": 0.5, "bytes": 1e9, "bus_bytes": 1.5e9},
                "all_gather": {"count": 1, "seconds": 7},
                "gossip": {"count": 1, "seconds": 1},
            },
        )
    )
    by_kind = {
        name: column.item()
        for name, column in sample.columns.items()
        if name.startswith(("job_all", "job_reduction", "job_gossip"))
    }
    assert by_kind == {
        "job_reduction_seconds": 1.0,
        "job_all_reduce_calls": 3,
        "job_all_reduce_seconds": 0.5,
        "job_all_reduce_bytes": 1e9,
        "job_all_reduce_bus_bytes": 1.5e9,
        "job_all_gather_calls": 1,
    }


def test_a_kind_that_is_damaged_is_absent() -> None:
    sample = decode(record(collectives={"all_reduce": 7, "all_gather": {"seconds": "x"}}))
    assert not [name for name in sample.columns if name.startswith("job_all")]
    assert sample.problems
