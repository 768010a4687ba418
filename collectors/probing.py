"""Periodic probes between agents: the latency of EFA while nothing else measures it.

All agents of a list form a ring, in the order of a hash of their names, and each probes the next
one. So each node is at the end of two links with different peers, which distinguishes a slow node
from a slow link, and the number of probes grows with the nodes, not with their pairs. The time of a
probe also depends on a hash, another one in each interval: a fleet does not probe in step, and no
two nodes block each other again and again. A node in use is skipped.
"""

import asyncio
import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from urllib.parse import urlsplit

import msgspec
import psutil
from msgspec import structs

from trntop.catalog import PROBE
from trntop.check.model import BusyError, Host, ProbeError, ProbeResult, ProbeSpec
from trntop.core.errors import UsageError
from trntop.core.model import Reading, State, Status, View
from trntop.core.settings import Settings
from trntop.core.source_spec import Origin, parse
from trntop.core.text import clean
from trntop.session.collector import Sink

from .fleet import agents
from .fleet.target import Target
from .hosts.agent import AgentHost, SharedClient
from .hosts.node import LocalHost
from .probes.turns import Turns

CLOSE_SECONDS = 0.3
"""For the hosts to end what was started on them, when trntop quits."""
QUIET_SHARE = 0.05
"""Share of the EFA devices' rate above which a node is in use."""


def probing_of(node: str, settings: Settings, turns: Turns) -> "Probing":
    """The periodic probes of this machine.

    Args:
        node: name of this machine as a node.
        settings: with `export.probe_…`.
        turns: shared with all other probers on this machine.

    Raises:
        UsageError: no agents to probe are named.
        SettingsError: a setting to reach them is wrong.
    """
    export = settings.export
    if not export.allow_probes:
        raise UsageError("--probe-every needs --allow-probes: its peers probe this node as well")
    if not export.probe_peers:
        raise UsageError("--probe-every needs --probe-peers NODES, such as trn-[001-016]")
    source = parse(export.probe_peers)
    if source.origin is not Origin.AGENT:
        raise UsageError(f"--probe-peers {clean(source.text, 80)}: use nodes such as trn-[001-016]")
    # One token for all agents.
    fleet = structs.replace(
        settings.fleet, token_file=settings.fleet.token_file or export.probe_token_file
    )
    targets = agents.targets(source.text, fleet)
    own = own_name(targets, node, export.listen)
    client = SharedClient(fleet)
    return Probing(
        node,
        LocalHost(settings, own or node, turns),
        [AgentHost(target, client) for target in targets if target.name != own],
        export.probe_every,
        ProbeSpec(provider=export.probe_provider),
        partial(busy_reason, node=node, load=export.probe_load),
    )


def own_name(targets: Sequence[Target], node: str, listens: Collection[str]) -> str:
    """The name of this machine among targets; empty if it is none of them.

    Args:
        targets: agents.
        node: name of this machine.
        listens: `HOST:PORT` where its agent listens; an empty host is any address.
    """
    here = {
        address.address for addresses in psutil.net_if_addrs().values() for address in addresses
    }
    places = {
        (host.strip("[]"), port) for host, _, port in (each.rpartition(":") for each in listens)
    }
    for target in targets:
        parts = urlsplit(target.address)
        host, port = parts.hostname or "", str(parts.port)
        if (host, port) in places or (host in here and ("", port) in places):
            return target.name
    short = node.partition(".")[0]
    names = (target.name for target in targets)
    return next((name for name in names if name.partition(".")[0] == short), "")


