"""Builds a session from SOURCE arguments. The only module that imports every adapter."""

import heapq
import os
import platform
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from itertools import dropwhile
from typing import TYPE_CHECKING

from trntop.analysis.rulebook import KINDS
from trntop.core.errors import RecordingError, SettingsError, TrntopError, UsageError
from trntop.core.folders import state_folder
from trntop.core.model import NeffProfile, Reading, View
from trntop.core.settings import Settings, load
from trntop.core.source_spec import Origin, Source
from trntop.core.suggest import unknown
from trntop.core.text import clean
from trntop.recording import blackbox
from trntop.recording.blackbox import BlackBox
from trntop.session import interpreter
from trntop.session.collector import Collector
from trntop.session.monitor import MAX_CATCH_UP, Monitor, SparseStart, play
from trntop.session.runner import Playback, Session, Span, Subscriber, Tap
from trntop.sources import BY_NAME

if TYPE_CHECKING:
    from trntop.collectors.checks import SavedCheck
    from trntop.collectors.probing import Probing
    from trntop.collectors.simulator import Simulation

WARM_UP = 124.0
"""Seconds of history that an endless simulation starts with, so that no graph is empty."""
WARM_UP_START = SparseStart(until=120, every=10)
"""The older part of it is simulated in coarse steps, for a fast first picture."""


def settings_of(args: Namespace, **options: object) -> Settings:
    """The settings in force for a command.

    Raises:
        UsageError: a `--set` has no `=`.
        SettingsError: a setting is unknown or out of range.
    """
    given = {name.replace("__", "."): value for name, value in options.items() if value is not None}
    for assignment in args.assignments:
        key, separator, value = assignment.partition("=")
        if not separator:
            raise UsageError(f"{clean(assignment, 40)} is not a valid --set; use KEY=VALUE")
        given[key.strip()] = value.strip()
    return load(args.config, os.environ, given, KINDS)


def node_name() -> str:
    """Name of this machine as a node."""
    return clean(platform.node()) or "localhost"


class Streams:
    """The readings of recordings and simulations, merged by time; each call restarts.

    Files are opened, and simulations parsed, at once, so that mistakes show before anything
    is drawn.
    """

    def __init__(self, sources: list[Source]) -> None:
        from trntop.collectors import simulator
        from trntop.recording.reader import Recording, open_recording

        self.sparse = WARM_UP_START if endless(sources) and len(sources) == 1 else None
        """The coarse steps of their warm-up, if any."""
        self._streams: list[Recording | _Simulated] = []
        plain: dict[str, str] = {}
        """Node → file, for files without node names."""
        for source in sources:
            if source.origin is Origin.SIMULATION:
                self._streams.append(_Simulated(simulator.parse(source.text), self.sparse))
                continue
            recording = open_recording(source.text)
            self._streams.append(recording)
            if recording.plain and recording.node in plain:
                raise UsageError(
                    f"{clean(plain[recording.node])} and {clean(source.text)} have the same node"
                    f" name {recording.node}; rename one file"
                )
            if recording.plain:
                plain[recording.node] = source.text

    def __call__(self) -> Iterable[Reading]:
        """The readings from the start."""
        return _merged([iter(stream) for stream in self._streams])

    def since(self, time: float) -> Iterable[Reading]:
        """The readings from `time` on."""
        return _merged([stream.iter_from(time) for stream in self._streams])

    def span(self) -> Span | None:
        """Times of the first and the last reading; None if unknown without reading everything."""
        spans = [stream.span() for stream in self._streams]
        known = [span for span in spans if span is not None]
        if len(known) < len(spans):
            return None
        return min(first for first, _ in known), max(last for _, last in known)

    def notes(self) -> list[str]:
        """Losses in damaged files, as far as read."""
        return [note for stream in self._streams if (note := stream.note())]


class _Simulated:
    """A simulation with the interface of a recording."""

    def __init__(self, simulation: "Simulation", sparse: SparseStart | None) -> None:
        self._simulation = simulation
        self._sparse = sparse
        self._start = time.time() - (WARM_UP if simulation.minutes is None else 0.0)

    def __iter__(self) -> Iterator[Reading]:
        from trntop.collectors.simulator import simulate

        return simulate(self._simulation, self._start, self._sparse)

    def iter_from(self, time: float) -> Iterator[Reading]:
        return dropwhile(lambda reading: reading.time < time, self)

    def span(self) -> Span | None:
        minutes = self._simulation.minutes
        return None if minutes is None else (self._start, self._start + 60 * minutes)

    def note(self) -> str:
        return ""


def _merged(streams: list[Iterator[Reading]]) -> Iterable[Reading]:
    return (
        streams[0] if len(streams) == 1 else heapq.merge(*streams, key=lambda reading: reading.time)
    )


def endless(sources: list[Source]) -> bool:
    """Whether a stream of these never ends: a simulation without `minutes`."""
    from trntop.collectors import simulator

    return any(
        source.origin is Origin.SIMULATION and simulator.parse(source.text).minutes is None
        for source in sources
    )


