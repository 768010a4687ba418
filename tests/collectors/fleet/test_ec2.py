import datetime
import logging
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from tests.moto_server import answer, client_of, launch, reset, simulated_aws
from trntop.collectors import aws
from trntop.collectors.aws import client
from trntop.collectors.fleet.ec2 import Ec2, filters_of
from trntop.collectors.fleet.target import FindError, Target
from trntop.core.errors import UsageError
from trntop.core.settings import Fleet

FLEET = Fleet()
ENDS = datetime.datetime(2026, 12, 1, 11, 30, tzinfo=datetime.UTC)

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("servers")]
"""moto and werkzeug warn of things of their own."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    with pytest.MonkeyPatch.context() as patch, simulated_aws(patch) as url:
        patch.setattr(aws, "client", _cached_client)
        yield url


def _cached_client(service: str, region: str) -> Any:
    """A client takes half a second of CPU to build."""
    return _client_at(os.environ["AWS_ENDPOINT_URL"], service, region)


@cache
def _client_at(url: str, service: str, region: str) -> Any:
    return client(service, region)


@pytest.fixture(autouse=True)
def cloud(server: str) -> str:
    """An empty cloud."""
    reset(server)
    return server


def by_id(targets: list[Target]) -> dict[str, Target]:
    return {target.facts["instance_id"]: target for target in targets}


async def test_instances_by_tag_join_and_leave() -> None:
    (first,) = launch(1, {"Name": "trn-1", "run": "7"})
    launch(1, {"Name": "other", "run": "8"})
    nodes = Ec2("tag/run=7", FLEET)
    (target,) = await nodes.find()
    assert target.name == "trn-1"
    private = client_of("ec2").describe_instances(InstanceIds=[first])
    address = private["Reservations"][0]["Instances"][0]["PrivateIpAddress"]
    assert target.address == f"http://{address}:10042"
    (second,) = launch(1, {"Name": "trn-2", "run": "7"})
    assert by_id(await nodes.find()).keys() == {first, second}
    client_of("ec2").terminate_instances(InstanceIds=[first])
    assert by_id(await nodes.find()).keys() == {second}


async def test_all_filters_must_hold_and_may_have_wildcards() -> None:
    wanted = launch(2, {"Name": "a-1", "run": "seven"})
    launch(1, {"Name": "a-2", "run": "seven"}, "trn1.32xlarge")
    launch(1, {"Name": "b-1", "run": "eight"})
    found = await Ec2("tag/run=sev*,type=trn2.48xlarge", FLEET).find()
    assert by_id(found).keys() == set(wanted)


async def test_facts_of_an_instance() -> None:
    (instance,) = launch(1, {"Name": "trn-1"})
    (target,) = await Ec2("type=trn2.48xlarge", FLEET).find()
    facts = dict(target.facts)
    assert facts.pop("subnet_id").startswith("subnet-")
    assert facts == {
        "instance_id": instance,
        "instance_name": "trn-1",
        "instance_type": "trn2.48xlarge",
        "instance_state": "running",
        "availability_zone": "us-west-2a",
        "status_checks": "passed",
    }


async def test_checks_that_fail_and_events_that_come(monkeypatch: pytest.MonkeyPatch) -> None:
    launch(1, {"Name": "trn-1"})

    def statuses(ids: list[str]) -> dict[str, Any]:
        events = [
            {"Code": "system-reboot", "Description": "[Completed] reboot", "NotBefore": ENDS},
            {"Code": "instance-stop", "Description": "hardware", "NotBefore": ENDS},
            {"Code": "system-maintenance", "Description": "\u202eevil",
             "NotBefore": ENDS + datetime.timedelta(days=1)},
        ]  # fmt: skip
        return {
            "InstanceStatuses": [
                {
                    "InstanceId": instance,
                    "SystemStatus": {"Status": "impaired"},
                    "InstanceStatus": {"Status": "ok"},
                    "Events": events,
                }
                for instance in ids
            ]
        }

    answer(monkeypatch, "describe_instance_status", "InstanceIds", statuses)
    (target,) = await Ec2("type=trn2.48xlarge", FLEET).find()
    assert target.facts["status_checks"] == "system impaired"
    assert target.facts["scheduled_event"] == "instance-stop from 2026-12-01T11:30:00Z"


async def test_a_stopped_instance_stays_and_is_marked() -> None:
    (instance,) = launch(1, {"Name": "trn-1"})
    nodes = Ec2("tag/Name=trn-1", FLEET)
    await nodes.find()
    client_of("ec2").stop_instances(InstanceIds=[instance])
    (target,) = await nodes.find()
    assert target.facts["instance_state"] == "stopped"
    assert "Client.UserInitiatedShutdown" in target.facts["state_reason"]
    assert "status_checks" not in target.facts


async def test_names_that_are_not_one_nodes_give_way_to_hosts() -> None:
    launch(2, {"Name": "worker"})
    nodes = Ec2("tag/Name=worker", FLEET)
    names = sorted(target.name for target in await nodes.find())
    assert all(name.startswith("ip-") for name in names)
    launch(1, {"Name": "worker"})
    assert set(names) < {target.name for target in await nodes.find()}


async def test_a_name_once_given_stays() -> None:
    (first,) = launch(1, {"Name": "trn-1"})
    nodes = Ec2("tag/Name=trn-1", FLEET)
    assert by_id(await nodes.find())[first].name == "trn-1"
    launch(1, {"Name": "trn-1"})
    found = by_id(await nodes.find())
    assert found[first].name == "trn-1"
    assert len({target.name for target in found.values()}) == 2


@pytest.mark.parametrize("tag", ["a b", "\u202eevil", "../etc", "", "-rf", "169.254.169.254"])
async def test_a_tag_that_is_no_name_is_not_taken(tag: str) -> None:
    launch(1, {"Name": tag, "run": "7"})
    (target,) = await Ec2("tag/run=7", FLEET).find()
    assert target.name.startswith("ip-")


async def test_without_permission_the_status_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    launch(1, {"Name": "trn-1"})

    def deny(_: list[str]) -> dict[str, Any]:
        from moto.ec2.exceptions import EC2ClientError

        raise EC2ClientError("UnauthorizedOperation", "You are not, arn:aws:iam::123:role/x")

    answer(monkeypatch, "describe_instance_status", "InstanceIds", deny)
    nodes = Ec2("tag/Name=trn-1", FLEET)
    (target,) = await nodes.find()
    assert target.facts["instance_state"] == "running"
    assert "status_checks" not in target.facts


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("UnauthorizedOperation", "ec2:DescribeInstances is not allowed for these credentials"),
        ("ExpiredToken", "the AWS credentials have expired"),
        ("AuthFailure", "the AWS credentials are not valid"),
        ("InternalError", "ec2:DescribeInstances: InternalError"),
    ],
)
async def test_refusals_in_words(code: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: list[str]) -> dict[str, Any]:
        from moto.ec2.exceptions import EC2ClientError

        raise EC2ClientError(code, "secret arn:aws:iam::123456789012:role/x")

    monkeypatch.setattr(aws, "TRIES", 1)
    answer(monkeypatch, "describe_instances", "InstanceIds", refuse)
    with pytest.raises(FindError, match=message) as caught:
        await Ec2("tag/Name=trn-1", FLEET).find()
    assert "123456789012" not in str(caught.value)


async def test_no_credentials_and_nothing_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws, "client", client)
    monkeypatch.setattr(aws, "TRIES", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(FindError, match="cannot be reached"):
        await Ec2("tag/Name=trn-1", FLEET).find()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(FindError, match="no AWS credentials found"):
        await Ec2("tag/Name=trn-1", FLEET).find()
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(FindError, match=r"no AWS region: set fleet\.region"):
        await Ec2("tag/Name=trn-1", FLEET).find()
    with pytest.raises(FindError):
        await Ec2("tag/Name=trn-1", Fleet(region="no such region")).find()


async def test_what_answers_is_not_aws(cloud: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws, "TRIES", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"{cloud}/moto-api/nothing")
    with pytest.raises(FindError):
        await Ec2("tag/Name=trn-1", FLEET).find()


@pytest.mark.parametrize(
    "text", ["", "x", "tag/=x", "tag/Name", "tag/Name=", "color=red", "type=a,type=b", "type=a\x1b"]
)
def test_filters_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="ec2:"):
        filters_of(text)


def test_filters_in_the_words_of_ec2() -> None:
    filters = filters_of("tag/Name=run7, zone=us-west-2b,state=running")
    assert filters == [
        {"Name": "tag:Name", "Values": ["run7"]},
        {"Name": "availability-zone", "Values": ["us-west-2b"]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]
