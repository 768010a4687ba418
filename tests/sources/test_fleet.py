import json

import pytest

from trntop.core.errors import DecodeError
from trntop.sources.fleet import MAX_FACTS, decode


def test_facts_are_cleaned() -> None:
    sample = decode(b'{"facts": {"placement_group": "pg\\u0007", "gone": ""}, "period": 30}')
    assert sample.facts == {"facts": {"placement_group": "pg�", "gone": ""}}
    assert sample.period == 30
    assert not sample.unusable


@pytest.mark.parametrize("state", ["", "running", "pending"])
def test_a_running_instance_has_no_reason(state: str) -> None:
    assert not decode(json.dumps({"facts": {"instance_state": state}}).encode()).unusable


def test_a_stopped_instance_has_a_reason() -> None:
    facts = {"instance_state": "stopped", "state_reason": "Client.UserInitiatedShutdown"}
    sample = decode(json.dumps({"facts": facts}).encode())
    assert sample.unusable == "EC2 reports: stopped (Client.UserInitiatedShutdown)"


@pytest.mark.parametrize("period", [0, -1, None])
def test_a_period_that_is_none_is_not_taken(period: float | None) -> None:
    assert decode(json.dumps({"facts": {}, "period": period}).encode()).period is None


def test_facts_are_few() -> None:
    facts = {f"name{index}": "x" for index in range(1000)}
    assert len(decode(json.dumps({"facts": facts}).encode()).facts["facts"]) == MAX_FACTS


@pytest.mark.parametrize("data", [b"", b"[]", b"nonsense"])
def test_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)
