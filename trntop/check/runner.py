"""Runs a check: inspections, rounds of probes, suspects again, inspections again.

Nodes are reached through the `Host` protocol only. Each call has its own deadline, so that no node
can block the check. At the end, also after an error, each host ends what still runs for the check.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from trntop.check import load, schedule
from trntop.check.links import MIN_PARTNERS, Endpoint, LinkAnalysis
from trntop.check.model import (
    BusyError,
    Host,
    Inspection,
    ProbeError,
    ProbeResult,
    ProbeSpec,
    RefusedError,
    UnreachableError,
)
from trntop.check.plan import Plan, probe_seconds
from trntop.check.result import Check, NodeInspection, OnProgress, ProbeRun, Progress
from trntop.check.schedule import Round
from trntop.check.stage import Outlook
from trntop.check.verdict import judge
from trntop.core import units
from trntop.core.errors import TrntopError
from trntop.core.settings import Settings

CALL = 12.0
"""Seconds for a server side to start."""
GRACE = 10.0
"""Seconds after the deadline of a probe in which its results must arrive."""
CLOSE = 5.0
"""Seconds to end a probe, or all that runs on a host."""
BUSY = 20.0
"""Seconds to wait for a node that is in another probe."""
AGAIN = 1.0
"""Seconds between attempts."""
ATTEMPTS = 2
"""How often suspects are probed with good nodes, and slow pairs again."""
FAULTS = 2
"""Failed requests after which a node gets no more."""

LOOPBACK = "127.0.0.1"

T = TypeVar("T")
FetchFacts = Callable[[Sequence[str]], Awaitable[Mapping[str, Mapping[str, str]]]]
"""Instance ids → facts of each; raises TrntopError if the query fails."""


async def run_check(
    hosts: Sequence[Host],
    plan: Plan,
    settings: Settings,
    progress: OnProgress | None = None,
    *,
    baseline: Check | None = None,
    imported: Sequence[ProbeResult] = (),
    outlook: Outlook | None = None,
    fetch_facts: FetchFacts | None = None,
    clock: Callable[[], float] = time.time,
) -> Check:
    """Runs a check and judges it. If cancelled, it leaves nothing running.

    Args:
        hosts: the nodes; a single one is probed against itself.
        plan: what to do.
        settings: in force.
        progress: receives each step.
        baseline: an earlier check to compare with.
        imported: results of other tools, for the report.
        outlook: communication of finished stages, for the report.
        fetch_facts: returns facts of instances that the nodes do not have.
        clock: unix seconds.
    """
    started, begun = clock(), time.monotonic()
    runner = _CheckRunner(hosts, plan, settings, progress or (lambda _: None), fetch_facts, clock)
    try:
        try:
            async with asyncio.timeout(plan.time_limit):
                await runner.run()
        except TimeoutError:
            runner.cut_short = (
                f"time limit of {units.span(plan.time_limit)} exceeded: {runner.stage}"
            )
    finally:
        await runner.close()
    return judge(
        runner.inspections,
        runner.runs,
        plan,
        settings,
        started=started,
        seconds=time.monotonic() - begun,
        cut_short=runner.cut_short,
        ec2_error=runner.ec2_error,
        baseline=baseline,
        imported=imported,
        outlook=outlook,
    )


class _SideError(Exception):
    """One side of a probe failed; `node` is its node."""

    def __init__(self, node: str, error: ProbeError) -> None:
        super().__init__(node)
        self.node = node
        self.error = error


class _CheckRunner:
    def __init__(
        self,
        hosts: Sequence[Host],
        plan: Plan,
        settings: Settings,
        on_progress: OnProgress,
        fetch_facts: FetchFacts | None,
        clock: Callable[[], float],
    ) -> None:
        self.inspections = {host.name: NodeInspection(node=host.name) for host in hosts}
        self.runs: list[ProbeRun] = []
        self.stage = "nothing done"
        self.cut_short = ""
        self.ec2_error = ""
        """Why EC2 data is missing."""
        self._hosts = {host.name: host for host in hosts}
        self._plan = plan
        self._settings = settings
        self._on_progress = on_progress
        self._fetch_facts = fetch_facts
        self._facts: dict[str, Mapping[str, str]] = {}
        """Instance id → facts from EC2."""
        self._clock = clock
        self._gate = asyncio.Semaphore(plan.pairs)
        self._faults: Counter[str] = Counter()
        """Node → failed requests."""
        self._only: frozenset[Endpoint] | None = None
        """The endpoints in doubt; None while all are probed."""

    async def run(self) -> None:
        await self._inspect_all("before the probes", list(self._hosts))
        await self._learn()
        names = [name for name in self._hosts if self._may_probe(name)]
        if len(names) == 1:
            await self._round("loopback", names, ((0, 0),))
        rounds = self._plan.rounds(len(names))
        for number, pairs in enumerate(rounds, 1):
            await self._round(f"round {number}", names, pairs, len(rounds) - number)
        if len(names) > 1:
            await self._doubts(names)
        # Also nodes that did not respond once: one that responds now is not gone.
        seen = [
            name
            for name, inspection in self.inspections.items()
            if inspection.before and not inspection.refused
        ]
        await self._inspect_all("after the probes", seen)

    async def close(self) -> None:
        """Ends what runs on all hosts, even if this task is cancelled meanwhile."""
        closing = asyncio.gather(*(self._close(host) for host in self._hosts.values()))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await closing
            raise

    async def _close(self, host: Host) -> None:
        with contextlib.suppress(ProbeError, TimeoutError):
            async with asyncio.timeout(CLOSE):
                await host.close()

    def _may_probe(self, name: str) -> bool:
        seen, plan = self.inspections[name].before, self._plan
        return (
            seen is not None and (not seen.busy or plan.disturb) and not seen.lacks(plan.spec.tool)
        )

    def _is_available(self, name: str) -> bool:
        return not self.inspections[name].error and self._faults[name] < FAULTS

    # Inspections

    async def _inspect_all(self, stage: str, names: Sequence[str]) -> None:
        self.stage = f"inspecting the nodes {stage}"
        done = 0

        async def one(name: str) -> None:
            nonlocal done
            async with self._gate:
                await self._inspect(name)
            done += 1
            self._on_progress(Progress(self.stage, done, len(names), 0.0))

        await _all(one(name) for name in names)

    async def _inspect(self, name: str) -> None:
        inspection, asked = self.inspections[name], self._clock()
        try:
            seen = await _within(self._plan.inspect_seconds, self._hosts[name].inspect())
        except ProbeError as error:
            inspection.error = str(error)
            inspection.refused = not isinstance(error, UnreachableError)
            return
        if inspection.before is None:
            inspection.before = seen
        else:
            inspection.after = _with_facts(seen, self._facts)
            inspection.error = ""
        self._compare_clocks(inspection, seen, asked)

    async def _learn(self) -> None:
        """Adds facts from EC2."""
        known = [
            inspection for inspection in self.inspections.values() if inspection.before is not None
        ]
        instances = [inspection.before.instance_id for inspection in known if inspection.before]
        if self._fetch_facts is None or not any(instances):
            return
        self.stage = "querying EC2"
        try:
            self._facts = dict(await self._fetch_facts([one for one in instances if one]))
        except TrntopError as error:
            self.ec2_error = str(error)
        for inspection in known:
            if inspection.before is not None:
                inspection.before = _with_facts(inspection.before, self._facts)

    def _compare_clocks(self, inspection: NodeInspection, seen: Inspection, asked: float) -> None:
        """Keeps the more precise comparison: the one with the faster response."""
        answered = self._clock()
        error = (answered - asked) / 2
        if inspection.clock is None or error < inspection.clock_error:
            inspection.clock, inspection.clock_error = seen.time - (asked + answered) / 2, error

    # Probes

    async def _round(self, stage: str, names: Sequence[str], pairs: Round, more: int = 0) -> None:
        """Probes all pairs of a round at once; they share no node."""
        self.stage = stage
        done = 0
        probe = probe_seconds(self._plan.spec)

        async def one(client: str, server: str) -> None:
            nonlocal done
            async with self._gate:
                await self._pair(stage, client, server)
            done += 1
            turns = -(-(len(pairs) - done) // self._plan.pairs) + more
            self._on_progress(Progress(stage, done, len(pairs), turns * probe))

        self._on_progress(Progress(stage, 0, len(pairs), (more + 1) * probe))
        await _all(one(names[client], names[server]) for client, server in pairs)

    async def _pair(self, stage: str, client: str, server: str) -> None:
        cards = self._rails(client, server) if self._plan.per_card else [("", "")]
        for card, peer_card in cards:
            if not (self._is_available(client) and self._is_available(server)):
                return
            if self._only and self._only.isdisjoint(((client, card), (server, peer_card))):
                continue
            await self._probe(stage, client, server, card, peer_card)

    def _rails(self, client: str, server: str) -> list[tuple[str, str]]:
        """Each EFA device with the device at the same position on the other node."""
        return list(zip(self._cards(client), self._cards(server), strict=False)) or [("", "")]

    def _cards(self, name: str) -> list[str]:
        seen = self.inspections[name].before
        return sorted([card.name for card in (seen and seen.cards) or ()], key=units.natural)

    async def _probe(self, stage: str, client: str, server: str, card: str, peer_card: str) -> None:
        spec = msgspec.structs.replace(self._plan.spec, card=card, peer_card=peer_card)
        error = guilty = ""
        busy = False
        results: list[ProbeResult] = []
        try:
            results, complaint = await self._measure(spec, client, server)
        except _SideError as failure:
            error, guilty = self._failed(failure.node, failure.error), failure.node
            busy = isinstance(failure.error, BusyError)
        else:
            if not results or all(one.error for one in results):
                error = results[0].error if results else "the probe gave no results"
                side = results[0].guilty if results else ""
                guilty = {"client": client, "server": server}.get(side, "")
                if complaint and complaint not in error:
                    error += f"; {server} reports: {complaint}"
        self.runs.append(
            ProbeRun(
                client=client,
                server=server,
                card=card,
                peer_card=peer_card,
                time=self._clock(),
                stage=stage,
                results=[msgspec.structs.replace(one, peer=server) for one in results],
                error=error,
                guilty=guilty,
                busy=busy,
            )
        )

    async def _measure(
        self, spec: ProbeSpec, client: str, server: str
    ) -> tuple[list[ProbeResult], str]:
        """The results of a probe, and the error of its server side.

        Waits for a node that is in another probe, such as one of `--probe-every`.

        Raises:
            _SideError: one side failed.
        """
        deadline = time.monotonic() + BUSY
        while True:
            try:
                return await self._measure_once(spec, client, server)
            except _SideError as failure:
                if not isinstance(failure.error, BusyError) or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(AGAIN)

    async def _measure_once(
        self, spec: ProbeSpec, client: str, server: str
    ) -> tuple[list[ProbeResult], str]:
        try:
            served = await _within(CALL, self._hosts[server].serve(spec))
        except ProbeError as error:
            raise _SideError(server, error) from error
        if client == server and not served.address:
            # Its own name may not resolve on it.
            served = msgspec.structs.replace(served, address=LOOPBACK)
        complaint = ""
        try:
            asked = self._hosts[client].probe(spec, server, served)
            results = await _within(spec.seconds + GRACE, asked)
        except ProbeError as error:
            raise _SideError(client, error) from error
        else:
            if client != server:
                results = [
                    msgspec.structs.replace(one, load=load.both(one.load, served.load))
                    for one in results
                ]
        finally:
            with contextlib.suppress(ProbeError):
                complaint = await _within(CLOSE, self._hosts[server].end(served))
        return results, complaint

    def _failed(self, name: str, error: ProbeError) -> str:
        """Counts a failed request of a node; returns the error."""
        inspection = self.inspections[name]
        self._faults[name] += 1
        if isinstance(error, RefusedError | UnreachableError) and not inspection.error:
            inspection.error, inspection.refused = str(error), isinstance(error, RefusedError)
        return str(error)

    # Doubts

    async def _doubts(self, names: Sequence[str]) -> None:
        """Probes suspects with good nodes, then repeats bad pairs that this does not explain.

        A node that is slow with two nodes that are healthy with others is faulty. A temporary
        disturbance is over by then.
        """
        places = {name: place for place, name in enumerate(names)}
        if self._plan.extent == "quick":
            for attempt in range(1, ATTEMPTS + 1):
                await self._suspects(attempt, names, places)
        for attempt in range(1, ATTEMPTS + 1):
            found = LinkAnalysis(self.runs, self._settings.check)
            # In the other direction. A failure takes its full deadline: repeat it only once.
            again = [
                (places[link.two[0]], places[link.one[0]])
                for link in found.unexplained
                if (attempt == 1 or link.best is not None)
                and self._is_available(link.one[0])
                and self._is_available(link.two[0])
            ]
            self._only = found.in_doubt
            for number, pairs in enumerate(schedule.apart(dict.fromkeys(again)), 1):
                await self._round(f"again {attempt}.{number}", names, pairs)

    async def _suspects(
        self, attempt: int, names: Sequence[str], places: Mapping[str, int]
    ) -> None:
        """Probes nodes in bad pairs, or in none, with good ones; apparently faulty nodes once."""
        found = LinkAnalysis(self.runs, self._settings.check)
        good = found.good_nodes
        unprobed = [name for name in names if not found.of_node(name)]
        wanted = {
            places[name]: MIN_PARTNERS + 1 - len(found.partners(name) & good)
            for name in (*found.doubtful, *unprobed)
        }
        suspected = {node for node, _ in found.faulty}
        if attempt == 1:
            wanted |= {places[node]: 1 for node in suspected}
        self._only = None if unprobed else found.in_doubt | found.faulty.keys()
        rounds = self._with_good(names, places, found, wanted)
        for number, pairs in enumerate(rounds, 1):
            stage = f"suspects {attempt}.{number}"
            await self._round(stage, names, pairs, len(rounds) - number)

    def _with_good(
        self,
        names: Sequence[str],
        places: Mapping[str, int],
        found: LinkAnalysis,
        wanted: Mapping[int, int],
    ) -> list[Round]:
        """Rounds that pair each node with the wanted number of good ones."""
        available = {
            place: count for place, count in wanted.items() if self._is_available(names[place])
        }
        good = found.good_nodes
        return schedule.against(
            sorted(place for place, count in available.items() if count > 0),
            [places[name] for name in names if name in good and self._is_available(name)],
            [(places[one], places[two]) for one, two in found.met],
            available,
        )


def _with_facts(seen: Inspection, facts: Mapping[str, Mapping[str, str]]) -> Inspection:
    """Facts from the node take precedence."""
    more = facts.get(seen.instance_id, {})
    kind = seen.instance_type or more.get("instance_type", "")
    return msgspec.structs.replace(seen, facts={**more, **seen.facts}, instance_type=kind)


async def _all(tasks: Iterable[Awaitable[None]]) -> None:
    """Runs all tasks; an error cancels the others."""
    async with asyncio.TaskGroup() as group:
        for task in tasks:
            group.create_task(_awaited(task))


async def _awaited(task: Awaitable[None]) -> None:
    await task


async def _within(seconds: float, call: Awaitable[T]) -> T:
    """A call of a host, ended at its deadline.

    Raises:
        ProbeError: it failed, or did not respond in time.
    """
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError:
        raise UnreachableError(f"no response within {units.seconds(seconds)}") from None
