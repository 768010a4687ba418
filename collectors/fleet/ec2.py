"""Nodes that EC2 lists, `ec2:FILTER[,FILTER]`, and what it knows of them.

A filter is `tag/KEY=VALUE`, `type=`, `id=`, `state=`, `zone=`, `group=` (placement group) or
`vpc=`; all must hold, and `*` and `?` stand for anything as EC2 has them. Without `state=`
everything is listed that is not terminated, so that a node which was stopped says so.

Facts: DescribeInstances tells identity, place and state, DescribeInstanceStatus the status checks
and scheduled events, DescribeInstanceTopology the network nodes from the top of the network down,
DescribeCapacityBlocks and DescribeCapacityReservations the end of a capacity block, at which its
instances are terminated, and the kind of UltraServer. All but the first may be forbidden: then
`not_told` says so.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from time import monotonic
from typing import Any

from trntop.core.errors import UsageError
from trntop.core.settings import Fleet
from trntop.core.text import clean

from .. import aws
from ..backoff import Backoff
from ..worker import StuckError, Worker
from .addresses import Place, checked_host, checked_ip, host_address, targets_of
from .target import FindError, Target

log = logging.getLogger(__name__)

BATCH = 100
"""Most instances that the status and the topology are asked for at once."""
LASTING = 600.0
"""Seconds for which what hardly changes is not asked again: topology, capacity blocks."""
MAX_INSTANCES = 40_000
MAX_WAIT = 900.0
"""Seconds to wait at most after AWS was asked too often."""
LIVING = ("pending", "running", "stopping", "stopped", "shutting-down")

_FILTERS = {
    "type": "instance-type",
    "id": "instance-id",
    "state": "instance-state-name",
    "zone": "availability-zone",
    "group": "placement-group-name",
    "vpc": "vpc-id",
}
_HEALTHY = ("ok", "not-applicable", "")


def filters_of(text: str) -> list[dict[str, Any]]:
    """`tag/Name=run7,type=trn2.*` as EC2's filters.

    Raises:
        UsageError: one of them is not written as it should be.
    """
    filters: dict[str, list[str]] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if name.startswith("tag/") and len(name) > 4:
            known = f"tag:{name[4:]}"
        elif name in _FILTERS:
            known = _FILTERS[name]
        else:
            names = ", ".join((*_FILTERS, "tag/KEY"))
            raise UsageError(f"ec2:{clean(text, 80)}: {clean(name, 40) or 'nothing'} is no filter; "
                             f"known are {names}")  # fmt: skip
        if not equals or not value or not value.isprintable():
            raise UsageError(f"ec2:{clean(text, 80)}: say {clean(name, 40)}=VALUE")
        if known in filters:
            raise UsageError(f"ec2:{clean(text, 80)}: {clean(name, 40)} stands twice")
        filters[known] = [value]
    if "instance-state-name" not in filters:
        filters["instance-state-name"] = list(LIVING)
    return [{"Name": name, "Values": values} for name, values in filters.items()]


class _Lasting:
    """Answers that are asked for again only after a while; failures are kept as long."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, dict[str, str]]] = {}

    def of(
        self, keys: Iterable[str], ask: Callable[[Sequence[str]], Mapping[str, dict[str, str]]]
    ) -> dict[str, dict[str, str]]:
        """Facts by key; those not known yet, or for long, are asked for together."""
        now = monotonic()
        wanted = list(dict.fromkeys(key for key in keys if key))
        old = [key for key in wanted if key not in self._known or self._known[key][0] < now]
        if old:
            found = ask(old)
            for key in old:
                self._known[key] = (now + LASTING, found.get(key, {}))
        return {key: self._known[key][1] for key in wanted}