def collectors(
    sources: list[Source], settings: Settings, *, observer: bool = True, standard_input: int = 0
) -> list[Collector]:
    """Live collectors for sources; `standard_input` is the descriptor that `-` reads.

    An `observer` leaves exclusive sources (the steps socket) to an agent on this machine.

    Raises:
        SettingsError: `collect.disabled` has an unknown source, or a setting is wrong.
        UsageError: a source has the wrong form.
    """
    from trntop.collectors import local
    from trntop.collectors.fleet import collectors_of
    from trntop.collectors.stdin import StandardInput

    for name in settings.collect.disabled:
        if name not in BY_NAME:
            raise SettingsError(f"collect.disabled: {unknown('source', name, BY_NAME)}")
    node = node_name()
    made: list[Collector] = []
    for source in sources:
        if source.origin is Origin.STDIN:
            # Piped data may come from another machine: do not mix in data of this one.
            made.append(StandardInput(node, standard_input))
        elif source.origin is Origin.LOCAL:
            made += local(node, settings.collect, observer=observer)
        else:
            made += collectors_of(source, settings)
    return made


def known_profiles(settings: Settings) -> tuple[NeffProfile, ...]:
    """NEFF profiles saved on this machine, for recordings without profiles.

    None are there if their file is damaged, which is reported.
    """
    from trntop.pipeline import profiles

    try:
        return profiles.load(profiles.path_of(settings.collect, os.environ))
    except SettingsError as error:
        print_notes([f"{error}; going on without profiles"])
        return ()


def session(
    sources: list[Source],
    settings: Settings,
    *,
    speed: float = 1.0,
    loop: bool = False,
    tap: Tap | None = None,
    observer: bool = True,
    standard_input: int = 0,
    lasting: bool = False,
    probing: "Probing | None" = None,
) -> Session:
    """A session over the sources, not yet started; for `observer` see `collectors`.

    A `lasting` session, one that keeps running, has a black box of live sources. `probing` is an
    additional collector.
    """
    description = clean(" ".join(source.text for source in sources))
    if not sources[0].stream:
        live = collectors(sources, settings, observer=observer, standard_input=standard_input)
        monitor = Monitor(settings, settings.collect.period, observer=True)
        kept = settings.blackbox
        keep = lasting and kept.seconds and (observer or kept.agent)
        box = BlackBox(kept.seconds, kept.megabytes << 20) if keep else None
        checks: list[SavedCheck] = _saved_check() if lasting and observer else []
        probed = [] if probing is None else [probing]
        live += [*checks, *probed]
        session = Session(
            monitor, collectors=live, description=description, tap=tap, black_box=box,
            aggregator=not observer and tap is None, backfill=tap is None,
        )  # fmt: skip
        watching: list[Subscriber] = [*checks, *probed]
        for subscriber in watching:
            session.subscribe(subscriber)
        if lasting:
            interpreter.prepare()
            session.subscribe(interpreter.Trimmer())
            _keep_critical(session, settings)
        return session
    streams = Streams(sources)
    unbounded = endless(sources)
    return Session(
        Monitor(settings, profiles=known_profiles(settings), sparse=streams.sparse),
        stream=streams,
        stream_from=None if unbounded else streams.since,
        span=streams.span,
        playback=Playback(speed=speed, loop=loop, catch_up=unbounded),
        description=description,
        tap=tap,
        notes=streams.notes,
    )


def _saved_check() -> "list[SavedCheck]":
    """The newest `trntop check` on this machine, for the EFA screen."""
    from trntop.check.readings import newest_file
    from trntop.collectors.checks import SavedCheck

    path = newest_file(os.environ)
    return [] if path is None else [SavedCheck(path)]


def _keep_critical(session: Session, settings: Settings) -> None:
    """Writes the black box when a critical incident opens."""
    state = state_folder(os.environ)
    if session.black_box is not None and settings.blackbox.on_critical and state is not None:
        session.subscribe(
            blackbox.CriticalSaver(
                session.black_box,
                state / "blackbox",
                lambda text: session.warn(text),
                lambda: session.loading,
            )
        )


def until(readings: Iterable[Reading], seconds: float) -> Iterator[Reading]:
    """The first `seconds` of a stream."""
    end: float | None = None
    for reading in readings:
        end = reading.time + seconds if end is None else end
        if reading.time > end:
            return
        yield reading


def played(
    sources: list[Source], settings: Settings, wanted: frozenset[str] | None = None
) -> tuple[View, View, float]:
    """The first and the last view of a stream, and the seconds it covers.

    Of an endless stream, the last view of its warm-up. The views have only the quantities in
    `wanted`, if given.
    """
    from trntop.session import parallel  # the dashboard and the exporter need no processes

    interpreter.prepare()
    streams = Streams(sources)
    cut = endless(sources)
    profiles = known_profiles(settings)
    files = [source.text for source in sources if source.origin is Origin.RECORDING]
    lost: Streams | parallel.Shares
    workers = parallel.workers_for(files) if len(files) == len(sources) else 1
    if workers > 1:
        shares = parallel.Shares(streams, streams.notes, settings, profiles, workers, wanted)
        views, lost = iter(shares), shares
    else:
        readings = until(streams(), WARM_UP) if cut else streams()
        monitor = Monitor(settings, profiles=profiles, wanted=wanted, sparse=streams.sparse)
        views, lost = play(readings, monitor), streams
    first = last = None
    seconds = 0.0
    for view in views:
        if last is not None and 0 <= view.time - last.time <= MAX_CATCH_UP:
            seconds += view.time - last.time
        if last is None or not (view.ended and cut):
            last = view
        first = first or view
    print_notes(lost.notes())
    if first is None or last is None:
        raise RecordingError(f"{sources[0].text} contains no readings")
    return first, last, seconds


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        print(f"trntop: {note}", file=sys.stderr)


def refuse_failure(session: Session) -> None:
    """Otherwise a session that failed would look like one without incidents."""
    if session.failure:
        raise TrntopError(f"data collection failed: {session.failure}")
