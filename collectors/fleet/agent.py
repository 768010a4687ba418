"""One stream of an agent: opened, checked, listened to, and opened anew when it breaks.

A node goes by the host that was named, whatever its agent says it is called. An agent that speaks
for several, such as a simulation, or for other machines than its own, as a relay does, gives their
names. A name that another speaks for already stays with that one (see `trntop.remote.names`).
"""

import asyncio
import re
from collections.abc import Set

import httpx

from trntop.catalog import AGENT
from trntop.core.errors import DecodeError, SettingsError, TrntopError
from trntop.core.model import Reading, State, Status
from trntop.core.settings import Settings
from trntop.core.text import clean
from trntop.pipeline.source_buffer import MAX_STEP
from trntop.remote import wire
from trntop.session.collector import Sink
from trntop.session.monitor import MAX_NODES

from ..backoff import Backoff
from . import connection
from .target import FindError, Target

SILENCE_PERIODS = 3.0
SILENCE_SECONDS = 15.0
"""How long a stream may be silent, the longer of the two, before it is closed and opened anew."""
MAX_RATE = 1 << 20
"""Bytes a second and node that are taken; the rest has to wait, and at its end frames are lost."""
MAX_TEXT = 2048
"""Bytes of a refusal of which a sentence is made."""

_PAGE = re.compile(r"//[^/]*/(.*/)?metrics$")
"""Addresses that name a page of metrics, not an agent."""
_PLAIN = ("text/plain", "application/openmetrics-text")
"""What pages of metrics are; Python's client library answers so whatever the path."""
_STATUSES = {
    401: "it wants a name and password, or a token (401): fleet.user, fleet.token_file",
    403: "it does not let us in (403)",
    407: "a proxy wants a password (407)",
    429: "it is asked too often (429)",
}
_WAITING = "waiting"
"""What two agents that have not spoken yet may not both say of one node: why they have not."""
_IDLE = "answers, but collects nothing yet"
_STAGES = {
    "connection.connect_tcp.started": "connection",
    "connection.start_tls.started": "TLS handshake",
    "http11.send_request_headers.started": "answer",
}


class _RefusedError(TrntopError):
    """What answers will not talk to us, or is something else."""


class _NoAgentError(_RefusedError):
    """What answers is no agent, but may be another exporter."""