class Ec2:
    """The instances of some filters.

    Args:
        text: the filters.
        fleet: region, and how nodes are reached.

    Raises:
        UsageError: the filters cannot be read.
    """

    def __init__(self, text: str, fleet: Fleet) -> None:
        self._filters = filters_of(text)
        self.text = f"ec2:{clean(text, 80)}"
        self.period: float | None = fleet.refresh
        self._fleet = fleet
        self._worker = Worker("trntop ec2")
        self._client: Any = None
        self._names: dict[str, str] = {}
        """Instance → what it goes by, for good."""
        self._topology, self._blocks, self._reservations = _Lasting(), _Lasting(), _Lasting()
        self._notes: dict[str, str] = {}
        """Action → why it does not tell."""
        self._backoff = self._patience()
        self._not_before, self._refusal = 0.0, ""
        """When AWS may be asked again, and what it said."""

    def close(self) -> None:
        """See `Finder`."""
        self._worker.close()

    async def find(self) -> list[Target]:
        """The instances now.

        Raises:
            FindError: AWS does not tell.
        """
        now = asyncio.get_running_loop().time()
        if now < self._not_before:
            raise FindError(self._refusal)
        try:
            found = await self._worker.call(self._look, aws.DEADLINE)
        except StuckError:
            raise FindError(f"{self.text}: AWS has not answered in time") from None
        except aws.AwsError as error:
            self._refusal = f"{self.text}: {error}"
            if error.throttled:
                self._not_before = now + self._backoff.wait(0.0)
            raise FindError(self._refusal) from None
        except UsageError as error:
            raise FindError(f"{self.text}: {error}") from None
        except Exception as error:  # an answer that nobody thought of must not end the list
            log.exception("reading %s", self.text)
            raise FindError(f"{self.text}: internal error: {type(error).__name__}") from None
        self._backoff = self._patience()
        return found

    def _patience(self) -> Backoff:
        return Backoff(first=4 * self._fleet.refresh, longest=MAX_WAIT)

    def _look(self) -> list[Target]:
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
            str(one["InstanceId"]): one for one in islice(listed, MAX_INSTANCES)
            if one.get("InstanceId")
        }  # fmt: skip
        running = [key for key, one in instances.items() if _state(one) == "running"]
        status = self._statuses(running)
        topology = self._topology.of(running, self._topologies)
        facts = {
            key: {
                **_identity(one),
                **topology.get(key, {}),
                **status.get(key, {}),
            }
            for key, one in instances.items()
        }
        self._add_blocks(facts)
        note = "; ".join(f"{action}: {why}" for action, why in self._notes.items())
        self._name(instances)
        places = []
        for key, one in instances.items():
            address = self._address(one)
            if address:
                told = facts[key] | ({"not_told": note} if note else {})
                places.append(Place(address, told, self._names[key]))
        return targets_of(places)

    def _address(self, instance: Mapping[str, Any]) -> str:
        """Where an instance is reached; empty while it has no address."""
        text = instance.get("PrivateIpAddress") or instance.get("Ipv6Address") or ""
        try:
            return host_address(checked_ip(str(text)), self._fleet) if text else ""
        except UsageError:
            return ""

    def _name(self, instances: Mapping[str, Mapping[str, Any]]) -> None:
        """What instances go by: the tag Name if no other has it, else the host, else the id.

        A name once given stays: it is the node's on the screen and in recordings.
        """
        for gone in self._names.keys() - instances.keys():
            del self._names[gone]
        tags = {key: _tag(one, "Name") for key, one in instances.items()}
        count = Counter(tags.values())
        taken = set(self._names.values())
        for key, one in instances.items():
            if key in self._names:
                continue
            host = str(one.get("PrivateDnsName", "")).partition(".")[0]
            choices = [tags[key] if count[tags[key]] == 1 else "", host, key]
            name = next(choice for choice in choices if choice and choice not in taken)
            self._names[key] = clean(name)
            taken.add(name)

    def _optional(
        self, action: str, operation: str, arguments: Mapping[str, Any], field: str
    ) -> list[dict[str, Any]]:
        """What an operation lists, nothing where it is not allowed or known."""
        try:
            answers = aws.pages(self._client, action, operation, arguments)
            listed = [one for page in answers for one in page.get(field, ())]
        except aws.AwsError as error:
            if error.throttled:
                raise
            self._notes[action] = "not allowed" if error.denied else "no answer"
            return []
        self._notes.pop(action, None)
        return listed

    def _statuses(self, running: Sequence[str]) -> dict[str, dict[str, str]]:
        """Status checks and scheduled events."""
        return {
            str(one.get("InstanceId")): _status(one)
            for batch in _batches(running)
            for one in self._optional(
                "ec2:DescribeInstanceStatus", "describe_instance_status",
                {"InstanceIds": batch}, "InstanceStatuses",
            )
        }  # fmt: skip

    def _topologies(self, wanted: Sequence[str]) -> dict[str, dict[str, str]]:
        found = {}
        for batch in _batches(wanted):
            for one in self._optional(
                "ec2:DescribeInstanceTopology", "describe_instance_topology",
                {"InstanceIds": batch}, "Instances",
            ):  # fmt: skip
                nodes = ">".join(map(str, one.get("NetworkNodes") or ()))
                told = {"network_nodes": nodes, "capacity_block": one.get("CapacityBlockId")}
                found[str(one.get("InstanceId"))] = _plain(told)
        return found

    def _add_blocks(self, facts: Mapping[str, dict[str, str]]) -> None:
        """Adds what is known of the capacity blocks that instances are in."""
        blocks = self._blocks.of(
            (each.get("capacity_block", "") for each in facts.values()), self._capacity_blocks
        )
        reservations = self._reservations.of(
            (
                each.get("capacity_reservation", "")
                for each in facts.values()
                if each.get("lifecycle") == "capacity-block" and "capacity_block" not in each
            ),
            self._capacity_reservations,
        )
        for each in facts.values():
            each |= reservations.get(each.get("capacity_reservation", ""), {})
            each |= blocks.get(each.get("capacity_block", ""), {})

    def _capacity_blocks(self, wanted: Sequence[str]) -> dict[str, dict[str, str]]:
        listed = self._optional(
            "ec2:DescribeCapacityBlocks", "describe_capacity_blocks",
            {"CapacityBlockIds": list(wanted)}, "CapacityBlocks",
        )  # fmt: skip
        return {
            str(one.get("CapacityBlockId")): _plain(
                {
                    "ultraserver_type": one.get("UltraserverType"),
                    "capacity_block_ends": one.get("EndDate"),
                }
            )
            for one in listed
        }

    def _capacity_reservations(self, wanted: Sequence[str]) -> dict[str, dict[str, str]]:
        listed = self._optional(
            "ec2:DescribeCapacityReservations", "describe_capacity_reservations",
            {"CapacityReservationIds": list(wanted)}, "CapacityReservations",
        )  # fmt: skip
        return {
            str(one.get("CapacityReservationId")): _plain(
                {"capacity_block_ends": one.get("EndDate")}
            )
            for one in listed
        }


