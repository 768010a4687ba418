"""What every screen shows: the header and the alert above, the keys below."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.reactive import reactive
from textual.screen import Screen

from trntop.catalog import inputs
from trntop.core.model import Incident

from ..measures import MEASURES
from ..render.glyphs import Glyphs
from ..render.line import printable
from ..terminal_app import TerminalApp
from ..view_model import Mode, ViewModel
from ..widgets.keys_bar import KeysBar
from ..widgets.overview import AlertStrip, RunHeader

Latest = Callable[[], ViewModel | None]

_HELD = {"live": "Live", "pause": "Go on"}
"""The way back to the present, while the picture is held."""


class Frame(Screen[None]):
    """A screen that draws scenes.

    Args:
        latest: gives the scene to draw when the screen comes to the front.
        glyphs: what graphs are drawn with.
    """

    AUTO_FOCUS = "*"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "e", "explain", "Explain", id="frame.explain",
            tooltip="What the numbers are, where they come from, and what is wrong with them",
        ),
    ]  # fmt: skip
    QUANTITIES: ClassVar[tuple[str, ...]] = tuple(one.quantity for one in MEASURES.values())
    """The quantities whose values are shown, by their names in the catalog."""
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

    view_model: reactive[ViewModel | None] = reactive(None, repaint=False)
    crumbs: reactive[tuple[str, ...]] = reactive((), repaint=False)
    """Where the user is, from the outermost place inwards."""

    def __init__(self, latest: Latest, glyphs: Glyphs) -> None:
        super().__init__()
        self._titles: dict[str, str] = {}
        self.latest = latest
        self.glyphs = glyphs

    def compose(self) -> ComposeResult:
        """Header, alert, the screen's own part, keys."""
        yield RunHeader(glyphs=self.glyphs).data_bind(Frame.view_model, Frame.crumbs)
        yield AlertStrip(glyphs=self.glyphs).data_bind(Frame.view_model)
        yield from self.body()
        yield KeysBar(self.words).data_bind(Frame.view_model)

    def body(self) -> ComposeResult:
        """The screen's own part."""
        raise NotImplementedError

    def words(self) -> Mapping[str, str]:
        """Words that the keys of some actions have for now, also of those that have none else."""
        held = self.view_model is not None and self.view_model.mode in (Mode.PAUSED, Mode.PAST)
        return _HELD if held else {}

    @property
    def trail(self) -> tuple[str, ...]:
        """What `crumbs` are while the screen is in front."""
        return (self.PLACE,) if self.PLACE else ()

    @property
    def subject(self) -> str | None:
        """The node that the user is looking at."""
        return None

    @property
    def incident(self) -> Incident | None:
        """The incident that the user is looking at: the one in the alert line."""
        return next(iter(self.view_model.incidents), None) if self.view_model else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A screen without numbers explains none."""
        if action == "explain" and not self.QUANTITIES:
            return False
        return super().check_action(action, parameters)

    def action_explain(self) -> None:
        """Shows what the numbers are, those of the incident's evidence first."""
        from .explain import ExplainScreen

        seen = self.incident.evidence if self.incident else ()
        first = next(
            (
                name
                for one in seen
                for name in self.QUANTITIES
                if one.quantity in (name, *inputs(name))
            ),
            None,
        )
        node = (
            self.subject
            if self.view_model and self.subject in self.view_model.cluster.nodes
            else None
        )
        self.app.push_screen(ExplainScreen(self.latest, self.glyphs, self.QUANTITIES, node, first))

    def entitle(self, panel: str, text: str) -> None:
        """Sets a panel's title; one that is set again would repaint the whole panel."""
        if self._titles.get(panel) != text:
            self._titles[panel] = text
            # Content, because a border title given as a string is parsed as markup.
            self.query_one(panel).border_title = Content(printable(text))

    def on_screen_resume(self) -> None:
        """Shows the present; while hidden nothing was computed."""
        self.crumbs = self.trail
        self.view_model = self.latest()
        if isinstance(self.app, TerminalApp):
            self.call_next(self.app.end_transition)
