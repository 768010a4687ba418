"""The stream of one agent: connection, checks, node names, reconnection.

A node has the name of the host in its address, whatever its agent calls it. An agent with several
nodes (a simulation), or an aggregator, provides the names of its nodes. The first owner of a name
keeps it (see `trntop.remote.names`).
"""

import asyncio
import logging
import re
from collections.abc import Set

import aiohttp

from trntop.catalog import AGENT, INCIDENTS
from trntop.core.errors import DecodeError, SettingsError, TrntopError
from trntop.core.model import Reading, State, Status
from trntop.core.settings import Settings
from trntop.core.text import clean
from trntop.pipeline.source_buffer import MAX_STEP
from trntop.remote import judges, wire
from trntop.session.collector import Sink
from trntop.session.monitor import MAX_NODES

from ..backoff import Backoff
from . import backfill, connection, pages
from .target import FindError, Target

SILENCE_PERIODS = 3.0
SILENCE_SECONDS = 15.0
"""A stream without a message for the longer of the two is closed."""
MAX_RATE = 1 << 20
"""Bytes read per second and node; above it the connection fills and the agent skips frames."""
MAX_FULL = 500
"""Agents of which an aggregator reads all columns by default."""
MAX_SHOWN = 1000
"""Nodes of aggregators that are read in all; of the others, aggregators report the totals."""
LEAST_SHOWN = 8
"""The same of each aggregator, if there are many."""
MAX_SCHEMAS = 32 << 20
"""Bytes of the schemas of all its nodes, some two thousand; decoded they take ten times as much."""
MAX_TEXT = 2048
"""Bytes read of an error response."""

log = logging.getLogger(__name__)

_PAGE = re.compile(r"//[^/]*/(.*/)?metrics$")
"""Addresses of a metrics page, not of an agent."""
_STATUSES = {
    401: "user name and password, or a token, required (401): fleet.user, fleet.token_file",
    403: "access denied (403)",
    407: "a proxy wants a password (407)",
    429: "too many requests (429)",
}
_IDLE = "answers, but collects nothing yet"


class _RefusedError(TrntopError):
    """The server is not an agent, or denies access."""


class _NoAgentError(_RefusedError):
    """The server is not an agent, but may be another exporter."""