def busy_reason(view: View | None, node: str, load: float) -> str:
    """Why a node is not to be probed now; empty if it may be.

    Args:
        view: the newest view of the agent.
        node: the node's name.
        load: load average over one minute, per vCPU, above which the node is in use.
    """
    vcpus, running = os.cpu_count() or 1, os.getloadavg()[0]
    if running > load * vcpus:
        return f"load {running:.1f} on {vcpus} vCPUs"
    if view is not None and (seen := view.cluster.nodes.get(node)) is not None:
        share = seen.frame.columns.get("node_efa_tx_share_ratio")
        # NaN, an unknown rate, is not above the limit.
        if share is not None and len(share) and share[0] > QUIET_SHARE:
            return f"its EFA devices send at {100 * share[0]:.0f} % of their rate"
    return ""


class Probing:
    """Probes the link from this node to the next one on the ring.

    Args:
        node: name of this machine as a node.
        here: this machine, by its name among the agents; its side is the client's.
        others: the agents that it may probe.
        interval: seconds between two probes.
        spec: of each probe.
        busy_reason: from the newest view, why there is no probe now; empty otherwise.
    """

    source = PROBE

    def __init__(
        self,
        node: str,
        here: Host,
        others: Sequence[Host],
        interval: float,
        spec: ProbeSpec,
        busy_reason: Callable[[View | None], str],
    ) -> None:
        self.node = node
        self._here = here
        self._others = others
        self._interval = interval
        self._spec = spec
        self._busy_reason = busy_reason
        self._view: View | None = None
        self._counts = Counter(probes=0, skipped=0)

    def __call__(self, view: View) -> None:
        self._view = view

    async def run(self, sink: Sink) -> None:
        """Probes until cancelled; ends if there is no other node."""
        try:
            partner = next_on_ring(self._here, self._others)
            if partner is None:
                self._report(sink, State.DOWN, "--probe-peers names no other node")
                return
            while True:
                await asyncio.sleep(wait(self._here.name, self._interval, sink.now()))
                await self._turn(sink, partner)
        finally:
            await asyncio.gather(*map(_close, (*self._others, self._here)))

    async def _turn(self, sink: Sink, partner: Host) -> None:
        reason = self._busy_reason(self._view)
        began = sink.now()
        if not reason:
            try:
                results = await self._probe(partner)
            except BusyError as error:
                reason = str(error)
            except ProbeError as error:
                failed = ProbeResult(tool=self._spec.tool, peer=partner.name, error=str(error))
                results = [failed]
        if reason:
            self._counts["skipped"] += 1
            self._report(sink, State.FRESH, f"not probed: {clean(reason, 160)}")
            return
        self._counts["probes"] += 1
        payload = msgspec.json.encode({"results": results})
        sink.reading(Reading(self.node, PROBE, began, payload))
        self._report(sink, State.FRESH)

    async def _probe(self, partner: Host) -> list[ProbeResult]:
        server = await partner.serve(self._spec)
        try:
            return await self._here.probe(self._spec, partner.name, server)
        finally:
            with contextlib.suppress(ProbeError):  # it ends by itself at its deadline
                await partner.end(server)

    def _report(self, sink: Sink, state: State, reason: str = "") -> None:
        sink.status(Status(self.node, PROBE, state, reason, dict(self._counts)))


async def _close(host: Host) -> None:
    """Ends what runs on a host, if it responds at once; otherwise it ends at its deadline."""
    with contextlib.suppress(ProbeError, TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await host.close()


def next_on_ring(here: Host, others: Sequence[Host]) -> Host | None:
    """The node after `here`; None without others."""
    ring = sorted((*others, here), key=lambda host: _hash(host.name))
    partner = ring[(ring.index(here) + 1) % len(ring)]
    return None if partner is here else partner


def wait(node: str, interval: float, now: float) -> float:
    """Seconds from `now` to a node's next turn: one in each interval, at a time that changes.

    At the same time in each, two nodes of which one is busy with the other would stay so.
    """
    turn = now // interval
    turns = (
        (number + _hash(f"{node} {number:.0f}") / 2**64) * interval for number in (turn, turn + 1)
    )
    return next(turn for turn in turns if turn > now) - now


def _hash(name: str) -> int:
    """A number below 2**64."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())
