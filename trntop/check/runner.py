"""The course of a check: looks at nodes, rounds of probes, suspects once more, looks again.

It knows nodes by the `Host` protocol alone. Each call of a host has a deadline of ours besides
whatever the host keeps, so that no node can hold the check up, and at its end, however it comes,
every host is told to end what still runs there for us.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from trntop.check import load, schedule
from trntop.check.ends import MIN_PARTNERS, End, Ends
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
from trntop.check.result import Check, NodeInspection, ProbeRun, Progress, Tell
from trntop.check.schedule import Round
from trntop.check.stage import Outlook
from trntop.check.verdict import judge
from trntop.core import units
from trntop.core.errors import TrntopError
from trntop.core.settings import Settings

CALL = 12.0
"""Seconds in which a server side has to be there."""
GRACE = 10.0
"""Seconds beyond the deadline of a probe in which its results have to come."""
CLOSE = 5.0
"""Seconds that the end of a probe, or of all that runs on a host, may take."""
BUSY = 20.0
"""Seconds for which a node is waited for that is in somebody else's probe."""
AGAIN = 1.0
"""Seconds between two attempts."""
ATTEMPTS = 2
"""Times that suspects meet good nodes, and that a bad pair is probed again if it is slow."""
FAULTS = 2
"""Failed orders after which a node is given no further ones."""

LOOPBACK = "127.0.0.1"

T = TypeVar("T")
Ask = Callable[[Sequence[str]], Awaitable[Mapping[str, Mapping[str, str]]]]
"""Instance ids → what is known of each; raises TrntopError where nothing is."""


async def conduct(
    hosts: Sequence[Host],
    plan: Plan,
    settings: Settings,
    progress: Tell | None = None,
    *,
    baseline: Check | None = None,
    imported: Sequence[ProbeResult] = (),
    outlook: Outlook | None = None,
    ask: Ask | None = None,
    clock: Callable[[], float] = time.time,
) -> Check:
    """Runs a check and judges it. Cancelled, it leaves nothing running.

    Args:
        hosts: the nodes; a single one is probed against itself.
        plan: what to do.
        settings: in force.
        progress: is told how far it is.
        baseline: an earlier check, to compare with.
        imported: results of other tools, for the report.
        outlook: communication of finished stages, for the report.
        ask: tells facts of instances, by their ids, that nodes do not know themselves.
        clock: unix seconds.
    """
    started, begun = clock(), time.monotonic()
    course = _Course(hosts, plan, settings, progress or (lambda _: None), ask, clock)
    try:
        try:
            async with asyncio.timeout(plan.time_limit):
                await course.run()
        except TimeoutError:
            course.cut_short = (
                f"time limit of {units.span(plan.time_limit)} exceeded: {course.stage}"
            )
    finally:
        await course.close()
    return judge(
        course.looks,
        course.trials,
        plan,
        settings,
        started=started,
        seconds=time.monotonic() - begun,
        cut_short=course.cut_short,
        unlearned=course.unlearned,
        baseline=baseline,
        imported=imported,
        outlook=outlook,
    )


class _SideError(Exception):
    """One side of a probe could not be had; `node` is whose."""

    def __init__(self, node: str, error: ProbeError) -> None:
        super().__init__(node)
        self.node = node
        self.error = error


