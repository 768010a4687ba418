"""Training logs: the newest lines with training progress."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import msgspec

from trntop.catalog import LOG
from trntop.core.errors import SettingsError
from trntop.core.model import Reading, State, Status
from trntop.core.text import clean
from trntop.session.collector import Examination, Sink
from trntop.sources.log import FIELDS, MAX_TIMEOUTS, number, plain, recognize
from trntop.sources.log_events import SIGNS, Compilations, collective_timeout, interruption

from .local_source import Context, LocalSource
from .tail import MAX_CHUNK, Tail
from .worker import StuckError, Worker

PERIOD = 1.0
"""Seconds between two polls of the files."""
DEADLINE = 5.0
"""Seconds after which a file system counts as hung."""
LOOK_BACK = MAX_CHUNK - 1
"""Bytes before the end of an existing log that are searched for its newest line."""
REMEDY = "set collect.logs to the files that the training processes write"
FORM_REMEDY = "add an expression for its lines to collect.log_patterns"

_MAGIC = re.compile(r"[*?[]")


def compile_patterns(texts: Sequence[str]) -> "tuple[re.Pattern[str], ...]":
    """The user's regular expressions for lines of other formats.

    RE2 matches them, in time that is linear in the length of a line, whatever the expression.

    Raises:
        SettingsError: one is not valid, or its groups are not in `trntop.sources.log.FIELDS`.
    """
    if not texts:
        return ()
    import re2

    options = re2.Options()
    options.log_errors = False
    patterns = []
    for text in texts:
        where = f"collect.log_patterns: {clean(text, 80)!r}"
        try:
            pattern = re2.compile(text, options)
        except re2.error as error:
            reason = error.args[0].decode(errors="replace") if error.args else "invalid"
            raise SettingsError(
                f"{where} is not a regular expression of RE2: {clean(reason, 80)}"
            ) from None
        known = ", ".join(FIELDS)
        if not pattern.groupindex:
            raise SettingsError(f"{where} has no named group; known are {known}")
        if unknown := pattern.groupindex.keys() - FIELDS.keys():
            names = ", ".join(sorted(unknown))
            raise SettingsError(f"{where} has unknown groups: {names}; known are {known}")
        patterns.append(pattern)
    return tuple(patterns)


@dataclass(frozen=True, slots=True)
class _Poll:
    """The result of one poll."""

    payloads: list[tuple[float, bytes]]
    """Seconds since the last write, and the payload; oldest first."""
    files: int
    problem: str


class TrainingLog:
    """The collector of training logs: per second and file one reading, with the newest line of each
    format.

    Args:
        node: name of this machine.
        files: patterns of the logs.
        job: name of their job; empty if unknown.
        patterns: the user's expressions for lines of other formats.
        period: seconds between two polls.

    Raises:
        SettingsError: one of `patterns` is not valid.
    """

    source = LOG

    def __init__(
        self,
        node: str,
        files: Sequence[str],
        job: str = "",
        patterns: Sequence[str] = (),
        *,
        period: float = PERIOD,
    ) -> None:
        self.node = node
        self._period = period
        self._files = files
        self._reader = _Reader(job, files, compile_patterns(patterns))

    async def run(self, sink: Sink) -> None:
        """Follows the logs until cancelled."""
        worker = Worker("trntop logs")
        try:
            while True:
                await self._poll(worker, sink)
                await asyncio.sleep(self._period)
        finally:
            worker.close()

    async def _poll(self, worker: Worker, sink: Sink) -> None:
        names = clean(", ".join(self._files))
        try:
            news = await worker.call(self._reader.poll, DEADLINE)
        except StuckError:
            self._report(sink, State.DOWN, f"{names}: the file system does not answer")
            return
        for age, payload in news.payloads:
            sink.reading(Reading(self.node, LOG, sink.now() - age, payload))
        if not news.files:
            self._report(sink, State.DOWN, f"no file matches {names}; {REMEDY}")
        elif self._reader.recognized:
            self._report(sink, State.FRESH, news.problem)
        else:
            found = news.problem or _following(news.files)
            self._report(sink, State.STARTING, f"{found}; no line of a known format yet")

    def _report(self, sink: Sink, state: State, reason: str) -> None:
        sink.status(Status(self.node, LOG, state, reason, dict(self._reader.counts)))


class _Reader:
    """Payloads from new lines."""

    def __init__(
        self, job: str, files: Sequence[str], patterns: tuple[re.Pattern[str], ...]
    ) -> None:
        self.recognized = False
        """Whether a line of a known format was found."""
        self._tail = Tail(files, look_back=LOOK_BACK)
        self._job = clean(job)
        self._compilations: dict[str, Compilations] = {}
        """Of each file."""
        self._patterns = patterns
        # The rest of a path distinguishes the files of a pattern.
        self._folders = [_MAGIC.split(each, 1)[0].rpartition("/")[0] for each in files]

    @property
    def counts(self) -> Mapping[str, int]:
        return self._tail.counts

    def poll(self) -> _Poll:
        news = self._tail.poll()
        payloads = [
            (
                news.ages.get(path, 0.0),
                msgspec.json.encode({"file": self._label(path), "job": self._job, **found}),
            )
            for path, lines in news.lines.items()
            if (found := self._found(path, lines))
        ]
        payloads.sort(key=itemgetter(0), reverse=True)
        self.recognized |= bool(payloads)
        return _Poll(payloads, news.files, news.problem)

    def _label(self, path: str) -> str:
        lengths = [len(folder) for folder in self._folders if path.startswith(folder)]
        return clean(path[max(lengths, default=0) :].lstrip("/"))

    def _found(self, path: str, lines: Sequence[bytes]) -> dict[str, object]:
        """The newest line of each format, and counts of events."""
        found: dict[str, object] = {}
        if newest := self._newest(lines):
            found["lines"] = newest
        compilations = self._compilations.setdefault(path, Compilations())
        texts = [plain(line.decode(errors="replace")) for line in lines if _is_event(line)]
        if sum(map(compilations.add, texts)):
            found["compilations"] = compilations.drain()
        if timeouts := [text for text in texts if collective_timeout(text)]:
            found["timeouts"] = {"count": len(timeouts), "lines": timeouts[:MAX_TIMEOUTS]}
        if interruptions := [text for text in texts if interruption(text)]:
            found["interruptions"] = interruptions[-MAX_TIMEOUTS:]
        return found

    def _newest(self, lines: Sequence[bytes]) -> list[dict[str, object]]:
        """The newest line of each format, in their order."""
        newest: dict[object, dict[str, object]] = {}
        for line in lines:
            text = line.decode(errors="replace")
            chosen: dict[str, object] = {"text": text}
            form: object
            if values := self._values(text):
                form = frozenset(values)
                chosen["values"] = values
            else:
                form, _ = recognize(text)
            if form:
                newest.pop(form, None)
                newest[form] = chosen
        return list(newest.values())

    def _values(self, text: str) -> dict[str, float | None]:
        """The values of the user's expressions in a line."""
        text = plain(text)
        values: dict[str, float | None] = {}
        for pattern in self._patterns:
            if match := pattern.search(text):
                values |= {
                    name: None if digits is None else number(digits)
                    for name, digits in match.groupdict().items()
                }
        return values


