"""The dashboard: its screens, and the session that they show."""

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from threading import Thread
from time import monotonic, process_time
from typing import ClassVar, Literal

from textual import on
from textual.command import Provider

from trntop.core.folders import state_folder
from trntop.core.model import View
from trntop.core.settings import Settings
from trntop.session import interpreter
from trntop.session.runner import Session

from .acknowledged import Acknowledged
from .bell import Bell
from .bindings import BINDINGS
from .files import Files, Report, Watched
from .messages import NodeRequested, Notice, SubjectChanged, ViewChanged
from .playhead import Playhead
from .screens.base import BaseScreen
from .screens.cluster import ClusterScreen
from .selection import SharedSelection
from .terminal_app import TerminalApp
from .themes import ANSI, AUTO, THEMES
from .view_model import ViewModel

MODES = ("comm", "efa", "incidents", "run")
"""Screens that are imported when they are first opened."""
LOADING_SECONDS = 0.5
"""Interval of redraws while a stream catches up."""


def _commands() -> "type[Provider]":
    from .commands import Commands

    return Commands


def _screen(mode: str) -> BaseScreen:
    module = import_module(f"{__package__}.screens.{mode}")
    kind: type[BaseScreen] = getattr(module, f"{mode.capitalize()}Screen")
    return kind()


