"""What a node needs for EFA besides its devices: modules, limits, peer-to-peer, environment."""

from collections.abc import Iterator, Mapping

from trntop.check.advice import drain
from trntop.check.consensus import names
from trntop.check.expected import expected_cards
from trntop.check.model import Action, Finding, Inspection, Outcome
from trntop.check.result import NodeInspection
from trntop.check.subjects.versions import numbers
from trntop.core import units
from trntop.core.instances import INSTANCE_TYPES
from trntop.core.settings import Check as Limits

EFA_MODULES = ("efa", "ib_uverbs", "ib_core")
P2P = "NEURON"
"""The peer-to-peer provider of an EFA device that can access Neuron device memory."""
FORK_SAFE = (5, 15)
"""Kernel from which on a fork is safe without FI_EFA_FORK_SAFE."""
WANTED = {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1"}


def findings(inspections: Mapping[str, NodeInspection], limits: Limits) -> Iterator[Finding]:
    """What is missing on each node; variables that are not set are one remark each."""
    seen = {
        name: inspection.newest
        for name, inspection in inspections.items()
        if inspection.newest is not None
    }
    for name, one in seen.items():
        yield from _kernel(name, one)
        yield from _limits(name, one, limits)
        yield from _peers(name, one)
        yield from _environment(name, one)
    for variable, value in WANTED.items():
        without = [
            name for name, one in seen.items() if one.cards and not one.environment.get(variable)
        ]
        if without:
            yield Finding(
                check="environment",
                outcome=Outcome.PASS,
                node=without[0] if len(without) == 1 else "",
                text=f"{variable} is not set on {names(without)}",
                next_step=f"Set {variable}={value} in the job.",
            )


def _kernel(name: str, seen: Inspection) -> Iterator[Finding]:
    # A machine that has no EFA devices, and is not known to need any, needs no driver for them.
    wanted = EFA_MODULES if seen.cards or expected_cards(seen) else ()
    if seen.devices or seen.instance_type in INSTANCE_TYPES:
        wanted = (*wanted, "neuron")
    missing = [module for module in wanted if seen.modules.get(module) is False]
    if missing:
        yield Finding(
            check="modules",
            outcome=Outcome.FAIL,
            fault="kernel module missing",
            node=name,
            text=f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not loaded",
            action=Action.ISOLATE,
            next_step=drain(
                name,
                f"module {missing[0]} is not loaded",
                "Reinstall the EFA software and the Neuron driver, or `modprobe` them.",
            ),
        )
    if seen.uverbs is False and seen.cards:
        yield Finding(
            check="uverbs",
            outcome=Outcome.FAIL,
            fault="uverbs missing",
            node=name,
            text="/dev/infiniband has no uverbs device, so no process can open an EFA device",
            next_step="Load ib_uverbs; in a container, mount /dev/infiniband.",
        )


def _limits(name: str, seen: Inspection, limits: Limits) -> Iterator[Finding]:
    least = limits.memlock_gib * (1 << 30)
    if seen.memlock_bytes is not None and seen.memlock_bytes < least:
        yield Finding(
            check="memlock",
            outcome=Outcome.WARN,
            fault="memlock too low",
            node=name,
            text=f"{units.bytes_iec(seen.memlock_bytes)}, at least {units.bytes_iec(least)}"
            " required",
            next_step="Set memlock to unlimited in /etc/security/limits.conf, and in the unit of"
            " slurmd or containerd.",
        )
    if seen.huge_pages is not None and seen.cards and seen.huge_pages < limits.huge_pages:
        yield Finding(
            check="huge pages",
            outcome=Outcome.WARN,
            fault="too few huge pages",
            node=name,
            text=f"{seen.huge_pages:,} pages of 2 MiB reserved, {limits.huge_pages:,} required",
            next_step=f"Reserve them: `sysctl -w vm.nr_hugepages={limits.huge_pages}`",
        )


def _peers(name: str, seen: Inspection) -> Iterator[Finding]:
    cards = seen.cards or []
    odd = [card for card in cards if P2P not in card.p2p]
    # If no device reports it, the driver may be too old to.
    if not seen.devices or not odd or not any(card.p2p for card in cards):
        return
    said = sorted({card.p2p or "nothing" for card in odd})
    yield Finding(
        check="peer-to-peer",
        outcome=Outcome.WARN,
        fault="no peer-to-peer access",
        node=name,
        component=f"efa:{odd[0].name}" if len(odd) == 1 else "",
        text=f"{len(odd)} of {len(cards)} EFA devices cannot access Neuron device memory:"
        f" p2p is {', '.join(said)}, {P2P} expected",
        next_step="Load the Neuron driver before the EFA driver, or reboot.",
    )


def _environment(name: str, seen: Inspection) -> Iterator[Finding]:
    for variable, wanted in WANTED.items():
        value = seen.environment.get(variable)
        if value and value != wanted:
            yield Finding(
                check="environment",
                outcome=Outcome.WARN,
                fault="wrong environment",
                node=name,
                text=f"{variable} is {value}, {wanted} expected",
                next_step=f"Set it: `export {variable}={wanted}`",
            )
    for variable in sorted(seen.environment):
        if variable.startswith("RDMAV_"):
            yield Finding(
                check="environment",
                outcome=Outcome.WARN,
                fault="wrong environment",
                node=name,
                text=f"{variable} is set, which EFA does not support",
                next_step=f"Unset it: `unset {variable}`",
            )
    kernel = numbers(seen.versions.get("kernel", ""))
    if () < kernel < FORK_SAFE and seen.cards and seen.environment.get("FI_EFA_FORK_SAFE") != "1":
        yield Finding(
            check="environment",
            outcome=Outcome.WARN,
            fault="fork unsafe",
            node=name,
            text=f"kernel {seen.versions['kernel']} is older than 5.15 and FI_EFA_FORK_SAFE is not"
            " 1: a process that forks may corrupt received data",
            next_step="Set FI_EFA_FORK_SAFE=1 in the job.",
        )
