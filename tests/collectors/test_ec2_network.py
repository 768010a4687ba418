"""What EC2 knows of the network of instances: moto's word, and answers as AWS documents them."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.moto_server import client_of, launch, reset, simulated_aws
from trntop.collectors import aws
from trntop.collectors.ec2_network import Ec2Network, facts_of
from trntop.core.settings import Fleet

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("servers")]
"""moto and werkzeug warn of things of their own."""


@pytest.fixture(scope="module")
def cloud() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    with pytest.MonkeyPatch.context() as patch, simulated_aws(patch) as url:
        yield url


async def test_an_instance_of_ours_and_one_that_is_not(cloud: str) -> None:
    reset(cloud)
    (instance,) = launch(1, {"Name": "trn-1"}, "trn1.32xlarge")
    facts = await Ec2Network(Fleet())([instance, "i-0123456789abcdef0", "nonsense", instance])
    assert facts.keys() == {instance}
    own = facts[instance]
    assert own["availability_zone"] == "us-west-2a"
    assert own["instance_type"] == "trn1.32xlarge"
    assert own["efa_interfaces_max"] == "8"
    assert own["subnet_id"].startswith("subnet-")


async def test_a_group_that_refers_to_itself(cloud: str) -> None:
    reset(cloud)
    ec2 = client_of("ec2")
    group = ec2.create_security_group(GroupName="efa", Description="EFA")["GroupId"]
    (instance,) = launch(1, {"Name": "trn-1"})
    ec2.modify_instance_attribute(InstanceId=instance, Groups=[group])
    rule = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=rule)
    own = (await Ec2Network(Fleet())([instance]))[instance]
    assert own["security_groups"] == group
    assert (own["security_self_inbound"], own["security_self_outbound"]) == ("yes", "no")
    # The rule that lets everything out is none for the group itself.
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=rule)
    own = (await Ec2Network(Fleet())([instance]))[instance]
    assert own["security_self_outbound"] == "yes"


async def test_nobody_is_asked_about_nothing() -> None:
    assert await Ec2Network(Fleet())(["", "trn-1"]) == {}


async def test_why_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def client(service: str, region: str) -> Any:
        raise aws.AwsError("no AWS region: set fleet.region or AWS_REGION")

    monkeypatch.setattr(aws, "client", client)
    with pytest.raises(aws.AwsError, match="no AWS region"):
        await Ec2Network(Fleet())(["i-0123456789abcdef0"])


def test_the_groups_that_count_are_those_of_the_efa_interfaces() -> None:
    instance = {
        "SubnetId": "subnet-1",
        "SecurityGroups": [{"GroupId": "sg-ssh"}],
        "NetworkInterfaces": [
            {"InterfaceType": "efa", "Groups": [{"GroupId": "sg-efa"}]},
            {"InterfaceType": "efa-only", "Groups": [{"GroupId": "sg-efa"}]},
            {"InterfaceType": "interface", "Groups": [{"GroupId": "sg-ssh"}]},
        ],
    }
    facts = facts_of(instance, 16, {"sg-efa": {"GroupId": "sg-efa"}})
    assert facts == {
        "subnet_id": "subnet-1",
        "security_groups": "sg-efa",
        "efa_interfaces_max": "16",
        "efa_interfaces": "2",
        "security_self_inbound": "no",
        "security_self_outbound": "no",
    }
    assert facts_of({}, None, {}) == {}