class TrntopApp(TerminalApp):
    """Shows one session.

    Args:
        session: started when the app is mounted; `join_session` waits for its end.
        settings: thresholds, files and appearance.
        report: returns the shift report.
        utc: whether clock times are in UTC instead of local time.
    """

    TITLE = "trntop"
    CSS_PATH = "screens/base.tcss"
    DEFAULT_MODE = "cluster"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_commands}
    BINDINGS = BINDINGS

    def __init__(
        self,
        session: Session,
        *,
        settings: Settings,
        report: Report | None = None,
        utc: bool = False,
    ) -> None:
        self.settings = settings
        self.shared = SharedSelection()
        self._utc = utc
        self._files = Files(settings.blackbox.folder, self._report_result, report)
        self._redraw_pending = False
        """Whether the newest view waits for the terminal."""
        self._drawn_at = 0.0
        self._measured = monotonic(), process_time()
        self._stopping: Thread | None = None
        self.session = session
        self.playhead = Playhead(session, self._redraw, self._warn)
        self._view_model: ViewModel | None = None
        self._watched = Watched()
        self._bell = Bell(settings.notify)
        self._acknowledged = Acknowledged()
        super().__init__(state_folder(os.environ))
        for theme in THEMES:
            self.register_theme(theme)
        wanted = settings.screen.theme
        self.theme = wanted if self.get_theme(wanted) else THEMES[0].name
        self.add_mode("cluster", ClusterScreen)
        for mode in MODES:
            self.add_mode(mode, partial(_screen, mode))

    def adapt(self) -> None:
        """Selects the theme that the terminal supports, unless set."""
        if self.settings.screen.theme == AUTO and self.console.color_system == "standard":
            self.theme = ANSI.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The color scale for themes of Textual."""
        theme = self.current_theme
        return {
            "level-low": theme.panel or theme.background or "ansi_black",
            "level-mid": theme.secondary or theme.primary,
            "level-high": theme.primary,
        }

    def on_mount(self) -> None:
        wanted = self.settings.screen.theme
        if wanted not in (AUTO, self.theme):
            self._warn(f"unknown theme {wanted}; using {self.theme}")
        self.session.warn = partial(self._report_result, good=False)
        self.session.subscribe(self._receive)
        self.session.start()

    def _receive(self, view: View) -> None:
        """Runs on the thread of the session."""
        self.playhead.receive(view)
        self.post_message(ViewChanged(view))

    def _stop(self) -> Thread:
        # On another thread, because a source may hang.
        thread = Thread(target=self.session.stop, name="stop", daemon=True)
        thread.start()
        return thread

    def join_session(self) -> None:
        """Returns when the session has stopped or its timeout has passed."""
        (self._stopping or self._stop()).join()

    @on(ViewChanged)
    def _view_changed(self, event: ViewChanged) -> None:
        seek_ended = self.playhead.update()
        self._watched.append(event.view)
        loading = self.playhead.loaded(event.view) is not None
        if not loading and self._bell.rings(event.view):
            self.bell()
        if self.playhead.pinned:
            return
        if loading and not seek_ended:
            # Redraws would slow down the stream.
            if not self.terminal_busy and monotonic() - self._drawn_at > LOADING_SECONDS:
                self._drawn_at = monotonic()
                self._show(event.view)
            return
        self._redraw_pending = self.terminal_busy
        if not self._redraw_pending:
            self._show(event.view)

    def terminal_ready(self) -> None:
        """Draws what arrived while the terminal was busy."""
        if self._redraw_pending:
            self._redraw_pending = False
            self._redraw()

    def _redraw(self) -> None:
        self._show(self.playhead.view)

    def _show(self, view: View) -> None:
        self.playhead.shown = view
        self._view_model = self._make(view)
        # A screen behind help or a dialog keeps updating.
        for screen in reversed(self.screen_stack):
            if isinstance(screen, BaseScreen):
                self.call_safely(partial(setattr, screen, "view_model", self._view_model))
                break
        self._focus_subject()

    @on(SubjectChanged)
    def _focus_subject(self) -> None:
        """Lets sources report more about the selected node."""
        screen = self.screen
        if isinstance(screen, BaseScreen) and screen.is_mounted:
            if screen.NAME == "node":
                self.shared.node = screen.subject
            self.session.set_focus(screen.subject)

    def _make(self, view: View) -> ViewModel:
        playhead, session = self.playhead, self.session
        return ViewModel(
            view=view,
            history=playhead.series(view),
            behind=playhead.behind(view),
            later=playhead.later_incidents(view),
            mode=playhead.mode(view),
            speed=playhead.speed,
            loaded=playhead.loaded(view),
            span=session.span,
            description=session.description,
            failure=session.failure,
            notes=tuple(session.notes()),
            limits=self.settings.analysis,
            check=self.settings.check,
            custom_rules=self.settings.rules,
            acknowledged=self._acknowledged.times(view.incidents),
            utc=self._utc,
        )

    def latest(self) -> ViewModel | None:
        return self._view_model

    def _report_result(self, text: str, good: bool) -> None:
        """From any thread."""
        self.post_message(Notice(text, good))

    @on(Notice)
    def _notice(self, event: Notice) -> None:
        severity: Literal["information", "warning"] = "information" if event.good else "warning"
        self.notify(event.text, severity=severity, timeout=10, markup=False)

    @on(NodeRequested)
    def _node_requested(self, event: NodeRequested) -> None:
        self.show_node(event.node, event.part)

    def show_node(self, node: str, part: str | None = None) -> None:
        """Opens the screen of a node, and scrolls to one of its components."""
        from .screens.node import NodeScreen

        if isinstance(self.screen, NodeScreen):
            self.screen.node = node
        else:
            self.push_screen(NodeScreen(node))
        if part and isinstance(self.screen, NodeScreen):
            self.screen.call_after_refresh(self.screen.go_to, part)

    def action_cluster(self) -> None:
        self._open("cluster")

    def action_comm(self) -> None:
        self._open("comm")

    def action_efa(self) -> None:
        self._open("efa")

    def action_incidents(self) -> None:
        self._open("incidents")

    def action_run(self) -> None:
        self._open("run")

    def _open(self, mode: str) -> None:
        self._leave_node()
        self.switch_mode(mode)

    def action_node(self) -> None:
        screen = self.screen
        if isinstance(screen, BaseScreen) and screen.subject is not None:
            self.show_node(screen.subject)

    def action_go_there(self) -> None:
        """Opens the node of the worst incident with a node."""
        if self._view_model is None:
            return
        incidents = self._view_model.incidents
        node = next((incident.node for incident in incidents if incident.node is not None), None)
        if node is not None and node in self._view_model.cluster.nodes:
            self.show_node(node)

    def _leave_node(self) -> None:
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def action_pause(self) -> None:
        self.playhead.toggle_pause()

    def action_live(self) -> None:
        self.playhead.resume()

    def action_travel(self, seconds: int) -> None:
        self.playhead.travel(seconds)

    def action_step(self, direction: int) -> None:
        self.playhead.step(direction)

    def action_speed(self, steps: int) -> None:
        self.playhead.change_speed(steps)

    def action_onset(self) -> None:
        incident = self.screen.incident if isinstance(self.screen, BaseScreen) else None
        if incident is not None:
            self.playhead.go_to(incident.opened_at)

    def action_acknowledge(self) -> None:
        incident = self.screen.incident if isinstance(self.screen, BaseScreen) else None
        if incident is None or not incident.open:
            return
        done = self._acknowledged.toggle(incident, self.session.view.time)
        state = "acknowledged" if done else "no longer acknowledged"
        self._report_result(f"{state}: {incident.summary}", good=True)
        self._redraw()

    def action_time_code(self) -> None:
        from .screens.time_code import TimeCodeScreen

        def go_to(time: float | None) -> None:
            if time is not None:
                self.playhead.go_to(time)

        if self._view_model is not None:
            self.push_screen(TimeCodeScreen(self._view_model), go_to)

    def action_write(self) -> None:
        self._files.recording(self.session)

    def action_report(self) -> None:
        last = self.session.view
        self._files.report(self._watched, last, self._acknowledged.times(last.incidents))

    async def action_quit(self) -> None:
        self.exit()

    def before_exit(self) -> None:
        """Stops the session while the terminal is restored."""
        self._stopping = self._stop()

    def action_copy(self) -> None:
        """Copies with OSC 52, which works over SSH."""
        screen = self.screen
        if not isinstance(screen, BaseScreen):
            return
        incident = screen.incident if screen.NAME == "incidents" else None
        text = shown = screen.subject or ""
        if incident is not None and self._view_model is not None:
            from .render.incidents import as_markdown

            text, shown = as_markdown(self._view_model, incident), f"Markdown of {incident.summary}"
        if text:
            self.copy_to_clipboard(text)
            self._report_result(f"copied to the clipboard: {shown}", good=True)

    def action_picture(self) -> None:
        self._files.screenshot(self.export_screenshot(), self.session.view.time)

    def action_theme(self) -> None:
        names = [theme.name for theme in THEMES]
        self.theme = names[(names.index(self.theme) + 1) % len(names) if self.theme in names else 0]

    def action_help(self) -> None:
        from .screens.help import HelpScreen, keys_of

        keys = keys_of(self.screen.active_bindings.values())
        (wall, cpu), self._measured = self._measured, (monotonic(), process_time())
        share = (self._measured[1] - cpu) / max(self._measured[0] - wall, 1.0)
        self.push_screen(HelpScreen(keys, share))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disables the key of the shown screen, and speed without a recording."""
        if isinstance(self.screen, BaseScreen) and action == self.screen.NAME:
            return None
        if action == "speed" and self.session.playback is None:
            return False
        return super().check_action(action, parameters)


def run(
    session: Session,
    *,
    settings: Settings,
    report: Report | None = None,
) -> int:
    """Shows `session` until the user quits; returns the exit code.

    Starts and stops the session.
    """
    interpreter.prepare()
    app = TrntopApp(session, settings=settings, report=report)
    app.adapt()
    try:
        app.run(mouse=settings.screen.mouse)
    finally:
        app.join_session()
    return app.return_code or 0
