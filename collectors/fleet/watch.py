"""Monitors the nodes of a list: starts and stops one task per node."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
import msgspec

from trntop.catalog import FLEET
from trntop.core import descriptors
from trntop.core.model import Reading, State, Status
from trntop.core.settings import Settings
from trntop.session.collector import Sink

from . import connection
from .agent import Agent
from .target import Finder, FindError, Target

if TYPE_CHECKING:
    from trntop.collectors.ssh.node import SshNode

JOIN_SECONDS = 0.002
"""Delay between two new nodes, so that a thousand do not connect at once."""
MAX_LATE = 0.05
"""Seconds whose nodes may join at once."""
MANY = 2000
"""Nodes above which aggregators are recommended."""

log = logging.getLogger(__name__)


class Listed(Finder):
    """A list that never changes.

    Args:
        text: the text of the user, cleaned.
        targets: the nodes.
    """

    def __init__(self, text: str, targets: Iterable[Target]) -> None:
        super().__init__(text, None)
        self._targets = list(targets)

    async def find(self) -> list[Target]:
        """See `Finder`."""
        return self._targets


@dataclass(frozen=True, slots=True)
class _Watched:
    target: Target
    task: asyncio.Task[None]
    owner: "Agent | SshNode"


class Watch:
    """Monitors each node of a list, over HTTP or ssh by its address.

    A refresh that fails is reported once, and the previous nodes stay. A list without nodes is
    shown as a node of its own.

    Args:
        finder: the list.
        settings: the settings.
    """

    source = FLEET

    def __init__(self, finder: Finder, settings: Settings) -> None:
        self.node = finder.text
        self._finder = finder
        self._settings = settings
        self._watched: dict[str, _Watched] = {}
        """By the target's name."""
        self._facts: dict[str, Mapping[str, str]] = {}
        """Target → the facts that its list had last."""
        self._problem = ""
        self._listed = asyncio.Event()
        """The list was read, or cannot be."""
        self._descriptors = 0
        """Nodes for which the limit of open files was raised."""

    async def run(self, sink: Sink) -> None:
        """Monitors until cancelled."""
        async with connection.session(self._settings.fleet) as session:
            try:
                while True:
                    await self._refresh(session, sink)
                    self._listed.set()
                    if self._finder.period is None:
                        await asyncio.Event().wait()  # until cancelled
                    await asyncio.sleep(self._finder.period or 0.0)
            finally:
                self._finder.close()
                tasks = [watched.task for watched in self._watched.values()]
                self._watched.clear()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self._allow_descriptors(0, sink)

    async def backfilled(self) -> None:
        """See `BackfillAware`."""
        await self._listed.wait()
        owners = [watched.owner for watched in self._watched.values()]
        await asyncio.gather(
            *(agent.backfilled.wait() for agent in owners if isinstance(agent, Agent))
        )

    async def _refresh(self, session: aiohttp.ClientSession, sink: Sink) -> None:
        try:
            found = {target.name: target for target in await self._finder.find()}
        except FindError as error:
            self._report(sink, str(error))
            return
        for watched in list(self._watched.values()):
            now = found.get(watched.target.name)
            if now is None or now.address != watched.target.address:
                await self._remove(watched, sink)
        self._allow_descriptors(len(found), sink)
        if not found:
            self._report(sink, f"{self.node}: no nodes")
            return
        if self._problem and not self._watched:
            sink.remove(self.node)
        self._problem = ""
        # Before any of them connects: an agent could claim the name of a target that joins later.
        for target in found.values():
            if target.name not in self._watched:
                sink.register(target.name, target.address)
        loop = asyncio.get_running_loop()
        due = loop.time()
        for target in found.values():
            if target.name not in self._watched:
                self._add(session, target, sink, len(found))
                # Reading those that have joined may take long: the others do not join later.
                due = max(due + JOIN_SECONDS, loop.time() - MAX_LATE)
                # Even if late: the node registers its name before its facts are passed on.
                await asyncio.sleep(max(0.0, due - loop.time()))
            self._pass_on_facts(target, sink)

    def _pass_on_facts(self, target: Target, sink: Sink) -> None:
        """The facts of a list about a node; a fact that is gone becomes an empty text.

        Not for an aggregator, or if another owner has the name.
        """
        if target.name not in self._watched[target.name].owner.nodes:
            return
        before = self._facts.get(target.name, {})
        if target.facts or before:
            facts = {**dict.fromkeys(before, ""), **target.facts}
            data = msgspec.json.encode({"facts": facts, "period": self._finder.period})
            sink.reading(Reading(target.name, FLEET, sink.now(), data))
            self._facts[target.name] = target.facts

    def _report(self, sink: Sink, problem: str) -> None:
        if not self._watched:
            sink.status(Status(self.node, FLEET, State.DOWN, problem))
        elif problem != self._problem:
            sink.warn(f"{problem}; the previous nodes stay")
        self._problem = problem

    def _allow_descriptors(self, nodes: int, sink: Sink) -> None:
        """Raises the limit of open files, and recommends aggregators for many nodes."""
        before, self._descriptors = self._descriptors, nodes
        if nodes <= before:
            descriptors.release(before - nodes)
            return
        if problem := descriptors.reserve(nodes - before):
            sink.warn(problem)
        if nodes > MANY >= before:
            sink.warn(
                f"{nodes:,} nodes: above {MANY:,}, connect to aggregators of some nodes each "
                "(trntop export SOURCE), or to a Prometheus server (prometheus+http://HOST)"
            )

    def _add(self, session: aiohttp.ClientSession, target: Target, sink: Sink, peers: int) -> None:
        owner: Agent | SshNode
        if target.address.startswith("ssh:"):
            from trntop.collectors import ssh

            owner = node = ssh.connect(target, self._settings)
            run = node.run(sink)
        else:
            owner = agent = Agent(session, target, self._settings, sink, peers)
            run = agent.run()
        task = asyncio.create_task(run, name=target.name)
        task.add_done_callback(lambda done: _report_defect(done, owner, sink))
        self._watched[target.name] = _Watched(target, task, owner)

    async def _remove(self, watched: _Watched, sink: Sink) -> None:
        del self._watched[watched.target.name]
        self._facts.pop(watched.target.name, None)
        watched.task.cancel()
        await asyncio.gather(watched.task, return_exceptions=True)
        for node in watched.owner.nodes:
            sink.remove(node, watched.target.address)


def _report_defect(task: asyncio.Task[None], owner: "Agent | SshNode", sink: Sink) -> None:
    """A defect only affects the nodes of one address."""
    if task.cancelled() or (error := task.exception()) is None:
        return
    log.error("reading %s failed", task.get_name(), exc_info=error)
    reason = f"internal error: {type(error).__name__}"
    for node in owner.nodes:
        sink.status(Status(node, owner.source, State.DOWN, reason))
