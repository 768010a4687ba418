"""One stream of an agent: opened, checked, listened to, and opened anew when it breaks.

A node goes by the host that was named, whatever its agent says it is called. An agent that speaks
for several, such as a relay or a simulation, gives their names; a name that another speaks for
already stays with that one.
"""

import asyncio
import re
from collections.abc import Set

import httpx

from trntop import wire
from trntop.catalog import AGENT
from trntop.collection import Sink
from trntop.errors import DecodeError, SettingsError, TrntopError
from trntop.heard import MAX_STEP
from trntop.model import Reading, State, Status
from trntop.monitor import MAX_NODES
from trntop.settings import Settings
from trntop.text import clean

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
_STAGES = {
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
        self._several = False
        self._silence = SILENCE_SECONDS
        self._stage = ""
        """What is waited for."""

    @property
    def nodes(self) -> Set[str]:
        """The nodes that it speaks for."""
        return {name for name in self._names.values() if name} or {self._label}

    async def run(self) -> None:
        """Listens until cancelled."""
        loop = asyncio.get_running_loop()
        if why := self._claim():
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

    def _claim(self) -> str:
        """Takes the target's name for the node; why not, if another speaks for it already."""
        name, address = self._target.name, self._target.address
        holder = self._sink.claim(name, address)
        if holder == address:
            return ""
        self._label = clean(address)
        return f"{name} is spoken for by {clean(holder)}"

    async def _listen(self) -> str:
        """Listens until the stream ends, and why it did."""
        self._stage = "connection"
        try:
            async with asyncio.timeout(self._patience) as deadline:
                await self._stream(deadline)
        except TimeoutError:
            if self._stage:
                return f"no {self._stage} within {self._patience:g} s"
            return f"hung: no message for {self._silence:.0f} s"
        except _NoAgentError as error:
            self._say(State.DOWN, str(error))
            return f"{error}; {await self._poll()}"
        except DecodeError as error:
            return f"garbage: {error}"
        except (_RefusedError, SettingsError) as error:
            return str(error)
        except (httpx.HTTPError, OSError) as error:
            return connection.reason(error)
        return "the agent ended the stream"

    async def _poll(self) -> str:
        """Reads a page of another exporter until there is none any more, and why."""
        from . import pages

        try:
            await pages.poll(self._client, self._target, self._sink)
        except FindError as error:
            return str(error)
        return "the page is gone"

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
        deframer = wire.Deframer()
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
        if not message:
            return  # it lives, and has nothing to say
        head = wire.head(message)
        if head.type == wire.ANNOUNCEMENT:
            self._learn(head)
        elif head.type == wire.GONE:
            self._forget(self._names.pop(head.node, ""))
            return
        if name := self._names.get(head.node):
            self._sink.reading(Reading(name, AGENT, self._sink.now(), message, head.simulated))

    def _learn(self, head: wire.Head) -> None:
        """Takes note of a node, and of what the agent says of itself."""
        stated = head.period if 0 < head.period <= MAX_STEP else 0.0
        self._silence = max(SILENCE_PERIODS * stated, SILENCE_SECONDS)
        several = head.nodes != 1
        if several is not self._several or (not several and head.node not in self._names):
            # Names by another rule than before.
            for name in set(self._names.values()) - {self._label}:
                self._forget(name)
            self._names.clear()
            self._several = several
        if head.node in self._names or len(self._names) >= MAX_NODES:
            return
        address = self._target.address
        if not several:
            why = self._claim()
            self._names[head.node] = "" if why else self._label
            if why:
                self._say(State.DOWN, why)
            return
        name = clean(head.node)
        if not any(self._names.values()) and name != self._label:
            self._forget(self._label)  # now it is known who is there instead
        holder = self._sink.claim(name, address)
        self._names[head.node] = name if holder == address else ""
        if holder != address:
            text = f"{name} is spoken for by {clean(holder)}"
            self._sink.tell(f"{clean(address)}: {text} already")

    def _forget(self, name: str) -> None:
        if name:
            self._sink.forget(name)

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
