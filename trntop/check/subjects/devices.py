"""EFA and Neuron devices: number, link rate and health, by instance type and by the other nodes.

The port state that the EFA driver reports is hard-coded; a broken device disappears.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from trntop.check import faults
from trntop.check.model import Finding, Inspection, ProbeSpec
from trntop.check.result import NodeInspection
from trntop.core.instances import find_instance_type
from trntop.core.versions import numbers

REAL_RATES = (2, 13)
"""First EFA driver with the real link rate; older ones always report 100 Gb/s."""


def expected_efa_devices(seen: Inspection) -> int | None:
    """EFA devices of the instance type; None if unknown."""
    row = find_instance_type(seen.instance_type)
    return row.efa_devices if row else None


def findings(inspections: Mapping[str, NodeInspection], spec: ProbeSpec) -> Iterator[Finding]:
    """Missing, lost, slow and unhealthy devices.

    Args:
        inspections: by node.
        spec: the probes, which may need an EFA device.
    """
    usual = _usual(inspections)
    for name, inspection in inspections.items():
        if seen := inspection.newest:
            yield from _efa_count(name, seen, usual.get(seen.instance_type), spec)
            yield from _lost(name, inspection)
            yield from _rates(name, seen)
            yield from _neuron_count(name, seen)
            for component, trouble in seen.unhealthy.items():
                efa = component.startswith("efa:")
                fault = faults.EFA_UNHEALTHY if efa else faults.NEURON_UNHEALTHY
                yield fault.found(trouble, name, component=component)


def _usual(inspections: Mapping[str, NodeInspection]) -> dict[str, int]:
    """Instance type → number of EFA devices of most of its nodes, if there are several nodes."""
    counts: dict[str, Counter[int]] = {}
    for inspection in inspections.values():
        seen = inspection.newest
        if seen is not None and seen.efa_devices is not None:
            counts.setdefault(seen.instance_type, Counter())[len(seen.efa_devices)] += 1
    common = {kind: (*own.most_common(1)[0], own.total()) for kind, own in counts.items()}
    return {kind: have for kind, (have, nodes, total) in common.items() if 2 * nodes > total > 1}


def _efa_count(
    name: str, seen: Inspection, usual: int | None, spec: ProbeSpec
) -> Iterator[Finding]:
    expected = expected_efa_devices(seen)
    if seen.efa_devices is None:
        if expected != 0:
            yield faults.EFA_UNKNOWN.found("the inspection could not read them", name)
        return
    have = len(seen.efa_devices)
    if expected is None and (usual is None or have >= usual):
        if have == 0:
            if spec.provider == "efa":
                yield faults.NO_EFA_KNOWN.found("the instance type is unknown", name)
            else:
                yield faults.remark(
                    "EFA devices", "no EFA devices; the instance type is unknown", name
                )
        return
    wanted = usual or 0 if expected is None else expected
    if have >= wanted:
        return
    kind = f" on {seen.instance_type}" if expected is not None else ""
    text = f"{have} found, {wanted} expected{kind}"
    if have and usual is not None and have >= usual:
        yield faults.EFA_FEWER.found(f"{text}; most nodes have {usual}", name)
    else:
        yield (faults.EFA_MISSING if have else faults.NO_EFA).found(text, name)


def _lost(name: str, inspection: NodeInspection) -> Iterator[Finding]:
    """EFA devices that disappeared during the check."""
    before, after = inspection.before, inspection.after
    if before is None or after is None or after.efa_devices is None:
        return
    left = {efa_device.name for efa_device in after.efa_devices}
    for efa_device in before.efa_devices or ():
        if efa_device.name not in left:
            yield faults.EFA_LOST.found(
                f"{efa_device.name} disappeared during the check",
                name,
                component=f"efa:{efa_device.name}",
            )


def _rates(name: str, seen: Inspection) -> Iterator[Finding]:
    row = find_instance_type(seen.instance_type)
    wanted = row.efa_gbps if row else None
    for efa_device in seen.efa_devices or ():
        real = numbers(efa_device.driver or seen.versions.get("efa", "")) >= REAL_RATES
        if (
            real
            and wanted is not None
            and efa_device.rate_gbps is not None
            and efa_device.rate_gbps < wanted
        ):
            yield faults.EFA_RATE.found(
                f"{efa_device.name} runs at {efa_device.rate_gbps:g} Gb/s, {wanted:g} expected",
                name,
                component=f"efa:{efa_device.name}",
            )


def _neuron_count(name: str, seen: Inspection) -> Iterator[Finding]:
    row = find_instance_type(seen.instance_type)
    if row is not None and seen.devices is not None and seen.devices < row.devices:
        fault = faults.NEURON_MISSING if seen.devices else faults.NO_NEURON
        yield fault.found(f"{seen.devices} found, {row.devices} expected on {row.name}", name)