def _is_event(line: bytes) -> bool:
    return any(sign in line for sign in SIGNS)


def _following(files: int) -> str:
    return f"following {files} file{'s' * (files != 1)}"


def examine(files: Sequence[str], patterns: Sequence[str] = ()) -> Examination:
    """Whether the training logs can be followed, and have lines of a known format.

    Args:
        files: patterns of the logs.
        patterns: the user's expressions for lines of other formats.

    Raises:
        SettingsError: one of `patterns` is not valid.
    """
    if not files:
        return Examination(LOG, False, "no training log is set", REMEDY)
    news = _Reader("", files, compile_patterns(patterns)).poll()
    if not news.files:
        names = clean(", ".join(files))
        return Examination(LOG, False, f"no file matches {names}", REMEDY)
    if not news.payloads:
        found = f"{_following(news.files)}; no recent line of a known format"
        return Examination(LOG, False, news.problem or found, FORM_REMEDY)
    return Examination(LOG, True, f"{_following(news.files)} with lines of a known format")


def _collect(context: Context) -> TrainingLog | None:
    settings = context.settings
    compile_patterns(settings.log_patterns)
    if not settings.logs:
        return None
    return TrainingLog(context.node, settings.logs, settings.job, settings.log_patterns)


LOCAL = LocalSource(_collect, lambda settings: examine(settings.logs, settings.log_patterns))
