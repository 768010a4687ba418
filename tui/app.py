"""The dashboard: which screen is shown, and what is shown on it."""

import os
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from threading import Thread
from time import monotonic
from typing import ClassVar, Literal

from textual import on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import Provider

from trntop.core.model import Incident, State, View
from trntop.core.settings import Settings
from trntop.session import interpreter
from trntop.session.notify import Changes
from trntop.session.runner import Session
from trntop.sources import DEVICE_SOURCES

from . import journal, keys
from .cost import Cost, Pace
from .files import Files, Report, Seen
from .messages import NodeAsked, Notice, SubjectChanged, ViewChanged
from .past import HistoryUntil, Past
from .preferences import TablePreferences, default_path
from .render.glyphs import ASCII, BLOCK, GLYPHS
from .screens.cluster import ClusterScreen
from .screens.finding import Finding
from .screens.frame import Frame
from .selection import Held
from .terminal import speaks_utf8
from .terminal_app import TerminalApp
from .themes import ANSI, AUTO, THEMES
from .view_model import Mode, ViewModel

MODES = ("comm", "efa", "incidents", "run")
"""Screens beside that of the cluster, which is always there."""
LOADING_SECONDS = 0.5
"""Between pictures while a stream catches up with the present."""
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


def _jump() -> "type[Provider]":
    from .commands import Jump

    return Jump


def _screen(app: "TrntopApp", mode: str) -> Frame:
    """The screen of a mode, loaded when it is first asked for."""
    module = import_module(f"{__package__}.screens.{mode}")
    kind: type[Frame] = getattr(module, f"{mode.capitalize()}Screen")
    if issubclass(kind, Finding):
        return kind(app.latest, app.glyphs, app.held)
    return kind(app.latest, app.glyphs)