def _identity(instance: Mapping[str, Any]) -> dict[str, str]:
    """What DescribeInstances tells."""
    place = instance.get("Placement") or {}
    state = _state(instance)
    reason = (instance.get("StateReason") or {}).get("Message")
    return _plain(
        {
            "instance_id": instance.get("InstanceId"),
            "instance_name": _tag(instance, "Name"),
            "instance_type": instance.get("InstanceType"),
            "instance_state": state,
            "state_reason": reason or instance.get("StateTransitionReason"),
            "availability_zone": place.get("AvailabilityZone"),
            "availability_zone_id": place.get("AvailabilityZoneId"),
            "placement_group": place.get("GroupName"),
            "subnet_id": instance.get("SubnetId"),
            "placement_partition": place.get("PartitionNumber"),
            "launch_time": instance.get("LaunchTime"),
            "lifecycle": instance.get("InstanceLifecycle"),
            "capacity_reservation": instance.get("CapacityReservationId"),
            "capacity_block": instance.get("CapacityBlockId"),
        }
    )


def _status(one: Mapping[str, Any]) -> dict[str, str]:
    """Status checks that are not passed, and the next scheduled event."""
    checks = {
        what: str((one.get(field) or {}).get("Status", ""))
        for what, field in (
            ("system", "SystemStatus"),
            ("instance", "InstanceStatus"),
            ("EBS", "AttachedEbsStatus"),
        )
    }
    failed = [f"{what} {said}" for what, said in checks.items() if said not in _HEALTHY]
    # A past event stays listed for a week, marked so.
    events = [
        event for event in one.get("Events", ())
        if not str(event.get("Description", "")).startswith(("[Completed]", "[Canceled]"))
    ]  # fmt: skip
    events.sort(key=lambda event: str(event.get("NotBefore", "")))
    said = ""
    if events:
        when = _plain({"at": events[0].get("NotBefore")}).get("at", "")
        said = f"{events[0].get('Code', 'event')}{f' from {when}' if when else ''}"
    passed = "passed" if any(checks.values()) else ""
    return _plain({"status_checks": ", ".join(failed) or passed, "scheduled_event": said})


def _state(instance: Mapping[str, Any]) -> str:
    return str((instance.get("State") or {}).get("Name", ""))


def _tag(instance: Mapping[str, Any], key: str) -> str:
    for tag in instance.get("Tags", ()):
        if tag.get("Key") == key:
            # A tag may be anything; as a name it must be one of a host.
            try:
                return checked_host(str(tag.get("Value", "")))
            except UsageError:
                return ""
    return ""


def _plain(facts: Mapping[str, Any]) -> dict[str, str]:
    """Facts as cleaned text, without those that are not known."""
    return {
        name: value.strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(value, datetime)
        else clean(str(value))
        for name, value in facts.items()
        if value not in (None, "")
    }  # fmt: skip


def _batches(items: Sequence[str]) -> Iterable[list[str]]:
    return (list(items[start : start + BATCH]) for start in range(0, len(items), BATCH))
