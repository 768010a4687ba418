"""Probes between agents now and then, so that a link that becomes slow is seen before it is needed.

All agents that are told of each other stand on a ring, in the order of a hash of their names; each
probes the one or two that follow it. So every node is at the end of two links or more with
different peers, which tells a sick node from a sick link, and the number of probes grows with the
nodes and not with their pairs. When an agent's turn is follows from its name as well: a fleet does
not act in step, however it was started. A node that works is left in peace.
"""

import asyncio
import contextlib
import hashlib
import os
import random
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
from .hosts.agent import AgentHost, Line
from .probes.local import LocalHost
from .probes.turns import Turns

MAX_PARTNERS = 2
FRESH_SECONDS = 600.0
"""How often a link has to be probed, so that what was usual on it is not forgotten between two
probes (see `trntop.pipeline.source_buffer`).
"""
TRIES = 3
AGAIN_SECONDS = (2.0, 6.0)
"""Between two tries where one side is in another probe; most take 2 s."""
FAREWELL = 0.3
"""Seconds for the hosts to end what was begun on them, when trntop quits."""
QUIET_SHARE = 0.05
"""Share of the EFA cards' rate below which a node counts as quiet."""


def probing_of(node: str, settings: Settings, turns: Turns) -> "Probing":
    """What probes from this machine, as the settings say.

    Args:
        node: name of this machine as a node.
        settings: `export.probe_…` of them.
        turns: shared with what else probes on it.

    Raises:
        UsageError: no agents are named that it may probe.
        SettingsError: what is needed to reach them is wrong.
    """
    export = settings.export
    if not export.allow_probes:
        raise UsageError("--probe-every goes with --allow-probes: those it probes probe it as well")
    if not export.probe_peers:
        raise UsageError("--probe-every needs --probe-peers NODES, such as trn-[001-016]")
    source = parse(export.probe_peers)
    if source.origin is not Origin.AGENT:
        raise UsageError(f"--probe-peers {clean(source.text, 80)}: say nodes such as trn-[001-016]")
    # One token for all: what this agent wants to see, it sends to the others.
    fleet = structs.replace(
        settings.fleet, token_file=settings.fleet.token_file or export.probe_token_file
    )
    targets = agents.targets(source.text, fleet)
    known_as = own(targets, node, export.listen)
    line = Line(fleet)
    return Probing(
        node,
        LocalHost(settings, known_as or node, turns),
        [AgentHost(one, line) for one in targets if one.name != known_as],
        export.probe_every,
        ProbeSpec(provider=export.probe_provider),
        partial(disturbance, node=node, load=export.probe_load),
    )


def own(targets: Sequence[Target], node: str, listens: Collection[str]) -> str:
    """What this machine is called among targets; empty if it is none of them.

    Args:
        targets: agents.
        node: name of this machine.
        listens: `HOST:PORT` where its agent listens; an empty host stands for all addresses.
    """
    here = {
        address.address for addresses in psutil.net_if_addrs().values() for address in addresses
    }
    places = {
        (host.strip("[]"), port) for host, _, port in (one.rpartition(":") for one in listens)
    }
    for target in targets:
        parts = urlsplit(target.address)
        host, port = parts.hostname or "", str(parts.port)
        if (host, port) in places or (host in here and ("", port) in places):
            return target.name
    short = node.partition(".")[0]
    return next((one.name for one in targets if one.name.partition(".")[0] == short), "")


def disturbance(view: View | None, node: str, load: float) -> str:
    """Why a node is not to be probed now; empty where it may be.

    Args:
        view: what the agent knows.
        node: the node's name.
        load: load average over one minute, per vCPU, from which on it works.
    """
    vcpus, running = os.cpu_count() or 1, os.getloadavg()[0]
    if running > load * vcpus:
        return f"load {running:.1f} on {vcpus} vCPUs"
    if view is not None and (seen := view.cluster.nodes.get(node)) is not None:
        share = seen.frame.columns.get("node_efa_tx_share_ratio")
        # NaN, where no rate is known, is no disturbance.
        if share is not None and len(share) and share[0] > QUIET_SHARE:
            return f"its EFA cards send at {100 * share[0]:.0f} % of their rate"
    return ""


