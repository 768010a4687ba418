"""Neuron devices: as many as the instance type has, and all healthy."""

from collections.abc import Iterator, Mapping

from trntop.check.advice import drain
from trntop.check.model import Action, Finding, Outcome
from trntop.check.result import NodeInspection
from trntop.core.instances import INSTANCE_TYPES

UNHEALTHY = {"device": "Neuron device unhealthy", "efa": "EFA device unhealthy"}


def findings(inspections: Mapping[str, NodeInspection]) -> Iterator[Finding]:
    """Devices that are missing or unhealthy."""
    for name, inspection in inspections.items():
        seen = inspection.newest
        if seen is None:
            continue
        row = INSTANCE_TYPES.get(seen.instance_type)
        if row is not None and seen.devices is not None and seen.devices < row.devices:
            yield Finding(
                check="devices",
                outcome=Outcome.FAIL,
                fault="Neuron devices missing" if seen.devices else "no Neuron devices",
                node=name,
                text=f"{seen.devices} found, {row.devices} expected on {row.name}",
                action=Action.REBOOT,
                next_step=drain(
                    name,
                    f"{seen.devices} of {row.devices} Neuron devices",
                    "Reboot it; if a device stays missing, replace the instance.",
                ),
            )
        for component, trouble in seen.unhealthy.items():
            yield Finding(
                check="health",
                outcome=Outcome.FAIL,
                fault=UNHEALTHY.get(component.partition(":")[0], "unhealthy"),
                node=name,
                component=component,
                text=trouble,
                action=Action.ISOLATE,
                next_step=drain(name, trouble, "Replace the instance."),
            )
