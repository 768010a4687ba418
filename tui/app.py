"""The dashboard: which screen is shown, and what is shown on it."""

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import ClassVar

from textual import on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import Provider

from trntop.catalog import DEVICE_SOURCES
from trntop.model import State, View
from trntop.runner import Session
from trntop.settings import Settings

from .cost import Cost
from .messages import NodeAsked, ViewChanged
from .render.glyphs import GLYPHS
from .scene import Mode, Scene
from .screens.cluster import ClusterScreen
from .screens.frame import Frame
from .themes import THEMES

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


def _jump() -> "type[Provider]":
    from .commands import Jump

    return Jump


class TrntopApp(App[int]):
    """Shows one session.

    Args:
        session: what to show; started when the screen stands, stopped by the caller.
        settings: limits drawn beside values, and the looks.
        offer_demo: makes a simulated session for the welcome screen's `d`.
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
            "3,i", "incidents", "Incidents", id="app.incidents", key_display="3",
            tooltip="What went wrong, open and past",
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
            "plus,equals_sign", "speed(1)", "Faster", show=False, id="app.faster",
            tooltip="Play the recording faster",
        ),
        Binding(
            "minus", "speed(-1)", "Slower", show=False, id="app.slower",
            tooltip="Play the recording slower",
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
        utc: bool = False,
    ) -> None:
        self.session = session
        self._settings = settings
        self._offer_demo = offer_demo
        self._utc = utc
        self._glyphs = GLYPHS[settings.screen.graph]
        self._scene: Scene | None = None
        self._held = False
        self._past_welcome = False
        self._cost = Cost()
        self._winding_up: Thread | None = None
        super().__init__()
        for theme in THEMES:
            self.register_theme(theme)
        wanted = settings.screen.theme
        self.theme = wanted if self.get_theme(wanted) else THEMES[0].name
        self.add_mode("cluster", lambda: ClusterScreen(self._latest, self._glyphs))
        self.add_mode("incidents", self._incidents_screen)

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
        wanted = self._settings.screen.theme
        if self.theme != wanted:
            self.notify(
                f"no theme is called {wanted}; {self.theme} is used",
                severity="warning",
                markup=False,
            )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Ends as a shell reports a signal, but with the terminal put back.
            loop.add_signal_handler(number, self.exit, 128 + number, 128 + number)
        self._begin(self.session)

    def _begin(self, session: Session) -> None:
        self.session = session
        self._scene = None
        self._past_welcome = False
        session.subscribe(partial(self._taken, session))
        session.start()

    def _taken(self, session: Session, view: View) -> None:
        """On the session's thread: only hands the view over."""
        if session is self.session:
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
        if not self._held:
            self._show(event.view)

    def _show(self, view: View) -> None:
        self._scene = self._make(view)
        screen = self.screen
        if isinstance(screen, Frame):
            screen.scene = self._scene
        self._welcome(self._scene)

    def _make(self, view: View) -> Scene:
        playback = self.session.playback
        return Scene(
            view=view,
            history=self.session.history,
            limits=self._settings.analysis,
            description=self.session.description,
            mode=self._mode(view),
            speed=playback.speed if playback is not None else 1.0,
            cost=self._cost.share(),
            failure=self.session.failure,
            notes=tuple(self.session.notes()),
            utc=self._utc,
        )

    def _mode(self, view: View) -> Mode:
        playback = self.session.playback
        if self.session.failure:
            return Mode.FAILED
        if view.ended or (playback is not None and playback.ended):
            return Mode.ENDED
        if self._held or (playback is not None and playback.paused):
            return Mode.PAUSED
        if not view.cluster.nodes:
            return Mode.WAITING
        return Mode.LIVE if playback is None else Mode.PLAYING

    def _latest(self) -> Scene | None:
        return self._scene

    def _welcome(self, scene: Scene) -> None:
        """Shows the welcome screen until something is seen, or the user asks for another."""
        # What was there once may come back, and its incidents are to be read.
        self._past_welcome |= scene.has_data or bool(scene.view.incidents)
        shown = "welcome" in self.screen.classes
        if shown and self._past_welcome:
            self.pop_screen()
        elif not shown and isinstance(self.screen, Frame) and self._nothing(scene):
            from .screens.welcome import WelcomeScreen

            demo = self._start_demo if self._offer_demo is not None else None
            self.push_screen(WelcomeScreen(self._latest, self._glyphs, demo))

    def _nothing(self, scene: Scene) -> bool:
        """Whether this machine has nothing to watch: its host alone is no cluster."""
        if self.session.playback is not None or self._past_welcome:
            return False
        states = [
            source.state
            for node in scene.cluster.nodes.values()
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

    def _incidents_screen(self) -> Frame:
        from .screens.incidents import IncidentsScreen

        return IncidentsScreen(self._latest, self._glyphs)

    @on(NodeAsked)
    def _node_asked(self, event: NodeAsked) -> None:
        self.show_node(event.node)

    def show_node(self, node: str) -> None:
        """Opens a node's screen, or turns the open one to it."""
        from .screens.node import NodeScreen

        if isinstance(self.screen, NodeScreen):
            self.screen.node = node
        else:
            self.push_screen(NodeScreen(self._latest, self._glyphs, node))

    def action_cluster(self) -> None:
        """Shows the fleet."""
        self._past_welcome = True
        self._leave_node()
        self.switch_mode("cluster")

    def action_incidents(self) -> None:
        """Shows the incidents."""
        self._past_welcome = True
        self._leave_node()
        self.switch_mode("incidents")

    def action_node(self) -> None:
        """Shows the node that the user is looking at."""
        screen = self.screen
        if isinstance(screen, Frame) and screen.subject is not None:
            self.show_node(screen.subject)

    def action_go_there(self) -> None:
        """Shows the node of the worst incident that names one."""
        if self._scene is None:
            return
        node = next((one.node for one in self._scene.incidents if one.node is not None), None)
        if node is not None and node in self._scene.cluster.nodes:
            self.show_node(node)

    def _leave_node(self) -> None:
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def action_pause(self) -> None:
        """Holds the picture, and a recording with it."""
        playback = self.session.playback
        self._held = not self._held
        if playback is not None:
            playback.paused = self._held
        self._show(self._scene.view if self._held and self._scene else self.session.view)

    def action_speed(self, step: int) -> None:
        """Plays the recording faster or slower."""
        playback = self.session.playback
        if playback is None:
            return
        nearest = min(range(len(SPEEDS)), key=lambda place: abs(SPEEDS[place] - playback.speed))
        playback.speed = SPEEDS[min(len(SPEEDS) - 1, max(0, nearest + step))]
        if self._scene is not None:
            self._show(self._scene.view)

    async def action_quit(self) -> None:
        """Leaves; the session winds up while the screen does."""
        self._winding_up = self._wind_up()
        self.exit()

    def action_theme(self) -> None:
        """Puts on the next of our themes."""
        names = [theme.name for theme in THEMES]
        place = names.index(self.theme) + 1 if self.theme in names else 0
        self.theme = names[place % len(names)]

    def action_help(self) -> None:
        """Shows how to read the screen, and its keys."""
        from .screens.help import HelpScreen, keys_of

        self.push_screen(HelpScreen(keys_of(self.screen.active_bindings.values())))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Speed belongs to recordings; a place that is shown need not be gone to."""
        if isinstance(self.screen, Frame) and action == self.screen.PLACE:
            return None
        if action == "speed" and self.session.playback is None:
            return False
        return super().check_action(action, parameters)


def run(
    session: Session,
    *,
    settings: Settings,
    offer_demo: Callable[[], Session] | None = None,
) -> int:
    """Shows `session` until the user leaves; returns the exit code.

    The session is started here and stopped here, also where a source hangs.
    """
    app = TrntopApp(session, settings=settings, offer_demo=offer_demo)
    try:
        app.run(mouse=settings.screen.mouse)
    finally:
        app.wound_up()
    return app.return_code or 0
