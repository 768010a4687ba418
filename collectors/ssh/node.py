"""A node on which nothing is installed: connects, reads its sources, and connects again."""

import asyncio
import os
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from trntop.catalog import SSH
from trntop.core import descriptors
from trntop.core.model import Reading, State, Status
from trntop.core.settings import Settings
from trntop.core.text import clean
from trntop.session.collector import Sink

from ..backoff import Backoff
from . import command, far, script
from .address import Address
from .link import Link

AT_ONCE = 16
"""Connections that begin at a time: more would make one bastion, or this machine's processor,
the reason why they fail.
"""
LOGIN = 3.0
"""Times the time for a connection, in which the script has to be there: after the connection come
the keys, and the login shell.
"""
MIN_SILENCE = 15.0
SILENT_PERIODS = 3
"""No answer for the longer of these: the node hangs."""
RECHECK = 60.0
"""Seconds to the next try where a person has to act first: a server counts what it refuses."""
FAREWELL = 0.1
"""Seconds that ssh gets to end by itself."""
DESCRIPTORS = 4
"""Open files of a connection: three pipes, and the process."""

_gates: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class _Lost:
    """How a connection ended."""

    reason: str
    lasted: float = 0.0
    """Seconds for which the node answered."""
    lasting: bool = False
    """Whether it will be so until somebody acts."""


class SshNode:
    """The collector of all sources of a node, over one connection.

    As long as another speaks for a node of its name (see `trntop.remote.names`), it goes by its
    address and says so.

    Args:
        node: its name.
        address: where ssh goes.
        settings: the settings in force.
        silence: seconds without an answer after which the connection is given up.
        backoff: the waits between tries.
        recheck: seconds to the next try where a person has to act first.

    Raises:
        SettingsError: `fleet.ssh` is no command.
    """

    source = SSH

    def __init__(
        self,
        node: str,
        address: Address,
        settings: Settings,
        *,
        silence: float | None = None,
        backoff: Backoff | None = None,
        recheck: float = RECHECK,
    ) -> None:
        self.node = node
        self._name = node
        self._address = address
        self._settings = settings
        self._period = settings.collect.period
        self._silence = silence or max(SILENT_PERIODS * self._period, MIN_SILENCE)
        self._backoff = backoff or Backoff(first=2.0, longest=60.0)
        self._recheck = recheck
        self._argv = command.arguments(address, settings.fleet, script.SHELL)
        self._counts = Counter(connections=0, failures=0, noise=0)

    @property
    def nodes(self) -> Set[str]:
        """The one node that it speaks for, or that stands for it."""
        return {self.node}

    async def run(self, sink: Sink) -> None:
        """Keeps a connection until cancelled, then ends it and what ran on the node."""
        await self._claim(sink)
        if complaint := descriptors.allow(DESCRIPTORS):
            sink.warn(complaint)
        try:
            await self._keep(sink)
        finally:
            descriptors.give_back(DESCRIPTORS)

    async def _claim(self, sink: Sink) -> None:
        """Takes the node's name as soon as it is free."""
        address = str(self._address)
        while (holder := sink.register(self._name, address, SSH, *far.SOURCES)) != address:
            self.node = clean(address)
            self._say(sink, State.DOWN, f"{self._name} is spoken for by {clean(holder)}")
            await asyncio.sleep(self._recheck)
        if self.node != self._name:
            sink.remove(self.node, address)
            self.node = self._name

    async def _keep(self, sink: Sink) -> None:
        """Keeps a connection until cancelled."""
        self._say(sink, State.STARTING, f"connecting to {self._address}")
        while True:
            lost = await self._once(sink)
            self._counts["failures"] += 1
            wait = self._recheck if lost.lasting else self._backoff.wait(lost.lasted)
            self._say(sink, State.DOWN, f"{lost.reason}; next try in {wait:.0f} s")
            await asyncio.sleep(wait)

    async def _once(self, sink: Sink) -> _Lost:
        """One connection; how it ended."""
        environ = command.environment(os.environ)
        async with _gate():
            try:
                link = await Link.open(self._argv, environ, self._settings.collect)
            except OSError as error:
                return _Lost(f"cannot run ssh: {error.strerror or error}", lasting=True)
            try:
                lost = await self._enter(link)
            except BaseException:
                await self._leave(link)
                raise
        try:
            return lost or await self._stay(link, sink)
        finally:
            await self._leave(link)

    async def _enter(self, link: Link) -> _Lost | None:
        """Waits for the script to be there; why it is not."""
        limit = LOGIN * self._settings.fleet.connect
        either: list[asyncio.Future[Any]] = [link.ready, link.ended]
        await asyncio.wait(either, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if link.ready.done():
            self._counts["connections"] += 1
            # A login shell's complaints are no reason why the connection will end one day.
            link.answers.noise.clear()
            return None
        if link.ended.done():
            return self._obituary(link)
        return _Lost(f"no shell answered within {limit:g} s")

    async def _stay(self, link: Link, sink: Sink) -> _Lost:
        """Reads the sources until the connection is lost; how that was."""
        loop = asyncio.get_running_loop()
        began = link.heard = loop.time()
        self._say(sink, State.STARTING, "connected")
        tasks = [
            asyncio.create_task(source.run(sink), name=f"{self.node} {source.source}")
            for source in far.sources(self.node, link, self._settings.collect)
        ]
        tasks.append(asyncio.create_task(self._beat(link, sink)))
        try:
            while True:
                if link.answers.broken:  # nothing is heard any more
                    return _Lost(link.answers.broken, link.heard - began)
                patience = link.heard + self._silence - loop.time()
                if patience <= 0:
                    reason = f"no answer for {self._silence:.0f} s: the node hangs"
                    return _Lost(reason, link.heard - began)
                awaited: list[asyncio.Future[Any]] = [link.ended, *tasks]
                await asyncio.wait(awaited, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task.done():
                        task.result()  # they never end but by a defect
                if link.ended.done():
                    lost = self._obituary(link)
                    return replace(lost, lasted=link.heard - began)
        finally:
            link.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _beat(self, link: Link, sink: Sink) -> None:
        """Lets the script show each period that it is there, and tells so."""
        while True:
            link.spoken.clear()
            link.flush()
            await link.spoken.wait()
            report = {"period": self._period, "round_trip_seconds": link.round_trip}
            sink.reading(Reading(self.node, SSH, sink.now(), msgspec.json.encode(report)))
            self._counts["noise"] += link.answers.lines
            link.answers.lines = 0
            self._say(sink, State.FRESH)
            await asyncio.sleep(self._period)

    async def _leave(self, link: Link) -> None:
        link.close()
        await link.end(FAREWELL)

    def _obituary(self, link: Link) -> _Lost:
        if link.failure:
            return _Lost(f"the script could not begin: {link.failure}", lasting=True)
        failure = command.why(link.answers.noise, link.ended.result(), self._address)
        return _Lost(failure.reason, lasting=failure.lasting)

    def _say(self, sink: Sink, state: State, reason: str = "") -> None:
        sink.status(Status(self.node, SSH, state, reason, dict(self._counts)))


def _gate() -> asyncio.Semaphore:
    """Lets so many connections of this loop begin at a time."""
    return _gates.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))
