"""Nodes that EC2 lists, `ec2:FILTER[,FILTER]`, with the state of their instances.

A filter is `tag/KEY=VALUE`, `type=`, `id=`, `state=`, `zone=`, `group=` (placement group) or
`vpc=`; all must match, and `*` and `?` are wildcards as in EC2. Without `state=` all instances that
are not terminated are listed, so that a node that was stopped is shown as stopped.

DescribeInstances gives identity, location and state, DescribeInstanceStatus the status checks and
scheduled events; without permission for the latter, those are unknown.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Any

from trntop.core.errors import UsageError
from trntop.core.settings import Fleet
from trntop.core.text import clean

from .. import aws
from ..worker import StuckError
from .addresses import checked_host, checked_ip, host_address, targets_of
from .target import Finder, FindError, Target

log = logging.getLogger(__name__)

BATCH = 100
"""Maximum number of instances in a request for their status."""
MAX_INSTANCES = 40_000
NOT_TERMINATED = ("pending", "running", "stopping", "stopped", "shutting-down")

_FILTERS = {
    "type": "instance-type",
    "id": "instance-id",
    "state": "instance-state-name",
    "zone": "availability-zone",
    "group": "placement-group-name",
    "vpc": "vpc-id",
}
_STATUS_CHECKS = {
    "system": "SystemStatus", "instance": "InstanceStatus", "EBS": "AttachedEbsStatus"
}  # fmt: skip
_HEALTHY = ("ok", "not-applicable", "")


def filters_of(text: str) -> list[dict[str, Any]]:
    """`tag/Name=run7,type=trn2.*` as EC2's filters.

    Raises:
        UsageError: a filter is not valid.
    """
    filters: dict[str, list[str]] = {}
    source = f"ec2:{clean(text, 80)}"
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        shown = clean(name, 40)
        if name.startswith("tag/") and len(name) > 4:
            known = f"tag:{name[4:]}"
        elif name in _FILTERS:
            known = _FILTERS[name]
        else:
            names = ", ".join((*_FILTERS, "tag/KEY"))
            raise UsageError(f"{source}: {shown or 'nothing'} is not a filter; use {names}")
        if not equals or not value or not value.isprintable():
            raise UsageError(f"{source}: {shown} needs a value: {shown}=VALUE")
        if known in filters:
            raise UsageError(f"{source}: {shown} is given twice")
        filters[known] = [value]
    filters.setdefault("instance-state-name", list(NOT_TERMINATED))
    return [{"Name": name, "Values": values} for name, values in filters.items()]


class Ec2(Finder):
    """The instances that match filters.

    Args:
        text: the filters.
        fleet: region, and how nodes are reached.

    Raises:
        UsageError: a filter is not valid.
    """

    def __init__(self, text: str, fleet: Fleet) -> None:
        self._filters = filters_of(text)
        super().__init__(f"ec2:{clean(text, 80)}", fleet.refresh)
        self._fleet = fleet
        self._client: Any = None
        self._names: dict[str, str] = {}
        """Instance → its name, which it keeps."""

    async def find(self) -> list[Target]:
        """The instances now.

        Raises:
            FindError: AWS does not list them.
        """
        try:
            return await self._worker.call(self._list, aws.DEADLINE)
        except StuckError:
            raise FindError(f"{self.text}: no response of AWS in time") from None
        except (aws.AwsError, UsageError) as error:
            raise FindError(f"{self.text}: {error}") from None
        except Exception as error:  # an unexpected response must not end the list
            log.exception("reading %s", self.text)
            raise FindError(f"{self.text}: internal error: {type(error).__name__}") from None

    def _list(self) -> list[Target]:
        """The same, in the thread."""
        if self._client is None:
            self._client = aws.client("ec2", self._fleet.region)
        pages = aws.pages(
            self._client, "ec2:DescribeInstances", "describe_instances",
            {"Filters": self._filters, "PaginationConfig": {"PageSize": 1000}},
        )  # fmt: skip
        listed = chain.from_iterable(
            reservation.get("Instances", ()) for page in pages
            for reservation in page.get("Reservations", ())
        )  # fmt: skip
        instances = {
            str(instance["InstanceId"]): instance
            for instance in islice(listed, MAX_INSTANCES)
            if instance.get("InstanceId")
        }
        statuses = self._statuses(
            [key for key, instance in instances.items() if _state(instance) == "running"]
        )
        self._name(instances)
        return targets_of(
            [
                Target(self._names[key], address, _facts(instance) | statuses.get(key, {}))
                for key, instance in instances.items()
                if (address := self._address(instance))
            ]
        )

    def _address(self, instance: Mapping[str, Any]) -> str:
        """The address of an instance; empty while it has none."""
        text = instance.get("PrivateIpAddress") or instance.get("Ipv6Address") or ""
        try:
            return host_address(checked_ip(str(text)), self._fleet) if text else ""
        except UsageError:
            return ""

    def _name(self, instances: Mapping[str, Mapping[str, Any]]) -> None:
        """Names new instances: the tag Name if it is unique, else the host name, else the id.

        An instance keeps its name: it is the node's on the screen and in recordings.
        """
        for gone in self._names.keys() - instances.keys():
            del self._names[gone]
        tags = {key: _name_tag(instance) for key, instance in instances.items()}
        count = Counter(tags.values())
        taken = set(self._names.values())
        for key in [key for key in instances if key not in self._names]:
            host = str(instances[key].get("PrivateDnsName", "")).partition(".")[0]
            choices = [tags[key] if count[tags[key]] == 1 else "", host, key]
            name = next(choice for choice in choices if choice and choice not in taken)
            self._names[key] = clean(name)
            taken.add(name)

    def _statuses(self, running: Sequence[str]) -> dict[str, dict[str, str]]:
        """Instance → its status checks and scheduled events; empty without permission."""
        found = {}
        try:
            for start in range(0, len(running), BATCH):
                pages = aws.pages(
                    self._client, "ec2:DescribeInstanceStatus", "describe_instance_status",
                    {"InstanceIds": list(running[start : start + BATCH])},
                )  # fmt: skip
                for page in pages:
                    for status in page.get("InstanceStatuses", ()):
                        found[str(status.get("InstanceId"))] = _status(status)
        except aws.AwsError as error:
            if not error.denied:
                raise
        return found


def _facts(instance: Mapping[str, Any]) -> dict[str, str]:
    """Identity, location and state."""
    placement = instance.get("Placement") or {}
    reason = (instance.get("StateReason") or {}).get("Message")
    return _known(
        {
            "instance_id": instance.get("InstanceId"),
            "instance_name": _name_tag(instance),
            "instance_type": instance.get("InstanceType"),
            "instance_state": _state(instance),
            "state_reason": reason or instance.get("StateTransitionReason"),
            "availability_zone": placement.get("AvailabilityZone"),
            "availability_zone_id": placement.get("AvailabilityZoneId"),
            "placement_group": placement.get("GroupName"),
            "subnet_id": instance.get("SubnetId"),
            "lifecycle": instance.get("InstanceLifecycle"),
        }
    )


def _status(status: Mapping[str, Any]) -> dict[str, str]:
    """Failed status checks, and the next scheduled event."""
    checks = {
        name: str((status.get(field) or {}).get("Status", ""))
        for name, field in _STATUS_CHECKS.items()
    }
    failed = [f"{name} {result}" for name, result in checks.items() if result not in _HEALTHY]
    passed = "passed" if any(checks.values()) else ""
    # A past event stays listed for a week, marked so.
    events = [
        (str(event.get("NotBefore", "")), str(event.get("Code", "event")), event.get("NotBefore"))
        for event in status.get("Events", ())
        if not str(event.get("Description", "")).startswith(("[Completed]", "[Canceled]"))
    ]
    event = ""
    if events:
        _, code, time = min(events)
        event = f"{code} from {_text(time)}" if time else code
    return _known({"status_checks": ", ".join(failed) or passed, "scheduled_event": event})


def _state(instance: Mapping[str, Any]) -> str:
    return str((instance.get("State") or {}).get("Name", ""))


def _name_tag(instance: Mapping[str, Any]) -> str:
    """The tag Name; empty if it is not a valid host name."""
    for tag in instance.get("Tags", ()):
        if tag.get("Key") == "Name":
            try:
                return checked_host(str(tag.get("Value", "")))
            except UsageError:
                return ""
    return ""


def _known(facts: Mapping[str, Any]) -> dict[str, str]:
    """Facts as text, without the unknown ones."""
    return {name: _text(value) for name, value in facts.items() if value not in (None, "")}


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    return clean(str(value))