class Agent:
    """Listens to one agent, and hands on what it says of its nodes.

    Args:
        client: the client for all, see `connection.client`.
        target: where it is.
        settings: the settings in force.
        sink: takes its messages.
    """

    source = AGENT

    def __init__(
        self, client: httpx.AsyncClient, target: Target, settings: Settings, sink: Sink
    ) -> None:
        self._client = client
        self._target = target
        self._patience = settings.fleet.connect
        self._sink = sink
        self._backoff = Backoff()
        self._label = target.name
        """The node that stands for the agent as long as it has not said for whom it speaks."""
        self._names: dict[str, str] = {}
        """Node as the agent calls it → as it goes by here; empty where another speaks for it."""
        self._own_names = False
        """Whether nodes go by the names that the agent gives."""
        self._announced: set[str] = set()
        """The nodes that were announced on this connection, as the agent calls them."""
        self._missing: set[str] = set()
        """Those of the connection before that were not."""
        self._idle = False
        """Whether it was said that the agent collects nothing."""
        self._silence = SILENCE_SECONDS
        self._stage = ""
        """What is waited for."""

    @property
    def nodes(self) -> Set[str]:
        """The nodes that it speaks for, or the one that stands for it."""
        return {name for name in self._names.values() if name} or {self._label}

    async def run(self) -> None:
        """Listens until cancelled."""
        loop = asyncio.get_running_loop()
        if why := self._claim() if self._is_page else self._stand():
            self._say(State.DOWN, why)
        elif not self._is_page:
            self._say(State.STARTING, "connecting")
        while True:
            began = loop.time()
            why = await (self._poll() if self._is_page else self._listen())
            self._say(State.DOWN, why)
            await asyncio.sleep(self._backoff.wait(loop.time() - began))

    @property
    def _is_page(self) -> bool:
        return _PAGE.search(self._target.address) is not None

    def _claim(self, *sources: str) -> str:
        """Takes the target's name for the node, else its address; why that, where it is so."""
        name, address = self._target.name, self._target.address
        holder = self._sink.register(name, address, *sources)
        label = name if holder == address else clean(address)
        if label != self._label:
            self._forget(self._label)
            self._label = label
        return "" if holder == address else f"{name} is spoken for by {clean(holder)}"

    def _stand(self) -> str:
        """As `_claim`, for one that has nothing to say but that it is not there.

        The name may be said by whoever speaks of the node there, and is left to it.
        """
        waiting = () if self._is_page else (_WAITING,)
        return self._claim(AGENT, *waiting) or self._claim(*waiting)

    def _step_back(self) -> None:
        """Before a word of one that speaks for no node: another may have its name by now."""
        if not any(self._names.values()):
            self._stand()

    async def _listen(self) -> str:
        """Listens until the stream ends, and why it did."""
        self._stage = "address for its name"
        self._announced.clear()
        self._missing = set(self._names)
        self._idle = False
        try:
            async with asyncio.timeout(self._patience) as deadline:
                await self._stream(deadline)
        except TimeoutError:
            if self._stage:
                why = f"no {self._stage} within {self._patience:g} s"
            else:
                why = f"hung: no message for {self._silence:.0f} s"
        except _NoAgentError as error:
            self._rename()
            self._stand()
            self._say(State.DOWN, str(error))
            return f"{error}; {await self._poll()}"
        except DecodeError as error:
            why = f"garbage: {error}"
        except (_RefusedError, SettingsError) as error:
            why = str(error)
        except (httpx.HTTPError, OSError) as error:
            why = connection.reason(error)
        else:
            why = "the agent ended the stream"
        self._step_back()
        return why

    async def _poll(self) -> str:
        """Reads a page of another exporter until there is none any more, and why."""
        from . import pages

        try:
            await pages.poll(self._client, self._target, self._sink, self._claim)
        except pages.TakenError as error:
            return str(error)
        except FindError as error:
            self._stand()
            return str(error)

    async def _stream(self, deadline: asyncio.Timeout) -> None:
        """Listens to one response until its end.

        Raises:
            TimeoutError: nothing came in time.
            TrntopError: what came is not what an agent sends.
            httpx.HTTPError: the connection failed.
        """
        url = f"{self._target.address}/v1/stream"
        hooks = {"trace": self._note_stage}
        async with self._client.stream("GET", url, extensions=hooks) as response:
            await _check(response)
            self._stage = "message"
            await self._take_all(response, deadline)

    async def _take_all(self, response: httpx.Response, deadline: asyncio.Timeout) -> None:
        loop = asyncio.get_running_loop()
        deframer = wire.FrameReader()
        taken, second = 0, loop.time()
        async for chunk in response.aiter_raw():
            if messages := deframer.feed(chunk):
                for message in messages:
                    self._take(message)
                self._stage = ""
                deadline.reschedule(loop.time() + self._silence)
            taken += len(chunk)
            if taken > MAX_RATE * max(1, len(self._names)):
                # Whoever says too much waits: the connection fills, and at its end frames are left
                # out.
                await asyncio.sleep(second + 1.0 - loop.time())
            if loop.time() >= second + 1.0:
                taken, second = 0, loop.time()

    def _take(self, message: bytes) -> None:
        """Hands on one message, if its node is one that this agent speaks for."""
        if not message:  # it lives, and has nothing to say
            if not self._announced and not self._idle:
                self._idle = True
                self._step_back()
                self._say(State.STARTING, _IDLE)
            return
        head = wire.head(message)
        if head.type == wire.SCHEMA_TAG:
            self._learn(head)
        elif head.type == wire.GONE:
            self._lose(head.node)
            return
        if name := self._names.get(head.node):
            self._sink.reading(Reading(name, AGENT, self._sink.now(), message, head.simulated))

    def _learn(self, head: wire.Head) -> None:
        """Takes note of a node, and of what the agent says of itself."""
        stated = head.period if 0 < head.period <= MAX_STEP else 0.0
        self._silence = max(SILENCE_PERIODS * stated, SILENCE_SECONDS)
        self._idle = False
        own_names = head.relay or head.nodes != 1
        if own_names is not self._own_names or (not own_names and head.node not in self._names):
            self._rename()  # by another rule than before
            self._own_names = own_names
        if head.node not in self._names and len(self._names) >= MAX_NODES:
            return
        why = ""
        if not self._names.get(head.node):  # whoever spoke for it may have left
            if own_names:
                why = self._take_name(head.node)
            else:
                why = self._claim(AGENT)
                self._names[head.node] = "" if why else self._label
        self._announced.add(head.node)
        self._missing.discard(head.node)
        if self._missing and len(self._announced) >= head.nodes:
            # All that it speaks for now were told of.
            for node in self._missing:
                self._lose(node)
            self._missing.clear()
        if why and len(self._announced) >= head.nodes and not any(self._names.values()):
            self._stand()
            self._say(State.DOWN, why)

    def _take_name(self, node: str) -> str:
        """Lets a node go by the name that the agent gives it, if that is free; else why not."""
        name, address = clean(node), self._target.address
        holder = self._sink.register(name, address, AGENT)
        if holder != address:
            why = f"{name} is spoken for by {clean(holder)}"
            if node not in self._names:
                self._sink.tell(f"{clean(address)}: {why} already")
            self._names[node] = ""
            return why
        if not any(self._names.values()) and name != self._label:
            self._forget(self._label)  # now it is known who is there instead
        self._names[node] = name
        return ""

    def _lose(self, node: str) -> None:
        """The agent does not speak for a node any more."""
        self._announced.discard(node)
        self._forget(self._names.pop(node, ""))
        self._step_back()

    def _rename(self) -> None:
        """Forgets the names of its nodes."""
        for name in set(self._names.values()) - {self._label}:
            self._forget(name)
        self._names.clear()

    def _forget(self, name: str) -> None:
        if name:
            self._sink.forget(name, self._target.address)

    def _say(self, state: State, why: str) -> None:
        for name in self.nodes:
            self._sink.status(Status(name, AGENT, state, why))

    async def _note_stage(self, event: str, _: object) -> None:
        self._stage = _STAGES.get(event, self._stage)


