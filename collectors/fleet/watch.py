"""A list of nodes that may change: who joins gets a collector, who leaves loses it."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Protocol

import httpx
import msgspec

from trntop.catalog import FLEET
from trntop.core import descriptors
from trntop.core.model import Reading, State, Status
from trntop.core.settings import Settings
from trntop.session.collector import Sink

from . import connection
from .agent import Agent
from .target import Finder, FindError, Target

JOIN_SECONDS = 0.002
"""Between two nodes that join, so that a thousand do not begin in one moment."""
MANY = 2000
"""Nodes above which asking each of them is not the best way."""

log = logging.getLogger(__name__)


class Listed:
    """A list that never changes.

    Args:
        text: what the user wrote, cleaned.
        targets: the nodes.
    """

    def __init__(self, text: str, targets: Iterable[Target]) -> None:
        self.text = text
        self.period: float | None = None
        self._targets = list(targets)

    async def find(self) -> list[Target]:
        """The nodes."""
        return self._targets

    def close(self) -> None:
        """See `Finder`."""


class _Speaker(Protocol):
    """What asks at one address."""

    source: str
    """The source that its own state is told as."""

    @property
    def nodes(self) -> Set[str]:
        """The nodes that it speaks for, or the one that stands for it."""
        ...


@dataclass(frozen=True, slots=True)
class _Watched:
    target: Target
    task: asyncio.Task[None]
    owner: _Speaker


class Watch:
    """Watches each node of a list, over HTTP or ssh as its address says.

    A look at the list that fails is told once, and the list before stands. While there was none
    yet, or while it is empty, a node of the list's own name says so.

    Args:
        finder: the list.
        settings: the settings in force.
    """

    source = FLEET

    def __init__(self, finder: Finder, settings: Settings) -> None:
        self.node = finder.text
        self._finder = finder
        self._settings = settings
        self._watched: dict[str, _Watched] = {}
        """By the target's name."""
        self._facts: dict[str, Mapping[str, str]] = {}
        """Target → what its list said of it last."""
        self._complaint = ""
        """What was told last."""
        self._room = 0
        """Nodes for which files may be open."""

    async def run(self, sink: Sink) -> None:
        """Watches until cancelled."""
        async with connection.client(self._settings.fleet) as client:
            try:
                while True:
                    await self._look(client, sink)
                    if self._finder.period is None:
                        await asyncio.Event().wait()  # until cancelled
                    await asyncio.sleep(self._finder.period or 0.0)
            finally:
                self._finder.close()
                tasks = [one.task for one in self._watched.values()]
                self._watched.clear()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self._make_room(0, sink)

    async def _look(self, client: httpx.AsyncClient, sink: Sink) -> None:
        """Looks at the list once."""
        try:
            found = {target.name: target for target in await self._finder.find()}
        except FindError as error:
            self._complain(sink, str(error))
            return
        gone = [one for one in self._watched.values() if not _same(one, found)]
        for one in gone:
            await self._leave(one, sink)
        self._make_room(len(found), sink)
        if not found:
            self._complain(sink, f"{self.node}: names no node")
            return
        if self._complaint and not self._watched:
            sink.forget(self.node)
        self._complaint = ""
        for target in found.values():
            if target.name not in self._watched:
                self._join(client, target, sink)
                await asyncio.sleep(JOIN_SECONDS)
            self._tell_facts(target, sink)

    def _tell_facts(self, target: Target, sink: Sink) -> None:
        """What the list says of a node, and by empty texts what it says no more.

        Nothing of one whose name another took, nor of a relay, which stands for others.
        """
        if target.name not in self._watched[target.name].owner.nodes:
            return
        before = self._facts.get(target.name, {})
        if target.facts or before:
            facts = {**dict.fromkeys(before, ""), **target.facts}
            data = msgspec.json.encode({"facts": facts, "period": self._finder.period})
            sink.reading(Reading(target.name, FLEET, sink.now(), data))
            self._facts[target.name] = target.facts

    def _complain(self, sink: Sink, text: str) -> None:
        if self._watched:
            if text != self._complaint:
                sink.tell(f"{text}; the nodes found before are watched on")
        else:
            sink.status(Status(self.node, FLEET, State.DOWN, text))
        self._complaint = text

    def _make_room(self, nodes: int, sink: Sink) -> None:
        """Lets as many connections be open as there are nodes, and says what many cost."""
        before, self._room = self._room, nodes
        if nodes <= before:
            descriptors.give_back(before - nodes)
            return
        if complaint := descriptors.allow(nodes - before):
            sink.tell(complaint)
        if nodes > MANY >= before:
            sink.tell(
                f"{nodes:,} nodes, each asked each second: above {MANY:,} a Prometheus server "
                "that scrapes them is the better source (prometheus+http://HOST)"
            )

    def _join(self, client: httpx.AsyncClient, target: Target, sink: Sink) -> None:
        owner: _Speaker
        if target.address.startswith("ssh:"):
            from trntop.collectors import ssh

            owner = node = ssh.connect(target, self._settings)
            run = node.run(sink)
        else:
            owner = agent = Agent(client, target, self._settings, sink)
            run = agent.run()
        task = asyncio.create_task(run, name=target.name)
        task.add_done_callback(lambda done: _report(done, owner, sink))
        self._watched[target.name] = _Watched(target, task, owner)

    async def _leave(self, one: _Watched, sink: Sink) -> None:
        del self._watched[one.target.name]
        self._facts.pop(one.target.name, None)
        one.task.cancel()
        await asyncio.gather(one.task, return_exceptions=True)
        for node in one.owner.nodes:
            sink.forget(node, one.target.address)


def _same(one: _Watched, found: dict[str, Target]) -> bool:
    now = found.get(one.target.name)
    return now is not None and now.address == one.target.address


def _report(task: asyncio.Task[None], owner: _Speaker, sink: Sink) -> None:
    """A defect in what asks at one address takes its nodes down, and no others."""
    if task.cancelled() or (error := task.exception()) is None:
        return
    log.error("watching %s failed", task.get_name(), exc_info=error)
    reason = f"internal error: {type(error).__name__}"
    for node in owner.nodes:
        sink.status(Status(node, owner.source, State.DOWN, reason))
