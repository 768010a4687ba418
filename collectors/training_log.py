"""Training logs that others write: the lines that say how the run is doing, as they appear."""

import re
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

import msgspec

from trntop.catalog import LOG
from trntop.core.errors import SettingsError
from trntop.core.model import Reading, State, Status
from trntop.core.text import clean
from trntop.session.collector import Examination, Sink
from trntop.sources.log import FIELDS, number, plain, recognize

from .local_source import Context, LocalSource
from .tail import MAX_CHUNK, PERIOD, Hung, Tail, following, look, watch

LOOK_BACK = MAX_CHUNK - 1
"""Bytes before the end in which the newest line is looked for at the start."""
REMEDY = "set collect.logs to the files that the training processes write"
FORM_REMEDY = "add an expression for its lines to collect.log_patterns"

_MAGIC = re.compile(r"[*?[]")


def compile_patterns(texts: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    """A user's expressions for lines of other forms.

    An expression is matched against each line, without its colours and cut at 4 KiB. It should be
    quick about it: nested repetitions such as `(a+)+` may take for ever.

    Raises:
        SettingsError: one of them is no regular expression, or its groups have other names than
            `trntop.sources.log.FIELDS`.
    """
    patterns = []
    for text in texts:
        where = f"collect.log_patterns: {clean(text, 80)!r}"
        try:
            pattern = re.compile(text)
        except (re.error, RecursionError, OverflowError) as error:
            raise SettingsError(f"{where} is not a regular expression: {error}") from None
        known = ", ".join(FIELDS)
        if not pattern.groupindex:
            raise SettingsError(f"{where} has no named group; known are {known}")
        if unknown := pattern.groupindex.keys() - FIELDS.keys():
            names = ", ".join(sorted(unknown))
            raise SettingsError(f"{where} has unknown groups: {names}; known are {known}")
        patterns.append(pattern)
    return tuple(patterns)


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look at the logs found."""

    payloads: list[tuple[float, bytes]]
    """Seconds since its lines were written, and the payload; oldest first."""
    files: int
    trouble: str


class TrainingLog:
    """The collector that follows training logs.

    Of each file, at most one reading a second is handed on, with the newest line of each form.

    Args:
        node: name of this machine.
        files: patterns of the logs.
        job: that they are of; empty when unknown.
        patterns: a user's expressions for lines of other forms.
        period: seconds between two looks at the files.

    Raises:
        SettingsError: one of `patterns` cannot be used.
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
        names = clean(", ".join(self._files))
        tail = Tail(self._files, look_back=LOOK_BACK)
        heard = False

        def say(state: State, reason: str) -> None:
            sink.status(Status(self.node, LOG, state, reason, dict(tail.counts)))

        looks = watch(partial(self._reader.look, tail), "trntop logs", period=self._period)
        async with aclosing(looks):
            async for news in looks:
                if isinstance(news, Hung):
                    reason = f"{names}: no answer for {news.seconds:.0f} s (a read hangs)"
                    say(State.DOWN, reason)
                    continue
                for age, payload in news.payloads:
                    heard = True
                    sink.reading(Reading(self.node, LOG, sink.now() - age, payload))
                if not news.files:
                    say(State.DOWN, f"no file matches {names}; {REMEDY}")
                elif heard:
                    say(State.FRESH, news.trouble)
                else:
                    found = news.trouble or following(news.files)
                    say(State.STARTING, f"{found}; no line of a known form yet")


class _Reader:
    """Makes payloads of what comes to the logs."""

    def __init__(
        self, job: str, files: Sequence[str], patterns: tuple[re.Pattern[str], ...]
    ) -> None:
        self._job = clean(job)
        self._patterns = patterns
        # What of a path tells the files of a pattern apart.
        self._folders = [_MAGIC.split(each, 1)[0].rpartition("/")[0] for each in files]

    def look(self, tail: Tail) -> _Look:
        """One look at the files."""
        news = tail.poll()
        payloads = [
            (
                news.ages.get(path, 0.0),
                msgspec.json.encode({"file": self._label(path), "job": self._job, "lines": chosen}),
            )
            for path, lines in news.lines.items()
            if (chosen := self._newest(lines))
        ]
        payloads.sort(key=itemgetter(0), reverse=True)
        return _Look(payloads, news.files, news.trouble)

    def _label(self, path: str) -> str:
        lengths = [len(folder) for folder in self._folders if path.startswith(folder)]
        return clean(path[max(lengths, default=0) :].lstrip("/"))

    def _newest(self, lines: Sequence[bytes]) -> list[dict[str, object]]:
        """The newest line of each form, in their order."""
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
        """What the user's expressions find in a line."""
        text = plain(text)
        values: dict[str, float | None] = {}
        for pattern in self._patterns:
            if match := pattern.search(text):
                values |= {
                    name: None if digits is None else number(digits)
                    for name, digits in match.groupdict().items()
                }
        return values


def examine(files: Sequence[str], patterns: Sequence[str] = ()) -> Examination:
    """Whether the training logs can be followed, and say anything.

    Args:
        files: patterns of the logs.
        patterns: a user's expressions for lines of other forms.

    Raises:
        SettingsError: one of `patterns` cannot be used.
    """
    if not files:
        return Examination(LOG, False, "no training log is named", REMEDY)
    names = clean(", ".join(files))
    reader = _Reader("", files, compile_patterns(patterns))
    news = look(partial(reader.look, Tail(files, look_back=LOOK_BACK)), "trntop logs")
    if isinstance(news, Hung):
        return Examination(LOG, False, f"{names}: the file system hangs", "look at its mount")
    if not news.files:
        return Examination(LOG, False, f"no file matches {names}", REMEDY)
    if not news.payloads:
        found = f"{following(news.files)}; none was written to lately with a line of a known form"
        return Examination(LOG, False, news.trouble or found, FORM_REMEDY)
    return Examination(LOG, True, f"{following(news.files)} with lines of a known form")


def _collect(context: Context) -> TrainingLog | None:
    settings = context.settings
    compile_patterns(settings.log_patterns)
    if not settings.logs:
        return None
    return TrainingLog(context.node, settings.logs, settings.job, settings.log_patterns)


LOCAL = LocalSource(_collect, lambda settings: examine(settings.logs, settings.log_patterns))
