"""The base of the screens: header and alert at the top, keys at the bottom."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.reactive import reactive
from textual.screen import ModalScreen, Screen

from trntop.catalog import inputs
from trntop.core.model import Incident

from ..keys import hidden_key, key
from ..measures import MEASURES
from ..render import header
from ..view_model import Mode, ViewModel
from ..widgets.drawn import Panel
from ..widgets.keys_bar import KeysBar
from ..widgets.overview import AlertLine

if TYPE_CHECKING:
    from ..app import TrntopApp

_PAUSED_LABELS = {"live": "Live", "pause": "Resume"}


class Modal(ModalScreen[None]):
    """Over a screen; the keys of screens, filter and time close it and go there."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden_key(name, f"leave('{name}')", "Go", "Close this and press the key")
        for name in ("1", "2", "3", "4", "5", "6", "slash", "colon")
    ]

    def action_leave(self, name: str) -> None:
        self.dismiss(None)
        self.app.call_later(self.app.simulate_key, name)


class BaseScreen(Screen[None]):
    """A screen that shows view models."""

    AUTO_FOCUS = "*"
    BINDINGS: ClassVar[list[BindingType]] = [
        key("e", "explain", "Explain", "Formula, inputs, sources and rules of the values"),
    ]
    QUANTITIES: ClassVar[tuple[str, ...]] = tuple(m.quantity for m in MEASURES.values())
    """Names of the quantities whose values are shown."""
    NAME: ClassVar[str] = ""
    """The action that opens it; its key is disabled while the screen is shown."""
    SCROLLED: ClassVar[str] = ""
    """The part that keys scroll."""
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 -- an instance variable in Textual
        (0, "-narrow"),
        (100, "-wide"),
        (160, "-wall"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-tiny"),
        (16, "-short"),
        (32, "-tall"),
        (48, "-high"),
    ]

    view_model: reactive[ViewModel | None] = reactive(None, repaint=False)
    crumbs: reactive[tuple[str, ...]] = reactive((), repaint=False)
    """The path to the screen."""

    @property
    def dashboard(self) -> "TrntopApp":
        return cast("TrntopApp", self.app)

    def compose(self) -> ComposeResult:
        top = Panel(
            lambda panel, view_model, width, _: header.draw(
                view_model, width, panel.context, panel.crumbs
            ),
            id="header",
        )
        yield top.data_bind(BaseScreen.view_model, BaseScreen.crumbs)
        yield AlertLine(id="alert").data_bind(BaseScreen.view_model)
        yield from self.body()
        yield KeysBar(self.labels).data_bind(BaseScreen.view_model)

    def body(self) -> ComposeResult:
        """Everything between the alert and the keys."""
        raise NotImplementedError

    def labels(self) -> Mapping[str, str]:
        """Temporary labels of actions; hidden keys with a label are shown."""
        modes = (Mode.PAUSED, Mode.HISTORY)
        paused = self.view_model is not None and self.view_model.mode in modes
        return _PAUSED_LABELS if paused else {}

    @property
    def path(self) -> tuple[str, ...]:
        """The value of `crumbs` while the screen is shown."""
        return (self.NAME,) if self.NAME else ()

    @property
    def subject(self) -> str | None:
        """The selected node."""
        return None

    @property
    def incident(self) -> Incident | None:
        """The selected incident: by default the one in the alert line."""
        return next(iter(self.view_model.incidents), None) if self.view_model else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "explain" and not self.QUANTITIES:
            return False
        return super().check_action(action, parameters)

    def action_explain(self) -> None:
        """Explains the values, starting with those in the evidence of the incident."""
        from .explain import ExplainScreen

        evidence = self.incident.evidence if self.incident else ()
        first = next(
            (
                name
                for item in evidence
                for name in self.QUANTITIES
                if item.quantity in (name, *inputs(name))
            ),
            None,
        )
        known = self.view_model and self.subject in self.view_model.cluster.nodes
        self.app.push_screen(ExplainScreen(self.QUANTITIES, self.subject if known else None, first))

    def action_scroll(self, step: int) -> None:
        self.query_one(self.SCROLLED).scroll_relative(y=3 * step, animate=False)

    async def action_back(self) -> None:
        await self.run_action("app.cluster")

    def on_screen_resume(self) -> None:
        """Shows the newest view model; hidden screens are not updated."""
        self.crumbs = self.path
        self.view_model = self.dashboard.latest()
        self.call_next(self.dashboard.end_transition)
