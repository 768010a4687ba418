"""How the catalog's names map to OpenTelemetry's conventions for hardware: `docs/otlp.md`.

Source: https://opentelemetry.io/docs/specs/semconv/hardware/, every metric of which is in
development. Our names carry unit and kind, as Prometheus' guide asks; OpenTelemetry's do not. So
one table stands for both; `python -m trntop.exporters.metrics.otlp > docs/otlp.md` writes it down.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from trntop.catalog import (
    CATALOG,
    EFA_DEVICE_COUNTERS,
    EFA_PORT_COUNTERS,
    SYSFS_ECC,
    Entity,
    of_entity,
    page_of,
)

Attributes = tuple[tuple[str, str], ...]
"""With their values; what stands in braces is the value of our label."""

DEVICE, CORE, CARD = "neuron{neuron_device}", "nc{neuroncore}", "{efa_device}"
"""`hw.id`, which is one of a kind on a host."""


@dataclass(frozen=True, slots=True)
class Counterpart:
    """OpenTelemetry's metric for one of ours."""

    name: str
    instrument: str
    unit: str
    """In UCUM; the scale is the same as ours."""
    attributes: Attributes


def _counterparts() -> Iterator[tuple[str, Counterpart]]:
    device: Attributes = (("hw.type", "gpu"), ("hw.id", DEVICE))
    for ours, name, instrument, unit in (
        ("device_memory_total_bytes", "hw.gpu.memory.limit", "UpDownCounter", "By"),
        ("device_memory_used_bytes", "hw.gpu.memory.usage", "UpDownCounter", "By"),
        ("device_memory_used_ratio", "hw.gpu.memory.utilization", "Gauge", "1"),
    ):
        yield ours, Counterpart(name, instrument, unit, device)
    for event in SYSFS_ECC:
        memory, _, outcome = event.partition("_ecc_")
        place = f"{DEVICE}/{'hbm' if memory == 'mem' else 'sram'}"
        part: Attributes = (("hw.type", "gpu"), ("hw.id", place), ("hw.parent", DEVICE))
        yield f"device_{event}_total", _errors(part, outcome)
    core: Attributes = (("hw.type", "gpu"), ("hw.id", CORE), ("hw.parent", DEVICE))
    general = (*core, ("hw.gpu.task", "general"))
    yield (
        "neuroncore_utilization_ratio",
        Counterpart("hw.gpu.utilization", "Gauge", "1", general),
    )
    card: Attributes = (("hw.type", "network"), ("hw.id", CARD))
    for way, direction in (("tx", "transmit"), ("rx", "receive")):
        one_way = (*card, ("network.io.direction", direction))
        for what, name, unit in (
            ("bytes", "hw.network.io", "By"),
            ("pkts", "hw.network.packets", "{packet}"),
        ):
            yield f"efa_{way}_{what}_total", Counterpart(name, "Counter", unit, one_way)
    yield (
        "efa_link_bytes_per_second",
        Counterpart("hw.network.bandwidth.limit", "UpDownCounter", "By/s", card),
    )
    for counter in EFA_PORT_COUNTERS | EFA_DEVICE_COUNTERS:
        if counter.endswith(("_err", "_events", "_drops")) or counter == "no_completion_cmds":
            yield f"efa_{counter}_total", _errors(card, counter)


def _errors(part: Attributes, kind: str) -> Counterpart:
    return Counterpart("hw.errors", "Counter", "{error}", (*part, ("error.type", kind)))


COUNTERPARTS: dict[str, Counterpart] = dict(_counterparts())
"""Quantity → what OpenTelemetry calls it."""

_ABSENT = {
    "hw.gpu.io": "no source tells what a device sends and receives over PCIe and NeuronLink",
    "hw.power, hw.energy": "the driver tells a share of the most a device may take, not watts",
    "hw.status": "health is told as a number of components, an outage as an incident",
    "hw.network.bandwidth.utilization": "rates are left to the reader of the counters",
    "hw.network.up": "what the EFA driver says of a port's state is a constant",
}
"""Their names that nothing of ours fills, and why."""

_LABELS = (
    ("node", "every series", "`host.name` of the resource"),
    ("neuron_device", "devices, cores", "`hw.id`, of cores `hw.parent`"),
    ("neuroncore", "cores", "`hw.id`"),
    ("efa_device", "EFA cards", "`hw.id`"),
    ("instance_id", "`trn_instance_info`", "`host.id` of the resource"),
    ("instance_type", "`trn_instance_info`", "`host.type` of the resource"),
    ("availability_zone", "`trn_instance_info`", "`cloud.availability_zone` of the resource"),
    ("region", "`trn_instance_info`", "`cloud.region` of the resource"),
    ("neuron_device_type", "`trn_instance_info`", "`hw.model` of its devices"),
    ("serial", "`trn_device_info`", "`hw.serial_number`"),
)
"""Label of ours, where it stands, its attribute."""


def describe() -> str:
    """The mapping as Markdown: `docs/otlp.md`."""
    lines = [
        "# OpenTelemetry",
        "",
        "Made by `python -m trntop.exporters.metrics.otlp > docs/otlp.md`; do not edit.",
        "",
        "trntop speaks no OTLP of its own: a collector scrapes its pages and sends them on, as in",
        "[deploy/otel/collector.yaml](../deploy/otel/collector.yaml). Names stay ours on the way.",
        "This page tells what OpenTelemetry's [conventions for",
        "hardware](https://opentelemetry.io/docs/specs/semconv/hardware/) call the same thing, for",
        "who renames. All of them are in development, and `hw.type` has no value for an",
        "accelerator: `gpu` comes nearest. Scales are the same on both sides.",
        "",
        "## Names",
        "",
        "| ours | theirs | instrument | unit | attributes |",
        "|---|---|---|---|---|",
    ]
    for ours, theirs in COUNTERPARTS.items():
        attributes = ", ".join(f"`{key}`={value}" for key, value in theirs.attributes)
        lines.append(
            f"| `{CATALOG[ours].metric}` | `{theirs.name}` | {theirs.instrument} "
            f"| `{theirs.unit}` | {attributes} |"
        )
    lines += [
        "",
        "What stands in braces is the value of our label. Gauges of ours that are an UpDownCounter",
        "there keep their value: a collector has to set the kind when it renames.",
        "",
        "## Labels",
        "",
        "| ours | on | theirs |",
        "|---|---|---|",
        *(f"| `{label}` | {place} | {theirs} |" for label, place, theirs in _LABELS),
        "",
        "## What they have and trntop has not",
        "",
        *(
            f"- {', '.join(f'`{one}`' for one in names.split(', '))}: {why}"
            for names, why in _ABSENT.items()
        ),
        "",
        "## What has no name there",
        "",
        "Everything else on the pages of metrics, described in [metrics](metrics.md). CPU, memory,",
        "network and disks of the host are the business of the collector's `hostmetrics` receiver.",
        "",
    ]
    mapped = {CATALOG[ours].metric for ours in COUNTERPARTS}
    for entity in Entity:
        names = [one.metric for one in of_entity(entity) if page_of(one) is not None]
        left = [name for name in names if name not in mapped]
        if left:
            lines.append(f"- per {entity}: {', '.join(f'`{name}`' for name in left)}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(describe())
