"""Questions that belong together: asked at one instant, a few at a time, with what was left out."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from trntop.session.collector import Sink

from .client import BackendError, Client, Labels, Result, plain

SECONDS = 10.0
"""For each question of a refresh."""
AT_ONCE = 4
"""Questions that are out at the same time."""
CLOCK_SLACK = 2.0
"""Seconds that clocks may differ before it is allowed for."""

Rows = Iterable[tuple[Labels, float]]


class Answers:
    """What was answered, by what it is about."""

    def __init__(self) -> None:
        self.results: dict[str, Result] = {}

    def rows(self, key: str) -> Iterator[tuple[Labels, float]]:
        """Labels and values; none where there was no answer."""
        return plain(self.results[key].rows) if key in self.results else iter(())

    def answered(self, key: str) -> Rows | None:
        """The same, None where there was no answer."""
        return self.rows(key) if key in self.results else None


class QueryClient:
    """Asks one engine, in its own time.

    Args:
        client: the engine.
        wall: unix seconds of this machine.
    """

    def __init__(self, client: Client, wall: Callable[[], float] = time.time) -> None:
        self.client = client
        self.wall = wall
        self.notes: list[str] = []
        """What is missing in the newest answers, and why."""
        self._room = asyncio.Semaphore(AT_ONCE)

    def begin(self) -> float:
        """A new refresh; the server's time, which all its questions are asked for."""
        self.notes = []
        return self.now()

    @property
    def _ahead(self) -> float:
        ahead = self.client.ahead or 0.0
        return ahead if abs(ahead) > CLOCK_SLACK else 0.0

    def now(self) -> float:
        """The server's time."""
        return self.wall() + self._ahead

    def ours(self, theirs: float, sink: Sink) -> float:
        """A time of the server's as the session's clock has it."""
        return theirs - self.now() + sink.now()

    async def refresh(
        self, queries: Mapping[str, str], at: float, needed: tuple[str, ...] = ()
    ) -> Answers:
        """The answers to questions of a refresh; where one that is not needed fails, that is noted.

        Raises:
            BackendError: what is needed was not answered.
        """
        tasks = [asyncio.create_task(self._one(query, at)) for query in queries.values()]
        try:
            found = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
        answers = Answers()
        for key, result in zip(queries, found, strict=True):
            if isinstance(result, Result):
                answers.results[key] = result
                self.notes += result.notes
            elif not isinstance(result, BackendError) or key in needed:
                raise result
            else:
                self.notes.append(f"no answer on {key}: {result}")
        return answers

    async def _one(self, query: str, at: float) -> Result:
        async with self._room:
            return await self.client.instant(query, at, SECONDS)

    async def at_once(self, queries: Mapping[str, str], at: float, seconds: float) -> Answers:
        """The answers to questions that somebody waits for; all of them, or none.

        Raises:
            BackendError: one was not answered.
        """
        answers = Answers()
        async with asyncio.TaskGroup() as group:
            tasks = {
                key: group.create_task(self.client.instant(query, at, seconds))
                for key, query in queries.items()
            }
        answers.results = {key: task.result() for key, task in tasks.items()}
        return answers
