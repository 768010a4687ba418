"""What EC2 knows of the network of instances, for a check: place, interfaces, security groups.

Asked are DescribeInstances, DescribeInstanceTypes and DescribeSecurityGroups, by the ids that nodes
say they have; those of another account or region are not told, and have no facts. EFA needs a
security group that lets all traffic of its own members in, and out to them, even if another rule
lets everything out (EFA's part of the EC2 User Guide).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trntop.check.expected import ATTACHED, MAXIMUM
from trntop.check.subjects import location
from trntop.core.settings import Fleet
from trntop.core.text import clean

from . import aws
from .worker import StuckError, Worker

BATCH = 100
"""Most ids in one question."""
_INSTANCE = re.compile(r"i-[0-9a-f]{8,17}", re.ASCII)
_ALL = "-1"
"""The protocol that stands for all traffic."""
_EFA = ("efa", "efa-only")

Facts = dict[str, dict[str, str]]


class Ec2Network:
    """Asks EC2, with the credentials and the region of this machine.

    Args:
        fleet: the region, if not the configured one.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._region = fleet.region

    async def __call__(self, instances: Sequence[str]) -> Facts:
        """Instance id → its facts.

        Raises:
            AwsError: AWS does not tell.
        """
        wanted = [one for one in dict.fromkeys(instances) if _INSTANCE.fullmatch(one)]
        if not wanted:
            return {}
        worker = Worker("trntop ec2 network")
        try:
            return await worker.call(lambda: self._ask(wanted), aws.DEADLINE)
        except StuckError:
            raise aws.AwsError("AWS has not answered in time") from None
        finally:
            worker.close()

    def _ask(self, wanted: Sequence[str]) -> Facts:
        client = aws.client("ec2", self._region)
        listed = {
            str(one.get("InstanceId")): one
            for reservation in _listed(
                client, "DescribeInstances", "describe_instances", "instance-id", wanted,
                "Reservations",
            )
            for one in reservation.get("Instances", ())
        }  # fmt: skip
        types = {str(one.get("InstanceType", "")) for one in listed.values()}
        most = {
            str(one.get("InstanceType")): _interfaces(one)
            for one in _listed(
                client, "DescribeInstanceTypes", "describe_instance_types", "instance-type",
                sorted(types), "InstanceTypes",
            )
        }  # fmt: skip
        groups = {
            str(one.get("GroupId")): one
            for one in _listed(
                client, "DescribeSecurityGroups", "describe_security_groups", "group-id",
                sorted({group for one in listed.values() for group in _groups(one)}),
                "SecurityGroups",
            )
        }  # fmt: skip
        return {
            key: facts_of(one, most.get(str(one.get("InstanceType"))), groups)
            for key, one in listed.items()
        }


def facts_of(
    instance: Mapping[str, Any], most: int | None, groups: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """The facts of one instance.

    Args:
        instance: as DescribeInstances has it.
        most: EFA interfaces that its type takes.
        groups: security groups by id, as DescribeSecurityGroups has them.
    """
    place = instance.get("Placement") or {}
    attached = sum(_is_efa(one) for one in instance.get("NetworkInterfaces", ()))
    own = _groups(instance)
    known = [groups[one] for one in own if one in groups]
    facts = {
        "instance_type": instance.get("InstanceType"),
        "availability_zone": place.get("AvailabilityZone"),
        location.ZONE: place.get("AvailabilityZoneId"),
        location.GROUP: place.get("GroupName"),
        location.SUBNET: instance.get("SubnetId"),
        location.SECURITY: ",".join(own),
        MAXIMUM: most,
        ATTACHED: attached or None,
        location.INBOUND: _to_itself(known, "IpPermissions"),
        location.OUTBOUND: _to_itself(known, "IpPermissionsEgress"),
    }
    return {name: clean(str(value)) for name, value in facts.items() if value not in (None, "")}


def _listed(
    client: Any, action: str, operation: str, key: str, wanted: Sequence[str], field: str
) -> Iterator[dict[str, Any]]:
    """What there is of that kind; a filter, unlike an id, does not mind what does not exist."""
    for start in range(0, len(wanted), BATCH):
        filters = [{"Name": key, "Values": list(wanted[start : start + BATCH])}]
        for page in aws.pages(client, f"ec2:{action}", operation, {"Filters": filters}):
            yield from page.get(field, ())


def _interfaces(kind: Mapping[str, Any]) -> int | None:
    efa = (kind.get("NetworkInfo") or {}).get("EfaInfo") or {}
    count = efa.get("MaximumEfaInterfaces")
    return count if isinstance(count, int) else None


def _is_efa(interface: Mapping[str, Any]) -> bool:
    return interface.get("InterfaceType") in _EFA


def _groups(instance: Mapping[str, Any]) -> list[str]:
    """Security groups of its EFA interfaces; without any, of the instance."""
    cards = [one for one in instance.get("NetworkInterfaces", ()) if _is_efa(one)]
    found: Iterable[Any] = (group for one in cards for group in one.get("Groups", ()))
    if not cards:
        found = instance.get("SecurityGroups", ())
    return sorted({str(group.get("GroupId")) for group in found if group.get("GroupId")})


def _to_itself(groups: Sequence[Mapping[str, Any]], way: str) -> str | None:
    """Whether a group has a rule for all traffic from or to itself; None where none is known."""
    if not groups:
        return None
    for group in groups:
        for rule in group.get(way, ()):
            others = [pair.get("GroupId") for pair in rule.get("UserIdGroupPairs", ())]
            if str(rule.get("IpProtocol")) == _ALL and group.get("GroupId") in others:
                return "yes"
    return "no"