class Agent:
    """Reads the stream of one agent; if there is no agent, the page of another exporter.

    Args:
        session: shared by all agents, see `connection.session`.
        target: its name and address.
        settings: the settings.
        sink: receives its messages.
        peers: number of agents on the list.
    """

    source = AGENT

    def __init__(
        self,
        session: aiohttp.ClientSession,
        target: Target,
        settings: Settings,
        sink: Sink,
        peers: int = 1,
    ) -> None:
        self._session = session
        self._target = target
        self._timeout = settings.fleet.connect
        self._settings = settings
        self._sink = sink
        self._backoff = Backoff()
        self._label = target.name
        """The node that shows the state of an agent without nodes."""
        self._names: dict[str, str] = {}
        """The agent's name of a node → its name here; empty if another owner has that name."""
        self._own_names = False
        """Whether the agent provides the names of its nodes."""
        self._schemas: dict[str, int] = {}
        """The agent's name of a node → bytes of its schema."""
        self._warned = False
        """Whether it was reported that there are too many."""
        self._announced: set[str] = set()
        """Nodes announced on this connection, by the agent's names."""
        self._missing: set[str] = set()
        """Nodes of the previous connection not announced on this one."""
        self._idle = False
        self._silence = SILENCE_SECONDS
        self._stage = ""
        """The phase of the connection that a timeout names."""
        self._peers = peers
        self._nodes = 0
        """Number of nodes of the agent."""
        self._is_chosen = False
        """Whether the aggregator has more nodes than it sends."""
        self._first: dict[str, float] = {}
        """The agent's name of a node → time of its first frame, by the agent's clock."""
        self._backfilling: asyncio.Task[None] | None = None
        self.backfilled = asyncio.Event()
        """Set when the backfill has been read, or there is none."""

    @property
    def nodes(self) -> Set[str]:
        """Its nodes, or the one that shows its state."""
        return {name for name in self._names.values() if name} or {self._label}

    async def run(self) -> None:
        """Reads until cancelled."""
        loop = asyncio.get_running_loop()
        is_page = _PAGE.search(self._target.address) is not None
        if why := self._register(*(() if is_page else (AGENT,))):
            self._report(State.DOWN, why)
        elif not is_page:
            self._report(State.STARTING, "connecting")
        try:
            while True:
                began = loop.time()
                self._report(State.DOWN, await (self._poll() if is_page else self._connect()))
                await asyncio.sleep(self._backoff.wait(loop.time() - began))
        finally:
            if self._backfilling is not None:
                self._backfilling.cancel()

    def _register(self, *sources: str) -> str:
        """Registers the target's name, else uses its address; the reason if the name is taken."""
        name, address = self._target.name, self._target.address
        owner = self._sink.register(name, address, *sources)
        label = name if owner == address else clean(address)
        if label != self._label:
            self._forget(self._label)
            self._label = label
        return "" if owner == address else f"{name} belongs to {clean(owner)}"

    def _register_again(self) -> None:
        """An agent without nodes gets its name once it is free."""
        if not any(self._names.values()):
            self._register(AGENT)

    async def _connect(self) -> str:
        """Reads one stream to its end; the reason why it ended."""
        self._stage = "connection"
        self._announced.clear()
        self._missing = set(self._names)
        self._idle = False
        try:
            async with asyncio.timeout(self._timeout) as deadline:
                await self._read(deadline)
        except TimeoutError:
            if self._stage:
                why = f"no {self._stage} within {self._timeout:g} s"
            else:
                why = f"hung: no message for {self._silence:.0f} s"
        except _NoAgentError as error:
            self._drop_names()
            self._register(AGENT)
            self._report(State.DOWN, str(error))
            return f"{error}; {await self._poll()}"
        except DecodeError as error:
            why = f"garbage: {error}"
        except (_RefusedError, SettingsError) as error:
            why = str(error)
        except (aiohttp.ClientError, OSError) as error:
            why = connection.reason(error)
        else:
            why = "the agent ended the stream"
        self._register_again()
        if self._backfilling is None:
            self.backfilled.set()
        return why

    async def _poll(self) -> str:
        """Reads the page of another exporter until it is gone; the reason."""
        self.backfilled.set()
        try:
            await pages.poll(self._session, self._target, self._sink, self._register)
        except pages.TakenError as error:
            return str(error)
        except FindError as error:
            self._register(AGENT)
            return str(error)

    async def _read(self, deadline: asyncio.Timeout) -> None:
        """Reads one response to its end.

        Raises:
            TimeoutError: no message in time.
            TrntopError: the response is not a stream of an agent.
            aiohttp.ClientError: the connection failed.
        """
        loop = asyncio.get_running_loop()
        query = _query(self._settings, self._peers, self._sink)
        url = f"{self._target.address}/v1/stream{query}"
        self._is_chosen = False
        frames = wire.FrameReader()
        async with self._session.get(
            url, allow_redirects=False, trace_request_ctx=self._set_stage
        ) as response:
            await _check(response)
            self._stage = "message"
            size, second = 0, loop.time()
            async for chunk in response.content.iter_any():
                if messages := frames.feed(chunk):
                    for message in messages:
                        self._pass_on(message)
                    self._stage = ""
                    deadline.reschedule(loop.time() + self._silence)
                size += len(chunk)
                if size > MAX_RATE * max(1, len(self._names)):
                    await asyncio.sleep(second + 1.0 - loop.time())
                if loop.time() >= second + 1.0:
                    size, second = 0, loop.time()

    def _set_stage(self, stage: str) -> None:
        self._stage = stage

    def _pass_on(self, message: bytes) -> None:
        """Passes on one message, unless another owner has the name of its node."""
        if not message:  # a heartbeat
            if not self._announced and not self._idle:
                self._idle = True
                self.backfilled.set()
                self._register_again()
                self._report(State.STARTING, _IDLE)
            return
        head = wire.head(message)
        if head.type == wire.SCHEMA_TAG:
            if not self._fits(head.node, len(message)):
                return
            self._announce(head)
        elif head.type == wire.GONE:
            self._lose(head.node)
            return
        elif head.type in (judges.TAG, judges.TOTALS):
            self._is_chosen |= head.type == judges.TOTALS
            address = clean(self._target.address)
            self._sink.reading(Reading(address, INCIDENTS, self._sink.now(), message))
            return
        if name := self._names.get(head.node):
            self._sink.reading(Reading(name, AGENT, self._sink.now(), message, head.simulated))
        if head.type == wire.FRAME and not self.backfilled.is_set():
            self._first.setdefault(head.node, head.time)
            if self._backfilling is None and len(self._first) >= self._nodes:
                self._backfilling = asyncio.create_task(self._backfill())

    async def _backfill(self) -> None:
        """Passes on the backfill up to the first frames; the stream is read meanwhile."""
        if self._sink.wants_backfill:
            nodes = self._nodes * self._peers
            only = tuple(self._names) if self._is_chosen else ()
            try:
                if found := await backfill.fetch(
                    self._session, self._target.address, nodes, self._sink.now, only
                ):
                    blocks, ahead = found
                    for node, first in self._first.items():
                        if (name := self._names.get(node)) and node in blocks:
                            self._sink.backfill(backfill.readings(name, blocks[node], ahead, first))
            except (TrntopError, aiohttp.ClientError, OSError) as error:
                log.info("no history of %s: %s", self._label, error)
        self.backfilled.set()

    def _announce(self, head: wire.Head) -> None:
        """Adds a node, and the properties of the agent in its schema."""
        period = head.period if 0 < head.period <= MAX_STEP else 0.0
        self._silence = max(SILENCE_PERIODS * period, SILENCE_SECONDS)
        self._idle = False
        self._nodes = head.nodes
        own_names = head.aggregator or head.nodes != 1
        if own_names is not self._own_names or (not own_names and head.node not in self._names):
            self._drop_names()
            self._own_names = own_names
        if head.node not in self._names and len(self._names) >= MAX_NODES:
            return
        why = ""
        if not self._names.get(head.node):
            if own_names:
                why = self._register_node(head.node)
            else:
                why = self._register(AGENT)
                self._names[head.node] = "" if why else self._label
        self._announced.add(head.node)
        self._missing.discard(head.node)
        if len(self._announced) < head.nodes:
            return
        for node in self._missing:
            self._lose(node)
        self._missing.clear()
        if why and not any(self._names.values()):
            self._register(AGENT)
            self._report(State.DOWN, why)

    def _register_node(self, node: str) -> str:
        """Registers the name that the agent gives a node; the reason if it is taken."""
        name, address = clean(node), self._target.address
        owner = self._sink.register(name, address, AGENT)
        if owner != address:
            why = f"{name} belongs to {clean(owner)}"
            if node not in self._names:
                self._sink.warn(f"{clean(address)}: {why}")
            self._names[node] = ""
            return why
        if not any(self._names.values()) and name != self._label:
            self._forget(self._label)
        self._names[node] = name
        return ""

    def _fits(self, node: str, size: int) -> bool:
        """Whether the schemas stay within `MAX_SCHEMAS`."""
        total = sum(self._schemas.values()) - self._schemas.get(node, 0) + size
        if total <= MAX_SCHEMAS:
            self._schemas[node] = size
            return True
        if not self._warned:
            self._warned = True
            address = clean(self._target.address)
            self._sink.warn(f"{address}: its nodes have too many parts; some are not shown")
        return False

    def _lose(self, node: str) -> None:
        """Removes a node that the agent no longer has."""
        self._announced.discard(node)
        self._schemas.pop(node, None)
        self._forget(self._names.pop(node, ""))
        self._register_again()

    def _drop_names(self) -> None:
        for name in set(self._names.values()) - {self._label}:
            self._forget(name)
        self._names.clear()
        self._schemas.clear()

    def _forget(self, name: str) -> None:
        if name:
            self._sink.remove(name, self._target.address)

    def _report(self, state: State, reason: str) -> None:
        for name in self.nodes:
            # It is the aggregator that does not respond, not its nodes.
            about = "" if name == self._label else f"{clean(self._target.address)}: "
            self._sink.status(Status(name, AGENT, state, f"{about}{reason}"))


