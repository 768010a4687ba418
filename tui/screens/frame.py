"""What every screen shows: the header and the alert above, the keys below."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import Footer

from ..render.glyphs import Glyphs
from ..scene import Scene
from ..widgets.overview import AlertStrip, RunHeader

Latest = Callable[[], Scene | None]


class Frame(Screen[None]):
    """A screen that draws scenes.

    Args:
        latest: gives the scene to draw when the screen comes to the front.
        glyphs: what graphs are drawn with.
    """

    AUTO_FOCUS = "*"
    PLACE: ClassVar[str] = ""
    """The action that leads here; its key is greyed while the screen is shown."""
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 -- an instance variable in Textual
        (0, "-narrow"),
        (100, "-wide"),
        (160, "-wall"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-short"),
        (32, "-tall"),
        (48, "-high"),
    ]

    scene: reactive[Scene | None] = reactive(None, repaint=False)

    def __init__(self, latest: Latest, glyphs: Glyphs) -> None:
        super().__init__()
        self.latest = latest
        self.glyphs = glyphs

    def compose(self) -> ComposeResult:
        """Header, alert, the screen's own part, keys."""
        yield RunHeader(glyphs=self.glyphs).data_bind(Frame.scene)
        yield AlertStrip(glyphs=self.glyphs).data_bind(Frame.scene)
        yield from self.body()
        yield Footer(compact=True, show_command_palette=False)

    def body(self) -> ComposeResult:
        """The screen's own part."""
        raise NotImplementedError

    @property
    def subject(self) -> str | None:
        """The node that the user is looking at."""
        return None

    def on_screen_resume(self) -> None:
        """Shows the present; while hidden nothing was computed."""
        self.scene = self.latest()
