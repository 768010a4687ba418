import pytest

from tests.reports import step_reading
from trntop.catalog import Entity
from trntop.decode.steps import decode
from trntop.errors import DecodeError


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


@pytest.mark.parametrize("seconds", ["0", "-1", "1e9", '"x"', "null"])
def test_no_usable_duration(seconds: str) -> None:
    with pytest.raises(DecodeError):
        decode(f'{{"job":"j","step_seconds":{seconds}}}'.encode())
