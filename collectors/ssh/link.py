"""One connection: ssh as a child process, the script on its other end, requests and answers."""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Self, cast

from trntop.core.settings import Collect

from ..child import STDIN, Child
from . import script
from .answers import Answers

LAG = 0.1
"""Seconds from a request to the first look whether it is done; most take a tenth of that."""
NEXT_LOOK = 0.2
IMPATIENT = 2.0
"""Seconds for which such looks go on; later ones come with the beat."""


class Link(Child):
    """A connection; use `open`. Whoever opened it awaits `end`.

    Args:
        tag: begins each line of the script's answers.
    """

    def __init__(self, tag: str) -> None:
        super().__init__(lambda chunk: self.take_output(chunk))
        self.tag = tag
        self.answers = self.errors = Answers(tag, self._hear)
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.heard = self._loop.time()
        """When the script answered last, by the loop's clock."""
        self.round_trip: float | None = None
        """Seconds that its last answer took, the network's and the shell's."""
        self.spoken = asyncio.Event()
        """Set with each answer."""
        self.failure = ""
        """Why the script could not begin."""
        self.take_output: Callable[[bytes], None] = self.answers.note
        """Takes what neuron-monitor writes; before there is one, a login shell's greetings come."""
        self.on_monitor: Callable[[Sequence[str]], None] = lambda words: None
        """Takes what the script says of neuron-monitor."""
        self.closed = False
        """Whether nobody waits for answers any more."""
        self._asked: dict[str, asyncio.Future[bytes]] = {}
        self._number = 0
        self._newest = 0.0
        """When something was asked last."""
        self._flushed: float | None = None
        """When the flush was sent that is not yet answered."""
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def open(cls, argv: Sequence[str], environ: Mapping[str, str], settings: Collect) -> Self:
        """Starts ssh and sends the script.

        Raises:
            OSError: ssh cannot be executed.
        """
        tag = f"@{secrets.token_hex(8)}"
        link = await cls._started(lambda: cls(tag), argv, asyncio.subprocess.PIPE, environ)
        link.send(script.text(tag, settings))
        return link

    def send(self, text: str) -> None:
        """Writes to the script; nothing once the connection is gone."""
        pipe = cast(asyncio.WriteTransport | None, self._transport.get_pipe_transport(STDIN))
        if pipe is not None and not pipe.is_closing():
            pipe.write(text.encode())

    def ask(self, source: str, *words: str) -> "asyncio.Future[bytes]":
        """Lets a source be read; the dump, once it is there.

        What was asked before and is not yet answered is not asked again: it is the same answer.
        """
        answer = self._asked.get(source)
        if answer is None:
            self._number += 1
            self._newest = self._loop.time()
            answer = self._asked[source] = self._loop.create_future()
            self.send(f"read {source} {self._number} {' '.join(words)}\n")
            self._look_in(LAG)
        return answer

    def flush(self) -> None:
        """Lets the script answer what is ready, and show that it is there."""
        self._timer = None
        if self._flushed is None:
            self._flushed = self._loop.time()
            self.send("flush\n")

    def close(self) -> None:
        """No more requests."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _look_in(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self.flush)

    def _hear(self, words: Sequence[str], dump: bytes) -> None:
        """Takes a line of the script."""
        match words:
            case ["ready"]:
                if not self.ready.done():
                    self.ready.set_result(None)
            case ["begin", source, _]:
                answer = self._asked.pop(source, None)
                if answer is not None and not answer.done():
                    answer.set_result(dump)
            case ["monitor", *rest]:
                self.on_monitor(rest)
            case ["failed", *rest]:
                self.failure = " ".join(rest)
            case ["idle"]:
                self.heard = self._loop.time()
                if self._flushed is not None:
                    self.round_trip = self.heard - self._flushed
                    self._flushed = None
                self.spoken.set()
                if self._asked and self.heard < self._newest + IMPATIENT:
                    self._look_in(NEXT_LOOK)
