"""A node without trntop: connects over ssh, reads its sources, and reconnects."""

import asyncio
import os
from collections import Counter
from collections.abc import Set
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
from . import command, script, sources
from .address import Address
from .command import Failure
from .connection import Connection

MAX_STARTING = 16
"""Connections that start at a time: more would overload a bastion host or this machine."""
LOGIN_FACTOR = 3.0
"""Multiple of the connection timeout within which the script must start: authentication and the
login shell take time too.
"""
MIN_SILENCE = 15.0
SILENT_PERIODS = 3
"""Seconds and periods; without a response for the longer of the two, the node hangs."""
RETRY_SECONDS = 60.0
"""Seconds to the next attempt if the user must act first: servers count failed attempts."""
END_SECONDS = 0.1
"""Seconds for ssh to end by itself."""
DESCRIPTORS = 4
"""Open files of a connection: three pipes, and the process."""

_start_limits: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = (
    WeakKeyDictionary()
)


class SshNode:
    """The collector of all sources of a node, over one connection.

    While another source owns its name (see `trntop.remote.names`), the node has the name of its
    address.

    Args:
        node: its name.
        address: the address that ssh connects to.
        settings: the settings in force.
        silence: seconds without an answer after which the connection is closed.
        backoff: the waits between attempts.
        retry_interval: seconds to the next attempt if the user must act first.

    Raises:
        SettingsError: `fleet.ssh` is not a command.
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
        retry_interval: float = RETRY_SECONDS,
    ) -> None:
        self.node = node
        self._name = node
        self._address = address
        self._settings = settings
        self._period = settings.collect.period
        self._silence = silence or max(SILENT_PERIODS * self._period, MIN_SILENCE)
        self._backoff = backoff or Backoff(first=2.0, longest=60.0)
        self._retry_interval = retry_interval
        self._argv = command.arguments(address, settings.fleet, script.SHELL)
        self._counts = Counter(connections=0, failures=0, noise=0)

    @property
    def nodes(self) -> Set[str]:
        return {self.node}

    async def run(self, sink: Sink) -> None:
        """Keeps a connection until cancelled, then ends it and all that it runs on the node."""
        await self._register(sink)
        if warning := descriptors.reserve(DESCRIPTORS):
            sink.warn(warning)
        try:
            await self._keep_connected(sink)
        finally:
            descriptors.release(DESCRIPTORS)

    async def _register(self, sink: Sink) -> None:
        """Waits until no other source owns the node's name."""
        address = str(self._address)
        while (owner := sink.register(self._name, address, SSH, *sources.SOURCES)) != address:
            self.node = clean(address)
            self._report(sink, State.DOWN, f"the name {self._name} belongs to {clean(owner)}")
            await asyncio.sleep(self._retry_interval)
        if self.node != self._name:
            sink.remove(self.node, address)
            self.node = self._name

    async def _keep_connected(self, sink: Sink) -> None:
        self._report(sink, State.STARTING, f"connecting to {self._address}")
        while True:
            lost = await self._connect(sink)
            self._counts["failures"] += 1
            wait = self._retry_interval if lost.permanent else self._backoff.wait(lost.seconds_up)
            self._report(sink, State.DOWN, f"{lost.reason}; next attempt in {wait:.0f} s")
            await asyncio.sleep(wait)

    async def _connect(self, sink: Sink) -> Failure:
        """Opens a connection and reads from it until it ends."""
        environ = command.environment(os.environ)
        async with _start_limit():
            try:
                connection = await Connection.open(self._argv, environ, self._settings.collect)
            except OSError as error:
                return Failure(f"cannot run ssh: {error.strerror or error}", permanent=True)
            try:
                lost = await self._wait_ready(connection)
            except BaseException:
                await self._disconnect(connection)
                raise
        try:
            return lost or await self._read_sources(connection, sink)
        finally:
            await self._disconnect(connection)

    async def _wait_ready(self, connection: Connection) -> Failure | None:
        """Waits for the script to start; returns the failure if it does not."""
        limit = LOGIN_FACTOR * self._settings.fleet.connect
        events: list[asyncio.Future[Any]] = [connection.ready, connection.ended]
        await asyncio.wait(events, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if connection.ready.done():
            self._counts["connections"] += 1
            # Output of the login shell is not the reason of a later failure.
            connection.answers.noise.clear()
            return None
        if connection.ended.done():
            return self._ended(connection)
        return Failure(f"no shell responded within {limit:g} s")

    async def _read_sources(self, connection: Connection, sink: Sink) -> Failure:
        """Reads the sources until the connection is lost."""
        loop = asyncio.get_running_loop()
        start = connection.last_seen = loop.time()
        self._report(sink, State.STARTING, "connected")
        tasks = [
            asyncio.create_task(source.run(sink), name=f"{self.node} {source.source}")
            for source in sources.sources(self.node, connection, self._settings.collect)
        ]
        tasks.append(asyncio.create_task(self._poll(connection, sink)))
        try:
            while True:
                if connection.answers.broken:
                    return Failure(
                        connection.answers.broken, seconds_up=connection.last_seen - start
                    )
                left = connection.last_seen + self._silence - loop.time()
                if left <= 0:
                    reason = f"no response for {self._silence:.0f} s: the node hangs"
                    return Failure(reason, seconds_up=connection.last_seen - start)
                awaited: list[asyncio.Future[Any]] = [connection.ended, *tasks]
                await asyncio.wait(awaited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task.done():
                        task.result()  # ends only because of a bug
                if connection.ended.done():
                    lost = self._ended(connection)
                    return lost._replace(seconds_up=connection.last_seen - start)
        finally:
            connection.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _poll(self, connection: Connection, sink: Sink) -> None:
        """Each period, measures the round trip to the script and reports the state."""
        while True:
            connection.answered.clear()
            connection.flush()
            await connection.answered.wait()
            report = {"period": self._period, "round_trip_seconds": connection.round_trip}
            sink.reading(Reading(self.node, SSH, sink.now(), msgspec.json.encode(report)))
            self._counts["noise"] += connection.answers.lines
            connection.answers.lines = 0
            self._report(sink, State.FRESH)
            await asyncio.sleep(self._period)

    async def _disconnect(self, connection: Connection) -> None:
        connection.close()
        await connection.end(END_SECONDS)

    def _ended(self, connection: Connection) -> Failure:
        if connection.failure:
            return Failure(f"the script could not start: {connection.failure}", permanent=True)
        return command.diagnose(connection.answers.noise, connection.ended.result(), self._address)

    def _report(self, sink: Sink, state: State, reason: str = "") -> None:
        sink.status(Status(self.node, SSH, state, reason, dict(self._counts)))


def _start_limit() -> asyncio.Semaphore:
    """Limits the number of connections of this loop that start at a time."""
    return _start_limits.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_STARTING))