def _query(settings: Settings, peers: int, sink: Sink) -> str:
    """What this program asks an agent for."""
    asked = []
    if sink.aggregator:
        asked.append(judges.ROLE)
        columns, period = settings.fleet.columns, int(settings.collect.period)
        if columns == "rules" or (columns == "auto" and peers > MAX_FULL):
            asked.append("columns=rules")
        if period > 1:
            asked.append(f"period={period}")
    if not sink.records:
        asked.append(f"most={max(LEAST_SHOWN, MAX_SHOWN // peers)}")
    return f"?{'&'.join(asked)}" if asked else ""


async def _check(response: aiohttp.ClientResponse) -> None:
    """Raises unless this is a stream of an agent.

    Raises:
        TrntopError: what it is instead.
    """
    status = response.status
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if status == 200:
        coding = response.headers.get("Content-Encoding", "identity")
        if coding != "identity":
            raise _RefusedError(f"its response is compressed ({clean(coding, 40)})")
        if kind == wire.CONTENT_TYPE:
            return
        if kind in pages.TEXT:
            raise _NoAgentError("no trntop agent here")
        shown = "a web page (HTML)" if kind == "text/html" else clean(kind, 40) or "nothing"
        raise _RefusedError(f"no trntop agent here: it answers with {shown}")
    if status == 404:
        raise _NoAgentError("no trntop agent here (404)")
    if 300 <= status < 400:
        raise _RefusedError(f"it redirects ({status}), which is not followed")
    if why := _STATUSES.get(status):
        raise _RefusedError(why)
    text = await response.content.read(MAX_TEXT) if kind == "text/plain" else b""
    line = clean(text.partition(b"\n")[0].decode(errors="replace"), 80)
    raise _RefusedError(f"HTTP {status}{f': {line}' if line else ''}")