class Probing:
    """Probes the links from this node to those that follow it on the ring, one at a time.

    Args:
        node: name of this machine as a node.
        here: this machine, by the name that the other agents know it by; its side is the client's.
        others: the agents that it may probe.
        every: seconds between two probes, 600 at most.
        spec: what each is.
        disturbed: tells by the newest view why there is to be none just now, or nothing.
    """

    source = PROBE

    def __init__(
        self,
        node: str,
        here: Host,
        others: Sequence[Host],
        every: float,
        spec: ProbeSpec,
        disturbed: Callable[[View | None], str],
    ) -> None:
        self.node = node
        self._here = here
        self._others = others
        self._every = every
        self._spec = spec
        self._disturbed = disturbed
        self._view: View | None = None
        self._counts = Counter(probes=0, skipped=0)
        self.partners = partners(here, others, max(1, int(FRESH_SECONDS / every)))

    def __call__(self, view: View) -> None:
        """Takes the newest view."""
        self._view = view

    async def run(self, sink: Sink) -> None:
        """Probes until cancelled; ends when there is nobody to probe."""
        try:
            if not self.partners:
                self._say(sink, State.DOWN, "no other node is named that could be probed")
                return
            turn = 0
            while True:
                await asyncio.sleep(wait(self._here.name, self._every, sink.now()))
                await self._beat(sink, self.partners[turn % len(self.partners)])
                turn += 1
        finally:
            await asyncio.gather(*map(_closed, (*self._others, self._here)))

    async def _beat(self, sink: Sink, partner: Host) -> None:
        reason = self._disturbed(self._view)
        began = sink.now()
        if not reason:
            try:
                results = await self._patient(partner)
            except BusyError as error:
                reason = str(error)
            except ProbeError as error:
                failed = ProbeResult(tool=self._spec.tool, peer=partner.name, error=str(error))
                results = [failed]
        if reason:
            self._counts["skipped"] += 1
            self._say(sink, State.FRESH, f"not probed: {clean(reason, 160)}")
            return
        self._counts["probes"] += 1
        payload = msgspec.json.encode({"results": [_whole(one) for one in results]})
        sink.reading(Reading(self.node, PROBE, began, payload))
        self._say(sink, State.FRESH)

    async def _patient(self, partner: Host) -> list[ProbeResult]:
        """The results, after others have had theirs.

        Raises:
            BusyError: it did not come to its turn.
            ProbeError: the probe cannot be run.
        """
        for _ in range(TRIES - 1):
            with contextlib.suppress(BusyError):
                return await self._probe(partner)
            # By chance: two that wait for each other would meet again and again.
            await asyncio.sleep(random.uniform(*AGAIN_SECONDS))
        return await self._probe(partner)

    async def _probe(self, partner: Host) -> list[ProbeResult]:
        server = await partner.serve(self._spec)
        try:
            return await self._here.probe(self._spec, partner.name, server)
        finally:
            with contextlib.suppress(ProbeError):  # it ends by itself after its time
                await partner.end(server)

    def _say(self, sink: Sink, state: State, reason: str = "") -> None:
        sink.status(Status(self.node, PROBE, state, reason, dict(self._counts)))


async def _closed(host: Host) -> None:
    """Ends what runs on a host, if it answers at once; else it ends there by itself."""
    with contextlib.suppress(ProbeError, TimeoutError):
        async with asyncio.timeout(FAREWELL):
            await host.close()


def partners(here: Host, others: Sequence[Host], most: int = MAX_PARTNERS) -> list[Host]:
    """Those that follow a node on the ring of all, nearest first; two at most."""
    ring = sorted((*others, here), key=lambda one: _place(one.name))
    start = next(place for place, one in enumerate(ring) if one is here)
    count = min(most, MAX_PARTNERS, len(others))
    return [ring[(start + step) % len(ring)] for step in range(1, count + 1)]


def wait(node: str, every: float, now: float) -> float:
    """Seconds from `now` to a node's next turn."""
    return every - (now - every * _place(node) / 2**64) % every


def _place(name: str) -> int:
    """A number below 2**64 that a name always has."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


def _whole(result: ProbeResult) -> ProbeResult:
    """A result that ended early as a failure: its mean is not that of the others."""
    if not result.partial or result.error:
        return result
    return structs.replace(result, error="the probe ended before it was through")