class _Course:
    """What is known so far."""

    def __init__(
        self,
        hosts: Sequence[Host],
        plan: Plan,
        settings: Settings,
        tell: Tell,
        ask: Ask | None,
        clock: Callable[[], float],
    ) -> None:
        self.looks = {host.name: NodeInspection(node=host.name) for host in hosts}
        self.trials: list[ProbeRun] = []
        self.stage = "nothing done"
        self.cut_short = ""
        self.unlearned = ""
        """Why facts of the nodes are not known."""
        self._hosts = {host.name: host for host in hosts}
        self._plan = plan
        self._settings = settings
        self._tell = tell
        self._ask = ask
        self._facts: dict[str, Mapping[str, str]] = {}
        """Instance → what it does not know itself."""
        self._clock = clock
        self._gate = asyncio.Semaphore(plan.pairs)
        self._faults: Counter[str] = Counter()
        """Node → orders that it did not follow."""
        self._only: frozenset[End] | None = None
        """The ends that are in doubt; None while all are probed."""

    async def run(self) -> None:
        """Everything, in turn."""
        await self._look("before the probes", list(self._hosts))
        await self._learn()
        names = [name for name in self._hosts if self._may_probe(name)]
        if len(names) == 1:
            await self._round("loopback", names, ((0, 0),))
        rounds = self._plan.rounds(len(names))
        for number, pairs in enumerate(rounds, 1):
            await self._round(f"round {number}", names, pairs, len(rounds) - number)
        if len(names) > 1:
            await self._doubts(names)
        # Also who gave no answer once: who answers now is not gone.
        seen = [name for name, look in self.looks.items() if look.before and not look.refused]
        await self._look("after the probes", seen)

    async def close(self) -> None:
        """Ends what runs on all hosts, even if this task is told to end meanwhile."""
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
        seen, plan = self.looks[name].before, self._plan
        return (
            seen is not None and (not seen.busy or plan.disturb) and not seen.lacks(plan.spec.tool)
        )

    def _obeys(self, name: str) -> bool:
        """Whether it is worth while to ask a node for a probe."""
        return not self.looks[name].error and self._faults[name] < FAULTS

    # Looks

    async def _look(self, stage: str, names: Sequence[str]) -> None:
        self.stage = f"inspecting the nodes {stage}"
        done = 0

        async def one(name: str) -> None:
            nonlocal done
            async with self._gate:
                await self._inspect(name)
            done += 1
            self._tell(Progress(self.stage, done, len(names), 0.0))

        await _all(one(name) for name in names)

    async def _inspect(self, name: str) -> None:
        look, asked = self.looks[name], self._clock()
        try:
            seen = await _within(self._plan.inspect_seconds, self._hosts[name].inspect())
        except ProbeError as error:
            look.error = str(error)
            look.refused = not isinstance(error, UnreachableError)
            return
        if look.before is None:
            look.before = seen
        else:
            look.after = _with_facts(seen, self._facts)
            look.error = ""
        self._compare_clocks(look, seen, asked)

    async def _learn(self) -> None:
        """Adds facts that others know of the nodes."""
        known = [look for look in self.looks.values() if look.before is not None]
        instances = [look.before.instance_id for look in known if look.before]
        if self._ask is None or not any(instances):
            return
        self.stage = "querying EC2"
        try:
            self._facts = dict(await self._ask([one for one in instances if one]))
        except TrntopError as error:
            self.unlearned = str(error)
        for look in known:
            if look.before is not None:
                look.before = _with_facts(look.before, self._facts)

    def _compare_clocks(self, look: NodeInspection, seen: Inspection, asked: float) -> None:
        """Keeps the better of both comparisons: the one whose answer came faster."""
        answered = self._clock()
        error = (answered - asked) / 2
        if look.clock is None or error < look.clock_error:
            look.clock, look.clock_error = seen.time - (asked + answered) / 2, error

    # Probes

    async def _round(self, stage: str, names: Sequence[str], pairs: Round, more: int = 0) -> None:
        """All pairs of a round; those run at a time share no node."""
        self.stage = stage
        done = 0
        probe = probe_seconds(self._plan.spec)

        async def one(client: str, server: str) -> None:
            nonlocal done
            async with self._gate:
                await self._pair(stage, client, server)
            done += 1
            turns = -(-(len(pairs) - done) // self._plan.pairs) + more
            self._tell(Progress(stage, done, len(pairs), turns * probe))

        self._tell(Progress(stage, 0, len(pairs), (more + 1) * probe))
        await _all(one(names[client], names[server]) for client, server in pairs)

    async def _pair(self, stage: str, client: str, server: str) -> None:
        cards = self._rails(client, server) if self._plan.per_card else [("", "")]
        for card, peer_card in cards:
            if not (self._obeys(client) and self._obeys(server)):
                return
            if self._only and self._only.isdisjoint(((client, card), (server, peer_card))):
                continue
            await self._probe(stage, client, server, card, peer_card)

    def _rails(self, client: str, server: str) -> list[tuple[str, str]]:
        """Each card of one with the card of the same place of the other."""
        return list(zip(self._cards(client), self._cards(server), strict=False)) or [("", "")]

    def _cards(self, name: str) -> list[str]:
        seen = self.looks[name].before
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
        self.trials.append(
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
        """The results of a probe, and what its server side complained of.

        Waits for a node that is in somebody else's probe, such as one of `--probe-every`.

        Raises:
            _SideError: a node does not do what it is asked.
        """
        patience = time.monotonic() + BUSY
        while True:
            try:
                return await self._measure_once(spec, client, server)
            except _SideError as failure:
                if not isinstance(failure.error, BusyError) or time.monotonic() > patience:
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
            # Its own name need not be known to it.
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
        """What is said of a node that does not do what it is asked; soon it is asked no more."""
        look = self.looks[name]
        self._faults[name] += 1
        if isinstance(error, RefusedError | UnreachableError) and not look.error:
            look.error, look.refused = str(error), isinstance(error, RefusedError)
        return str(error)

    # Doubts

    async def _doubts(self, names: Sequence[str]) -> None:
        """Who is in a bad pair, with good nodes; then bad pairs that this does not explain, again.

        Who is slow with two nodes that are fine with others is the one to blame, and a disturbance
        that passes is over by then.
        """
        places = {name: place for place, name in enumerate(names)}
        if self._plan.extent == "quick":
            for attempt in range(1, ATTEMPTS + 1):
                await self._suspects(attempt, names, places)
        for attempt in range(1, ATTEMPTS + 1):
            found = Ends(self.trials, self._settings.check)
            # The other way round. What fails takes its whole deadline: once more is enough.
            again = [
                (places[link.two[0]], places[link.one[0]])
                for link in found.unexplained
                if (attempt == 1 or link.best is not None)
                and self._obeys(link.one[0])
                and self._obeys(link.two[0])
            ]
            self._only = found.in_doubt
            for number, pairs in enumerate(schedule.apart(dict.fromkeys(again)), 1):
                await self._round(f"again {attempt}.{number}", names, pairs)

    async def _suspects(
        self, attempt: int, names: Sequence[str], places: Mapping[str, int]
    ) -> None:
        """Nodes that are in a bad pair, or in none, with good ones; once those that seem guilty."""
        found = Ends(self.trials, self._settings.check)
        good = found.good_nodes
        unmet = [name for name in names if not found.of_node(name)]
        wanted = {
            places[name]: MIN_PARTNERS + 1 - len(found.partners(name) & good)
            for name in (*found.doubtful, *unmet)
        }
        accused = {node for node, _ in found.guilty}
        if attempt == 1:
            wanted |= {places[node]: 1 for node in accused}
        self._only = None if unmet else found.in_doubt | found.guilty.keys()
        rounds = self._with_good(names, places, found, wanted)
        for number, pairs in enumerate(rounds, 1):
            stage = f"suspects {attempt}.{number}"
            await self._round(stage, names, pairs, len(rounds) - number)

    def _with_good(
        self,
        names: Sequence[str],
        places: Mapping[str, int],
        found: Ends,
        wanted: Mapping[int, int],
    ) -> list[Round]:
        """Rounds of some nodes with as many good ones as each is to be probed with."""
        obedient = {place: count for place, count in wanted.items() if self._obeys(names[place])}
        good = found.good_nodes
        return schedule.against(
            sorted(place for place, count in obedient.items() if count > 0),
            [places[name] for name in names if name in good and self._obeys(name)],
            [(places[one], places[two]) for one, two in found.met],
            obedient,
        )


def _with_facts(seen: Inspection, facts: Mapping[str, Mapping[str, str]]) -> Inspection:
    """What a node knows itself goes before."""
    more = facts.get(seen.instance_id, {})
    kind = seen.instance_type or more.get("instance_type", "")
    return msgspec.structs.replace(seen, facts={**more, **seen.facts}, instance_type=kind)


async def _all(tasks: Iterable[Awaitable[None]]) -> None:
    """Runs all of them; one that breaks ends the others."""
    async with asyncio.TaskGroup() as group:
        for task in tasks:
            group.create_task(_awaited(task))


async def _awaited(task: Awaitable[None]) -> None:
    await task


async def _within(seconds: float, call: Awaitable[T]) -> T:
    """A call of a host, ended at its deadline.

    Raises:
        ProbeError: it failed, or gave no answer in time.
    """
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError:
        raise UnreachableError(f"no response within {units.seconds(seconds)}") from None
