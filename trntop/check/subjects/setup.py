"""What a node needs for EFA besides its devices: modules, limits, peer-to-peer access."""

from collections.abc import Iterator, Mapping

from trntop.check import faults
from trntop.check.model import Finding, Inspection
from trntop.check.result import NodeInspection
from trntop.check.subjects.devices import expected_efa_devices
from trntop.core import units
from trntop.core.instances import find_instance_type
from trntop.core.settings import Check as Limits

EFA_MODULES = ("efa", "ib_uverbs", "ib_core")
P2P = "NEURON"
"""The peer-to-peer provider of an EFA device that can access Neuron device memory."""


def findings(inspections: Mapping[str, NodeInspection], limits: Limits) -> Iterator[Finding]:
    for name, inspection in inspections.items():
        if seen := inspection.newest:
            yield from _kernel(name, seen)
            yield from _limits(name, seen, limits)
            yield from _peer_to_peer(name, seen)


def _kernel(name: str, seen: Inspection) -> Iterator[Finding]:
    # A machine that has no EFA devices, and is not known to need any, needs no driver for them.
    wanted = EFA_MODULES if seen.efa_devices or expected_efa_devices(seen) else ()
    if seen.devices or find_instance_type(seen.instance_type):
        wanted = (*wanted, "neuron")
    missing = [module for module in wanted if seen.modules.get(module) is False]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        yield faults.MODULES.found(f"{', '.join(missing)} {are} not loaded", name)
    if seen.uverbs is False and seen.efa_devices:
        yield faults.UVERBS.found(
            "/dev/infiniband has no uverbs device, so no process can open an EFA device", name
        )


def _limits(name: str, seen: Inspection, limits: Limits) -> Iterator[Finding]:
    least = limits.memlock_gib * (1 << 30)
    if seen.memlock_bytes is not None and seen.memlock_bytes < least:
        have, need = units.bytes_iec(seen.memlock_bytes), units.bytes_iec(least)
        yield faults.MEMLOCK.found(f"{have}, at least {need} required", name)
    if seen.huge_pages is not None and seen.efa_devices and seen.huge_pages < limits.huge_pages:
        yield faults.HUGE_PAGES.found(
            f"{seen.huge_pages:,} pages of 2 MiB reserved, {limits.huge_pages:,} required",
            name,
            next_step=f"Reserve them: `sysctl -w vm.nr_hugepages={limits.huge_pages}`",
        )


def _peer_to_peer(name: str, seen: Inspection) -> Iterator[Finding]:
    efa_devices = seen.efa_devices or []
    odd = [efa_device for efa_device in efa_devices if P2P not in efa_device.p2p]
    # If no device reports it, the driver may be too old to.
    if not seen.devices or not odd or not any(efa_device.p2p for efa_device in efa_devices):
        return
    providers = sorted({efa_device.p2p or "nothing" for efa_device in odd})
    yield faults.PEER_TO_PEER.found(
        f"{len(odd)} of {len(efa_devices)} EFA devices cannot access Neuron device memory:"
        f" p2p is {', '.join(providers)}, {P2P} expected",
        name,
        component=f"efa:{odd[0].name}" if len(odd) == 1 else "",
    )