class TrntopApp(TerminalApp):
    """Shows one session.

    Args:
        session: what to show; started when the screen stands, stopped by the caller.
        settings: limits drawn beside values, and the looks.
        offer_demo: makes a simulated session for the welcome screen's `d`.
        report: makes the report of a shift for the key that writes it.
        utc: whether clock times are shown in UTC instead of local time.
    """

    TITLE = "trntop"
    CSS_PATH = "screens/frame.tcss"
    DEFAULT_MODE = "cluster"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {
        *App.COMMANDS,
        _jump,
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "cluster", "Cluster", id="app.cluster", tooltip="The whole fleet"),
        Binding("2", "node", "Node", id="app.node", tooltip="The node under the cursor"),
        Binding(
            "3", "comm", "Comm", id="app.comm",
            tooltip="How much of a step is communication, and who is waited for",
        ),
        Binding("4", "efa", "EFA", id="app.efa", tooltip="All EFA cards, side by side"),
        Binding(
            "5,i", "incidents", "Incidents", id="app.incidents", key_display="5",
            tooltip="What went wrong, open and past",
        ),
        Binding(
            "6", "run", "Run", id="app.run",
            tooltip="How the training gets on: steps, tokens, loss, pauses, cost",
        ),
        Binding(
            "g", "go_there", "Go there", show=False, id="app.go_there",
            tooltip="The node of the incident in the alert line",
        ),
        Binding(
            "space", "pause", "Pause", id="app.pause",
            tooltip="Hold the picture; live collection goes on",
        ),
        Binding(
            "left", "travel(-5)", "Back", show=False, id="app.back",
            tooltip="About five seconds back in time; with Shift a minute",
        ),
        Binding(
            "right", "travel(5)", "On", show=False, id="app.on",
            tooltip="About five seconds on in time; with Shift a minute",
        ),
        Binding(
            "shift+left", "travel(-60)", "Minute back", show=False, id="app.minute_back",
            tooltip="A minute back in time",
        ),
        Binding(
            "shift+right", "travel(60)", "Minute on", show=False, id="app.minute_on",
            tooltip="A minute on in time",
        ),
        Binding(
            "comma", "step(-1)", "Tick back", show=False, key_display=",",
            id="app.tick_back",
            tooltip="To the tick before, of those that are kept: older ones are fewer",
        ),
        Binding(
            "full_stop", "step(1)", "Tick on", show=False, key_display=".",
            id="app.tick_on",
            tooltip="To the next tick that is kept; a recording that is held moves by one",
        ),
        Binding(
            "ctrl+g,colon", "time_code", "Go to", show=False, key_display=":",
            id="app.time_code", tooltip="To a time that you type, such as 14:03:12 or -5m",
        ),
        Binding(
            "o", "onset", "Onset", show=False, id="app.onset",
            tooltip="To the moment at which the incident began",
        ),
        Binding(
            "l", "live", "Live", show=False, id="app.live", tooltip="Back to the present",
        ),
        Binding(
            "b", "baseline", "Baseline", show=False, id="app.baseline",
            tooltip="Mark this moment: columns then show the change since; again to forget it",
        ),
        Binding(
            "plus,equals_sign", "speed(1)", "Faster", show=False, id="app.faster",
            tooltip="Play the recording faster",
        ),
        Binding(
            "minus", "speed(-1)", "Slower", show=False, id="app.slower",
            tooltip="Play the recording slower",
        ),
        Binding(
            "y", "copy", "Copy", show=False, id="app.copy",
            tooltip="Copy the name of the node, or the sentence of the incident, to the clipboard",
        ),
        Binding(
            "x", "picture", "Picture", show=False, id="app.picture",
            tooltip="Write a picture of the screen, as SVG",
        ),
        Binding(
            "ctrl+z", "suspend_process", "Suspend", show=False, id="app.suspend",
            tooltip="Stop for now; fg in the shell goes on",
        ),
        Binding(
            "w", "write", "Write", show=False, id="app.write",
            tooltip="Write the last minutes of raw readings to a recording",
        ),
        Binding(
            "r", "report", "Report", show=False, id="app.report",
            tooltip="Write the report of the shift, as Markdown",
        ),
        Binding("t", "theme", "Theme", show=False, id="app.theme", tooltip="The next theme"),
        Binding(
            "question_mark", "help", "Help", key_display="?", id="app.help",
            tooltip="How to read the screen, and all keys",
        ),
        Binding(
            "q,ctrl+c", "quit", "Quit", key_display="q", id="app.quit", tooltip="Leave trntop"
        ),
    ]  # fmt: skip

    def __init__(
        self,
        session: Session,
        *,
        settings: Settings,
        offer_demo: Callable[[], Session] | None = None,
        report: Report | None = None,
        keeper: TablePreferences | None = None,
        utc: bool = False,
    ) -> None:
        self.session = session
        self.settings = settings
        self._offer_demo = offer_demo
        self._utc = utc
        self.glyphs = GLYPHS.get(settings.screen.graph, BLOCK)
        self._view_model: ViewModel | None = None
        self._kept: View | None = None
        """The view that is held; None is the present."""
        self._sought: float | None = None
        """The time of the recording that is on its way."""
        self.held = Held()
        """Which nodes the user wants to see."""
        self._past = Past()
        self._arrived: deque[View] = deque()
        """Views on their way into it: messages replace each other while a stream catches up."""
        self._baseline: View | None = None
        self._seen = Seen()
        self._files = Files(settings.blackbox.folder, self._tell, report)
        self._changes = Changes(settings.notify)
        self._past_welcome = False
        self._cost = Cost(written=lambda: self.written)
        self._pace = Pace()
        self._behind = False
        """Whether the newest view waits for the terminal."""
        self._drawn_at = 0.0
        self._winding_up: Thread | None = None
        super().__init__(journal.default_path(os.environ))
        self.set_keymap(keys.checked(settings.screen.keys, type(self)))
        for theme in THEMES:
            self.register_theme(theme)
        wanted = settings.screen.theme
        self.theme = wanted if self.get_theme(wanted) else THEMES[0].name
        kept = keeper or TablePreferences(wanted=settings.screen)
        self.add_mode("cluster", lambda: ClusterScreen(self.latest, self.glyphs, self.held, kept))
        for mode in MODES:
            self.add_mode(mode, partial(_screen, self, mode))

    def suit(self, environ: Mapping[str, str]) -> None:
        """Chooses what the settings leave open by what the terminal can show."""
        screen = self.settings.screen
        if screen.graph == AUTO and not speaks_utf8(environ):
            self.glyphs = ASCII
        self.ascii = self.glyphs is ASCII
        if screen.theme == AUTO and self.console.color_system == "standard":
            self.theme = ANSI.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The scale of levels for themes that are not ours."""
        theme = self.current_theme
        return {
            "level-low": theme.panel or theme.background or "ansi_black",
            "level-mid": theme.secondary or theme.primary,
            "level-high": theme.primary,
        }

    def on_mount(self) -> None:
        """Starts the session."""
        wanted = self.settings.screen.theme
        if wanted not in (AUTO, self.theme):
            self.notify(
                f"no theme is called {wanted}; {self.theme} is used",
                severity="warning",
                markup=False,
            )
        self._begin(self.session)

    def _begin(self, session: Session) -> None:
        self.session = session
        self._view_model = None
        self._past_welcome = False
        self._kept = self._sought = self._baseline = None
        self._past.clear()
        self._seen = Seen()
        self._changes = Changes(self.settings.notify)
        session.tell = partial(self._tell, good=False)
        session.subscribe(partial(self._taken, session))
        session.start()

    def _taken(self, session: Session, view: View) -> None:
        """On the session's thread: only hands the view over."""
        if session is self.session:
            self._arrived.append(view)
            self.post_message(ViewChanged(view))

    def _wind_up(self) -> Thread:
        """Stops the session in a thread of its own: it may have to wait for a hung source."""
        thread = Thread(target=self.session.stop, name="wind-up", daemon=True)
        thread.start()
        return thread

    def wound_up(self) -> None:
        """Returns when the session has stopped, or has been given up."""
        (self._winding_up or self._wind_up()).join()

    @on(ViewChanged)
    def _changed(self, event: ViewChanged) -> None:
        sought, self._sought = self._sought is not None, None
        while self._arrived:
            self._past.append(self._arrived.popleft())
        self._seen.take(event.view)
        self._cost.sample()
        if self._changes(event.view) and self.settings.notify.bell:
            self.bell()
        if self._kept is not None:
            return
        if self._loaded(event.view) is not None and not sought:
            # The past is run through fast: its pictures would only hold that up.
            if not self.line_is_busy and monotonic() - self._drawn_at > LOADING_SECONDS:
                self._drawn_at = monotonic()
                self._show(event.view)
            return
        self._behind = self.line_is_busy
        if self._behind:
            self._pace.skip()
        else:
            self._pace.show()
            self._show(event.view)

    def line_rested(self) -> None:
        """Shows what came meanwhile."""
        if self._behind:
            self._behind = False
            self._pace.show()
            self._show_again()

    def _show_again(self) -> None:
        """Shows what is to be shown, as things are now."""
        self._show(self._kept or self.session.view)

    def _show(self, view: View) -> None:
        self._view_model = self._make(view)
        # What stands behind help or a question goes on.
        for screen in reversed(self.screen_stack):
            if isinstance(screen, Frame):
                self.guarded(partial(setattr, screen, "view_model", self._view_model))
                break
        self._attend()
        self._welcome(self._view_model)

    @on(SubjectChanged)
    def _attend(self) -> None:
        """Tells sources that would know more of it at which node the user looks."""
        screen = self.screen
        if isinstance(screen, Frame) and screen.is_mounted:
            if screen.PLACE == "node":
                self.held.node = screen.subject
            self.session.set_focus(screen.subject)

    def _make(self, view: View) -> ViewModel:
        playback = self.session.playback
        behind = 0.0 if self._kept is None else max(0.0, self.session.view.time - view.time)
        history = self.session.history
        return ViewModel(
            view=view,
            history=HistoryUntil(history, view.time, view.time + behind) if behind else history,
            behind=behind,
            later=_unknown(self.session.view, view) if behind else (),
            baseline=self._baseline,
            span=self.session.span,
            limits=self.settings.analysis,
            check=self.settings.check,
            own_rules=self.settings.rules,
            description=self.session.description,
            mode=self._mode(view),
            speed=playback.speed if playback is not None else 1.0,
            every=self._pace.every,
            loaded=self._loaded(view),
            failure=self.session.failure,
            notes=tuple(self.session.notes()),
            utc=self._utc,
        )

    def _loaded(self, view: View) -> float | None:
        """How much of its past a stream has run through that catches up with the present."""
        playback, span = self.session.playback, self._past.span
        if playback is None or not playback.catch_up or span is None:
            return None
        return min(1.0, (view.time - span[0]) / max(1.0, self.session.clock.now() - span[0]))

    def _mode(self, view: View) -> Mode:
        playback = self.session.playback
        if self.session.failure:
            return Mode.FAILED
        if self._kept is not None and view is not self.session.view:
            return Mode.PAST
        if view.ended or (playback is not None and playback.ended):
            return Mode.ENDED
        if self._kept is not None or (playback is not None and playback.paused):
            return Mode.PAUSED
        if not view.cluster.nodes:
            return Mode.WAITING
        return Mode.LIVE if playback is None else Mode.PLAYING

    def latest(self) -> ViewModel | None:
        """The newest picture."""
        return self._view_model

    def _welcome(self, view_model: ViewModel) -> None:
        """Shows the welcome screen until something is seen, or the user asks for another."""
        # What was there once may come back, and its incidents are to be read.
        self._past_welcome |= view_model.has_data or bool(view_model.view.incidents)
        shown = "welcome" in self.screen.classes
        if shown and self._past_welcome:
            self.pop_screen()
        elif not shown and isinstance(self.screen, Frame) and self._nothing(view_model):
            from .screens.welcome import WelcomeScreen

            demo = self._start_demo if self._offer_demo is not None else None
            self.push_screen(WelcomeScreen(self.latest, self.glyphs, demo))

    def _nothing(self, view_model: ViewModel) -> bool:
        """Whether this machine has nothing to watch: its host alone is no cluster."""
        if self.session.playback is not None or self._past_welcome:
            return False
        states = [
            source.state
            for node in view_model.cluster.nodes.values()
            for source in node.frame.sources
            if source.name in DEVICE_SOURCES
        ]
        return bool(states) and all(state is State.DOWN for state in states)

    def _start_demo(self) -> None:
        if self._offer_demo is None:
            return
        self._wind_up()
        self._leave_node()
        self._begin(self._offer_demo())

    def _tell(self, text: str, good: bool) -> None:
        """From any thread: only hands the words over."""
        self.post_message(Notice(text, good))

    @on(Notice)
    def _told(self, event: Notice) -> None:
        severity: Literal["information", "warning"] = "information" if event.good else "warning"
        self.notify(event.text, severity=severity, timeout=10, markup=False)

    @on(NodeAsked)
    def _node_asked(self, event: NodeAsked) -> None:
        self.show_node(event.node, event.part)

    def show_node(self, node: str, part: str | None = None) -> None:
        """Opens a node's screen, or turns the open one to it, and to a part of it."""
        from .screens.node import NodeScreen

        if isinstance(self.screen, NodeScreen):
            self.screen.node = node
        else:
            self.push_screen(NodeScreen(self.latest, self.glyphs, node, self.held))
        if part and isinstance(self.screen, NodeScreen):
            self.screen.call_after_refresh(self.screen.go_to, part)

    def action_cluster(self) -> None:
        """Shows the fleet."""
        self._turn_to("cluster")

    def action_comm(self) -> None:
        """Shows the communication of the jobs."""
        self._turn_to("comm")

    def action_efa(self) -> None:
        """Shows the EFA cards."""
        self._turn_to("efa")

    def action_incidents(self) -> None:
        """Shows the incidents."""
        self._turn_to("incidents")

    def action_run(self) -> None:
        """Shows the runs."""
        self._turn_to("run")

    def _turn_to(self, mode: str) -> None:
        self._past_welcome = True
        self._leave_node()
        self.switch_mode(mode)

    def action_node(self) -> None:
        """Shows the node that the user is looking at."""
        screen = self.screen
        if isinstance(screen, Frame) and screen.subject is not None:
            self.show_node(screen.subject)

    def action_go_there(self) -> None:
        """Shows the node of the worst incident that names one."""
        if self._view_model is None:
            return
        node = next((one.node for one in self._view_model.incidents if one.node is not None), None)
        if node is not None and node in self._view_model.cluster.nodes:
            self.show_node(node)

    def _leave_node(self) -> None:
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def action_pause(self) -> None:
        """Holds the picture, and a recording with it."""
        playback = self.session.playback
        held = self._kept is not None or (playback is not None and playback.paused)
        self._hold(None if held or self._view_model is None else self._view_model.view)

    def action_travel(self, seconds: int) -> None:
        """Shows what was about so many seconds later, at most the present; negative ones lead back.

        Where views are kept further apart than that, it is the next one.
        """
        if self._view_model is None:
            return
        if self._sought is not None:
            self._go_to(self._sought + seconds)
            return
        shown, span = self._view_model.view.time, self._past.span
        time: float | None = shown + seconds
        if span is not None and span[0] <= shown + seconds <= span[1]:
            time = self._past.beside(shown, 1 if seconds > 0 else -1, abs(seconds))
        self._go_to(time)

    def action_step(self, step: int) -> None:
        """Shows the view kept before or after the shown one; a recording is held there."""
        playback, view_model = self.session.playback, self._view_model
        if view_model is None:
            return
        if step < 0 or view_model.mode is Mode.PAST:
            shown = view_model.view.time
            time = self._past.beside(shown, step)
            self._go_to(shown + step * self.session.period if time is None else time)
        elif playback is not None:
            self._kept, playback.paused = None, True
            self.session.step()

    def action_time_code(self) -> None:
        """Asks for a time, and goes there."""
        from .screens.time_code import TimeCodeScreen

        if self._view_model is not None:
            self.push_screen(TimeCodeScreen(self._view_model), self._go_to)

    def _go_to(self, time: float | None) -> None:
        """Shows a moment: one that is remembered, else by moving in the recording."""
        span, whole, playback = self._past.span, self.session.span, self.session.playback
        if time is None:
            return
        slack = 0.5 * self.session.period
        if playback is not None and self.session.seekable:
            if whole is not None:
                time = max(time, whole[0] + self.session.period)
            if span is not None and span[0] - slack <= time <= span[1]:
                self._hold(self._past.at(time))
                return
            playback.paused = True
            self._kept, self._sought = None, time
            if self.session.seek(time):
                self._past.clear()
        elif span is not None:
            if time < span[0] - slack:
                self.notify("that is further back than this screen remembers", timeout=3)
            self._hold(self._past.at(time) if time < span[1] else None)

    def action_live(self) -> None:
        """Shows the present."""
        self._hold(None)

    def action_onset(self) -> None:
        """Shows the moment at which the incident began that the user is looking at."""
        incident = self.screen.incident if isinstance(self.screen, Frame) else None
        if incident is not None:
            self._go_to(incident.opened_at)

    def action_baseline(self) -> None:
        """Marks the moment that changes are shown against, or forgets it."""
        self._baseline = (
            None if self._baseline or self._view_model is None else self._view_model.view
        )
        self._show_again()

    def _hold(self, view: View | None) -> None:
        """Shows one view, or with None the present again; a recording waits meanwhile."""
        self._kept = view
        if self.session.playback is not None:
            self.session.playback.paused = view is not None
        self._show_again()

    def action_write(self) -> None:
        """Writes the last minutes of readings."""
        self._files.recording(self.session)

    def action_report(self) -> None:
        """Writes the report of the shift."""
        self._files.report(self._seen, self.session.view)

    def action_speed(self, step: int) -> None:
        """Plays the recording faster or slower."""
        playback = self.session.playback
        if playback is None:
            return
        nearest = min(range(len(SPEEDS)), key=lambda place: abs(SPEEDS[place] - playback.speed))
        playback.speed = SPEEDS[min(len(SPEEDS) - 1, max(0, nearest + step))]
        if self._view_model is not None:
            self._show_again()

    async def action_quit(self) -> None:
        """Leaves."""
        self.exit()

    def leaving(self) -> None:
        """The session winds up while the screen does."""
        self._winding_up = self._wind_up()

    def action_copy(self) -> None:
        """Copies what the cursor is on by OSC 52, which works through SSH."""
        screen = self.screen
        if not isinstance(screen, Frame):
            return
        incident = screen.incident if screen.PLACE == "incidents" else None
        text = screen.subject if incident is None else incident.summary
        if text:
            self.copy_to_clipboard(text)
            self._tell(f"sent to the clipboard: {text}", good=True)

    def action_picture(self) -> None:
        """Writes the screen as SVG."""
        self._files.picture(self.export_screenshot(), self.session.view.time)

    def action_theme(self) -> None:
        """Puts on the next of our themes."""
        names = [theme.name for theme in THEMES]
        place = names.index(self.theme) + 1 if self.theme in names else 0
        self.theme = names[place % len(names)]

    def action_help(self) -> None:
        """Shows how to read the screen, and its keys."""
        from .screens.help import HelpScreen, keys_of

        keys = keys_of(self.screen.active_bindings.values())
        self.push_screen(HelpScreen(keys, self._cost.share, self._cost.rate))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Speed belongs to recordings; a place that is shown need not be gone to."""
        if isinstance(self.screen, Frame) and action == self.screen.PLACE:
            return None
        if action == "speed" and self.session.playback is None:
            return False
        return super().check_action(action, parameters)


def _unknown(newest: View, shown: View) -> tuple[Incident, ...]:
    """What is wrong at the newest tick and was not known at the shown one."""
    known = {incident.id for incident in shown.incidents}
    return tuple(incident for incident in newest.incidents if incident.id not in known)


def run(
    session: Session,
    *,
    settings: Settings,
    offer_demo: Callable[[], Session] | None = None,
    report: Report | None = None,
) -> int:
    """Shows `session` until the user leaves; returns the exit code.

    The session is started here and stopped here, also where a source hangs.
    """
    keeper = TablePreferences(default_path(os.environ), settings.screen)
    interpreter.prepare()
    app = TrntopApp(session, settings=settings, offer_demo=offer_demo, report=report, keeper=keeper)
    app.suit(os.environ)
    try:
        app.run(mouse=settings.screen.mouse)
    finally:
        app.wound_up()
        keeper.wait(1.0)
    return app.return_code or 0
