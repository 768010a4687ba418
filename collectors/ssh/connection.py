"""One connection: ssh as a child process, with the script on the node; requests and answers."""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Self, cast

from trntop.core.settings import Collect

from ..child import STDIN, Child
from . import script
from .answers import Answers

FIRST_FLUSH = 0.1
"""Seconds from a request to the first flush; most answers take a tenth of that."""
NEXT_FLUSH = 0.2
FLUSH_SECONDS = 2.0
"""Seconds for which such flushes repeat; later ones come with the period."""


class Connection(Child):
    """A connection; use `open`, and await `end`.

    Args:
        tag: begins each line of the script's answers.
    """

    def __init__(self, tag: str) -> None:
        super().__init__(lambda chunk: self.take_output(chunk))
        self.tag = tag
        self.answers = self.errors = Answers(tag, self._update)
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.last_seen = self._loop.time()
        """Time of the last answer, by the loop's clock."""
        self.round_trip: float | None = None
        """Seconds of the last flush: the network's and the shell's."""
        self.answered = asyncio.Event()
        """Set with each answer."""
        self.failure = ""
        """Why the script could not start."""
        self.take_output: Callable[[bytes], None] = self.answers.keep_text
        """Receives the output of neuron-monitor; before it starts, greetings of a login shell."""
        self.on_monitor: Callable[[Sequence[str]], None] = lambda words: None
        """Receives the states of neuron-monitor."""
        self.closed = False
        self._requests: dict[str, asyncio.Future[bytes]] = {}
        """Source → its answer, not yet received."""
        self._number = 0
        self._newest = 0.0
        """Time of the last request."""
        self._flushed: float | None = None
        """Time of a flush without an answer yet."""
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def open(cls, argv: Sequence[str], environ: Mapping[str, str], settings: Collect) -> Self:
        """Starts ssh and sends the script.

        Raises:
            OSError: ssh cannot be executed.
        """
        tag = f"@{secrets.token_hex(8)}"
        connection = await cls._started(lambda: cls(tag), argv, asyncio.subprocess.PIPE, environ)
        connection.send(script.text(tag, settings))
        return connection

    def send(self, text: str) -> None:
        """Writes to the script, unless the connection is closed."""
        pipe = cast(asyncio.WriteTransport | None, self._transport.get_pipe_transport(STDIN))
        if pipe is not None and not pipe.is_closing():
            pipe.write(text.encode())

    def request(self, source: str, *words: str) -> "asyncio.Future[bytes]":
        """Requests the dump of a source; a second request shares the answer of the first."""
        answer = self._requests.get(source)
        if answer is None:
            self._number += 1
            self._newest = self._loop.time()
            answer = self._requests[source] = self._loop.create_future()
            self.send(f"read {source} {self._number} {' '.join(words)}\n")
            self._flush_in(FIRST_FLUSH)
        return answer

    def flush(self) -> None:
        """Requests the answers that are ready; one to the flush itself always comes."""
        self._timer = None
        if self._flushed is None:
            self._flushed = self._loop.time()
            self.send("flush\n")

    def close(self) -> None:
        """Stops requests."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _flush_in(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self.flush)

    def _update(self, words: Sequence[str], dump: bytes) -> None:
        """Handles a line of the script."""
        match words:
            case ["ready"]:
                if not self.ready.done():
                    self.ready.set_result(None)
            case ["begin", source, _]:
                answer = self._requests.pop(source, None)
                if answer is not None and not answer.done():
                    answer.set_result(dump)
            case ["monitor", *rest]:
                self.on_monitor(rest)
            case ["failed", *rest]:
                self.failure = " ".join(rest)
            case ["idle"]:
                self.last_seen = self._loop.time()
                if self._flushed is not None:
                    self.round_trip = self.last_seen - self._flushed
                    self._flushed = None
                self.answered.set()
                if self._requests and self.last_seen < self._newest + FLUSH_SECONDS:
                    self._flush_in(NEXT_FLUSH)
