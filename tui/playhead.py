"""The time that the screen shows: the newest tick, or an earlier one. Independent of Textual."""

from collections.abc import Callable

from trntop.core.model import Incident, View
from trntop.pipeline.history import History
from trntop.session.runner import Session

from .view_history import HistoryUntil, ViewHistory
from .view_model import Mode

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


class Playhead:
    """Moves through the history of a session, or through its recording.

    Args:
        session: the session.
        show: called to draw `view` again.
        warn: called with a message for the user.
    """

    def __init__(
        self, session: Session, show: Callable[[], None], warn: Callable[[str], None]
    ) -> None:
        self.history = ViewHistory()
        self.shown: View | None = None
        """The view on the screen; older than `view` while the terminal is busy."""
        self._session = session
        self._show = show
        self._warn = warn
        self._pinned: View | None = None
        """The view that stays on the screen; None follows the session."""
        self._seek_time: float | None = None
        """The target of a seek whose view has not arrived."""

    @property
    def view(self) -> View:
        """The view to draw."""
        return self._pinned or self._session.view

    @property
    def pinned(self) -> bool:
        """Whether new views leave the screen as it is."""
        return self._pinned is not None

    def receive(self, view: View) -> None:
        """Keeps a new view; on the thread of the session, because to compress it takes a while."""
        self.history.append(view)

    def update(self) -> bool:
        """Takes note of new views; returns whether they end a seek."""
        ended, self._seek_time = self._seek_time is not None, None
        return ended

    def mode(self, view: View) -> Mode:
        """How a view relates to the session."""
        playback = self._session.playback
        if self._session.failure:
            return Mode.FAILED
        if self._pinned is not None and view is not self._session.view:
            return Mode.HISTORY
        if view.ended or (playback is not None and playback.ended):
            return Mode.ENDED
        if self._paused:
            return Mode.PAUSED
        if not view.cluster.nodes:
            return Mode.WAITING
        return Mode.LIVE if playback is None else Mode.PLAYING

    def behind(self, view: View) -> float:
        """Seconds from a view to the newest one, while the screen does not follow."""
        return 0.0 if self._pinned is None else max(0.0, self._session.view.time - view.time)

    def series(self, view: View) -> History | HistoryUntil:
        """The session's history up to a view."""
        history, behind = self._session.history, self.behind(view)
        return HistoryUntil(history, view.time, view.time + behind) if behind else history

    def later_incidents(self, view: View) -> tuple[Incident, ...]:
        """Incidents that opened after a view, while the screen does not follow."""
        if not self.behind(view):
            return ()
        known = {incident.id for incident in view.incidents}
        return tuple(item for item in self._session.view.incidents if item.id not in known)

    def loaded(self, view: View) -> float | None:
        """The share of the history that has been loaded; None once it is."""
        if not self._session.loading:
            return None
        if (span := self.history.span) is None:
            return 0.0
        return min(1.0, (view.time - span[0]) / max(1.0, self._session.clock.now() - span[0]))

    @property
    def speed(self) -> float:
        playback = self._session.playback
        return 1.0 if playback is None else playback.speed

    def change_speed(self, steps: int) -> None:
        """Plays a recording faster, or slower with a negative number."""
        playback = self._session.playback
        if playback is None:
            return
        nearest = min(range(len(SPEEDS)), key=lambda index: abs(SPEEDS[index] - playback.speed))
        playback.speed = SPEEDS[min(len(SPEEDS) - 1, max(0, nearest + steps))]
        if self.shown is not None:
            self._show()

    def toggle_pause(self) -> None:
        """Pauses at the view on the screen, or resumes; a recording pauses with it."""
        self._pin(None if self._paused else self.shown)

    def resume(self) -> None:
        """Follows the session again."""
        self._pin(None)

    def travel(self, seconds: float) -> None:
        """Moves by about so many seconds, at least to the next view in the history."""
        if self.shown is None:
            return
        if self._seek_time is not None:
            self.go_to(self._seek_time + seconds)
            return
        shown, span = self.shown.time, self.history.span
        time: float | None = shown + seconds
        if span is not None and span[0] <= shown + seconds <= span[1]:
            time = self.history.neighbor(shown, 1 if seconds > 0 else -1, abs(seconds))
        if time is not None:
            self.go_to(time)

    def step(self, direction: int) -> None:
        """Moves to the previous or next view; after the newest, a recording advances one tick."""
        playback = self._session.playback
        if self.shown is None:
            return
        if direction < 0 or self.mode(self.shown) is Mode.HISTORY:
            time = self.history.neighbor(self.shown.time, direction)
            if time is None:
                time = self.shown.time + direction * self._session.period
            self.go_to(time)
        elif playback is not None:
            self._pinned, playback.paused = None, True
            self._session.step()

    def go_to(self, time: float) -> None:
        """Shows a moment: from the history if it is there, else by a seek in the recording."""
        span, recorded, playback = self.history.span, self._session.span, self._session.playback
        tolerance = 0.5 * self._session.period
        if playback is not None and self._session.seekable:
            if recorded is not None:
                time = max(time, recorded[0] + self._session.period)
            if span is not None and span[0] - tolerance <= time <= span[1]:
                self._pin(self.history.at(time))
                return
            playback.paused = True
            self._pinned, self._seek_time = None, time
            if self._session.seek(time):
                self.history.clear()
        elif span is not None:
            if time < span[0] - tolerance:
                self._warn("that time is before the start of the screen's history")
            self._pin(self.history.at(time) if time < span[1] else None)

    @property
    def _paused(self) -> bool:
        playback = self._session.playback
        return self._pinned is not None or (playback is not None and playback.paused)

    def _pin(self, view: View | None) -> None:
        self._pinned = view
        if self._session.playback is not None:
            self._session.playback.paused = view is not None
        self._show()
