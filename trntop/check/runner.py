"""Runs a check: inspections, rounds of probes, suspects again, inspections again.

Nodes are reached through the `Host` protocol only. Each call has its own deadline, so that no node
can block the check. At the end, also after an error, each host ends what still runs for the check.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import structs

from trntop.check import load, schedule
from trntop.check.links import MIN_PARTNERS, Endpoint, LinkAnalysis
from trntop.check.model import (
    BusyError,
    Host,
    ProbeError,
    ProbeResult,
    ProbeSpec,
    RefusedError,
    UnreachableError,
)
from trntop.check.plan import Plan
from trntop.check.result import Check, NodeInspection, OnProgress, ProbeRun, Progress
from trntop.check.schedule import Round
from trntop.check.verdict import judge
from trntop.core import units
from trntop.core.settings import Check as Limits

CALL_SECONDS = 12.0
"""Seconds for a server side to start."""
GRACE_SECONDS = 10.0
"""Seconds after the deadline of a probe in which its results must arrive."""
CLOSE_SECONDS = 5.0
"""Seconds to end a probe, or all that runs on a host."""
BUSY_SECONDS = 20.0
"""Seconds to wait for a node that is in another probe."""
RETRY_SECONDS = 1.0
"""Seconds between attempts."""
ATTEMPTS = 2
"""How often suspects are probed with good nodes, and slow pairs again."""
MAX_FAILURES = 2
"""Failed requests after which a node gets no more."""

LOOPBACK = "127.0.0.1"

T = TypeVar("T")


async def run_check(
    hosts: Sequence[Host],
    plan: Plan,
    limits: Limits,
    progress: OnProgress | None = None,
    *,
    clock: Callable[[], float] = time.time,
) -> Check:
    """Runs a check and judges it. If cancelled, it leaves nothing running.

    Args:
        hosts: the nodes; a single one is probed against itself.
        plan: the options.
        limits: the settings in force.
        progress: receives each step.
        clock: unix seconds.
    """
    started, begun = clock(), time.monotonic()
    runner = _CheckRunner(hosts, plan, limits, progress or (lambda _: None), clock)
    cut_short = ""
    try:
        async with asyncio.timeout(plan.time_limit):
            await runner.run()
    except TimeoutError:
        cut_short = f"time limit of {units.span(plan.time_limit)} exceeded: {runner.stage}"
    finally:
        await runner.close()
    return judge(
        runner.inspections,
        runner.runs,
        plan,
        limits,
        started=started,
        seconds=time.monotonic() - begun,
        cut_short=cut_short,
    )


class _SideError(Exception):
    """One side of a probe failed."""

    def __init__(self, node: str, error: ProbeError) -> None:
        super().__init__(node)
        self.node = node
        self.error = error


class _CheckRunner:
    def __init__(
        self,
        hosts: Sequence[Host],
        plan: Plan,
        limits: Limits,
        on_progress: OnProgress,
        clock: Callable[[], float],
    ) -> None:
        self.inspections = {host.name: NodeInspection(node=host.name) for host in hosts}
        self.runs: list[ProbeRun] = []
        self.stage = "nothing done"
        self._hosts = {host.name: host for host in hosts}
        self._plan = plan
        self._limits = limits
        self._on_progress = on_progress
        self._clock = clock
        self._gate = asyncio.Semaphore(plan.pairs)
        self._failures: Counter[str] = Counter()
        """Node → failed requests."""
        self._only: frozenset[Endpoint] | None = None
        """The endpoints in doubt; None while all are probed."""

    async def run(self) -> None:
        await self._stage(
            "inspecting the nodes before the probes", [self._inspect(name) for name in self._hosts]
        )
        names = [
            name
            for name, inspection in self.inspections.items()
            if self._plan.may_probe(inspection.before)
        ]
        if len(names) == 1:
            await self._round("loopback", names, ((0, 0),))
        for number, pairs in enumerate(self._plan.rounds(len(names)), 1):
            await self._round(f"round {number}", names, pairs)
        if len(names) > 1:
            await self._doubts(names)
        # Also nodes that did not respond once: one that responds now is not gone.
        seen = [
            self._inspect(name)
            for name, inspection in self.inspections.items()
            if inspection.before and not inspection.refused
        ]
        await self._stage("inspecting the nodes after the probes", seen)

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
            async with asyncio.timeout(CLOSE_SECONDS):
                await host.close()

    async def _stage(self, stage: str, tasks: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Runs tasks at once, as many as the plan permits; an error cancels the others."""
        self.stage = stage
        done = 0

        async def gated(task: Coroutine[Any, Any, None]) -> None:
            nonlocal done
            async with self._gate:
                await task
            done += 1
            self._on_progress(Progress(stage, done, len(tasks)))

        self._on_progress(Progress(stage, 0, len(tasks)))
        try:
            async with asyncio.TaskGroup() as group:
                for task in tasks:
                    group.create_task(gated(task))
        finally:
            for task in tasks:
                task.close()

    async def _inspect(self, name: str) -> None:
        inspection = self.inspections[name]
        try:
            seen = await _within(self._plan.inspect_seconds, self._hosts[name].inspect())
        except ProbeError as error:
            inspection.error = str(error)
            inspection.refused = not isinstance(error, UnreachableError)
            return
        if inspection.before is None:
            inspection.before = seen
        else:
            inspection.after, inspection.error = seen, ""

    # Probes

    async def _round(self, stage: str, names: Sequence[str], pairs: Round) -> None:
        """Probes all pairs of a round at once; they share no node."""
        probes = [self._pair(stage, names[client], names[server]) for client, server in pairs]
        await self._stage(stage, probes)

    async def _pair(self, stage: str, client: str, server: str) -> None:
        efa_devices = [("", "")]
        if self._plan.per_device:
            # Each EFA device with the device at the same position on the other node.
            both = zip(self._device_names(client), self._device_names(server), strict=False)
            efa_devices = list(both) or efa_devices
        for efa_device, peer_efa_device in efa_devices:
            if not (self._is_available(client) and self._is_available(server)):
                return
            if self._only and self._only.isdisjoint(
                ((client, efa_device), (server, peer_efa_device))
            ):
                continue
            spec = structs.replace(
                self._plan.spec, efa_device=efa_device, peer_efa_device=peer_efa_device
            )
            self.runs.append(await self._probe(stage, client, server, spec))

    def _is_available(self, name: str) -> bool:
        return not self.inspections[name].error and self._failures[name] < MAX_FAILURES

    def _device_names(self, name: str) -> list[str]:
        seen = self.inspections[name].before
        return sorted(
            [efa_device.name for efa_device in (seen and seen.efa_devices) or ()],
            key=units.natural_sort_key,
        )

    async def _probe(self, stage: str, client: str, server: str, spec: ProbeSpec) -> ProbeRun:
        error = faulty_node = ""
        busy = False
        results: list[ProbeResult] = []
        try:
            results, server_error = await self._measure(spec, client, server)
        except _SideError as failure:
            error, faulty_node = str(failure.error), failure.node
            busy = isinstance(failure.error, BusyError)
            self._count_failure(failure)
        else:
            if not results or all(result.error for result in results):
                error = results[0].error if results else "the probe gave no results"
                side = results[0].faulty_side if results else ""
                faulty_node = {"client": client, "server": server}.get(side, "")
                if server_error and server_error not in error:
                    error += f"; {server} reports: {server_error}"
        return ProbeRun(
            client=client,
            server=server,
            efa_device=spec.efa_device,
            peer_efa_device=spec.peer_efa_device,
            time=self._clock(),
            stage=stage,
            results=[structs.replace(result, peer=server) for result in results],
            error=error,
            faulty_node=faulty_node,
            busy=busy,
        )

    async def _measure(
        self, spec: ProbeSpec, client: str, server: str
    ) -> tuple[list[ProbeResult], str]:
        """The results of a probe, and the error of its server side.

        Waits for a node that is in another probe, such as one of `--probe-every`.

        Raises:
            _SideError: one side failed.
        """
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return await self._measure_once(spec, client, server)
            except _SideError as failure:
                if not isinstance(failure.error, BusyError) or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(RETRY_SECONDS)

    async def _measure_once(
        self, spec: ProbeSpec, client: str, server: str
    ) -> tuple[list[ProbeResult], str]:
        try:
            served = await _within(CALL_SECONDS, self._hosts[server].serve(spec))
        except ProbeError as error:
            raise _SideError(server, error) from error
        if client == server and not served.address:
            # Its own name may not resolve on it.
            served = structs.replace(served, address=LOOPBACK)
        server_error = ""
        try:
            probe = self._hosts[client].probe(spec, server, served)
            results = await _within(spec.seconds + GRACE_SECONDS, probe)
        except ProbeError as error:
            raise _SideError(client, error) from error
        finally:
            with contextlib.suppress(ProbeError):
                server_error = await _within(CLOSE_SECONDS, self._hosts[server].end(served))
        if client != server:
            results = [
                structs.replace(result, load=load.both(result.load, served.load))
                for result in results
            ]
        return results, server_error

    def _count_failure(self, failure: _SideError) -> None:
        inspection, error = self.inspections[failure.node], failure.error
        self._failures[failure.node] += 1
        if isinstance(error, RefusedError | UnreachableError) and not inspection.error:
            inspection.error, inspection.refused = str(error), isinstance(error, RefusedError)

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
            found = LinkAnalysis(self.runs, self._limits)
            # In the other direction. A failure takes its full deadline: repeat it only once.
            again = [
                (places[link.second[0]], places[link.first[0]])
                for link in found.unexplained
                if (attempt == 1 or link.best is not None)
                and self._is_available(link.first[0])
                and self._is_available(link.second[0])
            ]
            self._only = found.in_doubt
            for number, pairs in enumerate(schedule.apart(dict.fromkeys(again)), 1):
                await self._round(f"again {attempt}.{number}", names, pairs)

    async def _suspects(
        self, attempt: int, names: Sequence[str], places: Mapping[str, int]
    ) -> None:
        """Probes nodes in bad pairs, or in none, with good ones; apparently faulty nodes once."""
        found = LinkAnalysis(self.runs, self._limits)
        good = found.good_nodes
        unprobed = [name for name in names if not found.of_node(name)]
        doubtful = {node for node, _ in found.in_doubt}
        wanted = {
            places[name]: MIN_PARTNERS + 1 - len(found.partners(name) & good)
            for name in (*doubtful, *unprobed)
        }
        if attempt == 1:
            wanted |= {places[node]: 1 for node, _ in found.faulty}
        self._only = None if unprobed else found.in_doubt | found.faulty.keys()
        rounds = schedule.against(
            sorted(
                place
                for place, count in wanted.items()
                if count > 0 and self._is_available(names[place])
            ),
            [places[name] for name in names if name in good and self._is_available(name)],
            [(places[first], places[second]) for first, second in found.met],
            wanted,
        )
        for number, pairs in enumerate(rounds, 1):
            await self._round(f"suspects {attempt}.{number}", names, pairs)


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