async def _check(response: httpx.Response) -> None:
    """Whether this is a stream of an agent.

    Raises:
        TrntopError: it is not; the sentence says what it is.
    """
    status = response.status_code
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if status == 200:
        coding = response.headers.get("content-encoding", "identity")
        if coding != "identity":
            raise _RefusedError(f"it compresses ({clean(coding, 40)}), which was not asked for")
        if kind == wire.CONTENT_TYPE:
            return
        if kind in _PLAIN:
            raise _NoAgentError("no trntop agent here")
        if kind == "text/html":
            raise _RefusedError("no trntop agent here: it answers with a web page (HTML)")
        raise _RefusedError(f"no trntop agent here: it answers with {clean(kind, 40) or 'nothing'}")
    if status == 404:
        raise _NoAgentError("no trntop agent here (404)")
    if response.is_redirect:
        raise _RefusedError(f"it redirects ({status}), which is not followed")
    if why := _STATUSES.get(status):
        raise _RefusedError(why)
    said = await _said(response) if kind == "text/plain" else ""
    raise _RefusedError(f"HTTP {status}{f': {said}' if said else ''}")


async def _said(response: httpx.Response) -> str:
    """The first line of a refusal."""
    text = b""
    async for chunk in response.aiter_raw():
        text += chunk
        if len(text) >= MAX_TEXT or b"\n" in text:
            break
    return clean(text[:MAX_TEXT].partition(b"\n")[0].decode(errors="replace"), 80)
